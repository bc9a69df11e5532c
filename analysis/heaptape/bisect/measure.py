# SPDX-License-Identifier: Apache-2.0
"""One commit: built, and replayed beside the good one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import (
    EXIT_BAD_INPUT,
    EXIT_HOLDS,
    EXIT_UNDECIDED,
    EXIT_USAGE,
    HeaptapeError,
    UsageError,
)
from ..base.programs import ToolFailed, as_ours, run_tool
from ..judge import attached
from ..judge.against import against
from ..judge.model import Comparison
from ..results.conditions import Condition
from .history import Commit, History

GOOD, BAD, SKIP = "good", "bad", "skip"
_BASE, _HERE = "good", "commit"
_OUTCOMES = {0: GOOD, EXIT_HOLDS: BAD, EXIT_UNDECIDED: SKIP}


@dataclass(frozen=True)
class Figure:
    """One condition's figure on one trace, as a ratio to the good commit (NaN: not known)."""

    trace: str
    figure: str
    value: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Tested:
    """What a commit came to, with the reason where it was skipped."""

    commit: Commit
    outcome: str
    why: str = ""
    figures: list[Figure] = field(default_factory=list)


def passes(conditions: list[Condition]) -> list[str]:
    """The options of replay that measure what the conditions ask for, and no more. Raises UsageError where no single run does."""
    counts = [condition.measure for condition in conditions if condition.counted]
    misses = any(measure not in ("instructions", "mapping_calls") for measure in counts)
    timed = any(condition.measure == "time" for condition in conditions)
    memory = any(not condition.counted and condition.measure != "time" for condition in conditions)
    if misses and (timed or memory):
        raise UsageError("--fail-if: faults and misses take --pass count, which measures neither time nor memory: expected them alone, or with "
                         "instructions")
    if not timed and not memory:
        return ["--pass=count"] if misses else ["--pass=count", "--instructions"]
    return [f"--pass={'both' if timed and memory else 'time' if timed else 'memory'}", *(["--instructions"] if counts else [])]


class Bench:
    """Builds commits and replays the traces."""

    def __init__(self, replay: str, history: History, options: Any, conditions: list[Condition]) -> None:
        self._replay, self._history, self._options, self._conditions = replay, history, options, conditions
        self._passes = passes(conditions)
        library = Path(options.alloc)
        if library.is_absolute() or ".." in library.parts or not library.parts:  # it is removed before each build
            raise UsageError(f"--alloc {options.alloc}: expected a path within the work tree, such as build/lib.so")
        self._traces = [Path(trace).absolute() for trace in options.traces]
        # Names that --alloc takes, whatever the library's is.
        self._kept, self._copied = history.folder / "good.so", history.folder / "commit.so"
        self._said = history.folder / "build.txt"

    def keep_good(self, commit: Commit) -> None:
        """Builds the commit that others are compared with. Raises HeaptapeError where that fails."""
        self._history.check_out(commit, self._options.clean)
        why = self._build()
        if why:
            raise HeaptapeError(f"the good commit {commit}: {why}")
        shutil.copy(self._copied, self._kept)

    @property
    def _library(self) -> Path:
        return self._history.tree / str(self._options.alloc)

    def _build(self) -> str:
        """Why it failed, or nothing. What an earlier commit has left is no library of this one."""
        folder = self._library.parent.resolve()
        if not folder.is_relative_to(self._history.tree.resolve()):
            return f"--alloc {self._options.alloc}: expected a path within the work tree, found {folder}"
        try:
            self._library.unlink(missing_ok=True)
            # Not into a pipe, which a process that the build leaves behind would hold open.
            run_tool(["sh", "-c", 'cd "$0" && eval "$1" >"$2" 2>&1', str(self._history.tree), self._options.build, str(self._said)],
                     env=self._history.environment, group=True)
        except OSError as error:
            return f"--alloc {self._options.alloc}: {error.strerror}"
        except ToolFailed as error:
            lines = self._said.read_text(errors="replace").split("\n") if self._said.exists() else []
            return f"the build failed: {next((line for line in reversed(lines) if line.strip()), error)}"
        if not self._library.is_file():
            return f"the build left no {self._options.alloc}"
        shutil.copy(self._library, self._copied)
        return ""

    def test(self, commit: Commit) -> Tested:
        """The commit, which is checked out first."""
        self._history.check_out(commit, self._options.clean)
        why = self._build()
        if why:
            return Tested(commit, SKIP, why)
        outcomes, figures = [], []
        for trace in self._traces:
            try:
                outcome, found = self._of_trace(trace)
            except ToolFailed as error:
                return Tested(commit, SKIP, f"{trace.name}: {error}")
            outcomes.append(outcome)
            figures += found
        if BAD in outcomes or SKIP not in outcomes:
            return Tested(commit, BAD if BAD in outcomes else GOOD, "", figures)
        return Tested(commit, SKIP, "a condition stayed undecided", figures)

    def _of_trace(self, trace: Path) -> tuple[str, list[Figure]]:
        """What the status says of the conditions. Raises ToolFailed where the run failed, and another HeaptapeError where no commit can
        help."""
        replayed = attached.replay([
            self._replay, f"--alloc={_BASE}={self._kept},{_HERE}={self._copied}", f"--baseline={_BASE}", "-q", *self._passes,
            *(["--rounds", self._options.rounds] if "--pass=count" not in self._passes else []),
            *(f"--fail-if={condition.text}" for condition in self._conditions), "--", str(trace)])
        if replayed.status in _OUTCOMES:
            return _OUTCOMES[replayed.status], self._figures(trace, replayed.compared())
        error = ToolFailed(replayed.said, replayed.status)
        raise as_ours(error) if error.exit_status in (EXIT_USAGE, EXIT_BAD_INPUT) else error

    def _figures(self, trace: Path, comparison: Comparison) -> list[Figure]:
        here = comparison.names.index(_HERE)
        found = [against(comparison, condition, here) for condition in comparison.context.conditions]
        return [Figure(trace.name, condition.figure, item.now, item.ratio.estimate, item.widened.low, item.widened.high)
                for condition, item in zip(self._conditions, found, strict=True)]
