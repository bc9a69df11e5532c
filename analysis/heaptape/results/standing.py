# SPDX-License-Identifier: Apache-2.0
"""The leader by a measure, and the allocators that do not clearly differ from it.

Every sentence about who is best, and what that would save, comes from here, so that none says as a fact what the verdicts
leave open, and no two contradict each other. The judge does the same sums on rounds (judge/text.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from .comparison import (
    RESAMPLES,
    SEED,
    UNRESOLVED,
    Estimate,
    Measure,
    control_estimate,
    estimate_ratio,
    paired_ratios,
    round_table,
    verdict,
    widen,
)


@dataclass(frozen=True)
class Standing:
    """`leader` is None where the baseline was not measured; `tied` are those that are not shown to be behind the leader, the
    leader itself not among them; `measured` all that have the figure, the baseline among them."""

    measure: Measure
    baseline: str
    leader: str | None
    tied: list[str]
    measured: list[str]
    rows: pd.DataFrame

    def row(self, allocator: str) -> pd.Series:
        """An allocator's row of the comparison with the baseline."""
        return self.rows.loc[allocator]


@dataclass(frozen=True)
class Lead:
    """What the leader has of what another one has, as a ratio; `shown` where it is shown to have less."""

    estimate: Estimate
    shown: bool


class Pairs:
    """Allocators against each other, round by round: two whose intervals to the baseline overlap may still clearly differ,
    as the baseline's own noise is in both."""

    def __init__(self, frame: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES) -> None:
        self._table = round_table(frame, measure)
        self._control = control_estimate(frame, measure, seed, resamples)
        self.measure, self._seed, self._resamples = measure, seed, resamples

    def compare(self, one: str, other: str) -> tuple[Estimate, str]:
        """The ratio, and the verdict by what it is widened to."""
        ratios = paired_ratios(self._table[one], self._table[other])
        estimate = estimate_ratio(ratios, self._seed, self._resamples)
        return estimate, verdict(widen(estimate, self._control), self.measure)


def standing_of(
    frame: pd.DataFrame, comparison: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES
) -> Standing:
    """Where some allocator's verdict is that it has less than the baseline, the leader is the one of these with the least
    ratio, by name where two have it; else it is the baseline. `frame` has all runs, the control's too; `comparison` is that of `compare`."""
    rows = comparison[comparison["measure"] == measure.name].set_index("allocator")
    baseline = str(comparison["baseline"].iloc[0]) if len(comparison) else ""
    measured = [str(name) for name in rows.index]
    if baseline not in measured:
        return Standing(measure, baseline, None, [], measured, rows)
    less = rows[rows["verdict"] == measure.less]
    leader = str(less["ratio"].sort_index().idxmin()) if len(less) else baseline
    tied = []
    pairs = None if leader == baseline else Pairs(frame, measure, seed, resamples)
    for name in measured:
        if name in (leader, baseline) or rows.loc[name, "verdict"] == measure.more:
            continue
        if pairs is None or pairs.compare(name, leader)[1] != measure.more:
            tied.append(name)
    return Standing(measure, baseline, leader, tied, measured, rows)


def lead_over(
    frame: pd.DataFrame, standing: Standing, other: str, seed: int = SEED, resamples: int = RESAMPLES
) -> Lead:
    """How far the leader is ahead of another allocator: not at all where that is not shown."""
    nothing = Lead(Estimate(1.0, math.nan, math.nan, 0), False)
    if standing.leader in (None, other) or other in standing.tied or other not in standing.measured:
        return nothing
    if other == standing.baseline:
        row = standing.row(str(standing.leader))
        estimate = Estimate(float(row["ratio"]), float(row["ci_low"]), float(row["ci_high"]), int(row["rounds"]))
        return Lead(estimate, row["verdict"] == standing.measure.less)
    estimate, words = Pairs(frame, standing.measure, seed, resamples).compare(str(standing.leader), other)
    return Lead(estimate, words == standing.measure.less) if words != UNRESOLVED else nothing
