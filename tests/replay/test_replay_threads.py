# SPDX-License-Identifier: Apache-2.0
"""Replays with threads: every slot's order kept under any schedule, every run to its end with all
calls, threads started and ended where they were, and copies of a trace side by side."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from quick_tier import quick
from tool_runner import Tools, run

CALLS = 20_000
WAYS = {
    "as recorded": (),
    "narrow": ("--window-ns", "100000"),
    "streamed": ("--decoded-memory", "1"),
    "two copies": ("--scale", "2"),
}


def checking(tools: Tools) -> str:
    """An allocator that ends the run where a block is freed or reallocated that does not live."""
    return f"checking={tools.target('checking_malloc.so')}"


def make_trace(tools: Tools, trace: Path, *arguments: object) -> Path:
    tools.succeed([tools.build / "bench" / "make_trace", trace, *map(str, arguments)])
    return trace


def whole_runs(tools: Tools, trace: Path, alloc: str, results: Path, *more: str) -> list[dict]:
    """The runs, each of which replayed every call of the trace without a failure."""
    events = tools.info(trace)["events"]
    results.unlink(missing_ok=True)
    runs = tools.replay(trace, alloc, results, *more)
    once = [r for r in runs if not r["control"]]
    assert len(once) == 2 * len({r["allocator"]["name"] for r in once}), "a run of each pass"
    for one in runs:
        assert (one["failures"], one["problem"]) == (0, None)
        assert one["trace"]["events"] == events
        assert sum(of["count"] for of in one["calls"].values()) == events * one["scale"]
    return runs


@pytest.fixture(scope="module")
def exchange(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four threads that allocate, reallocate and free each other's blocks, recorded."""
    folder = tmp_path_factory.mktemp("exchange")
    recording = tools.record([tools.target("threads_exchange"), folder / "counts", CALLS, 4], folder)
    return tools.convert(recording.logs[0], folder / "exchange.bin")


@pytest.mark.parametrize("way", WAYS)
def test_order_of_recorded_threads(tools: Tools, exchange: Path, tmp_path: Path, way: str) -> None:
    runs = whole_runs(tools, exchange, checking(tools), tmp_path / "r.jsonl", *WAYS[way])
    copies = 2 if way == "two copies" else 1
    # The threads that worked and the one that started them and tidied up.
    assert {one["replay_threads"] for one in runs} == {5 * copies}


@pytest.mark.parametrize("seed,events,live,threads,step_ns", quick([1], [
    (1, 5_000, 2, 2, 100),  # two threads, and nearly every op on a block that the other had last
    (2, 20_000, 3, 30, 1_000),
    (3, 20_000, 40, 30, 0),  # all at the same moment
    (4, 20_000, 500, 8, 10),
    (5, 5_000, 20, 300, 100_000),
    (6, 3_000, 100, 12, 30_000_000),  # each op later than the window is wide
]))
def test_order_of_any_threads(tools: Tools, tmp_path: Path, seed: int, events: int, live: int,
                              threads: int, step_ns: int) -> None:
    trace = make_trace(tools, tmp_path / "t.bin", events, live, threads, seed, step_ns)
    for way, options in WAYS.items():
        runs = whole_runs(tools, trace, checking(tools), tmp_path / f"{way}.jsonl", *options)
        assert runs[0]["replay_threads"] in (threads, 2 * threads)


@pytest.mark.parametrize("way,options", [*WAYS.items(), ("one thread", ("--threads", "1"))])
def test_every_call_is_made(tools: Tools, exchange: Path, tmp_path: Path, way: str,
                            options: tuple[str, ...]) -> None:
    """By the allocator's own count, which no tally of the replay's can gloss over."""
    counts, scale = tmp_path / "counts", 2 if way == "two copies" else 1
    counts.write_bytes(bytes(8 * 5))
    command = [tools.replay_program, "-q", "--alloc", checking(tools), "--rounds", "1", "--pass",
               "memory", *options, exchange]
    done = run(command, env={"CHECKING_COUNTS": str(counts)})
    assert done.returncode == 0, done.stderr
    seen = dict(zip(("malloc", "calloc", "realloc", "free", "aligned"),
                    struct.unpack("5Q", counts.read_bytes()), strict=True))
    info = tools.info(exchange)
    # The round alone: what the accounting pass shows, nobody asked for. A memory pass ends by freeing what is left.
    replays, freeing = 1, 1
    ops = {name: replays * scale * count for name, count in info["ops"].items()}
    frees = ops["free"] + freeing * scale * info["end_live_objects"]
    # What the C library allocates for itself when it starts, for each kind that its calls are no function of, and for
    # each thread, comes on top.
    start = 40
    own = replays * (start if way == "one thread" else start + 20 * 5 * scale)
    assert seen["realloc"] == ops["realloc"] + ops["reallocarray"]
    assert seen["aligned"] == sum(ops[name] for name in (
        "posix_memalign", "aligned_alloc", "memalign"))
    assert ops["malloc"] <= seen["malloc"] <= ops["malloc"] + start * replays
    assert ops["calloc"] <= seen["calloc"] <= ops["calloc"] + own
    assert frees <= seen["free"] <= frees + own


def test_the_checking_allocator_checks(tools: Tools) -> None:
    """A double free of any program is what a wrong order in a replay would be."""
    done = run([tools.target("heap_mistakes"), "double"], env={
        "LD_PRELOAD": str(tools.target("checking_malloc.so"))})
    assert done.returncode == -6
    assert b"checking_malloc: " in done.stderr


