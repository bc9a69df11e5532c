# SPDX-License-Identifier: Apache-2.0
"""FOLDERS.md's table against the C sources (tests/analysis/test_arrows.py: Python's): includes run downward,
a file is compiled once, the preloaded library imports what it may."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tree_files import tree_files

FILE_BYTES_MAX = 2 << 20  # the largest trace of the corpus has 1.4 MB

# What the preloaded library takes from the C library, and why that is safe where a program may call malloc: none of
# these allocates, prints, locks what a program may hold, or may be the program's own version of itself.
IMPORTED = {
    "memcpy", "memmove", "memset", "strchr", "strcmp", "strcspn", "strlen", "strncmp", "strnlen", "strrchr", "strspn",
    "strstr",  # pure
    "__errno_location", "environ", "__environ", "getauxval", "gnu_get_libc_version",  # read what lies there
    "dl_iterate_phdr",  # the start, and a library's end
    "__register_atfork", "pthread_atfork",  # the start, once
    "_Unwind_Backtrace", "_Unwind_Find_FDE", "_Unwind_GetCFA", "_Unwind_GetGR", "_Unwind_GetIPInfo",  # call sites: neither allocates nor locks
    "_Unwind_Resume", "__gcc_personality_v0", "__cxa_finalize",  # the compiler's
}
IMPORTED_FULL = IMPORTED | {"getenv", "realpath"}  # mi_dupenv_s and mi_realpath are these by another name


def allowed(document: str) -> dict[str, set[str]]:
    """By folder: all that its files may include, itself among it."""
    direct = {}
    for row in re.findall(r"^\| `([\w/]+)/` \|.*\|([^|]*)\|$", document.partition("\n## Python\n")[0], re.MULTILINE):
        direct[row[0]] = {name.rstrip("/") for name in re.findall(r"`([\w/]+)`", row[1])}
    unknown = set().union(*direct.values()) - set(direct)
    assert direct and not unknown, f"named in the table, and no row of it: {unknown}"

    def reach(folder: str, above: tuple[str, ...]) -> set[str]:
        assert folder not in above, f"a circle of folders: {' > '.join([*above, folder])}"
        return {folder}.union(*(reach(name, (*above, folder)) for name in direct[folder]))

    return {folder: reach(folder, ()) for folder in direct}


def forbidden(sources: Mapping[str, str], table: Mapping[str, set[str]]) -> list[str]:
    """Includes that the table does not allow. sources: text by path."""
    headers = {Path(path).name: path for path in sources if path.endswith(".h")}
    found = []
    for path, text in sources.items():
        for name in re.findall(r'^#include "(.+)"', text, re.MULTILINE):
            target = headers.get(name)
            if target is None:
                found.append(f"{path}: {name} is in no folder")
            elif str(Path(target).parent) not in table[str(Path(path).parent)]:
                found.append(f"{path}: {target}")
    return found


def circles(sources: Mapping[str, str]) -> list[list[str]]:
    """Sets of files that include each other. X.c and X.h are one."""
    headers = {Path(path).name for path in sources if path.endswith(".h")}
    uses: dict[str, set[str]] = {}
    for path, text in sources.items():
        names = set(re.findall(r'^#include "(.+)"', text, re.MULTILINE)) & headers
        uses.setdefault(Path(path).stem, set()).update(Path(name).stem for name in names)
    return [sorted(component) for component in _components(uses) if len(component) > 1]


def _components(uses: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Strongly connected ones: what reaches each other."""
    reached: dict[str, set[str]] = {}
    for start in uses:
        seen, todo = set(), [start]
        while todo:
            for name in uses.get(todo.pop(), ()):
                if name != start and name not in seen:
                    seen.add(name)
                    todo.append(name)
        reached[start] = seen
    done: set[str] = set()
    found = []
    for name in uses:
        if name in done:
            continue
        component = {name} | {other for other in reached[name] if name in reached.get(other, ())}
        done |= component
        found.append(component)
    return found


@pytest.fixture(scope="module")
def table(repository: Path) -> dict[str, set[str]]:
    return allowed((repository / "FOLDERS.md").read_text())


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[str, str]:
    return {path: (repository / path).read_text() for path in tree_files(repository)
            if path.endswith((".c", ".h")) and not path.startswith(("tests/", "bench/"))}


def test_every_folder_has_a_row(sources: dict[str, str], table: dict[str, set[str]]) -> None:
    assert {str(Path(path).parent) for path in sources} <= set(table)


