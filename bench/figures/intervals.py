# SPDX-License-Identifier: Apache-2.0
"""Medians with intervals that assume no distribution."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A median and its 95 % interval."""

    median: float
    low: float
    high: float


def median_interval(values: Sequence[float]) -> Estimate:
    """The order statistics that bracket the median with 95 % (binomial; Conover 1999, 3.2).

    With fewer than six values there are none that do: then the interval is their range.
    """
    ordered, n = sorted(values), len(values)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    low, high = ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]
    return Estimate(statistics.median(ordered), low, high)


def ratio_of_medians(above: Sequence[float], below: Sequence[float], seed: int,
                     resamples: int = 2000) -> Estimate | None:
    """Median of one series over the median of another that was measured in the same rounds.

    The interval is a percentile bootstrap that draws whole rounds, so that what disturbed both
    stays paired. None where the medians below are not all positive: such a ratio says nothing.
    """
    rng = random.Random(seed)
    rounds = range(len(above))
    ratios = []
    for _ in range(resamples):
        drawn = rng.choices(rounds, k=len(rounds))
        denominator = statistics.median([below[i] for i in drawn])
        if denominator <= 0:
            return None
        ratios.append(statistics.median([above[i] for i in drawn]) / denominator)
    ratios.sort()
    tail = round(0.025 * (resamples - 1))
    ratio = statistics.median(above) / statistics.median(below)
    return Estimate(ratio, ratios[tail], ratios[-1 - tail])
