# SPDX-License-Identifier: Apache-2.0
"""The real program under each allocator, round by round in random order."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import HeaptapeError
from ..base.files import sha256_of
from .allocators import RealAllocator
from .observed_run import ObservedRun, Watched
from .program import Conduct, Program
from .recording import Recording, last_line


@dataclass(frozen=True)
class RealRun:
    """One run of the real program. CPU time is that of the load, where there is one."""

    allocator: str
    round: int
    process: Watched
    conduct: Conduct
    cpu_ns: int
    stdout_sha256: str | None

    def figures(self) -> dict[str, float]:
        """The figures that are predicted, by name."""
        return {"cpu_ns": float(self.cpu_ns), "peak": float(self.process.peak_bytes), "mean": self.process.mean_bytes}


class RealRunFailed(HeaptapeError):
    """Under one allocator, which the message names."""


@dataclass(frozen=True)
class Contender:
    """An allocator with the environment that gives it to a program, and the library by which it is recognised there."""

    allocator: RealAllocator
    environment: dict[str, str]
    library: str | None


def shuffled(contenders: list[Contender], order: random.Random) -> list[Contender]:
    """One round: everyone once, in random order."""
    turn = list(contenders)
    order.shuffle(turn)
    return turn


def run_real(program: Program, contender: Contender, recording: Recording, folder: Path, number: int, limit_s: float) -> RealRun:
    """One run. Raises RealRunFailed where the program behaves differently than when it was recorded, or where the allocator
    did not serve it."""
    name, keep_output = contender.allocator.name, number == 0
    out, err = folder / "real.out", folder / "real.err"
    start = program.start(contender.environment, out if keep_output else None, err)
    try:
        with ObservedRun(start, recording.executable, contender.library, recording.is_root) as run:
            conduct = program.conduct(run, folder, limit_s, f"the program under {name}")
    except HeaptapeError as error:
        raise RealRunFailed(f"{name}: {error}") from error
    if conduct.exit_status != recording.conduct.exit_status:
        raise RealRunFailed(f"{name}: the program ended with status {conduct.exit_status}, not with {recording.conduct.exit_status} "
                            f"as recorded: {last_line(err.read_text(errors='replace'))}")
    process = _chosen(run, recording)
    if process is None:
        raise RealRunFailed(f"{name}: no process of {recording.executable} was seen: it may have ended too soon")
    if contender.library and not process.has_library:
        raise RealRunFailed(f"{name}: {contender.library} was not loaded into {recording.executable}")
    return RealRun(name, number, process, conduct, _cpu_of(process, conduct), sha256_of(out) if keep_output else None)


def _chosen(run: ObservedRun, recording: Recording) -> Watched | None:
    """The process that corresponds to the recorded one: the program itself, or the one that has its place among the processes
    of its executable, from the busiest down."""
    seen = [item for item in run.watched if item.times_s and (item.pid == run.pid or not recording.is_root)]
    seen.sort(key=lambda item: -item.cpu_ns)
    return seen[min(recording.busier, len(seen) - 1)] if seen else None


def _cpu_of(process: Watched, conduct: Conduct) -> int:
    if conduct.load_output is None:
        return process.cpu_ns
    return conduct.cpu_after_load_ns.get(process.pid, 0) - conduct.cpu_before_load_ns.get(process.pid, 0)


