# SPDX-License-Identifier: Apache-2.0
"""What the Python sources import, held against the table of FOLDERS.md: which folder may import which, and no circle of modules."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGES = {"heaptape": "analysis/heaptape", "bench": "bench"}
"""What absolute imports of ours begin with, and where that lies."""

SCRIPTS = "bench/"
STANDARD = sys.stdlib_module_names | {"tomllib"}  # since 3.11
"""Programs are started from their folders here, and import what lies beside them by its bare name."""

IMPORTS_BY_NAME = "analysis/heaptape/__init__.py"
"""The one module that may import what a text names; test_extras.py compares its texts with what a type checker reads."""


@dataclass(frozen=True)
class Import:
    """A line of a module, and what it names: a file of ours, or a package of others."""

    line: int
    target: str
    is_ours: bool


def read_table(text: str) -> dict[str, set[str]]:
    """By folder, with a slash at its end: the folders and packages that it may import."""
    rows: dict[str, set[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        folder = cells[0].strip("`")
        if not line.startswith("| `") or len(cells) != 3 or not folder.startswith(tuple(f"{path}/" for path in PACKAGES.values())):
            continue
        if folder in rows:
            raise ValueError(f"{folder} has two rows")
        names = re.findall(r"`([^`]+)`", cells[2])
        beside = f"{PACKAGES['heaptape']}/"
        rows[folder] = {beside + name if name.endswith("/") and not name.startswith(SCRIPTS) else name for name in names}
    return rows


def _file_of(root: Path, parts: list[str]) -> str | None:
    """The module that lies there; a folder's is its __init__.py, also where a folder of scripts has none."""
    at = Path(*parts)
    if (root / at.with_suffix(".py")).is_file():
        return at.with_suffix(".py").as_posix()
    return (at / "__init__.py").as_posix() if (root / at).is_dir() else None


def _targets(root: Path, file: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.ImportFrom) and node.level:
        folder = Path(file).parents[node.level - 1]
        bases = [[*folder.parts, *(node.module or "").split(".")] if node.module else list(folder.parts)]
    else:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        bases = []
        for name in names:
            first, *rest = name.split(".")
            beside = Path(file).with_name(f"{first}.py")
            if first in PACKAGES:
                bases.append([*Path(PACKAGES[first]).parts, *rest])
            elif file.startswith(SCRIPTS) and first not in STANDARD and (root / beside).is_file():
                yield beside.as_posix(), True
            elif first not in STANDARD:
                yield first, False
    for base in bases:
        names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        inner = [_file_of(root, [*base, name]) for name in names if (root / Path(*base)).is_dir()]
        found = [path for path in inner if path]
        if len(found) < max(len(names), 1):
            found.append(_file_of(root, base) or "/".join(base))
        yield from ((path, True) for path in found)


@cache
def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def imports_of(root: Path, file: str) -> list[Import]:
    """All of them, wherever they stand in the file."""
    found = []
    for node in _nodes((root / file).read_text(encoding="utf-8")):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [Import(node.lineno, target, is_ours) for target, is_ours in _targets(root, file, node)]
    return found


def _named_imports(root: Path, file: str) -> Iterator[int]:
    for node in _nodes((root / file).read_text(encoding="utf-8")):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__"):
                yield node.lineno


def circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """Nodes along a circle, the first one also at the end; none if there is no circle."""
    done: set[str] = set()

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node):], node]
        if node in done:
            return []
        for target in sorted(arrows.get(node, ())):
            if found := walk(target, [*path, node]):
                return found
        done.add(node)
        return []

    return next((found for node in sorted(arrows) if (found := walk(node, []))), [])


def _folder(file: str) -> str:
    return file.rpartition("/")[0] + "/"


def _may(row: set[str], found: Import) -> bool:
    if not found.is_ours:
        return found.target in row
    return _folder(found.target) in row or ("heaptape" in row and found.target.startswith(PACKAGES["heaptape"]))


def complaints(root: Path, rows: Mapping[str, set[str]]) -> list[str]:
    """A sentence for each import that the table does not allow, and for a circle in the table or of modules."""
    files = sorted(path.relative_to(root).as_posix() for top in PACKAGES.values() for path in (root / top).rglob("*.py"))
    said = [f"{folder} is in the table and has no module" for folder in rows if folder not in map(_folder, files)]
    arrows: dict[str, set[str]] = {}
    for file in files:
        row, own = rows.get(_folder(file)), imports_of(root, file)
        arrows[file] = {found.target for found in own if found.is_ours} - {file}
        if row is None:
            said.append(f"{file}: its folder has no row in the table")
            continue
        said += [f"{file}:{found.line}: may not import {found.target}" for found in own
                 if not (found.is_ours and _folder(found.target) == _folder(file)) and not _may(row, found)]
        if file != IMPORTS_BY_NAME:
            said += [f"{file}:{line}: imports by name, which nobody can check" for line in _named_imports(root, file)]
    for what, found_circle in (("the table", circle(rows)), ("modules", circle(arrows))):
        said += [f"a circle of {what}: {' -> '.join(found_circle)}"] * bool(found_circle)
    return said
