# SPDX-License-Identifier: Apache-2.0
"""Signal handlers that allocate, map, fork and jump, wherever they strike."""

from __future__ import annotations

import platform
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import RECORDING, compare, compare_mode, ending_of, recorded_tallies
from tool_runner import Outcome, Tools, clean_environment, logs_in, outcome_of, read_tallies, run
from waiting import read_byte

SIZE_MAIN, SIZE_AFTER = 7720, 7723  # tests/targets/signal_inside.c
SIZE_SWITCHED = 7972  # tests/targets/shared_states.c


@pytest.mark.parametrize("signals", quick([300], [300, 6000]))
def test_handler_within_malloc(tools: Tools, tmp_path: Path, signals: int) -> None:
    """Signals at any instant, the recorder's own part of a call included: nothing is lost."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("signal_malloc"), counts, str(signals)],
                       same_counts=False)
    assert compared.recording.outcome.status == 12
    assert compared.counted[7701] == 2 * signals
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("mode,status", [("ordinary", 30), ("jump", 31), ("small_stack", 32)])
def test_handler_in_ordinary_code(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """A handler that allocates while the thread computes; one that maps memory and jumps out of
    mmap; one on a stack of the least size, which also starts the recording."""
    compared = compare_mode(tools, tmp_path, "signal_kinds", mode, status=status, same_counts=False)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_fork_in_a_handler_within_malloc(tools: Tools, tmp_path: Path) -> None:
    """Sixty children of handlers that interrupted a call; half of them return into that call. What it does there is not recorded."""
    compared = compare_mode(tools, tmp_path, "signal_inside", "fork", status=41, same_counts=False,
                            unseen_max=1)
    assert len(compared.recording.logs) == 61
    # A call that the parent began and a child ended may be missing from the child's log.
    missing = compared.counted[SIZE_MAIN] - compared.recorded[SIZE_MAIN]
    assert 0 <= missing <= 30
    for size in set(compared.counted) - {SIZE_MAIN}:
        assert compared.recorded[size] == compared.counted[size], f"size {size}"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["jump", "jump_first"])
def test_jump_out_of_a_handler_within_malloc(tools: Tools, tmp_path: Path, mode: str) -> None:
    """The calls that were left are not recorded; later ones are."""
    compared = compare_mode(tools, tmp_path, "signal_inside", mode, status=42, same_counts=False)
    assert compared.recorded[SIZE_AFTER] == compared.counted[SIZE_AFTER] == 1000


@pytest.mark.thorough
def test_jump_out_of_every_part_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """Wherever in a call the jump came, the records after it are whole, and none is lost."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 traps by itself behind each instruction")
    compared = compare(tools, tmp_path, lambda counts: [tools.target("jump_anywhere"), counts], same_counts=False)
    assert compared.recording.outcome.status == 43
    assert compared.recorded[7900] == compared.counted[7900] > 1050


