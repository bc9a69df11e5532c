# SPDX-License-Identifier: Apache-2.0
"""The one recording that a validation predicts from: the program under `heaptape record`, and the trace of one of its
processes."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.errors import HeaptapeError
from ..base.files import sha256_of
from ..base.recorded_trace import RecordedTrace, convert_log
from .observed_run import ObservedRun
from .program import Conduct, Program

# A log without calls makes no trace.
_LOG_LINE = re.compile(r"^  ([1-9][\d,]*) calls: (.+\.mraw) \(", re.MULTILINE)
LOGS_MAX = 50
"""So many logs, those with the most calls, are read."""

BRIEF_S, BRIEF_RECORDINGS = 2.0, 5


@dataclass(frozen=True)
class Recording(RecordedTrace):
    """Of how many processes, whether the one that counts is the program itself and, if not, how many others of its executable
    took more CPU time; and how the program ended and what it printed meanwhile."""

    conduct: Conduct
    processes: int
    is_root: bool
    busier: int

    @property
    def kind(self) -> str:
        """Of the allocator that the program was recorded under."""
        return str(self.context.get("allocator_name") or "")


@dataclass(frozen=True)
class _Attempt:
    """A recorded run: its logs, those with the most calls first, and the process that the recorder started."""

    folder: Path
    logs: list[tuple[int, Path]]
    conduct: Conduct
    pid: int | None


def record(heaptape: str, program: Program, folder: Path, process: str | None, limit_s: float) -> Recording:
    """One recording; of a program that ends soon the quickest of several, because what else the machine does stretches pauses
    of such a run beyond what is the program's own. Raises HeaptapeError where nothing was recorded."""
    best = _attempt(heaptape, program, folder, limit_s)
    if program.server is None and best.conduct.wall_s < BRIEF_S:
        for _ in range(BRIEF_RECORDINGS - 1):
            other = _attempt(heaptape, program, folder, limit_s)
            best, worse = (other, best) if other.conduct.wall_s < best.conduct.wall_s else (best, other)
            shutil.rmtree(worse.folder)
    found, chosen = _choose(heaptape, best.logs, folder / "trace.bin", process)
    is_root = found.context.get("pid") == best.pid
    busier = 0 if is_root else _busier(heaptape, found, [log for _, log in best.logs if log != chosen], folder)
    shutil.rmtree(best.folder)
    return Recording(found.trace, found.info, best.conduct, len(best.logs), is_root, busier)


def _attempt(heaptape: str, program: Program, folder: Path, limit_s: float) -> _Attempt:
    logs, out, said = _log_folder(folder), folder / "recorded.out", folder / "record.err"
    with ObservedRun(program.start(program.environment, out, said, [heaptape, "record", "-v", "-o", str(logs), "--"])) as run:
        conduct = program.conduct(run, folder, limit_s, "the recording")
    conduct = replace(conduct, stdout_sha256=sha256_of(out))
    return _Attempt(logs, _logs(said.read_text(errors="replace")), conduct, run.first_child)


def who_serves(heaptape: str, program: Program, environment: dict[str, str], recording: Recording, folder: Path,
               limit_s: float) -> str:
    """The file that the recorder finds behind itself in that environment, in the process that was recorded: there is no
    better witness, but it takes another run, of a server without load."""
    logs, said = _log_folder(folder), folder / "proof.err"
    prefix = [heaptape, "record", "-v", "--max-size", "1M", "-o", str(logs), "--"]
    unloaded = replace(program, load=":") if program.server else program
    with ObservedRun(unloaded.start(environment, None, said, prefix)) as run:
        unloaded.conduct(run, folder, limit_s, "the check of the loaded allocator")
    found, _ = _choose(heaptape, _logs(said.read_text(errors="replace")), folder / "proof.bin", recording.executable)
    shutil.rmtree(logs)
    return str(found.context.get("allocator") or "")


def _log_folder(folder: Path) -> Path:
    """A server that root starts becomes another user, who is to write logs as well, where nobody else finds the way."""
    made = Path(tempfile.mkdtemp(prefix="logs-", dir=folder))
    if os.geteuid() == 0:
        folder.chmod(0o711)
        made.chmod(0o1733)
    return made


def _logs(words: str) -> list[tuple[int, Path]]:
    """Of what the recorder said, in its order: calls and log, that of the program with the most calls first."""
    found = [(int(calls.replace(",", "")), Path(path)) for calls, path in _LOG_LINE.findall(words)]
    if not found:
        raise HeaptapeError(f"nothing was recorded: {last_line(words)}")
    return found


def _choose(heaptape: str, logs: list[tuple[int, Path]], trace: Path, process: str | None) -> tuple[RecordedTrace, Path]:
    """The first process, or that of that name, whose trace is left; and its log."""
    seen: list[str] = []
    for _, log in logs[: LOGS_MAX if process else 1]:
        found = convert_log(heaptape, log, trace)
        if process in (None, found.executable):
            return found, log
        seen.append(found.executable)
        trace.unlink()
    raise HeaptapeError(f"--process {process}: no such process was recorded, only {', '.join(dict.fromkeys(seen))}")


def _busier(heaptape: str, chosen: RecordedTrace, logs: list[Path], folder: Path) -> int:
    """How many processes of the same executable took more CPU time: by that the process is known again in a real run."""
    trace, more = folder / "other.bin", 0
    for log in logs[:LOGS_MAX]:
        other = convert_log(heaptape, log, trace)
        trace.unlink()
        more += other.executable == chosen.executable and \
            (other.info["recorded_cpu_ns"] or 0) > (chosen.info["recorded_cpu_ns"] or 0)
    return more


def last_line(words: str) -> str:
    """What was said last, without who says it."""
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].removeprefix("heaptape record: ").removeprefix("heaptape count: ") if lines else "it ended without a message"

