# SPDX-License-Identifier: Apache-2.0
"""However a process ends, what it did until then is in its log."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import RECORDING, compare_mode, ending_of, recorded_tallies
from tool_runner import Outcome, Tools, clean_environment, logs_in, read_tallies
from waiting import read_byte

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