def test_handler_behind_every_instruction_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """A handler that allocates there and returns: neither its calls are lost, nor is the interrupted one
    recorded twice, as itself and as what its allocator calls within."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 traps by itself behind each instruction")
    compared = compare(tools, tmp_path, lambda counts: [tools.target("jump_anywhere"), counts, "allocates"],
                       same_counts=False)
    assert compared.recording.outcome.status == 45
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_memory_of_interrupted_threads(tools: Tools, tmp_path: Path) -> None:
    """What the recorder keeps for a thread that was interrupted within malloc serves the next: two
    thousand threads do not take a kilobyte each."""
    compared = compare_mode(tools, tmp_path, "signal_inside", "threads", status=43)
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("stack", quick([["alternate"]], [[], ["alternate"]]), ids=lambda words: "-".join(words) or "plain")
def test_threads_of_the_programs_own(tools: Tools, tmp_path: Path, stack: list[str]) -> None:
    """A handler switches to another stack, in the midst of calls too. One that comes between two certain instructions costs a chunk,
    and `convert` says why."""
    command = [tools.target("shared_states"), tmp_path / "counts", "switched", *stack]
    alone = outcome_of(run([*command[:1], tmp_path / "alone", *command[2:]]))
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone and alone.status == 124
    [log] = recording.logs
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    # The allocator's malloc calls memalign, which after a switch may look like a call of another's.
    recorded = sum(f" malloc({SIZE_SWITCHED}) " in line for line in tools.dump(tmp_path / "t.bin"))
    counted = read_tallies(tmp_path / "counts")[SIZE_SWITCHED]
    # Of each of the four a call may be under way at the end.
    assert 1000 < recorded <= counted + 4
    if recorded < counted:
        assert b"damaged" in done.stderr and b"switches from stack to stack" in done.stderr


# ---- However a process ends, what it did until then is in its log.

KILLS_IN_SLOW_TIER = 300
WRITERS, LANE_BYTES = 4, 4096  # tests/targets/kill_writers.c


@pytest.mark.parametrize("mode,status", [
    ("abort", -signal.SIGABRT), ("fault", -signal.SIGSEGV), ("sigkill", -signal.SIGKILL),
    ("quick_exit", 21), ("overflow", 22),
])
def test_sudden_end(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """No destructor runs; a stack overflow's handler allocates on a stack of its own and leaves."""
    compared = compare_mode(tools, tmp_path, "crash_kinds", mode, status=status)
    compared.assert_whole(processes=1)
    assert ending_of(compared.recording.logs[0]).state == RECORDING


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_killed_by_itself(tools: Tools, tmp_path: Path, number: signal.Signals) -> None:
    """All that a killed process did is there, but for the one call that each thread was in."""
    recording = tools.preload([tools.target("kill_self"), tmp_path / "counts", "50000",
                               str(int(number))], tmp_path / "logs", cwd=tmp_path)
    assert recording.outcome == Outcome(-number, b"", b"")
    assert len(recording.logs) == 1
    counted = read_tallies(tmp_path / "counts")
    recorded = recorded_tallies(tools, recording.logs, tmp_path)
    assert recorded[7910] == counted[7910] == 50_000
    assert set(recorded) == set(counted)
    for size, count in counted.items():
        assert 0 <= recorded[size] - count <= 1, f"size {size}"


def test_killed_under_record(tools: Tools, tmp_path: Path) -> None:
    recording = tools.record([tools.target("kill_self"), tmp_path / "counts", "1000"],
                             tmp_path / "logs")
    assert recording.outcome.status == 128 + signal.SIGKILL
    assert recorded_tallies(tools, recording.logs, tmp_path)[7910] == 1000


def kill_writers_after(tools: Tools, folder: Path, seconds: float) -> Path:
    """The log of four threads that free each other's blocks, killed from outside in the midst."""
    logs = folder / "logs"
    logs.mkdir()
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)})
    with subprocess.Popen([tools.target("kill_writers"), folder / "counts"], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert read_byte(process.stdout) == b"."
        time.sleep(seconds)
        process.kill()
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGKILL
    [log] = logs_in(logs)
    return log


def calls_of_writers(counts: Path) -> dict[int, int]:
    """Thread id to the calls that the thread had finished and counted."""
    raw = counts.read_bytes()
    return dict(struct.unpack_from("<QQ", raw, i * LANE_BYTES) for i in range(WRITERS))


def assert_nothing_lost(tools: Tools, folder: Path, log: Path) -> None:
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    tools.convert_clean(log, folder / "t.bin")
    with read_trace(folder / "t.bin") as trace:
        recorded = dict(zip(trace.threads["tid"], trace.threads["calls"], strict=True))
    for tid, counted in calls_of_writers(folder / "counts").items():
        # The one call in flight may be in the log and not yet counted. A thread may have done nothing yet.
        calls = recorded.get(tid, 0)
        assert 0 <= calls - counted <= 1, f"thread {tid}: {calls} of {counted}"


@pytest.mark.parametrize("repetition", quick(range(8), range(20)))
def test_killed_at_any_moment(tools: Tools, tmp_path: Path, repetition: int) -> None:
    seconds = random.Random(repetition).uniform(0.002, 0.05)
    assert_nothing_lost(tools, tmp_path, kill_writers_after(tools, tmp_path, seconds))


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(KILLS_IN_SLOW_TIER))
def test_killed_at_any_later_moment(tools: Tools, tmp_path: Path, repetition: int) -> None:
    seconds = random.Random(1000 + repetition).uniform(0.001, 0.4)
    log = kill_writers_after(tools, tmp_path, seconds)
    assert_nothing_lost(tools, tmp_path, log)
    log.unlink()  # pytest keeps folders
    (tmp_path / "t.bin").unlink()
