"""The recording of a trial: the program under `heaptape record`, and the trace of the process with the most calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import HeaptapeError
from ..base.programs import ToolFailed, run_tool

LOGS_MAX = 100
RECORD_FAILED = 125
"""`heaptape record` ends with it where it fails itself; 126 and 127 where there is no such program."""


@dataclass(frozen=True)
class Recorded:
    """The trace, what `info` says of it, how the program ended, how many other processes have logs, and the logs of those
    of the same name that made about as many calls."""

    trace: Path
    info: dict[str, Any]
    exit_status: int
    others: int
    namesakes: list[Path]

    @property
    def context(self) -> dict[str, Any]:
        """The circumstances of the recording."""
        found = self.info.get("context")
        return found if isinstance(found, dict) else {}

    @property
    def executable(self) -> str:
        """The base name of what was executed."""
        return os.path.basename(str(self.context.get("executable") or ""))

    @property
    def keeps_small_objects(self) -> bool:
        """Whether it is a CPython that serves small objects itself, so that malloc sees few of its calls."""
        chosen = str(self.context.get("env.PYTHONMALLOC") or "")
        return self.executable.startswith("python") and not chosen.startswith("malloc")


def run_recorded(heaptape: str, command: list[str], logs: Path, seconds: float | None) -> int:
    """The exit status of the program, which has our terminal. A Ctrl-C is the program's: it ends as it does alone, and what it
    did is compared. After so many seconds it is asked to end by SIGTERM."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        # A handler is not inherited, unlike an ignored signal.
        process = subprocess.Popen([heaptape, "record", "-q", "-o", str(logs), "--", *command])
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    except OSError as error:
        raise HeaptapeError(f"cannot run {heaptape}: {error.strerror}") from error
    finally:
        signal.signal(signal.SIGINT, before)


def record(heaptape: str, command: list[str], folder: Path, process: str | None, seconds: float | None) -> Recorded:
    """Records, and converts the log with the most bytes, or that of the process of this name. The log of the only process
    goes; those of several stay. Raises HeaptapeError where nothing was recorded."""
    logs = folder / "logs"
    begun = time.monotonic()
    status = run_recorded(heaptape, command, logs, seconds)
    found = sorted(logs.glob("*.mraw"), key=lambda path: -path.stat().st_blocks) if logs.is_dir() else []
    if not found:
        why = "heaptape record failed" if status >= RECORD_FAILED else f"the program ended with status {status} after {time.monotonic() - begun:.1f} s"
        raise HeaptapeError(f"nothing was recorded of {command[0]}: {why}")
    trace = folder / "trace.bin"
    info, namesakes = _convert_one(heaptape, found, trace, process)
    if len(found) == 1:
        found[0].unlink()
        logs.rmdir()
    return Recorded(trace, info, status, len(found) - 1, namesakes)


def _convert_one(heaptape: str, logs: list[Path], trace: Path, process: str | None) -> tuple[dict[str, Any], list[Path]]:
    """Leaves the trace with the most calls; the logs beside it are of its namesakes. A log is as large as its last chunk allows, so that several may have most."""
    best: dict[str, Any] = {}
    chosen = logs[0]
    names: dict[Path, str] = {}
    problem, least = "", logs[0].stat().st_blocks // 2
    for log in logs[:LOGS_MAX]:
        if best and log.stat().st_blocks < least:
            break
        try:
            info = _convert(heaptape, log, trace.with_name("other.bin"))
        except ToolFailed as error:
            problem = str(error)
            continue
        names[log] = name = os.path.basename(str((info.get("context") or {}).get("executable") or ""))
        if process in (None, name) and info["events"] > best.get("events", 0):
            best, chosen = info, log
            trace.with_name("other.bin").replace(trace)
    trace.with_name("other.bin").unlink(missing_ok=True)
    if best:
        return best, [log for log, name in names.items() if name == names[chosen] and log != chosen]
    if process is not None and names:
        raise HeaptapeError(f"--process {process}: no such process was recorded, only {', '.join(dict.fromkeys(names.values()))}")
    raise HeaptapeError(problem or "no process made a call that could be recorded")


def _convert(heaptape: str, log: Path, trace: Path) -> dict[str, Any]:
    run_tool([heaptape, "convert", "-q", "-o", str(trace), "--", str(log)])
    info: dict[str, Any] = json.loads(run_tool([heaptape, "info", "--json", "--", str(trace)]))
    return info
