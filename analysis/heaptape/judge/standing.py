# SPDX-License-Identifier: Apache-2.0
"""The leader by a figure, and the allocators that do not clearly differ from it.

Every sentence about who is best, and what that would save, comes from here, so that none says as a fact what the verdicts
leave open, and no two contradict each other. results/standing.py does the same sums on results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .comparison import compare_pair
from .model import LESS, MORE, NONE, Comparison, Estimate, FigureWords, Interval


@dataclass(frozen=True)
class Standing:
    """leader: None where the baseline was not measured; tied: measured, and not shown to be behind the leader, who is never
    among them."""

    leader: int | None
    tied: list[int] = field(default_factory=list)


def standing_of(comparison: Comparison, words: FigureWords) -> Standing:
    """Where some allocator's verdict is that it has less than the baseline, the leader is the one of these with the least
    ratio, by name where two have it; else it is the baseline."""
    baseline = comparison.context.baseline
    if baseline >= len(comparison.allocators) or not _measured(comparison, words, baseline):
        return Standing(None)
    leader = _leader(comparison, words)
    tied = [number for number in range(len(comparison.allocators))
            if number not in (leader, baseline) and _measured(comparison, words, number)
            and _estimate(comparison, words, number).verdict != MORE
            and _against(comparison, words, number, leader).verdict != MORE]
    return Standing(leader, tied)


def lead(comparison: Comparison, words: FigureWords, standing: Standing, over: int) -> Estimate:
    """What the leader has of what another one has, as a ratio. Its verdict is LESS where it is shown to have less, and says so
    only where the standing agrees."""
    if standing.leader is None or standing.leader == over or over in standing.tied:
        nothing = Interval(1, math.nan, math.nan, 0)
        return Estimate(math.nan, math.nan, nothing, nothing, NONE, math.nan, [])
    return _against(comparison, words, standing.leader, over)


def _against(comparison: Comparison, words: FigureWords, choice: int, other: int) -> Estimate:
    """One allocator against another: as the table has it where the other is the baseline."""
    if other == comparison.context.baseline:
        return _estimate(comparison, words, choice)
    return compare_pair(comparison, words, choice, other)


def _estimate(comparison: Comparison, words: FigureWords, choice: int) -> Estimate:
    return comparison.allocators[choice].estimates[words.name]


def _measured(comparison: Comparison, words: FigureWords, choice: int) -> bool:
    return not math.isnan(_estimate(comparison, words, choice).median)


def _leader(comparison: Comparison, words: FigureWords) -> int:
    """By name where ratios are equal: results, which have their leader from results/standing.py, have no other order."""
    less = [number for number in range(len(comparison.allocators)) if _estimate(comparison, words, number).verdict == LESS]
    return min(less, key=lambda number: (_estimate(comparison, words, number).ratio.estimate, comparison.names[number]),
               default=comparison.context.baseline)
