# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial: the program under `heaptape record`, and the trace of its main process."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import HeaptapeError
from ..base.programs import run_attended
from ..base.recorded_trace import SHELLS, RecordedTrace, convert_log

LOGS_MAX = 100
CHECKED_WITHIN = "10s"
"""A program that ends within this time is run once more without the recorder."""
RECORD_FAILED = 125
"""`heaptape record` ends with it where it fails itself; 126 and 127 where there is no such program."""


@dataclass(frozen=True)
class Recorded(RecordedTrace):
    """How the program ended, how many other processes have logs, the logs of those of the same name that made about as
    many calls, and who shares pages with it since a fork, such as "4 workers", or ""."""

    exit_status: int
    others: int
    namesakes: list[Path]
    sharers: str


_FAMILY_OFFSET, _FAMILY = 24, struct.Struct("<4I")
"""Of a raw log's header: pid and sequence, and those of the parent's log, or zeros (docs/reference/raw-log-format.md)."""

_Name = tuple[int, int]
"""Of a log: pid and sequence."""


def _family(log: Path) -> tuple[_Name, _Name]:
    """The log's name and its parent's."""
    with log.open("rb") as file:
        file.seek(_FAMILY_OFFSET)
        numbers = file.read(_FAMILY.size)
    pid, sequence, parent_pid, parent_sequence = _FAMILY.unpack(numbers.ljust(_FAMILY.size, b"\0"))  # a log may be cut
    return (pid, sequence), (parent_pid, parent_sequence)


def sharers_of(log: Path, logs: list[Path]) -> str:
    """How many recorded processes share pages with that of the log since a fork, in words; "" where none does. A process that
    executes another program, and begins another log, shares nothing any more."""
    families = [_family(one) for one in logs]
    executed = {pid for (pid, sequence), parent in families if sequence and not parent[0]}
    name, parent = _family(log)
    children = {one: {pid for (pid, _), other in families if other == one and pid not in executed} for one in (name, parent)}
    siblings = len(children[parent]) if parent[0] else 0
    if siblings > 1:
        return f"{siblings} workers"
    relatives = siblings + len(children[name])
    return f"{relatives + 1} processes" if relatives else ""


def input_comes_twice() -> bool:
    """Whether a second run of the program has the input of the first one."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return True
    return not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode)


def run_recorded(heaptape: str, command: list[str], logs: Path, seconds: float | None, checked: bool) -> int:
    """The exit status of the program, which has our terminal. checked: runs it once more without the recorder. A Ctrl-C is the program's: it ends as it does alone, and what it
    did is compared. After so many seconds it is asked to end by SIGTERM."""
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
        return run_attended([heaptape, "record", "-q", *check, "-o", str(logs), "--", *command], attend, patience_s=None)
    finally:
        signal.signal(signal.SIGINT, before)


def record(heaptape: str, command: list[str], folder: Path, process: str | None, seconds: float | None, checked: bool = False) -> Recorded:
    """Records, and converts the log of the process of the highest rank, or of those of this name. The log of the only process
    goes; those of several stay. Raises HeaptapeError where nothing was recorded."""
    logs = folder / "logs"
    begun = time.monotonic()
    status = run_recorded(heaptape, command, logs, seconds, checked)
    found = sorted(logs.glob("*.mraw"), key=lambda path: -path.stat().st_blocks) if logs.is_dir() else []
    if not found:
        why = "heaptape record failed" if status >= RECORD_FAILED else f"the program ended with status {status} after {time.monotonic() - begun:.1f} s"
        raise HeaptapeError(f"nothing was recorded of {command[0]}: {why}")
    best, log, namesakes = _convert_one(heaptape, found, folder / "trace.bin", process)
    sharers = sharers_of(log, found)
    if len(found) == 1:
        found[0].unlink()
        logs.rmdir()
    return Recorded(best.trace, best.info, status, len(found) - 1, namesakes, sharers)


def _convert_one(heaptape: str, logs: list[Path], trace: Path, process: str | None) -> tuple[RecordedTrace, Path, list[Path]]:
    """Leaves the trace of the highest rank, with its log; the logs beside it are of its namesakes. A log is as large as its last chunk allows: the
    one with the most calls may take half of the bytes of the first, and one that outranks a shell a twentieth."""
    best: RecordedTrace | None = None
    chosen, other = logs[0], trace.with_name("other.bin")
    names: dict[Path, str] = {}
    problem, most = "", logs[0].stat().st_blocks
    for log in logs[:LOGS_MAX]:
        if best and log.stat().st_blocks < most // (20 if best.executable in SHELLS else 2):
            break
        try:
            found = convert_log(heaptape, log, other)
        except HeaptapeError as error:
            problem = str(error)
            continue
        names[log] = found.executable
        if process in (None, found.executable) and found.rank > (best.rank if best else 0):
            best, chosen = RecordedTrace(trace, found.info), log
            other.replace(trace)
    other.unlink(missing_ok=True)
    if best:
        return best, chosen, [log for log, name in names.items() if name == names[chosen] and log != chosen]
    if process is not None and names:
        raise HeaptapeError(f"--process {process}: no such process was recorded, only {', '.join(dict.fromkeys(names.values()))}")
    raise HeaptapeError(problem or "no process made a call that could be recorded")

