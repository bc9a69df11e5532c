# SPDX-License-Identifier: Apache-2.0
"""heaptape bisect: the replay of one commit, and the first commit at which a condition holds, with the figures on both sides."""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
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
from ..base.programs import ToolFailed, as_ours, find_replay, run_tool
from ..base.text import printable, table_lines
from ..base.units import interval, with_nulls
from ..judge import attached
from ..judge.against import against
from ..judge.model import Comparison
from ..results.conditions import Condition, parse_condition
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
    """How a commit was tested, with the reason if it was skipped."""

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
        """Reads off the status how the conditions came out. Raises ToolFailed where the run failed, and another HeaptapeError where no commit can
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


class _Search:
    """The commits that have been tested, each once."""

    def __init__(self, history: History, bench: Bench, quiet: bool) -> None:
        self._history, self._bench, self._quiet = history, bench, quiet
        self.tested: dict[str, Tested] = {}

    def test(self, commit: Commit) -> Tested:
        """The commit, which is checked out first."""
        if commit.sha not in self.tested:
            self.tested[commit.sha] = self._bench.test(commit)
            self._say(self.tested[commit.sha])
        return self.tested[commit.sha]

    def _say(self, tested: Tested) -> None:
        why = f" ({tested.why})" if tested.why else "".join(f", {one.figure} {one.ratio:.4f}" for one in tested.figures)
        if not self._quiet:
            print(f"heaptape bisect: {tested.outcome}: {printable(str(tested.commit))}{printable(why)}", file=sys.stderr, flush=True)

    def ends(self, good: Commit, bad: Commit) -> None:
        """Raises HeaptapeError where they do not differ as they should."""
        for commit, expected in ((good, GOOD), (bad, BAD)):
            tested = self.test(commit)
            if tested.outcome != expected:
                said = f": {tested.why}" if tested.why else "".join(f", {one.figure} {one.ratio:.4f}" for one in tested.figures)
                raise HeaptapeError(f"--{expected} {commit}: expected it to be {expected}, found {tested.outcome}{said}")

    def first_bad(self) -> Commit | None:
        """None where only skipped commits are left."""
        while (found := self._history.first_bad()) is None:
            here = self._history.here()
            self._history.mark(self.test(here).outcome)
            # git says so after the last test, whatever that found.
            if self._history.first_bad() is None and self._history.possible():
                return None
        return found


def _value_text(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "n/a"


def _ratio_text(figure: Figure) -> str:
    return f"{figure.ratio:.4f} {interval(figure.low, figure.high) if figure.low != figure.high else ''}".strip()


def _before_text(before: Tested | None) -> str:
    if before is None:
        return "nothing, it has no parent"
    return f"{printable(str(before.commit))}{f' ({before.outcome}: {printable(before.why)})' if before.outcome == SKIP else ''}"


def _print(first: Tested, before: Tested | None, good: Commit) -> None:
    print(f"first bad commit: {printable(str(first.commit))}")
    print(f"before it: {_before_text(before)}")
    print(f"ratios are to the good commit, {printable(str(good))}\n")
    earlier = {(one.trace, one.figure): one for one in (before.figures if before else [])}
    rows = [["trace", "figure", "before it", "ratio", "at it", "ratio"]]
    for one in first.figures:
        was = earlier.get((one.trace, one.figure))
        rows.append([printable(one.trace), one.figure, _value_text(was.value) if was else "n/a", _ratio_text(was) if was else "n/a",
                     _value_text(one.value), _ratio_text(one)])
    print("\n".join(table_lines(rows, right={2, 4})))


def _tested_object(tested: Tested) -> dict[str, Any]:
    figures = [with_nulls({"trace": one.trace, "figure": one.figure, "value": one.value, "ratio": one.ratio, "verdict_low": one.low,
                           "verdict_high": one.high}) for one in tested.figures]
    return {"commit": tested.commit.sha, "subject": tested.commit.subject, "outcome": tested.outcome, "why": tested.why, "figures": figures}


def _print_json(good: Commit, search: _Search, first: Tested | None, before: Tested | None, possible: list[Commit]) -> None:
    print(json.dumps({"good": good.sha, "first_bad": _tested_object(first) if first else None, "before": _tested_object(before) if before else None,
                      "possible": [commit.sha for commit in possible], "tested": [_tested_object(one) for one in search.tested.values()]}, indent=1))


def run_bisect(options: argparse.Namespace) -> int:
    """heaptape bisect"""
    conditions = [parse_condition(text) for text in options.fail_if]
    with History() as history:
        for left in history.swept:
            print(f"heaptape bisect: removed {printable(str(left))}, which a search that was killed had left", file=sys.stderr, flush=True)
        bench = Bench(find_replay(), history, options, conditions)
        good, bad = history.commit(options.good), history.commit(options.bad)
        history.check_order(good, bad)
        search = _Search(history, bench, options.quiet)
        bench.keep_good(good)
        search.ends(good, bad)
        history.start(good, bad)
        found = search.first_bad()
        if found is None:
            possible = history.possible()
            if options.json:
                _print_json(good, search, None, None, possible)
            else:
                print("only skipped commits are left; the first bad one is among:\n" + "\n".join(printable(str(commit)) for commit in possible))
            return EXIT_UNDECIDED
        parent = history.parent(found)
        first, before = search.test(found), search.test(parent) if parent else None
        if options.json:
            _print_json(good, search, first, before, [])
        else:
            _print(first, before, good)
    return 0
