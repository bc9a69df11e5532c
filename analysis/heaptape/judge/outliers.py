# SPDX-License-Identifier: Apache-2.0
"""Runs that stand out from the others of their allocator: flagged, never left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .intervals import median

SCORE_MAX = 3.5
_MAD_OF_NORMAL, _MEAN_DEVIATION_OF_NORMAL = 0.6745, 1.253314


def outliers(values: Sequence[float]) -> list[int]:
    """Where values have a modified z-score above 3.5 (Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993, section
    3.3): 0.6745 times the distance from the median in median absolute deviations, or, where that is 0, the distance over
    1.2533 mean absolute deviations. NaN is no value."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return []
    middle = median(known)
    distances = [abs(value - middle) for value in known]
    deviation = median(distances) / _MAD_OF_NORMAL
    if deviation == 0:
        deviation = sum(distances) / len(known) * _MEAN_DEVIATION_OF_NORMAL
    if not deviation > 0:
        return []
    return [number for number, value in enumerate(values) if abs(value - middle) / deviation > SCORE_MAX]
