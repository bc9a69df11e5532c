"""The one recording that a validation predicts from: the program under `heaptape record`, and the trace of one of its
processes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .errors import HeaptapeError
from .observed_run import ObservedRun
from .tuning_replay import ReplayFailed, run_tool
from .validation_program import Conduct, Program

_LOG_LINE = re.compile(r"^  ([\d,]+) calls: (.+\.mraw) \(", re.MULTILINE)
_BEYOND_CONVERTED = 50
"""Logs that are converted at most to find the process of a name."""


@dataclass(frozen=True)
class Recording:
    """What was recorded, and how the program ended and what it printed meanwhile."""

    trace: Path
    info: dict[str, Any]
    conduct: Conduct
    processes: int
    is_root: bool

    @property
    def executable(self) -> str:
        """The base name of what the recorded process executed."""
        return os.path.basename(str(self.context.get("executable") or ""))

    @property
    def context(self) -> dict[str, Any]:
        """The recording's own words: machine, command, allocator."""
        found = self.info.get("context")
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """Of the allocator that served when the program was recorded."""
        return str(self.context.get("allocator_name") or "")


def record(heaptape: str, program: Program, folder: Path, process: str | None, limit_s: float) -> Recording:
    """Raises HeaptapeError where nothing was recorded."""
    logs, said = folder / "logs", folder / "record.err"
    logs.mkdir(parents=True)
    prefix = [heaptape, "record", "-v", "-o", str(logs), "--"]
    start = program.start(dict(os.environ), folder / "recorded.out", said, prefix)
    with ObservedRun(start) as run:
        conduct = program.conduct(run, folder, limit_s, "the recording")
    conduct = replace(conduct, stdout_sha256=sha256_of(folder / "recorded.out"))
    found = _logs(said.read_text(errors="replace"))
    trace, info = _convert(heaptape, found, folder / "trace.bin", process)
    pid = (info.get("context") or {}).get("pid")
    return Recording(trace, info, conduct, len(found), pid == run.first_child)


def who_serves(heaptape: str, program: Program, environment: dict[str, str], recording: Recording, folder: Path,
               limit_s: float) -> str:
    """The file that the recorder finds behind itself in that environment, in the process that was recorded: there is no
    better witness, but it takes another run, of a server without load."""
    logs, said = folder / "proof", folder / "proof.err"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    prefix = [heaptape, "record", "-v", "--max-size", "1M", "-o", str(logs), "--"]
    unloaded = replace(program, load=":") if program.server else program
    with ObservedRun(unloaded.start(environment, None, said, prefix)) as run:
        unloaded.conduct(run, folder, limit_s, "the proof of who serves")
    found = _logs(said.read_text(errors="replace"))
    _, info = _convert(heaptape, found, folder / "proof.bin", recording.executable)
    return str((info.get("context") or {}).get("allocator") or "")


def _logs(words: str) -> list[tuple[int, Path]]:
    """Of what the recorder said: calls and log, those with the most calls first."""
    found = [(int(calls.replace(",", "")), Path(path)) for calls, path in _LOG_LINE.findall(words)]
    if not found:
        raise HeaptapeError(f"nothing was recorded: {last_line(words)}")
    return sorted(found, key=lambda item: -item[0])


def _convert(heaptape: str, logs: list[tuple[int, Path]], trace: Path, process: str | None) -> tuple[Path, dict[str, Any]]:
    """The trace of the process with the most calls, or of that name."""
    seen: list[str] = []
    for _, log in logs[: _BEYOND_CONVERTED if process else 1]:
        try:
            run_tool([heaptape, "convert", "-q", "-o", str(trace), "--", str(log)])
            info: dict[str, Any] = json.loads(run_tool([heaptape, "info", "--json", "--", str(trace)]))
        except ReplayFailed as error:
            raise HeaptapeError(str(error)) from error
        name = os.path.basename(str((info.get("context") or {}).get("executable") or ""))
        if process in (None, name):
            return trace, info
        seen.append(name)
        trace.unlink()
    raise HeaptapeError(f"--process {process}: no such process was recorded; there were {', '.join(dict.fromkeys(seen))}")


def last_line(words: str) -> str:
    """What was said last, without who says it."""
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].removeprefix("heaptape record: ") if lines else "it ended without a word"


def sha256_of(path: Path) -> str:
    """Of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
