# SPDX-License-Identifier: Apache-2.0
"""The recordings of a trial: the program under `heaptape record`, and a trace of the process that matters."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import HeaptapeError, UsageError
from ..base.programs import run_attended
from ..base.recorded_trace import (
    RecordedProcess,
    RecordedTrace,
    choose_process,
    convert_log,
    recorded_processes,
)

CHECKED_WITHIN = "10s"
"""A program that ends within this time is run once more without the recorder."""
RECORD_FAILED = 125
"""`heaptape record` ends with it where it fails itself; 126 and 127 where there is no such program."""
STANDARD_ERROR = 2


@dataclass(frozen=True)
class Recorded(RecordedTrace):
    """`process` is the one of the trace, one of `processes`, the one that matters most first. `sharers` share pages with it since
    a fork, such as "4 workers", or are "". exit_status: of the program, 0 where that is not known."""

    exit_status: int
    process: RecordedProcess
    processes: list[RecordedProcess]
    sharers: str


def sharers_of(process: RecordedProcess, processes: Sequence[RecordedProcess]) -> str:
    """How many recorded processes share pages with that one since a fork, in words; "" where none does. A process that executes
    another program, and begins another log, shares nothing any more."""
    executed = {one.pid for one in processes if one.sequence and not one.parent[0]}
    name = (process.pid, process.sequence)
    siblings = children_of(process.parent, processes) - executed if process.parent[0] else set()
    if len(siblings) > 1:
        return f"{len(siblings)} workers"
    relatives = len(siblings) + len(children_of(name, processes) - executed)
    return f"{relatives + 1} processes" if relatives else ""


def children_of(parent: tuple[int, int], processes: Sequence[RecordedProcess]) -> set[int]:
    """PIDs of those that were forked from it."""
    return {one.pid for one in processes if one.parent == parent}


def input_comes_twice() -> bool:
    """Whether a second run of the program has the input of the first one."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return True
    return not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode)


def run_recorded(heaptape: str, command: list[str], logs: Path, seconds: float | None, checked: bool, aside: bool) -> int:
    """The exit status of the program, which has our terminal. checked: runs it once more without the recorder. A Ctrl-C is the program's: it ends as it does alone, and what it
    did is compared. After so many seconds it is asked to end by SIGTERM. aside: what it prints goes to standard error."""
    def attend(process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            return process.wait()

    # A handler is not inherited, unlike an ignored signal.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        # Killed, `record` would leave the program alone.
        check = [f"--check={CHECKED_WITHIN}"] if checked else []
        return run_attended([heaptape, "record", "-q", *check, "-o", str(logs), "--", *command], attend, patience_s=None,
                            stdout=STANDARD_ERROR if aside else None)
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True)
class Logs:
    """What a recording has left, and how the program ended."""

    folder: Path
    exit_status: int


def record_logs(heaptape: str, command: list[str], folder: Path, seconds: float | None, checked: bool = False, number: int = 1,
                aside: bool = False) -> Logs:
    """number: of this recording, from 1, in the names of its files. aside: what the program prints goes to standard error. Raises HeaptapeError where nothing was recorded."""
    logs = folder / (f"logs-{number}" if number > 1 else "logs")
    begun = time.monotonic()
    status = run_recorded(heaptape, command, logs, seconds, checked, aside)
    if not logs.is_dir() or not any(logs.glob("*.mraw")):
        why = "heaptape record failed" if status >= RECORD_FAILED else f"the program ended with status {status} after {time.monotonic() - begun:.1f} s"
        raise HeaptapeError(f"nothing was recorded of {command[0]}: {why}")
    return Logs(logs, status)


def from_recording(heaptape: str, logs: Logs, trace: Path, process: str | None) -> Recorded:
    """Converts the log of the process that matters, or of that one. The log of the only process goes; those of several stay. Raises
    HeaptapeError."""
    found = from_logs(heaptape, logs.folder, trace, process, logs.exit_status)
    if len(list(logs.folder.iterdir())) == 1:
        found.process.log.unlink()
        logs.folder.rmdir()
    return found


def folder_of_logs(folder: Path) -> Path:
    """The folder itself, or that of a trial's logs in it. Raises UsageError where there are none."""
    for place in (folder, folder / "logs"):
        if place.is_dir() and any(place.glob("*.mraw")):
            return place
    raise UsageError(f"--logs {folder}: expected raw logs (malloc-footprint.PID.mraw) in it or in its folder logs, found none")


def from_logs(heaptape: str, logs: Path, trace: Path, wanted: str | None, status: int = 0) -> Recorded:
    """Converts one of these logs. Raises HeaptapeError, UsageError where no such process was recorded."""
    processes = recorded_processes(heaptape, logs)
    if not processes:
        raise HeaptapeError("no process made a call that could be recorded")
    process = choose_process(processes, wanted)
    found = convert_log(heaptape, process.log, trace)
    return Recorded(trace, found.info, status, process, processes, sharers_of(process, processes))
