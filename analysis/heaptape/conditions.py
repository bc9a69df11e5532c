"""Conditions for scripts: `--fail-if 'time>1.05'`, in the grammar and with the meaning of `replay --fail-if`.

A condition is met where all of the interval that verdicts go by is beyond its limit, for any allocator but the baseline.
What is unresolved meets nothing."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pandas as pd

from .comparison import BASELINE, MEASURES
from .errors import UsageError

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GRAMMAR = re.compile(rf" *([^ <>=]*) *([<>]=?)? *({_NUMBER})? *(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """FIGURE OPERATOR NUMBER. `above` for > and >=, `inclusive` for >= and <=."""

    text: str
    measure: str
    above: bool
    inclusive: bool
    limit: float

    def is_met(self, low: float, high: float) -> bool:
        """Whether both ends of an interval are beyond the limit; an interval that is not known is not."""
        return math.isfinite(low) and math.isfinite(high) and self._holds(low) and self._holds(high)

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
        raise bad(f"one of {', '.join(MEASURES)} expected")
    if operator is None:
        raise bad("one of > >= < <= expected after the figure")
    if number is None or rest or not (math.isfinite(float(number)) and float(number) > 0):
        raise bad("a ratio above 0 expected after the operator")
    return Condition(text, measure, operator[0] == ">", operator.endswith("="), float(number))


@dataclass(frozen=True)
class Met:
    """An allocator that meets a condition, with the interval that its verdict goes by."""

    condition: Condition
    allocator: str
    baseline: str
    ratio: float
    low: float
    high: float

    def sentence(self) -> str:
        """As `replay` says it."""
        return (f"--fail-if {self.condition.text}: {self.allocator} is at {self.ratio:.3f} "
                f"[{self.low:.3f}, {self.high:.3f}] of {self.baseline}")


def conditions_met(comparison: pd.DataFrame, conditions: list[Condition]) -> list[Met]:
    """Who meets which condition, in the order given. Raises UsageError for a condition that nothing could meet: it would
    pass for ever."""
    met = []
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
            raise UsageError(f"--fail-if {condition.text}: {expected} expected, for there is nothing to judge otherwise")
        for _, row in rows[rows["verdict"] != BASELINE].iterrows():
            if condition.is_met(row["verdict_low"], row["verdict_high"]):
                met.append(Met(condition, str(row["allocator"]), str(row["baseline"]), float(row["ratio"]),
                               float(row["verdict_low"]), float(row["verdict_high"])))
    return met
