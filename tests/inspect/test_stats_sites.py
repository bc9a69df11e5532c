# SPDX-License-Identifier: Apache-2.0
"""Call sites of `stats` and `dump`: the same callers and figures as of `sites`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import naive_writer
import pytest
from naive_writer import Event, TraceSpec, sites_of
from tool_runner import Tools
from wrapper_names import LIBRARY_FILES, OTHERS, PROGRAM_MODULES, RUNTIME_MODULES, WRAPPERS, nameless_stacks

MALLOC, REALLOC, FREE = 1, 3, 5
FAILED, RELEASED = 2, 3


def _written(path: Path, stacks: list[list[str]], events: list[Event] | None = None) -> Path:
    made = events or [Event(MALLOC, 0, 0, i, i, 64, site=i) for i in range(1, len(stacks) + 1)]
    path.write_bytes(naive_writer.build(TraceSpec(made, sites=sites_of(stacks)))[0])
    return path


def _rows(tools: Tools, trace: Path) -> list[dict]:
    return json.loads(tools.succeed([tools.heaptape, "stats", "--json", trace]).stdout)["sites"]


@pytest.mark.parametrize(("frames", "wraps"), [([f"{name}@a.c:1" for name in WRAPPERS], True), ([f"{name}@a.c:1" for name in OTHERS], False),
                                               ([f"make<T>@{file}:3" for file in LIBRARY_FILES], True), (["make<T>@/app/library/alloc/src/vec.rs:3"], False)],
                         ids=["wrappers", "others", "library files", "a program's file"])
def test_wrappers(tools: Tools, tmp_path: Path, frames: list[str], wraps: bool) -> None:
    trace = _written(tmp_path / "t.bin", [[frame, f"caller{n}@b.c:1"] for n, frame in enumerate(frames)])
    lines = tools.succeed([tools.heaptape, "dump", trace]).stdout.decode().splitlines()
    for number, frame in enumerate(frames):
        expected = f"caller{number}" if wraps else frame.split("@")[0]
        assert any(f"({expected} " in line for line in lines), f"{frame}: expected {expected}"


def test_modules(tools: Tools, tmp_path: Path) -> None:
    """What the C library and others like it allocate is its caller's; where no caller is outside them, their own."""
    modules = [*RUNTIME_MODULES, *PROGRAM_MODULES]
    stacks = [[f"{module}+0x10", f"{module}+0x20", f"caller{number}@b.c:1"] for number, module in enumerate(modules)]
    trace = _written(tmp_path / "t.bin", [*stacks, ["/lib/libc.so.6+0x10", "/lib/libc.so.6+0x20"]])
    said = tools.succeed([tools.heaptape, "dump", trace]).stdout.decode()
    for number, module in enumerate(modules):
        name = f"caller{number} b.c:1" if module in RUNTIME_MODULES else f"{Path(module).name}+0x10"
        assert f"site {number + 1} ({name})" in said
    assert f"site {len(modules) + 1} (libc.so.6+0x10)" in said


def test_wrappers_without_names(tools: Tools, tmp_path: Path) -> None:
    made = nameless_stacks()
    said = tools.succeed([tools.heaptape, "dump", _written(tmp_path / "t.bin", [stack for stack, _ in made])]).stdout.decode()
    found = [re.search(rf" site {number} \(([^ )]*)", said)[1] for number in range(1, len(made) + 1)]
    assert found == [site for _, site in made]


def test_functions_of_one_name_in_several_folders(tools: Tools, tmp_path: Path) -> None:
    """They are not one, and are told apart; copies of one line are."""
    stacks = [["load@orders/load.c:3", "main@main.c:1"], ["load@users/load.c:3", "main@main.c:1"], ["tick@job.c:4|main@main.c:2"], ["tick@job.c:4|main@main.c:3"]]
    trace = _written(tmp_path / "t.bin", stacks)
    assert sorted((row["caller"]["file"], row["calls"], row["stacks"]) for row in _rows(tools, trace)) == [
        ("job.c", 2, 2), ("orders/load.c", 1, 1), ("users/load.c", 1, 1)]
    text = tools.succeed([tools.heaptape, "stats", trace]).stdout.decode()
    assert "load orders/load.c:3" in text and "load users/load.c:3" in text and "tick job.c:4" in text


def test_calls_that_leave_no_block_count(tools: Tools, tmp_path: Path) -> None:
    events = [Event(MALLOC, 0, 0, 0, 1, 100, site=1), Event(MALLOC, FAILED, 0, 1, 0, 1 << 60, site=2), Event(MALLOC, FAILED, 0, 1, 0, 1 << 60),
              Event(REALLOC, RELEASED, 0, 2, 1, 0, site=3), Event(MALLOC, 0, 0, 3, 1, 10, site=1), Event(FREE, 0, 0, 4, 1)]
    trace = _written(tmp_path / "t.bin", [["a@a.c:1"], ["b@a.c:2"], ["c@a.c:3"]], events)
    assert {(row["caller"] or {}).get("function"): row["calls"] for row in _rows(tools, trace)} == {"a": 2, "b": 1, "c": 1, None: 1}
