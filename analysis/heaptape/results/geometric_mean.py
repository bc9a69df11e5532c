# SPDX-License-Identifier: Apache-2.0
"""The geometric mean of ratios over traces.

It gives each program the same say, whatever its size. Its interval is a bootstrap that draws rounds anew within each trace
and leaves the traces as they are: it says what measuring these traces again might show, and nothing of other programs.
"""

from __future__ import annotations

import math

import numpy as np

from ..judge.intervals import BOOTSTRAP_ROUNDS_MIN, CONFIDENCE, bootstrap_medians
from .comparison import RESAMPLES, SEED, Floats

INTERVAL_MEANS = ("[95 % intervals] are for measuring these traces again; they do not hold for other programs")


def geometric_mean(ratios: list[Floats], seed: int = SEED, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Geometric mean over traces of the median paired ratio, with its 95 % interval: rounds are resampled within each
    trace. `ratios` has an array of shape (rounds,) for each trace. No interval (NaN) where a trace has fewer rounds than
    can be resampled."""
    known = [np.sort(values[np.isfinite(values) & (values > 0)]) for values in ratios]
    if not known or any(values.size == 0 for values in known):
        return math.nan, math.nan, math.nan
    middle = math.exp(sum(math.log(np.median(values)) for values in known) / len(known))
    if any(values.size < BOOTSTRAP_ROUNDS_MIN for values in known):
        return middle, math.nan, math.nan
    total = np.zeros(resamples)
    for number, values in enumerate(known):
        # A sequence of its own for each trace: with the same one, all would draw the same ranks.
        total += np.log(bootstrap_medians(values, resamples, seed + 7919 * (number + 1)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(total / len(known), [tail, 1 - tail]))
    return middle, min(float(low), middle), max(float(high), middle)
