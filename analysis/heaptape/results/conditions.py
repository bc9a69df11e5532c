# SPDX-License-Identifier: Apache-2.0
"""Conditions for scripts: `--fail-if 'time>1.05'`, in the grammar and with the meaning of `heaptape replay --fail-if`.

A condition holds where all of the interval that verdicts go by is beyond its limit, for any allocator but the baseline; it is
refuted where all of it is on the other side; else it is undecided."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base import units
from ..base.arguments import did_you_mean
from ..base.errors import UsageError
from ..judge.against import in_class, with_bounds
from ..judge.conditions import more_rounds
from ..judge.intervals import hidden_text, more_rounds_text
from ..judge.model import Interval
from .comparison import BASELINE, MEASURES
from .counted import COUNTED, FUNCTIONS, WHOLE, Part, counted_figure, counts_by_allocator
from .reader import NULL_ALLOCATOR
from .remarks import VERIFY

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GRAMMAR = re.compile(rf" *([^ <>=\[]*)(\[[^\]]*\])? *([<>]=?)? *({_NUMBER})? *(.*)", re.DOTALL)
_PART = re.compile(rf"\[({'|'.join(FUNCTIONS)})?(?::(\d{{1,18}}))?\]")


HOLDS, UNDECIDED, REFUTED = "holds", "undecided", "refuted"


@dataclass(frozen=True)
class Condition:
    """FIGURE OPERATOR NUMBER. `above` for > and >=, `inclusive` for >= and <=. `part`: which instructions."""

    text: str
    measure: str
    above: bool
    inclusive: bool
    limit: float
    part: Part = WHOLE

    @property
    def counted(self) -> bool:
        """Whether the figure is a count of the simulation, which is exact."""
        return self.measure in COUNTED

    @property
    def figure(self) -> str:
        """The figure as it stands in the text."""
        return self.text.strip().split("<")[0].split(">")[0].strip()

    @property
    def bounded(self) -> str:
        """The same, a size class by its bounds."""
        return with_bounds(self.figure)

    def outcome(self, low: float, high: float) -> str:
        """HOLDS, REFUTED or UNDECIDED by the ends of an interval; one that is not known decides nothing."""
        if not (math.isfinite(low) and math.isfinite(high)) or self._holds(low) != self._holds(high):
            return UNDECIDED
        return HOLDS if self._holds(low) else REFUTED

    def _holds(self, ratio: float) -> bool:
        if self.inclusive and ratio == self.limit:
            return True
        return ratio > self.limit if self.above else ratio < self.limit


def parse_condition(text: str) -> Condition:
    """Raises UsageError with what was expected."""
    found = _GRAMMAR.fullmatch(text)
    measure, brackets, operator, number, rest = found.groups() if found else ("", None, None, None, "")

    def bad(expected: str, meant: str = "") -> UsageError:
        return UsageError(f"--fail-if {text}: {expected}, such as time>1.05{meant}")

    if measure not in MEASURES and measure not in COUNTED:
        figures = (*MEASURES, *COUNTED)
        raise bad(f"expected one of {', '.join(figures)}", did_you_mean(measure or text, figures))
    part = _part(measure, brackets, bad) if brackets else WHOLE
    if operator is None:
        raise bad("expected one of > >= < <= after the figure")
    if number is None or rest or not (math.isfinite(float(number)) and float(number) > 0):
        raise bad("expected a ratio above 0 after the operator")
    return Condition(text, measure, operator[0] == ">", operator.endswith("="), float(number), part)


def _part(measure: str, brackets: str, bad: Callable[[str], UsageError]) -> Part:
    found = _PART.fullmatch(brackets)
    if measure != "instructions":
        raise bad("expected brackets after instructions only")
    if not found or brackets == "[]":
        raise bad(f"expected {', '.join(FUNCTIONS[:-1])} or {FUNCTIONS[-1]} in brackets, or a size in bytes after a colon, such as "
                  "instructions[malloc:64]>1.05")
    function, size = found.groups()
    return Part(function or "", None if size is None else int(size))


@dataclass(frozen=True)
class Judged:
    """What a condition comes to for one allocator, with the interval that its verdict goes by (NaN: none)."""

    condition: Condition
    allocator: str
    baseline: str
    ratio: float
    low: float
    high: float
    rounds: int
    value: float = math.nan
    base_value: float = math.nan

    @property
    def outcome(self) -> str:
        """HOLDS, REFUTED or UNDECIDED."""
        return self.condition.outcome(self.low, self.high)

    @property
    def not_counted(self) -> bool:
        """Whether a count is missing, the allocator's or the baseline's, as where its simulation failed."""
        return self.condition.counted and not math.isfinite(self.ratio) and not (math.isfinite(self.value) and math.isfinite(self.base_value))

    def sentence(self, trace: str) -> str:
        """The sentence that `replay` says, with the trace, as results may have many."""
        start = f"--fail-if {self.condition.text}: {'' if self.outcome == HOLDS else f'{self.outcome}: '}{self.allocator} "
        if self.condition.counted and not math.isfinite(self.ratio):
            against = f"is compared with {self.baseline}, which "
            if self.not_counted:
                return f"{start}{against if math.isfinite(self.value) else ''}was not counted in {trace}"
            return f"{start}{against}has none of it in {trace}"
        if self.condition.counted:
            counts = f": {self.value:.0f}, was {self.base_value:.0f}{in_class(self.condition.part.function, self.condition.part.size_bytes)}" if math.isfinite(self.value) else ""
            return f"{start}is at {self.ratio:.4f} of {self.baseline} in {trace}{counts}"
        if self.rounds == 0:
            return f"{start}has no round in {trace} in which it and {self.baseline} both have that figure, above 0"
        if not math.isfinite(self.low) and (self.rounds > 1 or not math.isfinite(self.ratio)):
            return f"{start}has no verdict in {trace}: {hidden_text(MEASURES[self.condition.measure].unit == 'ns')}"
        if not math.isfinite(self.low):
            rounds = "one round" if self.rounds == 1 else units.counted(self.rounds, "round")
            return f"{start}is at {self.ratio:.3f} of {self.baseline} in {rounds} of {trace}, which has no interval"
        start += f"is at {self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.baseline} in {trace}"
        if self.outcome != UNDECIDED:
            return start
        return f"{start}; {more_rounds_text(more_rounds(self.condition.limit, Interval(self.ratio, self.low, self.high, self.rounds)))}"


def judge(comparison: pd.DataFrame, conditions: list[Condition], runs: pd.DataFrame | None = None, baseline: str = "") -> list[Judged]:
    """Each condition for each allocator but the baseline, in the order given. Raises UsageError for a condition that nothing
    could meet: it would pass for ever. Counts are in the runs, of which the baseline's are compared with; an allocator that has
    runs and no count is undecided."""
    judged = []
    for condition in conditions:
        if condition.counted:
            judged += _judge_counts(condition, runs, baseline)
            continue
        rows = comparison[comparison["measure"] == condition.measure]
        expected = ""
        if comparison["allocator"].nunique() < 2:
            expected = "a baseline and another allocator in the results"
        elif rows.empty:
            expected = f"runs of the {MEASURES[condition.measure].pass_name} pass"
        elif set(rows["allocator"]) <= set(rows["baseline"]):
            expected = f"runs of another allocator than the baseline in the {MEASURES[condition.measure].pass_name} pass"
        if expected:
            raise UsageError(f"--fail-if {condition.text}: expected {expected}")
        for _, row in rows[rows["verdict"] != BASELINE].iterrows():
            judged.append(Judged(condition, str(row["allocator"]), str(row["baseline"]), float(row["ratio"]),
                                 float(row["verdict_low"]), float(row["verdict_high"]), int(row["rounds"])))
    return judged


def _judge_counts(condition: Condition, runs: pd.DataFrame | None, baseline: str) -> list[Judged]:
    counts: dict[str, dict[str, Any]] = {} if runs is None else counts_by_allocator(runs)
    # Of a simulation that failed there is no line, only those of the other passes.
    names = [] if runs is None else list(dict.fromkeys(runs["allocator"][runs["pass"] != VERIFY]))
    others = [name for name in names if name not in (baseline, NULL_ALLOCATOR)]
    values = {name: counted_figure(counts.get(name, {}), condition.measure, condition.part) for name in (*others, baseline)}
    expected = ""
    if not counts.keys() & values.keys() or not others:
        expected = "a baseline and another allocator that were counted (replay -o FILE --instructions, or --pass count)"
    elif not any(math.isfinite(value) for value in values.values()):
        expected = "lines of replay --pass count without --instructions"
    if expected:
        raise UsageError(f"--fail-if {condition.text}: expected {expected}")
    judged = []
    for name in others:
        ratio = values[name] / values[baseline] if values[baseline] > 0 else math.nan
        judged.append(Judged(condition, name, baseline, ratio, ratio, ratio, int(math.isfinite(ratio)), values[name], values[baseline]))
    return judged


def conditions_met(comparison: pd.DataFrame, conditions: list[Condition]) -> list[Judged]:
    """Those that hold."""
    return [item for item in judge(comparison, conditions) if item.outcome == HOLDS]


def judged_object(judged: list[Judged]) -> list[dict[str, object]]:
    """For --json: what each condition came to, and by whom."""
    listed: list[dict[str, object]] = []
    for condition in dict.fromkeys(item.condition for item in judged):
        names = {outcome: [item.allocator for item in judged if item.condition == condition and item.outcome == outcome]
                 for outcome in (HOLDS, UNDECIDED)}
        outcome = next((outcome for outcome, found in names.items() if found), REFUTED)
        listed.append({"condition": condition.text, "outcome": outcome, "met_by": names[HOLDS], "undecided": names[UNDECIDED]})
    return listed
