"""Conditions for scripts: `--fail-if 'time>1.05'`, in the grammar and with the meaning of `heaptape replay --fail-if`.

A condition holds where all of the interval that verdicts go by is beyond its limit, for any allocator but the baseline; it is
refuted where all of it is on the other side; else it is undecided."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pandas as pd

from ..base.errors import UsageError
from .comparison import BASELINE, MEASURES
from .verdicts import rounds_needed

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GRAMMAR = re.compile(rf" *([^ <>=]*) *([<>]=?)? *({_NUMBER})? *(.*)", re.DOTALL)


HOLDS, UNDECIDED, REFUTED = "holds", "undecided", "refuted"


@dataclass(frozen=True)
class Condition:
    """FIGURE OPERATOR NUMBER. `above` for > and >=, `inclusive` for >= and <=."""

    text: str
    measure: str
    above: bool
    inclusive: bool
    limit: float

    def outcome(self, low: float, high: float) -> str:
        """HOLDS, REFUTED or UNDECIDED by the ends of an interval; one that is not known decides nothing."""
        if not (math.isfinite(low) and math.isfinite(high)) or self._holds(low) != self._holds(high):
            return UNDECIDED
        return HOLDS if self._holds(low) else REFUTED

    def more_rounds(self, ratio: float, low: float, high: float, rounds: int) -> float:
        """About how many more would decide it, as intervals shrink with the root of the rounds; infinite where the ratio is
        the limit itself."""
        distance = abs(math.log(ratio) - math.log(self.limit))
        half = (math.log(high) - math.log(low)) / 2
        return max(1.0, math.ceil(rounds * (half / distance) ** 2 - rounds)) if distance > 0 else math.inf

    def _holds(self, ratio: float) -> bool:
        if self.inclusive and ratio == self.limit:
            return True
        return ratio > self.limit if self.above else ratio < self.limit


def parse_condition(text: str) -> Condition:
    """Raises UsageError with what was expected."""
    found = _GRAMMAR.fullmatch(text)
    measure, operator, number, rest = found.groups() if found else ("", None, None, "")

    def bad(expected: str) -> UsageError:
        return UsageError(f"--fail-if {text}: {expected}, such as time>1.05")

    if measure not in MEASURES:
        raise bad(f"expected one of {', '.join(MEASURES)}")
    if operator is None:
        raise bad("expected one of > >= < <= after the figure")
    if number is None or rest or not (math.isfinite(float(number)) and float(number) > 0):
        raise bad("expected a ratio above 0 after the operator")
    return Condition(text, measure, operator[0] == ">", operator.endswith("="), float(number))


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

    @property
    def outcome(self) -> str:
        """HOLDS, REFUTED or UNDECIDED."""
        return self.condition.outcome(self.low, self.high)

    def sentence(self, trace: str) -> str:
        """As `replay` says it, with the trace, of which results may have many."""
        start = f"--fail-if {self.condition.text}: {'' if self.outcome == HOLDS else f'{self.outcome}: '}{self.allocator} "
        if self.rounds == 0:
            return f"{start}has no round in common with {self.baseline} in {trace}"
        if not math.isfinite(self.low):
            return f"{start}is at {self.ratio:.3f} of {self.baseline} in one round of {trace}, which has no interval"
        start += f"is at {self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}] of {self.baseline} in {trace}"
        if self.outcome != UNDECIDED:
            return start
        return f"{start}; {rounds_needed(self.condition.more_rounds(self.ratio, self.low, self.high, self.rounds))}"


def judge(comparison: pd.DataFrame, conditions: list[Condition]) -> list[Judged]:
    """Each condition for each allocator but the baseline, in the order given. Raises UsageError for a condition that nothing
    could meet: it would pass for ever."""
    judged = []
    for condition in conditions:
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
