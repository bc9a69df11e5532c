# SPDX-License-Identifier: Apache-2.0
"""Traces longer than the memory that they may take decoded, and what is touched when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tool_runner import Tools, run

# Decoded, the trace takes many times the pool of half a MiB that --decoded-memory 1 leaves.
EVENTS_MIN, LIVE = 400_000, 20_000


@pytest.fixture(scope="module", params=[(1, EVENTS_MIN), pytest.param((5, 3 * EVENTS_MIN), marks=pytest.mark.thorough)],
                ids=("one-thread", "five-threads"))
def long_trace(request: pytest.FixtureRequest, tools: Tools,
               tmp_path_factory: pytest.TempPathFactory) -> Path:
    threads, events = request.param
    path = tmp_path_factory.mktemp("long") / "long.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, str(events), str(LIVE), str(threads), "11"])
    return path


def replay(tools: Tools, trace: Path, folder: Path, *options: str) -> list[dict]:
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    done = run([tools.replay_program, "--rounds", "1", "--alloc", "glibc", "-o", results, *options,
                trace])
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in results.read_text().splitlines()]


def of(rows: list[dict], allocator: str, name: str) -> dict:
    return next(row for row in rows if row["allocator"]["name"] == allocator and
                row["pass"] == name and not row.get("control"))


def test_streamed_and_held_are_the_same_replay(tools: Tools, long_trace: Path,
                                               tmp_path: Path) -> None:
    held = replay(tools, long_trace, tmp_path, "--decoded-memory", "1000")
    streamed = replay(tools, long_trace, tmp_path, "--decoded-memory", "1")
    assert not held[0]["streamed"] and streamed[0]["streamed"]
    for allocator in ("null", "glibc"):
        for name in ("time", "memory"):
            one, other = of(held, allocator, name), of(streamed, allocator, name)
            assert one["failures"] == other["failures"] == 0
            counts = [{f: c["count"] for f, c in row["calls"].items()} for row in (one, other)]
            assert counts[0] == counts[1]
            assert one["live_peak_bytes"] == other["live_peak_bytes"]
    peaks = [of(rows, "glibc", "memory")["rss_peak_bytes"] for rows in (held, streamed)]
    # Which arena serves which thread is chance.
    assert abs(peaks[0] / peaks[1] - 1) < 0.2
    lengths = [len(of(rows, "glibc", "memory")["timeline"]["rss_bytes"]) for rows in (held, streamed)]
    assert lengths[0] == lengths[1]


def test_the_segments_are_no_memory_of_the_allocator(tools: Tools, long_trace: Path,
                                                   tmp_path: Path) -> None:
    rows = replay(tools, long_trace, tmp_path, "--decoded-memory", "1", "--touch", "none")
    null = of(rows, "null", "memory")["timeline"]["rss_bytes"]
    assert max(null) - min(null) <= 1 << 20


def test_timed_ops_of_a_streamed_trace_are_all_read(tools: Tools, long_trace: Path,
                                                    tmp_path: Path) -> None:
    rows = replay(tools, long_trace, tmp_path, "--decoded-memory", "1", "--pass", "time", "--seed", "5")
    held = replay(tools, long_trace, tmp_path, "--pass", "time", "--seed", "5")
    totals = [row["timed_calls"] + row["timed_calls_dropped"]
              for row in (of(rows, "glibc", "time"), of(held, "glibc", "time"))]
    assert totals[0] == totals[1] > EVENTS_MIN // 128


@pytest.fixture(scope="module")
def kept_blocks(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 blocks of 64,000 bytes, freed in the order of their birth."""
    folder = tmp_path_factory.mktemp("kept")
    lines = [f"1: malloc {i << 20:#x} 64000 {i} {i}" for i in range(1, 3001)]
    lines += [f"1: free {i << 20:#x} {i + 5000} {i + 5000}" for i in range(1, 3001)]
    text = folder / "kept.txt"
    text.write_text("\n".join(lines) + "\n")
    tools.succeed([tools.heaptape, "convert", text, "-o", folder / "kept.bin"])
    return folder / "kept.bin"


@pytest.mark.thorough
def test_what_is_touched_when_freed(tools: Tools, kept_blocks: Path, tmp_path: Path) -> None:
    faults = {}
    for how in ("none", "read", "write"):
        rows = replay(tools, kept_blocks, tmp_path, "--touch", "none", "--touch-free", how)
        row = of(rows, "glibc", "time")
        assert row["touch_free"] == how
        faults[how] = row["minor_faults"]
    # A page of each 4,096 bytes, 15 or 16 of each block, is met for the first time when it is freed.
    assert faults["none"] < 10_000 < 40_000 < min(faults["read"], faults["write"])


def test_polluted_caches_tell_the_total_from_the_timed_calls(tools: Tools, kept_blocks: Path,
                                                             tmp_path: Path) -> None:
    rows = replay(tools, kept_blocks, tmp_path, "--pollute", "64", "--pass", "time")
    row = of(rows, "glibc", "time")
    assert row["pollution_bytes"] == 65536
    parts = sum(call["time_ns"] + call["touch_ns"] for call in row["calls"].values())
    assert row["alloc_time_ns"] == pytest.approx(parts, rel=1e-3, abs=10)


@pytest.mark.parametrize("option", (("--decoded-memory", "0"), ("--decoded-memory", "some"),
                                    ("--touch-free", "often"), ("--pollute", "-1")))
def test_bad_values_are_bad_usage(tools: Tools, kept_blocks: Path, option: tuple[str, str]) -> None:
    done = run([tools.replay_program, *option, kept_blocks])
    assert done.returncode == 2
    assert option[0].encode() in done.stderr and b"expected" in done.stderr
