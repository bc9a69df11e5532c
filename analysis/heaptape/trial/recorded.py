# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial: the program under `heaptape record`, and the trace of its main process."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import HeaptapeError
from ..base.programs import run_attended
from ..base.recorded_trace import SHELLS, RecordedTrace, convert_log

LOGS_MAX = 100
RECORD_FAILED = 125
"""`heaptape record` ends with it where it fails itself; 126 and 127 where there is no such program."""


@dataclass(frozen=True)
class Recorded(RecordedTrace):
    """How the program ended, how many other processes have logs, and the logs of those of the same name that made about as
    many calls."""

    exit_status: int
    others: int
    namesakes: list[Path]


def run_recorded(heaptape: str, command: list[str], logs: Path, seconds: float | None) -> int:
    """The exit status of the program, which has our terminal. A Ctrl-C is the program's: it ends as it does alone, and what it
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
        return run_attended([heaptape, "record", "-q", "-o", str(logs), "--", *command], attend, patience_s=None)
    finally:
        signal.signal(signal.SIGINT, before)


def record(heaptape: str, command: list[str], folder: Path, process: str | None, seconds: float | None) -> Recorded:
    """Records, and converts the log of the process of the highest rank, or of those of this name. The log of the only process
    goes; those of several stay. Raises HeaptapeError where nothing was recorded."""
    logs = folder / "logs"
    begun = time.monotonic()
    status = run_recorded(heaptape, command, logs, seconds)
    found = sorted(logs.glob("*.mraw"), key=lambda path: -path.stat().st_blocks) if logs.is_dir() else []
    if not found:
        why = "heaptape record failed" if status >= RECORD_FAILED else f"the program ended with status {status} after {time.monotonic() - begun:.1f} s"
        raise HeaptapeError(f"nothing was recorded of {command[0]}: {why}")
    best, namesakes = _convert_one(heaptape, found, folder / "trace.bin", process)
    if len(found) == 1:
        found[0].unlink()
        logs.rmdir()
    return Recorded(best.trace, best.info, status, len(found) - 1, namesakes)


def _convert_one(heaptape: str, logs: list[Path], trace: Path, process: str | None) -> tuple[RecordedTrace, list[Path]]:
    """Leaves the trace of the highest rank; the logs beside it are of its namesakes. A log is as large as its last chunk allows: the
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
        return best, [log for log, name in names.items() if name == names[chosen] and log != chosen]
    if process is not None and names:
        raise HeaptapeError(f"--process {process}: no such process was recorded, only {', '.join(dict.fromkeys(names.values()))}")
    raise HeaptapeError(problem or "no process made a call that could be recorded")

