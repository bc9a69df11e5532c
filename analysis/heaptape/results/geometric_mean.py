# SPDX-License-Identifier: Apache-2.0
"""The geometric mean of ratios over traces.

It gives each program the same say, whatever its size. Its interval leaves the traces as they are: it says what measuring
these traces again might show, and nothing of other programs.
"""

from __future__ import annotations

import math

import numpy as np

from ..judge.intervals import (
    BOOTSTRAP_ROUNDS_MIN,
    CONFIDENCE,
    bootstrap_medians,
    student_interval_of_samples,
)
from ..judge.model import HIDDEN_SHARE
from .comparison import RESAMPLES, SEED, Floats, estimate_ratio

INTERVAL_MEANS = ("[95 % intervals] are for measuring these traces again; they do not hold for other programs")


def is_hidden(ratios: Floats) -> bool:
    """Whether there is no verdict on them, as the harness hides too many, or all that there are."""
    known = np.isfinite(ratios) & (ratios > 0)
    return not known.any() or float((~known).mean()) >= HIDDEN_SHARE


def _within_bounds(ratios: Floats) -> Floats:
    """Sorted. What is hidden is as good as the least or greatest of the others: it is too seldom to be a median."""
    found = np.sort(ratios[~np.isnan(ratios)])
    known = found[np.isfinite(found) & (found > 0)]
    return np.clip(found, known[0], known[-1])


def geometric_mean(ratios: list[Floats], seed: int = SEED, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Geometric mean over traces of the median paired ratio, with its 95 % interval: a bootstrap that draws rounds anew within
    each trace, never narrower than what any trace alone leaves uncertain; Student's t on the logarithms where a trace has fewer
    rounds than can be resampled. `ratios` has an array of shape (rounds,), as paired_ratios gives it, for each trace. No interval
    (NaN) where a trace has one round, nothing where the harness hides one."""
    if not ratios or any(is_hidden(values) for values in ratios):
        return math.nan, math.nan, math.nan
    known = [_within_bounds(values) for values in ratios]
    alone = [estimate_ratio(values, seed, resamples) for values in known]
    if len(known) == 1:
        return alone[0].ratio, alone[0].ci_low, alone[0].ci_high
    middle = math.exp(sum(math.log(np.median(values)) for values in known) / len(known))
    if any(values.size < 2 for values in known):
        return middle, math.nan, math.nan
    if any(values.size < BOOTSTRAP_ROUNDS_MIN for values in known):
        low, high = map(math.exp, student_interval_of_samples([np.log(values).tolist() for values in known]))
        return middle, min(low, middle), max(high, middle)
    total = np.zeros(resamples)
    for number, values in enumerate(known):
        # A sequence of its own for each trace: with the same one, all would draw the same ranks.
        total += np.log(bootstrap_medians(values, resamples, seed + 7919 * (number + 1)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(total / len(known), [tail, 1 - tail]))
    # Resampled medians of few rounds fall on few points. Those of other traces fill the gaps, but for a trace that varies most.
    below, above = (max(abs(math.log(end / one.ratio)) for one, end in zip(alone, ends, strict=True)) / len(known)
                    for ends in ([one.ci_low for one in alone], [one.ci_high for one in alone]))
    return middle, min(float(low), middle * math.exp(-below)), max(float(high), middle * math.exp(above))
