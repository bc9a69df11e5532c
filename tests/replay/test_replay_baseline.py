# SPDX-License-Identifier: Apache-2.0
"""The replay under the recorded allocator is held against the memory that was recorded, before anything is said of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heaptape import read_results
from heaptape.results.comparison import experiments
from heaptape.results.summary import summarise
from heaptape.results.use import no_reason, uses
from naive_writer import Event, TraceSpec, build
from tool_runner import Tools
from verbs_here import run_here

BLOCKS, BLOCK_BYTES, STEP_NS = 4000, 8000, 10_000


def write(path: Path, held: float, held_at_end: float, allocator: str = "glibc", samples: bool = True, check: dict | None = None,
          **totals: object) -> Path:
    """Grows to 32 MB, falls to 8. Recorded memory: so many times that."""
    events = [Event(1, time=i * STEP_NS, slot=i + 1, size=BLOCK_BYTES) for i in range(BLOCKS)]
    events += [Event(5, time=(BLOCKS + i) * STEP_NS, slot=BLOCKS - i) for i in range(BLOCKS * 3 // 4)]
    live, found = 0, []
    for number, event in enumerate(events):
        live += BLOCK_BYTES if event.function == 1 else -BLOCK_BYTES
        if number % 100 == 99:
            times = held if number < len(events) - 100 else held_at_end
            found.append((event.time, number, int(times * live) + 1_000_000, 1_000_000, number * 1000, 0))
    made = {"events": len(events), "records": len(events), "duration_ns": len(events) * STEP_NS, "recorded_rss_peak_bytes": 1} | totals
    context = {"command": "job", "page_bytes": 4096, "pid": 7, "allocator_name": allocator} | ({"check": check} if check else {})
    path.write_bytes(build(TraceSpec(events, context, made, found if samples else []))[0])
    return path


def told(tools: Tools, trace: Path, *more: str) -> str:
    command = [tools.replay_program, "-q", "--pass", "memory", "--rounds", "1", "--seed", "1", *more]
    return tools.succeed([*command, trace]).stdout.decode()


def check_of(tools: Tools, trace: Path, *more: str) -> dict:
    return json.loads(told(tools, trace, "--json", "--alloc", "glibc", *more))["baseline_check"]


def checked(tools: Tools, trace: Path) -> tuple[dict, list[str]]:
    """What replay says as JSON, and as text."""
    return check_of(tools, trace), told(tools, trace, "--alloc", "glibc,mimalloc").splitlines()


def test_a_replay_as_recorded_is_not_remarked_upon(tools: Tools, tmp_path: Path) -> None:
    check, lines = checked(tools, write(tmp_path / "t.bin", 1.0, 1.0))
    assert check["words"] is None and check["reasons"] == []
    assert max(abs(check[key]) for key in ("peak_error", "end_error", "curve_error")) < 0.05
    assert "caution" not in lines[0]
    assert any(line.startswith("smallest peak:") or "  smallest peak:" in line for line in lines)


@pytest.mark.parametrize("held, at_end, error, words", [
    (2.0, 2.0, "peak_error", "too little at the peak"), (0.5, 0.5, "curve_error", "away on average"), (1.0, 3.0, "end_error", "too little at the end")])
def test_a_difference_comes_first(tools: Tools, tmp_path: Path, held: float, at_end: float, error: str, words: str) -> None:
    trace = write(tmp_path / "t.bin", held, at_end, lost_calls=3)
    check, lines = checked(tools, trace)
    assert abs(check[error]) > 0.4 and words in check["words"]
    assert check["reasons"] == ["3 calls were not recorded"]
    assert lines[0] == f"caution: {check['words']}"
    assert not any("smallest peak" in line for line in lines)


@pytest.mark.parametrize("alone, reasons", [
    (45_000_000, ["with the recorder it peaked at 40.0 MB, in a run without it at 45.0 MB"]), (41_000_000, [])])
def test_what_the_recorder_changed_is_a_reason(tools: Tools, tmp_path: Path, alone: int, reasons: list[str]) -> None:
    """As record --check has measured it, where that is more than noise."""
    measured = {"recorded_rss_peak_bytes": 40_000_000, "recorded_cpu_ns": 2, "alone_rss_peak_bytes": alone, "alone_cpu_ns": 1}
    check = check_of(tools, write(tmp_path / "t.bin", 2.0, 2.0, check=measured))
    assert check["reasons"] == reasons
    assert ("Perhaps because with the recorder it peaked" in check["words"]) == bool(reasons)


def test_verbs_that_read_results_say_it_first(tools: Tools, tmp_path: Path) -> None:
    trace, results = write(tmp_path / "t.bin", 2.0, 2.0), tmp_path / "r.jsonl"
    tools.replay(trace, "glibc,mimalloc", results, "--pass", "memory", "--rounds", "2")
    found = summarise(experiments(read_results(results))[0], "glibc", traces=[trace])
    assert found.differs and found.headline.startswith("Caution: the replay under glibc is not what the program ran under: ")
    assert [standing.measure.name for standing in found.standings] == ["time"]
    assert uses(found, "job", "glibc") == [] and no_reason(found).startswith("No allocator is clearly faster than glibc; on memory see the caution")
    said = run_here("explain", "--alloc", "glibc", "--budget", "0", trace, cwd=tmp_path).stdout
    assert said.startswith("Caution: the replay under glibc is not what the program ran under: ")


@pytest.mark.parametrize("more", [("--touch", "none"), ("--scale", "2"), ("--age", "0.5"), ("--cpus", "2")])
def test_another_program_than_the_recorded_one_is_not_held_against_it(tools: Tools, tmp_path: Path, more: tuple[str, ...]) -> None:
    assert check_of(tools, write(tmp_path / "t.bin", 2.0, 2.0), *more) is None


def test_nothing_recorded_is_said(tools: Tools, tmp_path: Path) -> None:
    check, lines = checked(tools, write(tmp_path / "t.bin", 2.0, 2.0, samples=False))
    assert check is None
    assert "recorded program: its memory is not in the trace: no replay is held against it" in lines
    assert check_of(tools, write(tmp_path / "o.bin", 2.0, 2.0, allocator="other")) is None
