# SPDX-License-Identifier: Apache-2.0
"""Imports go the way that FOLDERS.md's table says, and in no circle; and the check itself finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import arrows
import pytest

ROOT = Path(__file__).resolve().parents[2]

TABLE = """
| folder | rule | may import |
| --- | --- | --- |
| `analysis/heaptape/` | the verbs | `base/`, `report/` |
| `analysis/heaptape/base/` | what all use | nothing |
| `analysis/heaptape/report/` | drawings | `base/`, `numpy` |
| `bench/figures/` | numbers | `heaptape` |
| `shim/` | not Python | nothing |
"""


def test_imports_go_the_way_of_the_table() -> None:
    rows = arrows.read_table((ROOT / "FOLDERS.md").read_text())
    assert len(rows) >= 8
    assert arrows.complaints(ROOT, rows) == []


def test_the_table_allows_nothing_that_nobody_needs() -> None:
    rows = arrows.read_table((ROOT / "FOLDERS.md").read_text())
    for folder, row in rows.items():
        found = {item.target for path in (ROOT / folder).glob("*.py")
                 for item in arrows.imports_of(ROOT, path.relative_to(ROOT).as_posix())}
        needed = found | {f"{Path(target).parent.as_posix()}/" for target in found}
        needed |= {"heaptape"} if any(target.startswith("analysis/heaptape/") for target in found) else set()
        assert row <= needed, f"{folder}: {', '.join(sorted(row - needed))}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small one in which all is well."""
    package = tmp_path / "analysis" / "heaptape"
    for name, text in {
        "__init__.py": "", "verbs.py": "import sys\nfrom .report import bars, svg\nfrom . import __version__\n",
        "base/__init__.py": "", "base/errors.py": "import html\n", "base/files.py": "from .errors import Wrong\n",
        "report/__init__.py": "", "report/svg.py": "from html import escape\nimport numpy.typing\n",
        "report/bars.py": "from ..base import errors, files\nfrom ..base.errors import Wrong\nfrom .svg import line\n",
        "report/html.py": "",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tmp_path / "bench" / "figures").mkdir(parents=True)
    (tmp_path / "bench" / "figures" / "runs.py").write_text("from heaptape.base.errors import Wrong\nimport heaptape\n")
    (tmp_path / "bench" / "figures" / "record.py").write_text("import runs\nfrom bench.figures.runs import run\n")
    return tmp_path


def test_a_sound_tree_passes(tree: Path) -> None:
    assert arrows.complaints(tree, arrows.read_table(TABLE)) == []


@pytest.mark.parametrize(("file", "text", "complaint"), [
    ("base/files.py", "from ..report.svg import line\n", "base/files.py:1: may not import analysis/heaptape/report/svg.py"),
    ("base/files.py", "def f():\n    from ..report import svg\n", "base/files.py:2: may not import analysis/heaptape/report/svg.py"),
    ("base/files.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..verbs import x\n",
     "base/files.py:3: may not import analysis/heaptape/verbs.py"),
    ("base/files.py", "import heaptape.report.svg\n", "base/files.py:1: may not import analysis/heaptape/report/svg.py"),
    ("base/files.py", "from heaptape import report\n", "base/files.py:1: may not import analysis/heaptape/report/__init__.py"),
    ("base/files.py", "from .. import __version__\n", "base/files.py:1: may not import analysis/heaptape/__init__.py"),
    ("base/files.py", "import numpy as np\n", "base/files.py:1: may not import numpy"),
    ("base/files.py", "from importlib import import_module\nimport_module('heaptape.report.svg')\n", "base/files.py:2: imports by name"),
    ("report/svg.py", "from .bars import bar\n", "circle of modules: analysis/heaptape/report/bars.py -> analysis/heaptape/report/svg.py -> "),
    ("report/svg.py", "def f():\n    from . import bars\n", "circle of modules"),
    ("new/part.py", "", "new/part.py: its folder has no row in the table"),
    ("../../bench/figures/runs.py", "def f():\n    import record\n", "circle of modules: bench/figures/record.py -> bench/figures/runs.py -> "),
    ("../../bench/figures/runs.py", "import pandas\n", "bench/figures/runs.py:1: may not import pandas"),
])
def test_what_is_wrong_is_found(tree: Path, file: str, text: str, complaint: str) -> None:
    path = (tree / "analysis" / "heaptape" / file).resolve()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = arrows.complaints(tree, arrows.read_table(TABLE))
    assert any(complaint in line for line in found), found


def test_a_table_that_is_wrong_is_found(tree: Path) -> None:
    both = TABLE.replace("| what all use | nothing |", "| what all use | `report/` |")
    assert any("a circle of the table" in line for line in arrows.complaints(tree, arrows.read_table(both)))
    gone = TABLE + "| `analysis/heaptape/gone/` | was here | nothing |\n"
    assert arrows.complaints(tree, arrows.read_table(gone)) == ["analysis/heaptape/gone/ is in the table and has no module"]
    with pytest.raises(ValueError, match="two rows"):
        arrows.read_table(TABLE + "| `bench/figures/` | again | nothing |\n")
