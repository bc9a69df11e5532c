# SPDX-License-Identifier: Apache-2.0
"""The real program, run under each allocator that may be worth using. A replay makes the recorded calls only: it sees neither what
the program's own accesses take where blocks lie elsewhere, nor that a program ends under another malloc, as those do whose
libraries are opened with RTLD_DEEPBIND and go past it."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.programs import environment_of, run_attended
from ..judge.intervals import CONFIDENCE, INTERIM_CONFIDENCE, median, paired_ratios, ratio_interval
from ..judge.schedule import next_interim_after
from ..results.summary import Summary
from ..results.use import use_variables
from .answer import used_as
from .changes import CPU, Change
from .recorded import Recorded

LIMIT_S = 30.0
"""The limit for a program that ended within CHECKED_WITHIN."""

ROUNDS_MIN = 6
"""No interval is drawn from fewer ratios without an assumption (judge/intervals.py)."""


def input_position() -> int | None:
    """The position at which standard input is read on; None if it is no file."""
    with suppress(OSError):
        if stat.S_ISREG(os.fstat(0).st_mode):
            return os.lseek(0, 0, os.SEEK_CUR)
    return None


@dataclass(frozen=True)
class Ended:
    """A run of the program: CPU time with that of its children; why: how it ended otherwise than it did, such as "is ended by SIGSEGV", or ""."""

    cpu_s: float
    why: str


def run_once(command: Sequence[str], variables: Sequence[str], status: int, position: int | None) -> Ended:
    """With these variables (NAME=VALUE) set, expected to end with that status. Its output goes nowhere; position: of its input."""
    if position is not None:
        os.lseek(0, position, os.SEEK_SET)

    def attend(process: subprocess.Popen[bytes]) -> int | None:
        try:
            return process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = run_attended(list(command), attend, env=environment_of(os.environ, variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ended == status:
        return Ended(cpu_s, "")
    if ended is None:
        return Ended(cpu_s, f"had not ended after {LIMIT_S:.0f} s")
    return Ended(cpu_s, f"is ended by {signal.Signals(-ended).name}" if ended < 0 else f"ends with status {ended} in place of {status}")


def can_run(command: Sequence[str], context: Mapping[str, Any]) -> bool:
    """Whether the program was run again, so that it can be, and reaches a malloc that is preloaded."""
    return bool(command and context.get("check") and not context.get("linked_allocator"))


def will_run(command: Sequence[str], context: Mapping[str, Any], limit_s: float) -> bool:
    """Whether it will be run under others for at most limit_s, as far as can be told by its CPU time."""
    return can_run(command, context) and 2 * ROUNDS_MIN * context["check"].get("alone_cpu_ns", 0) / 1e9 < limit_s


Say = Callable[[list[str], str], None]
"""Told under whom the program runs, and for how long or how often."""


@dataclass
class RealRuns:
    """Rounds of the program under the baseline and each of the others. command: [] where it is not to be run. position: of its input.
    `refused`: those under which it does not end as it did, and what it does."""

    command: list[str]
    recorded: Recorded
    summary: Summary
    position: int | None
    refused: dict[str, str] = field(default_factory=dict)
    cpu_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_possible(self) -> bool:
        return can_run(self.command, self.recorded.context) and not self.summary.own

    def variables(self, name: str) -> list[str]:
        """The variables of an allocator, as NAME=VALUE."""
        kind, path, _, variables = used_as(self.summary, name)
        return use_variables(kind, path, variables, str(self.recorded.context.get("allocator_name") or ""))

    def measure(self, names: Sequence[str], limit_s: float, say: Say, still: Callable[[Mapping[str, Change]], set[str]]) -> None:
        """Measures these, the most promising first, as many as ROUNDS_MIN rounds fit into limit_s for. still: by the changes with the stricter
        intervals, those of which more rounds may matter."""
        able = [name for name in names if self.variables(name)] if self.is_possible else []
        begun = time.monotonic()
        first_s = self._once(self.summary.baseline) if able else 0.0
        if not able or self.refused:  # it ends as it likes
            self.refused.clear()
            return
        each_s = max(time.monotonic() - begun, 1e-3)
        able = able[:max(int(limit_s / each_s / ROUNDS_MIN) - 1, 0)]
        if able:
            say(able, f"for up to {limit_s:.0f} s")
        rounds, next_interim = 0, next_interim_after(0)
        while able and (rounds < ROUNDS_MIN or time.monotonic() - begun + each_s * (1 + len(able)) <= limit_s):
            base_s = self._once(self.summary.baseline) if rounds else first_s
            times = {name: self._once(name) for name in able if name not in self.refused}
            for name, cpu_s in (times | {self.summary.baseline: base_s}).items():
                self.cpu_s.setdefault(name, []).append(cpu_s)
            rounds += 1
            if rounds == next_interim:
                wanted = still(self.changes(INTERIM_CONFIDENCE))
                able, next_interim = [name for name in able if name in wanted], next_interim_after(rounds)
        self.refused.pop(self.summary.baseline, None)

    def prove(self, name: str, say: Say) -> bool:
        """Whether the program ends as it did under that, by one run where there was none. True where it cannot be run."""
        if self.is_possible and self.variables(name) and name not in self.cpu_s:
            say([name], "once")
            self._once(name)
        return name not in self.refused

    def _once(self, name: str) -> float:
        ended = run_once(self.command, self.variables(name), self.recorded.exit_status, self.position)
        if ended.why:
            self.refused[name] = ended.why
        return ended.cpu_s

    def changes(self, confidence: float = CONFIDENCE) -> dict[str, Change]:
        """By allocator, of the program's CPU time; none of those with fewer than ROUNDS_MIN rounds. Those that it was run under less
        often were in the first rounds."""
        base = self.cpu_s.get(self.summary.baseline, [])
        found = {}
        for name, times in self.cpu_s.items():
            if name == self.summary.baseline or name in self.refused or not ROUNDS_MIN <= len(times) <= len(base):
                continue
            interval = ratio_interval(paired_ratios(times, base[:len(times)]), confidence)
            ends = interval.low - 1, interval.high - 1
            found[name] = Change(CPU, median(base) * 1e9, interval.estimate - 1, *ends, *ends, runs=len(times))
        return found

    def missing(self, advised: Sequence[str]) -> list[str]:
        """What may end the program under these, where it was not run under them."""
        preloads = any(word.startswith("LD_PRELOAD=") for name in advised for word in self.variables(name))
        past = [Path(word).name for word in str(self.recorded.context.get("bypassed_by") or "").split(":") if word]
        if self.is_possible or not (preloads and past):
            return []
        more = f" and {len(past) - 1} more" if len(past) > 1 else ""
        return [f"{past[0]}{more} call libc's malloc whatever is preloaded (RTLD_DEEPBIND), which may end the program: run it once before you rely on this."]


def with_real(changes: Mapping[str, Mapping[str, Change]], real: Mapping[str, Change]) -> dict[str, dict[str, Change]]:
    """The program's own CPU time in place of that of the replayed calls."""
    return {name: {**figures, **({CPU: real[name]} if name in real else {})} for name, figures in changes.items()}
