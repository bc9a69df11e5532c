# SPDX-License-Identifier: Apache-2.0
"""Time in the measured child: every clock and every sleep of an allocator, and the paces.

tests/targets/decaying_malloc.c keeps 64 MB of freed blocks for a second, by the clock or sleep
that is chosen. What it keeps at the end of a trace with a pause shows which time it saw."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from quick_tier import quick
from tool_runner import Tools, run

BLOCKS, BLOCK_BYTES = 64, 1_000_000
KEPT, GIVEN_BACK = 60_000_000, 8_000_000  # at least, at most
S_NS = 1_000_000_000
CLOCKS = ("clock_gettime", "realtime", "gettimeofday", "time", "timespec_get")
SLEEPS = ("thread_nanosleep", "thread_clock_nanosleep", "thread_until", "thread_usleep",
          "thread_sleep", "thread_poll", "thread_select", "thread_semaphore", "thread_timedwait",
          "thread_clockwait")
x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="no such trap there")


@dataclass
class Calls:
    """Android's text: the one foreign format with times."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    used: int = 0

    def at(self, ns: int, tid: int, call: str) -> None:
        self.lines.append((ns, f"{tid}: {call} {ns} {ns}"))

    def block(self, ns: int, tid: int, size: int) -> tuple[int, int]:
        self.used += 1
        address = self.used << 24
        self.at(ns, tid, f"malloc {address:#x} {size}")
        return tid, address

    def text(self) -> str:
        return "".join(f"{line}\n" for _, line in sorted(self.lines, key=lambda line: line[0]))


def freed_then_pause(pause_ns: int) -> Calls:
    calls = Calls()
    blocks = [calls.block(i * 1000, 1, BLOCK_BYTES) for i in range(BLOCKS)]
    for i, (tid, address) in enumerate(blocks):
        calls.at((BLOCKS + i) * 1000, tid, f"free {address:#x}")
    calls.block(pause_ns, 1, 12345)
    return calls


