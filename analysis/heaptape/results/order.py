# SPDX-License-Identifier: Apache-2.0
"""Whether ratios rise or fall over the rounds: then rounds do not repeat one thing, and intervals are too narrow."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import listing
from .comparison import MEASURES, paired_ratios, round_table

ROUNDS_MIN = 8
CHANCE = 0.05
"""Of finding any where the order means nothing: each test has its share of it (Bonferroni)."""


@dataclass(frozen=True)
class Trend:
    """Spearman's rank correlation of an allocator's ratios with the number of their round, and how likely one as strong is
    where the order means nothing."""

    measure: str
    allocator: str
    rounds: int
    correlation: float
    p: float


def find_trends(frame: pd.DataFrame, baseline: str) -> list[Trend]:
    """Those that chance does not explain."""
    tested = []
    for name in ("time", "rss_peak"):
        table = round_table(frame, MEASURES[name])
        others = [allocator for allocator in table if allocator != baseline and baseline in table]
        found = (_trend(name, str(allocator), table[[allocator, baseline]]) for allocator in others)
        tested += [trend for trend in found if trend]
    return [trend for trend in tested if trend.p * len(tested) < CHANCE]


def _trend(measure: str, allocator: str, pairs: pd.DataFrame) -> Trend | None:
    """None where there are too few rounds, or all ratios are equal. Ranks are those within one schedule of rounds. By chance a
    correlation of n ranks has a variance of 1 / (n - 1)."""
    rounds, weight, weighted = 0, 0, 0.0
    for _, schedule in pairs.groupby(level=["seed", "repeat"], sort=False):
        ratios = paired_ratios(schedule.iloc[:, 0], schedule.iloc[:, 1])
        ratios = ratios[~np.isnan(ratios)]
        rounds += ratios.size
        if np.unique(ratios).size < 2:
            continue
        weight += ratios.size - 1
        weighted += (ratios.size - 1) * float(np.corrcoef(pd.Series(ratios).rank(), np.arange(ratios.size))[0, 1])
    if rounds < ROUNDS_MIN or weight == 0:
        return None
    return Trend(measure, allocator, rounds, weighted / weight, math.erfc(abs(weighted) / math.sqrt(2 * weight)))


def order_line(trends: list[Trend]) -> str:
    """One sentence, or ""."""
    moved = [f"the {MEASURES[trend.measure].title} of {trend.allocator} {'rises' if trend.correlation > 0 else 'falls'} "
             f"(rank correlation {trend.correlation:.2f}, p {trend.p:.1g})" for trend in trends]
    return f"Over the rounds {listing(moved)}: intervals are too narrow. Replay again on a quieter machine." if moved else ""