def test_includes_run_downward(sources: dict[str, str], table: dict[str, set[str]]) -> None:
    assert forbidden(sources, table) == []


@pytest.mark.thorough
def test_no_circle_of_files(sources: dict[str, str]) -> None:
    assert circles(sources) == []


def test_file_names_are_unique(sources: dict[str, str]) -> None:
    catalogue = [path for path in sources if path.startswith("allocators/catalogue/")]
    names = Counter(Path(path).name for path in sources if path not in catalogue)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_aborts(repository: Path) -> None:
    """What cannot happen is an assertion, and what can is an error with a message. The tests' programs may assert both."""
    paths = [path for path in tree_files(repository) if path.endswith((".c", ".h", ".cpp")) and not path.startswith("tests/")]
    assert len(paths) > 300
    assert [path for path in paths if re.search(r"\babort\s*\(", (repository / path).read_text())] == []


@pytest.mark.thorough
def test_no_recording_lies_in_the_tree(repository: Path) -> None:
    paths = tree_files(repository)
    assert [path for path in paths if (repository / path).stat().st_size > FILE_BYTES_MAX] == []
    assert [path for path in paths if path.endswith(".mraw") and not path.startswith("tests/")] == []


def test_no_conflict_of_a_merge_is_left(repository: Path) -> None:
    assert tree_files(repository)
    found = subprocess.run(["git", "grep", "-I", "--name-only", "-E", "^(<<<<<<<|>>>>>>>|[|]{7}) "], cwd=repository, capture_output=True, text=True,
                           timeout=60, check=False)
    assert (found.returncode, found.stdout) == (1, "")


def test_libraries_link_what_the_table_allows(repository: Path, table: dict[str, set[str]]) -> None:
    names = {"heaptape_" + folder.replace("/", "_"): folder for folder in table}
    seen = 0
    for path in [path for path in tree_files(repository) if path.endswith("CMakeLists.txt")]:
        text = (repository / path).read_text()
        for folder, words in re.findall(r"heaptape_library\(([\w/]+)([^)]*)\)", text):
            linked = {names[word] for word in words.split() if word in names}
            assert linked <= table[folder], f"{path}: {folder} links {sorted(linked - table[folder])}"
            seen += 1
    assert seen > 20


def test_a_file_is_compiled_once(repository: Path, build: Path, sources: dict[str, str]) -> None:
    commands = build / "compile_commands.json"
    if not commands.exists():
        pytest.skip(f"{commands} is not there: this is an installed tree")
    compiled = Counter(entry["file"] for entry in json.loads(commands.read_text()))
    ours = [str(repository / path) for path in sources if path.endswith(".c") and not path.endswith("_glue.c")]
    if not compiled.keys() & set(ours):
        pytest.skip("the build is of another checkout")
    assert {path: compiled[path] for path in ours if compiled[path] != 1} == {}


@pytest.mark.parametrize(("library", "may"), [("libmalloc_wrap.so", IMPORTED), ("libmalloc_wrap_full.so", IMPORTED_FULL)])
def test_the_shim_imports_what_it_may(build: Path, library: str, may: set[str]) -> None:
    done = subprocess.run(["nm", "-D", "--undefined-only", build / library], capture_output=True, text=True, timeout=60, check=True)
    symbols = [line.split()[-2:] for line in done.stdout.splitlines()]
    imported = {name.split("@")[0] for kind, name in symbols if kind != "w"}
    assert imported and imported <= may, f"imports {sorted(imported - may)}"


MADE_UP = "| `low/` | what is below | |\n| `high/` | what is above | `low/` |\n"


def test_the_checks_find_what_is_wrong() -> None:
    table = allowed(MADE_UP)
    sound = {"low/a.h": "", "low/a.c": '#include "a.h"', "high/b.c": '#include "a.h"', "high/b.h": ""}
    assert forbidden(sound, table) == [] and circles(sound) == []
    assert forbidden({**sound, "low/a.c": '#include "b.h"'}, table) == ["low/a.c: high/b.h"]
    assert forbidden({**sound, "low/a.c": '#include "../x.h"'}, table) == ["low/a.c: ../x.h is in no folder"]
    assert circles({**sound, "low/a.h": '#include "b.h"', "high/b.h": '#include "a.h"'}) == [["a", "b"]]
    with pytest.raises(AssertionError, match="no row"):
        allowed("| `high/` | what is above | `low/` |\n")
    with pytest.raises(AssertionError, match="circle of folders: a > b > a"):
        allowed("| `a/` | | `b/` |\n| `b/` | | `a/` |\n")
