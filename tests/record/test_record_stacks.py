# SPDX-License-Identifier: Apache-2.0
"""How much of the caller's stack the recorder takes: a kilobyte beyond malloc's own, wherever it is."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from safety_checks import recorded_tallies
from tool_runner import Tools, clean_environment, logs_in, read_tallies, run

MORE_BYTES_MAX = 1024
# Binding at the first call takes kilobytes of the stack, in which a recorder's share would be hidden.
BOUND = {"LD_BIND_NOW": "1"}
ROOM_STEP, ROOM_MAX = 64, 4096


def depth_of(tools: Tools, folder: Path, mode: str, environment: dict[str, str]) -> int:
    """What the target prints."""
    target = "stack_depths_cxx" if mode == "cxx" else "stack_depths"
    done = run([tools.target(target), folder / "counts", mode],
               env=BOUND | environment)
    assert done.returncode == 75, done
    return int(done.stdout)


def recorded(tools: Tools, folder: Path) -> dict[str, str]:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    return {"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)}


def require_little(folder: Path, mode: str, under: int, alone: int) -> None:
    print(f"{mode}: {alone} bytes alone, {under} recorded")
    assert under <= alone + MORE_BYTES_MAX
    assert logs_in(folder / "logs")


@pytest.mark.parametrize("mode", ["first", "thread", "child", "chunks", "samples", "large", "kin",
                                  "cxx", "mappings"])
def test_depth(tools: Tools, tmp_path: Path, mode: str) -> None:
    """The first call of the process, of a thread, of a forked child; new chunks of the log,
    samples of memory, probes of large blocks and of the mappings."""
    alone = depth_of(tools, tmp_path, mode, {})
    require_little(tmp_path, mode, depth_of(tools, tmp_path, mode, recorded(tools, tmp_path)),
                   alone)


def test_depth_of_a_start_after_a_delay(tools: Tools, tmp_path: Path) -> None:
    environment = recorded(tools, tmp_path) | {"MALLOC_WRAP_START": "0.3"}
    alone = depth_of(tools, tmp_path, "delayed", {})
    require_little(tmp_path, "delayed", depth_of(tools, tmp_path, "delayed", environment), alone)
    assert recorded_tallies(tools, logs_in(tmp_path / "logs"), tmp_path).total() == 0


@pytest.mark.thorough
def test_depth_of_a_pause_and_a_resumption(tools: Tools, tmp_path: Path) -> None:
    """A resumption makes a log."""
    alone = depth_of(tools, tmp_path, "controlled", {})
    environment = clean_environment(BOUND | recorded(tools, tmp_path))
    program = subprocess.Popen([str(tools.target("stack_depths")), str(tmp_path / "counts"),
                                "controlled"], env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE)
    while not logs_in(tmp_path / "logs") and program.poll() is None:
        pass
    for word in ("pause", "resume", "pause", "resume"):
        tools.control(program.pid, word)
    under = int(program.communicate(timeout=60)[0])
    assert len(logs_in(tmp_path / "logs")) == 3
    require_little(tmp_path, "controlled", under, alone)


def survives(tools: Tools, counts: Path, room: int, environment: dict[str, str]) -> bool:
    status = run([tools.target("signal_kinds"), counts, "small_stack", str(room)],
                 env=BOUND | environment).returncode
    assert status in (32, -signal.SIGSEGV)
    return status == 32


def least_room(tools: Tools, counts: Path, start: int, environment: dict[str, str]) -> int:
    return next(room for room in range(start, ROOM_MAX, ROOM_STEP)
                if survives(tools, counts, room, environment))


@pytest.mark.thorough
def test_least_room_on_an_alternate_stack(tools: Tools, tmp_path: Path) -> None:
    """A handler makes the first call of the process, and has as little of its stack left as the
    program alone survives with; how large a signal's frame is differs from machine to machine."""
    alone = least_room(tools, tmp_path / "alone", 0, {})
    environment = recorded(tools, tmp_path)
    under = least_room(tools, tmp_path / "counts", alone, environment)
    print(f"the least room for the handler: {alone} bytes alone, {under} recorded")
    assert under <= alone + MORE_BYTES_MAX
    (tmp_path / "counts").unlink()
    for log in logs_in(tmp_path / "logs"):
        log.unlink()
    assert survives(tools, tmp_path / "counts", alone + MORE_BYTES_MAX, environment)
    counted = {size: n for size, n in read_tallies(tmp_path / "counts").items() if n}
    assert recorded_tallies(tools, logs_in(tmp_path / "logs"), tmp_path) == counted
