# SPDX-License-Identifier: Apache-2.0
"""Where code and data lie is drawn: the layouts of the replay's code, and addresses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tool_runner import Tools

LAYOUTS = 8
FIXED = 0x40000  # ADDR_NO_RANDOMIZE, of /proc/PID/personality


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layouts") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "1000", "50", "1", "1", "1000"])
    return path


def drawn(tools: Tools, trace: Path, results: Path, *more: str) -> list[tuple[str, int, bool, int, str]]:
    rows = tools.replay(trace, "a=glibc,b=glibc", results, "--rounds", "6", *more)
    return [(row["pass"], row["round"], row["control"], row["layout"], row["addresses"]) for row in rows]


def test_layouts_are_the_same_code_at_other_places(tools: Tools) -> None:
    listed = tools.succeed(["nm", "-S", "--defined-only", tools.build / "replay-null"]).stdout.decode()
    found = re.findall(r"^(\w+) (\w+) T (ht_engine_layout_\d)$", listed, re.MULTILINE)
    if not found:
        pytest.skip("a build without symbols")
    assert len(found) == LAYOUTS and len({size for _, size, _ in found}) == 1
    assert len({int(address, 16) % 4096 for address, _, _ in found}) == LAYOUTS


@pytest.mark.thorough
def test_each_run_draws_and_a_seed_repeats_it(tools: Tools, trace: Path, tmp_path: Path) -> None:
    first = drawn(tools, trace, tmp_path / "1.jsonl", "--seed", "1")
    layouts = [layout for kind, _, _, layout, _ in first if kind == "time"]
    assert len(set(layouts)) > LAYOUTS // 2 and set(layouts) <= set(range(LAYOUTS))
    by_round = [[row[3] for row in first if row[:2] == ("time", number)] for number in range(6)]
    assert any(len(set(layouts)) > 1 for layouts in by_round), "the control has the baseline's layout in every round"
    assert drawn(tools, trace, tmp_path / "2.jsonl", "--seed", "1") == first
    assert all((addresses == "fixed") == (kind == "memory" and number == 0) for kind, number, _, _, addresses in first)


@pytest.mark.thorough
def test_everything_can_be_fixed(tools: Tools, trace: Path, tmp_path: Path) -> None:
    fixed = drawn(tools, trace, tmp_path / "r.jsonl", "--layout", "fixed")
    assert {(layout, addresses) for *_, layout, addresses in fixed} == {(0, "fixed")}


def test_addresses_are_what_results_say(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Whatever the launcher was started with."""
    seen, child = tmp_path / "seen", tmp_path / "child"
    child.write_text(f'#!/bin/sh\necho "$HEAPTAPE_PASS $(cat /proc/self/personality)" >>{seen}\nexec "$@"\n')
    child.chmod(0o755)
    if not shutil.which("setarch"):
        pytest.skip("no setarch")
    for how, expected in (("drawn", {"time": {0}, "timed": {0}, "memory": {0, FIXED}}),
                          ("fixed", {"time": {FIXED}, "timed": {FIXED}, "memory": {FIXED}})):
        seen.unlink(missing_ok=True)
        tools.succeed(["setarch", "-R", tools.replay_program, "-q", "--alloc", "glibc", "--rounds", "2", "--wrap", child,
                       "--layout", how, trace])
        found: dict[str, set[int]] = {}
        for line in seen.read_text().splitlines():
            name, personality = line.split()
            found.setdefault(name, set()).add(int(personality, 16) & FIXED)
        if FIXED not in found["memory"]:
            pytest.skip("personality(2) is not permitted")
        assert found == expected
