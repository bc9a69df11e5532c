# SPDX-License-Identifier: Apache-2.0
"""The one recording that a validation predicts from: the program under `heaptape record`, and the trace of one of its
processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.errors import HeaptapeError
from ..base.files import sha256_of
from ..base.recorded_trace import (
    RecordedProcess,
    RecordedTrace,
    choose_process,
    convert_log,
    recorded_processes,
)
from .observed_run import ObservedRun
from .program import Conduct, Program

BRIEF_S, BRIEF_RECORDINGS = 2.0, 5


@dataclass(frozen=True)
class Recording(RecordedTrace):
    """A recording: of how many processes it is, whether the one that counts is the program itself and, if not, how many others of its executable
    took more CPU time; and how the program ended and what it printed meanwhile."""

    conduct: Conduct
    processes: int
    is_root: bool
    busier: int

    @property
    def kind(self) -> str:
        """The kind of the allocator that the program was recorded under."""
        return str(self.context.get("allocator_name") or "")


@dataclass(frozen=True)
class _Attempt:
    """A recorded run: what was recorded, what matters most first, and the process that the recorder started."""

    folder: Path
    processes: list[RecordedProcess]
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
    chosen = choose_process(best.processes, process)
    found = convert_log(heaptape, chosen.log, folder / "trace.bin")
    is_root = chosen.pid == best.pid
    busier = 0 if is_root else _busier(chosen, best.processes)
    shutil.rmtree(best.folder)
    return Recording(found.trace, found.info, best.conduct, len(best.processes), is_root, busier)


def _attempt(heaptape: str, program: Program, folder: Path, limit_s: float) -> _Attempt:
    logs, out, said = _log_folder(folder), folder / "recorded.out", folder / "record.err"
    with ObservedRun(program.start(program.environment, out, said, [heaptape, "record", "-o", str(logs), "--"])) as run:
        conduct = program.conduct(run, folder, limit_s, "the recording")
    conduct = replace(conduct, stdout_sha256=sha256_of(out))
    return _Attempt(logs, _processes(heaptape, logs, said), conduct, run.first_child)


def who_serves(heaptape: str, program: Program, environment: dict[str, str], recording: Recording, folder: Path,
               limit_s: float) -> str:
    """The file that the recorder finds behind itself in that environment, in the process that was recorded: there is no
    better witness, but it takes another run, of a server without load."""
    logs, said = _log_folder(folder), folder / "proof.err"
    prefix = [heaptape, "record", "--max-size", "1M", "-o", str(logs), "--"]
    unloaded = replace(program, load=":") if program.server else program
    with ObservedRun(unloaded.start(environment, None, said, prefix)) as run:
        unloaded.conduct(run, folder, limit_s, "the check of the loaded allocator")
    found = convert_log(heaptape, choose_process(_processes(heaptape, logs, said), recording.executable).log, folder / "proof.bin")
    shutil.rmtree(logs)
    return str(found.context.get("allocator") or "")


def _log_folder(folder: Path) -> Path:
    """A server that root starts becomes another user, who is to write logs as well, where nobody else finds the way."""
    made = Path(tempfile.mkdtemp(prefix="logs-", dir=folder))
    if os.geteuid() == 0:
        folder.chmod(0o711)
        made.chmod(0o1733)
    return made


def _processes(heaptape: str, logs: Path, said: Path) -> list[RecordedProcess]:
    """said: what the recorder printed. Raises HeaptapeError where nothing was recorded."""
    found = recorded_processes(heaptape, logs) if any(logs.glob("*.mraw")) else []
    if not found:
        raise HeaptapeError(f"nothing was recorded: {last_line(said.read_text(errors='replace'))}")
    return found


def _busier(chosen: RecordedProcess, processes: list[RecordedProcess]) -> int:
    """How many processes of the same executable took more CPU time: by that the process is known again in a real run."""
    return sum(one.name == chosen.name and (one.cpu_ns or 0) > (chosen.cpu_ns or 0) for one in processes)


def last_line(words: str) -> str:
    """The line that was said last, without who says it."""
    lines = [line for line in words.splitlines() if line.strip()]
    return lines[-1].removeprefix("heaptape record: ").removeprefix("heaptape count: ") if lines else "it ended without a message"