@pytest.fixture(scope="module")
def traces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """pause: ten seconds. short: half a second more than the allocator waits. two: the pause of one
    thread, while another comes every 50 ms."""
    folder = tmp_path_factory.mktemp("paused")
    made = {"pause": freed_then_pause(10 * S_NS), "short": freed_then_pause(S_NS * 3 // 2)}
    made["two"] = freed_then_pause(10 * S_NS)
    for i in range(200):
        tid, address = made["two"].block(i * S_NS // 20 + 500, 2, 100)
        made["two"].at(i * S_NS // 20 + 700, tid, f"free {address:#x}")
    for name, calls in made.items():
        (folder / f"{name}.txt").write_text(calls.text())
        tools.convert(folder / f"{name}.txt", folder / f"{name}.bin")
    return {name: folder / f"{name}.bin" for name in made}


class Replayer:
    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools, self.folder, self.stderr = tools, folder, ""

    def rows(self, trace: Path, decay_by: str, *more: str, pass_name: str = "memory") -> list[dict]:
        results = self.folder / "results.jsonl"
        results.unlink(missing_ok=True)
        library = self.tools.targets / "decaying_malloc.so"
        done = self.tools.succeed(
            [self.tools.replay_program, "--rounds", "1", "--pass", pass_name, "--alloc",
             f"decaying={library}", "-o", results, *more, trace], env={"DECAY_BY": decay_by})
        self.stderr = done.stderr.decode()
        rows = [json.loads(line) for line in results.read_text().splitlines()]
        return [row for row in rows if row["allocator"]["name"] == "decaying"]

    def one(self, trace: Path, decay_by: str, *more: str) -> dict:
        (row,) = self.rows(trace, decay_by, *more)
        return row


@pytest.fixture
def replayer(tools: Tools, tmp_path: Path) -> Iterator[Replayer]:
    yield Replayer(tools, tmp_path)


def rss_between(row: dict, begin_ns: int, end_ns: int) -> list[int]:
    timeline = row["timeline"]
    return [rss for ns, rss in zip(timeline["time_ns"], timeline["rss_bytes"], strict=True)
            if begin_ns <= ns < end_ns]


# ---- which time an allocator sees ----


@pytest.mark.thorough
@pytest.mark.parametrize("decay_by", CLOCKS)
def test_every_clock_shows_trace_time(replayer: Replayer, traces: dict[str, Path],
                                      decay_by: str) -> None:
    kept = replayer.one(traces["pause"], decay_by, "--pace", "none")
    assert kept["rss_end_bytes"] > KEPT
    assert replayer.one(traces["pause"], decay_by)["rss_end_bytes"] < GIVEN_BACK
    fast = replayer.one(traces["pause"], decay_by, "--pace", "x1000")
    assert fast["rss_end_bytes"] < GIVEN_BACK


@pytest.mark.parametrize("trace", quick(["two"], ["pause", "two"]))
@pytest.mark.parametrize("decay_by", quick(["thread_nanosleep", "thread_until", "thread_poll", "thread_timedwait"], SLEEPS))
def test_background_threads_sleep_by_trace_time(replayer: Replayer, traces: dict[str, Path],
                                                decay_by: str, trace: str) -> None:
    row = replayer.one(traces[trace], decay_by)
    assert row["background_threads"] == 1 and row["background_cpu_ns"] > 0
    # Given back within the pause, at the moment at which the program would have seen it.
    before, after = (S_NS, 2.2 * S_NS) if decay_by == "thread_sleep" else (S_NS, 1.2 * S_NS)
    assert min(rss_between(row, S_NS // 100, int(before))) > KEPT
    assert max(rss_between(row, int(after), 10 * S_NS)) < GIVEN_BACK
    mean = row["rss_mean_bytes"] / (BLOCKS * BLOCK_BYTES)
    assert 0.08 < mean < 0.25  # a second or two of ten
    assert row["rss_end_bytes"] < GIVEN_BACK


def test_background_sleep_without_trace_time(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "thread_timedwait", "--pace", "none")
    assert row["rss_end_bytes"] > KEPT
    assert row["background_threads"] == 1 and row["background_cpu_ns"] is not None


@pytest.mark.thorough
def test_no_background_thread_no_figure(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "clock_gettime")
    assert row["background_threads"] == 0 and row["background_cpu_ns"] is None


@pytest.mark.thorough
def test_a_signal_wakes_a_sleeper_before_its_time(replayer: Replayer,
                                                  traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "thread_signalled")
    # The thread is at work before the clock goes on.
    assert max(rss_between(row, S_NS // 100, 10 * S_NS)) < GIVEN_BACK


@pytest.mark.thorough
def test_a_sleeper_that_holds_a_lock_does_not_stop_the_trace(replayer: Replayer,
                                                             traces: dict[str, Path]) -> None:
    assert replayer.one(traces["short"], "thread_with_lock")["failures"] == 0


@pytest.mark.thorough
def test_a_background_thread_may_end(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "thread_ends")
    assert row["background_threads"] == 1 and row["rss_end_bytes"] > KEPT


# ---- paces ----


@pytest.mark.thorough
def test_real_pace_takes_the_recorded_time(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["short"], "clock_gettime", "--pace", "real")
    assert row["pace"] == "real"
    assert row["rss_end_bytes"] < GIVEN_BACK
    assert row["wall_ns"] >= 1.5 * S_NS
    assert row["wait_time_ns"] < S_NS  # nobody waited for anybody


@pytest.mark.thorough
def test_times_as_fast(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["two"], "thread_timedwait", "--pace", "x20")
    assert row["pace"] == "x20"
    assert row["wall_ns"] >= 10 * S_NS / 20
    assert row["rss_end_bytes"] < GIVEN_BACK


def test_waiting_is_no_cpu_time(replayer: Replayer, traces: dict[str, Path]) -> None:
    (row,) = replayer.rows(traces["short"], "clock_gettime", "--pace", "x8", pass_name="time")
    assert row["wall_ns"] >= 0.18 * S_NS > row["alloc_time_ns"]
    assert row["harness_time_ns"] < S_NS / 10


@pytest.mark.thorough
def test_passes_have_paces_of_their_own(replayer: Replayer, traces: dict[str, Path]) -> None:
    rows = replayer.rows(traces["pause"], "clock_gettime", "--pace", "memory=x50,time=none",
                         pass_name="both")
    assert {row["pass"]: row["pace"] for row in rows} == {"memory": "x50", "time": "none"}


@pytest.mark.parametrize("pace", ["", "fast", "x", "x0", "x-1", "x1e3", "xinf", "x2,", "memory", "memory=",
                                  "time=real,sideways=none", "x99999999"])
def test_bad_paces_are_usage_errors(tools: Tools, pace: str) -> None:
    done = run([tools.replay_program, "--pace", pace, "trace.bin"])
    assert done.returncode == 2 and b"--pace" in done.stderr


# ---- the cycle counter ----


@x86_only
@pytest.mark.parametrize("decay_by", ["rdtsc", "rdtscp"])
def test_cycle_counter_shows_trace_time_in_the_memory_pass(
        replayer: Replayer, traces: dict[str, Path], decay_by: str) -> None:
    time, memory = replayer.rows(traces["pause"], decay_by, pass_name="both")
    assert memory["rss_end_bytes"] < GIVEN_BACK
    assert memory["cycle_counter_reader"] == "decaying_malloc.so"
    assert time["cycle_counter_reader"] is None  # not watched where time is taken
    warnings = [line for line in replayer.stderr.splitlines() if "cycle counter" in line]
    assert len(warnings) == 1
    assert "decaying" in warnings[0] and "--pace time=real" in warnings[0]


@x86_only
def test_cycle_counter_without_virtual_time(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "rdtsc", "--pace", "none")
    assert row["rss_end_bytes"] > KEPT and row["cycle_counter_reader"] is None


@pytest.mark.thorough
@x86_only
def test_nobody_reads_the_cycle_counter(replayer: Replayer, traces: dict[str, Path]) -> None:
    row = replayer.one(traces["pause"], "clock_gettime")
    assert row["cycle_counter_reader"] == "none"
    assert "cycle counter" not in replayer.stderr


def test_a_crash_under_the_trap_is_a_crash(tools: Tools, traces: dict[str, Path]) -> None:
    library = tools.targets / "decaying_malloc.so"
    done = run([tools.replay_program, "--rounds", "1", "--pass", "memory", "--alloc", f"decaying={library}",
                traces["pause"]], env={"DECAY_BY": "crash"})
    assert done.returncode == 1
    assert b"decaying" in done.stderr and b"SIGSEGV" in done.stderr