def test_one_cpu(tools: Tools, exchange: Path, tmp_path: Path) -> None:
    """More threads than CPUs: a thread that waits must let the awaited one run."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        whole_runs(tools, exchange, f"null,glibc,{checking(tools)}", tmp_path / "r.jsonl")
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.thorough
def test_waiting_is_counted_apart(tools: Tools, tmp_path: Path) -> None:
    """Threads in lockstep wait; a replay on one thread never waits."""
    trace = make_trace(tools, tmp_path / "t.bin", 20_000, 3, 8, 1, 1_000)
    many = whole_runs(tools, trace, "glibc", tmp_path / "many.jsonl")
    one = whole_runs(tools, trace, "glibc", tmp_path / "one.jsonl", "--threads", "1")
    assert all(r["wait_time_ns"] > 0 for r in many)
    assert all(r["wait_time_ns"] == 0 for r in one)


@pytest.mark.slow
def test_ten_thousand_threads(tools: Tools, tmp_path: Path) -> None:
    """A hundred at a time, as recorded: their stacks are used again, and their end is an end."""
    recording = tools.record([tools.target("many_threads"), tmp_path / "counts", "joined",
                              tmp_path / "report"], tmp_path)
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    runs = whole_runs(tools, trace, "glibc", tmp_path / "r.jsonl")
    assert {r["replay_threads"] for r in runs} == {10_001}
    [memory] = [r for r in runs if r["pass"] == "memory" and r["allocator"]["name"] == "glibc"]
    assert memory["rss_peak_bytes"] < 16 << 20


def values(run_: dict) -> tuple[int, int, list[int]]:
    return run_["live_peak_bytes"], run_["trace"]["events"], run_["timeline"]["live_bytes"]


@pytest.mark.parametrize("threads", quick(["trace"], ["trace", "1"]))
@pytest.mark.parametrize("more", [(), pytest.param(("--decoded-memory", "1"), marks=pytest.mark.thorough)])
def test_copies(tools: Tools, tmp_path: Path, threads: str, more: tuple[str, ...]) -> None:
    """N copies are N times the calls and the live bytes, and about N times the memory."""
    trace = make_trace(tools, tmp_path / "t.bin", 50_000, 20_000, 3, 1, 1_000)
    once, thrice = (whole_runs(tools, trace, "glibc", tmp_path / f"{scale}.jsonl", "--threads",
                               threads, "--scale", scale, *more) for scale in ("1", "3"))
    one, three = ([r for r in runs if r["pass"] == "memory" and r["allocator"]["name"] == "glibc"][0]
                  for runs in (once, thrice))
    assert (one["scale"], three["scale"]) == (1, 3)
    assert three["replay_threads"] == (1 if threads == "1" else 9)
    assert three["live_peak_bytes"] == 3 * one["live_peak_bytes"]
    assert three["trace"]["events"] == one["trace"]["events"]
    assert max(three["timeline"]["live_bytes"]) == pytest.approx(
        3 * max(one["timeline"]["live_bytes"]), rel=0.01)
    assert three["timeline"]["event"][-1] == one["timeline"]["event"][-1]
    assert three["rss_peak_bytes"] == pytest.approx(3 * one["rss_peak_bytes"], rel=0.1)
    for figure in ("f2", "f3", "f4"):
        assert three["fragmentation"][figure] == pytest.approx(one["fragmentation"][figure], rel=0.1)


@pytest.mark.thorough
def test_copies_inherit(tools: Tools, tmp_path: Path) -> None:
    """What was there at the start is there for each copy before anything else runs."""
    whole = make_trace(tools, tmp_path / "whole.bin", 50_000, 5_000, 3, 1, 1_000)
    part = tmp_path / "part.bin"
    tools.succeed([tools.heaptape, "slice", whole, "-o", part, "--from-time", "30ms"])
    inherited = tools.info(part)["inherited_objects"]
    assert inherited > 1000
    for options in ((), ("--threads", "1"), ("--decoded-memory", "1")):
        live = []
        for scale in ("1", "4"):
            runs = whole_runs(tools, part, checking(tools), tmp_path / f"{scale}.jsonl", "--scale",
                              scale, *options)
            memory = [r for r in runs if r["pass"] == "memory"][-1]
            assert memory["trace"]["inherited_objects"] == inherited
            live.append(memory["timeline"]["live_bytes"][0])
            (tmp_path / f"{scale}.jsonl").unlink()
        assert live[1] == pytest.approx(4 * live[0], rel=0.001)


@pytest.mark.thorough
def test_the_recorded_program_is_not_many(tools: Tools, exchange: Path) -> None:
    """Its own figures are not set beside those of its copies."""
    command = [tools.replay_program, "--json", "--alloc", "glibc", "--rounds", "1", exchange]
    one = json.loads(tools.succeed(command).stdout)
    two = json.loads(tools.succeed([*command, "--scale", "2"]).stdout)
    assert one["recorded"]["cpu_ns"] > 0 and two["recorded"]["cpu_ns"] is None
    assert (one["scale"], two["scale"]) == (1, 2)
    assert two["calls"] == 2 * one["calls"]


@pytest.mark.parametrize("scale", ["0", "1001", "-1", "two"])
def test_bad_scale(tools: Tools, exchange: Path, scale: str) -> None:
    done = run([tools.replay_program, f"--scale={scale}", exchange])
    assert done.returncode == 2
    assert b"--scale" in done.stderr
