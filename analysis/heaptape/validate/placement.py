# SPDX-License-Identifier: Apache-2.0
"""What the recorded accesses of a program say of its time under each allocator: its accesses at the addresses that the allocator
gives, simulated (docs/method/method.md). That is what a replay of calls alone lacks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.errors import EXIT_BAD_INPUT, BadTrace, HeaptapeError
from ..base.files import sha256_of
from ..base.programs import ToolFailed
from ..base.recorded_trace import RecordedTrace, convert_log
from ..base.units import counted
from ..judge import attached
from .observed_run import ObservedRun
from .program import Program
from .recording import Recording, last_line

LOGS_MAX = 50
"""So many recordings of accesses, the largest, are read."""

_SLOWDOWN = 100.0
_LIMIT_S = 60.0
_WHOLE_S = 0.5
"""All accesses are recorded of programs that run no longer, a sample of others; and all if a sample has too few bursts, as
of a program that waits, or on a slow machine."""


@dataclass(frozen=True)
class ModelledChange:
    """The change of the program's time, as a share of that under the baseline, with its interval of some 90 %."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Placement:
    """By allocator the change; and what is to be said of the recording."""

    changes: dict[str, ModelledChange]
    sampled: bool
    warnings: list[str]


@dataclass(frozen=True)
class AccessRuns:
    """The program once under simulation, and its replays."""

    heaptape: str
    replay: str
    alloc: str
    baseline: str
    program: Program
    recording: Recording
    folder: Path
    limit_s: float | None
    step: Callable[[str], None]

    def run(self) -> Placement:
        """Raises HeaptapeError where accesses cannot be recorded or replayed."""
        if self.recording.conduct.wall_s > _WHOLE_S:
            try:
                return self._run_once(sampled=True)
            except BadTrace:
                pass
        return self._run_once(sampled=False)

    def _run_once(self, sampled: bool) -> Placement:
        logs = Path(tempfile.mkdtemp(prefix="accesses-", dir=self.folder))
        try:
            self.step(f"recording {'the' if sampled else 'all of the'} program's accesses")
            same_output = self._record(logs, sampled)
            accesses, found = self._choose(logs)
            self.step("simulating the replays with the program's accesses")
            changes = self._replay(accesses, found.trace)
        finally:
            shutil.rmtree(logs, ignore_errors=True)
        return Placement(changes, sampled, self._warnings(found, same_output))

    def _record(self, logs: Path, sampled: bool) -> bool:
        """Whether the program printed what it did when its calls were recorded."""
        out, said = self.folder / "accesses.out", self.folder / "accesses.err"
        prefix = [self.heaptape, "record", "--accesses", *(["--sampled"] if sampled else []), "-o", str(logs), "--"]
        limit_s = 10 * _SLOWDOWN * self.recording.conduct.wall_s + _LIMIT_S if self.limit_s is None else self.limit_s
        slow = replace(self.program, slowdown=_SLOWDOWN)
        with ObservedRun(slow.start(self.program.environment, out, said, prefix)) as run:
            conduct = slow.conduct(run, self.folder, limit_s, "recording the program's accesses")
        if conduct.exit_status != self.recording.conduct.exit_status:
            raise HeaptapeError(f"recording accesses it ended with status {conduct.exit_status}, not with "
                                f"{self.recording.conduct.exit_status}: {last_line(said.read_text(errors='replace'))}")
        return sha256_of(out) == self.recording.conduct.stdout_sha256

    def _choose(self, logs: Path) -> tuple[Path, RecordedTrace]:
        """The file of the process with the recorded command, else the largest one."""
        files = sorted(logs.glob("*.acc"), key=lambda path: (-path.stat().st_size, path))[:LOGS_MAX]
        if not files:
            raise HeaptapeError("no accesses were recorded")
        command = self.recording.context.get("command")
        for accesses in files:
            found = convert_log(self.heaptape, accesses, self.folder / "accesses.bin")
            if found.context.get("command") == command:
                return accesses, found
        return files[0], convert_log(self.heaptape, files[0], self.folder / "accesses.bin")

    def _replay(self, accesses: Path, trace: Path) -> dict[str, ModelledChange]:
        replayed = attached.replay([self.replay, "-q", "--pass", "count", "--alloc", self.alloc, "--baseline", self.baseline,
                                    "--splice", str(accesses), "--", str(trace)])
        try:
            counts = replayed.compared().measurements.counts or {}
        except ToolFailed as error:
            kind = BadTrace if error.exit_status == EXIT_BAD_INPUT else HeaptapeError
            raise kind(f"in the replay with accesses: {error}") from error
        times = {name: found["program_time"] for name, found in counts.items() if found.get("program_time")}
        if self.baseline not in times:
            raise HeaptapeError(f"in the replay with accesses: {self.baseline} has no program time")
        return {name: ModelledChange(time["ratio"] - 1, time["ratio_low"] - 1, time["ratio_high"] - 1)
                for name, time in times.items() if name != self.baseline}

    def _warnings(self, found: RecordedTrace, same_output: bool) -> list[str]:
        calls, expected = int(found.info["events"]), int(self.recording.info["events"])
        said = []
        if expected and abs(calls - expected) > 0.01 * expected:
            said.append(f"with accesses were recorded {counted(calls, 'call')}, without them {expected:,}")
        if not same_output and not self.program.server:
            said.append("with accesses recorded the program's output differs")
        return said
