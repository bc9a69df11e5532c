# SPDX-License-Identifier: Apache-2.0
"""Estimates with honest intervals: the median of paired ratios, its interval, and what that says (docs/method/method.md).

Ratios are sorted before they are drawn anew, and the seed is fixed: which of them a sample has in its middle hangs on their
number alone, and is drawn once for each number. numpy is loaded where something is drawn."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..base.arguments import BOOTSTRAP_SEED
from .model import HIDDEN_SHARE, LESS, MORE, NONE, SAME, UNRESOLVED, Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


class Random:
    """A sequence; `state` continues it elsewhere."""

    def __init__(self, state: int) -> None:
        self.state = state & _MASK

    def next(self) -> int:
        """The next number of 64 bits."""
        self.state = (self.state + _STEP) & _MASK
        mixed = ((self.state ^ self.state >> 30) * _FIRST) & _MASK
        mixed = ((mixed ^ mixed >> 27) * _SECOND) & _MASK
        return mixed ^ mixed >> 31

    def below(self, limit: int) -> int:
        """0 to limit - 1."""
        return (self.next() >> 32) * limit >> 32

    def order(self, count: int) -> list[int]:
        """A random order of 0 to count - 1."""
        order: list[int] = []
        for number in range(count):
            at = self.below(number + 1)
            order.append(number)
            order[number], order[at] = order[at], number
        return order


def random_numbers(seed: int, start: int, count: int) -> NDArray[np.uint64]:
    """The numbers `start` to `start + count` of a sequence at once, shape (count,)."""
    import numpy as np

    steps = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    mixed = np.uint64(seed % 2**64) + steps * np.uint64(_STEP)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(_FIRST)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(_SECOND)
    numbers: NDArray[np.uint64] = mixed ^ mixed >> np.uint64(31)
    return numbers


CONFIDENCE = 0.95
"""The confidence of the intervals that are shown."""

INTERIM_CONFIDENCE = 0.995
"""The confidence that ends an experiment of open length."""

SAME_WITHIN = 0.01
RESAMPLES = 9_999

BOOTSTRAP_ROUNDS_MIN = 6
"""Below this even the range from the least to the greatest ratio holds the median less often than 95 % of the time
(1 - 2^(1-n)), so that no resampling of so few could be honest; Student's t on the log ratios is used instead."""

MORE_ROUNDS_MAX = 1_000
"""Nobody waits for more rounds than these, and a larger estimate is not reliable."""

# Two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom, and for infinitely many.
_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL_QUANTILE = 1.959964

# Resamples are drawn in blocks of about so many values, so that thousands of rounds still fit into some tens of MB.
_BLOCK_VALUES = 1_000_000


def median(values: Iterable[float]) -> float:
    """The median of values that are known; NaN if there is none."""
    found = sorted(values)
    count = len(found)
    if not count:
        return math.nan
    return found[count // 2] if count % 2 else (found[count // 2 - 1] + found[count // 2]) / 2


def paired_ratios(mine: Iterable[float], base: Iterable[float]) -> list[float]:
    """One for each round that has both figures. A figure that is not above 0, such as a time less the harness's on a busy machine,
    is hidden: less than any that is above 0, which is all that order statistics need. So the ratio is 0 or infinite, or, where
    both are hidden, NaN. To leave such rounds out would favour whoever has them."""
    return [max(one, 0.0) / other if other > 0 else math.inf if one > 0 else math.nan
            for one, other in zip(mine, base, strict=True) if not (math.isnan(one) or math.isnan(other))]


def ratio_interval(
    ratios: Iterable[float], confidence: float = CONFIDENCE, seed: int = BOOTSTRAP_SEED, resamples: int = RESAMPLES
) -> Interval:
    """Median of ratios as paired_ratios has them, with its interval: percentile bootstrap, or, below BOOTSTRAP_ROUNDS_MIN,
    Student's t on the logarithms (of 95 % only). One ratio has no interval, nor have a few of which one is hidden, and none has
    an end that is hidden."""
    rounds = list(ratios)
    known = sorted(ratio for ratio in rounds if not math.isnan(ratio))
    hidden = sum(not _is_known(ratio) for ratio in rounds)
    share = hidden / len(rounds) if rounds else 0.0
    middle = median(known)
    low = high = math.nan
    if len(known) >= BOOTSTRAP_ROUNDS_MIN:
        low, high = resampled_interval(known, confidence, seed, resamples)
    elif len(known) >= 2 and not hidden:
        # The median lies inside except for rounding: it is never further from the mean than one standard deviation.
        low, high = map(_exp, student_interval([math.log(ratio) for ratio in known]))
        low, high = min(low, middle), max(high, middle)
    if not (_is_known(low) and _is_known(high)):
        low = high = math.nan
    return Interval(middle if _is_known(middle) else math.nan, low, high, len(known), share)


def _is_known(ratio: float) -> bool:
    return 0 < ratio < math.inf


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the mean of two or more values, by Student's t."""
    mean, squares, count = 0.0, 0.0, len(values)
    for value in values:
        mean += value / count
    for value in values:
        squares += (value - mean) * (value - mean)
    half = student_quantile(count - 1) * math.sqrt(squares / (count - 1)) / math.sqrt(count)
    return mean - half, mean + half


def student_interval_of_samples(samples: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The interval of the mean of the means of independent samples, each of two values at least: Student's t with the degrees of freedom of
    Welch and Satterthwaite, rounded down."""
    mean, variances = 0.0, []
    for values in samples:
        count, middle = len(values), math.fsum(values) / len(values)
        mean += middle / len(samples)
        variances.append(math.fsum((value - middle) ** 2 for value in values) / (count - 1) / count)
    total = math.fsum(variances)
    if not total > 0:
        return mean, mean
    of_each = (variance / total for variance in variances)
    degrees = 1 / math.fsum(share * share / (len(values) - 1) for share, values in zip(of_each, samples, strict=True))
    # Of samples of one size and spread it is a whole number but for rounding.
    half = student_quantile(math.floor(degrees + 1e-9)) * math.sqrt(total) / len(samples)
    return mean - half, mean + half


def student_quantile(degrees: int) -> float:
    """97.5 % of the distribution lie below it. Beyond the table an expansion, right within 0.1 %."""
    if degrees <= len(_T_QUANTILES):
        return _T_QUANTILES[degrees - 1]
    z = _NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def resampled_interval(
    values: Sequence[float], confidence: float, seed: int = BOOTSTRAP_SEED, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The interval of the median of sorted values. Medians of few values, resampled, fall on few points, so that their quantiles jump: the
    order statistics are the least width."""
    medians = sorted(((values[lower] + values[upper]) / 2, times)
                     for lower, upper, times in _middle_ranks(len(values), resamples, seed))
    k = outside(len(values), confidence)
    return (min(_quantile(medians, resamples, (1 - confidence) / 2), values[k]),
            max(_quantile(medians, resamples, (1 + confidence) / 2), values[len(values) - 1 - k]))


def _quantile(medians: Sequence[tuple[float, int]], count: int, share: float) -> float:
    """Between the two values that it falls between. medians: sorted, each with how often it is there, `count` in all."""
    at = share * (count - 1)
    below, passed, lower = int(at), 0, math.nan
    for value, times in medians:
        if math.isnan(lower) and passed + times > below:
            lower = value
        passed += times
        if passed > below + 1:
            return lower + (value - lower) * (at - below) if value > lower else lower
    return medians[-1][0]


def outside(count: int, confidence: float) -> int:
    """How many of the least and of the greatest values lie outside of the interval of order statistics that holds the
    median at least as often as `confidence` says, whatever the distribution (binomial)."""
    below, k = 0.0, 0
    while k < (count - 1) // 2:
        below += math.exp(
            math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2))
        if 2 * below > 1 - confidence:
            break
        k += 1
    return max(k - 1, 0)


def bootstrap_medians(values: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """Medians of `resamples` samples drawn with replacement. values: (n,), sorted; result: (resamples,)."""
    medians: NDArray[np.float64] = values[_middle_numbers(values.size, resamples, seed)].mean(axis=1)
    return medians


@functools.lru_cache(maxsize=128)
def _middle_ranks(count: int, resamples: int, seed: int) -> list[tuple[int, int, int]]:
    """The different rows of _middle_numbers, and how often each is there."""
    import numpy as np

    middle = _middle_numbers(count, resamples, seed).astype(np.int64)
    pairs, times = np.unique(middle[:, 0] * count + middle[:, 1], return_counts=True)
    return [(*divmod(pair, count), number) for pair, number in zip(pairs.tolist(), times.tolist(), strict=True)]


@functools.lru_cache(maxsize=32)
def _middle_numbers(count: int, resamples: int, seed: int) -> NDArray[np.integer]:
    """The numbers of the two in the middle of each sample of `count` numbered values, shape (resamples, 2): of sorted values
    they are the middle ones themselves, whatever these are."""
    import numpy as np

    per_block = max(1, _BLOCK_VALUES // count)
    blocks = []
    for start in range(0, resamples, per_block):
        size = min(per_block, resamples - start)
        drawn = random_numbers(seed, start * count, size * count) >> np.uint64(32)
        chosen = (drawn * np.uint64(count) >> np.uint64(32)).astype(np.int16 if count < 2**15 else np.int64)
        middle = [(count - 1) // 2, count // 2]
        blocks.append(np.partition(chosen.reshape(size, count), middle, axis=1)[:, middle])
    return np.concatenate(blocks)


def _exp(value: float) -> float:
    """The exponential of a logarithm of any size; what is beyond all figures is as good as their ends."""
    return math.exp(min(max(value, -700.0), 700.0))


def widened(ratio: Interval, control: Interval) -> Interval:
    """The interval that a verdict goes by: wider by what the control (the baseline against itself) shows. The furthest end of
    the control's interval from equality is an error, which adds to each side in quadrature, in logarithms. A control
    without an interval adds nothing. Where either is hidden there is none to go by."""
    hidden = max(ratio.hidden, control.hidden)
    if hidden >= HIDDEN_SHARE:
        return Interval(ratio.estimate, math.nan, math.nan, ratio.count, hidden)
    if math.isnan(ratio.low) or math.isnan(control.low):
        return ratio
    error = max(abs(math.log(control.low)), abs(math.log(control.high)))
    middle = math.log(ratio.estimate)
    low = _exp(middle - math.hypot(middle - math.log(ratio.low), error))
    high = _exp(middle + math.hypot(math.log(ratio.high) - middle, error))
    return Interval(ratio.estimate, low, high, ratio.count, hidden)


def verdict(wide: Interval) -> str:
    """LESS, MORE, SAME, UNRESOLVED, or NONE. An interval within 1 % of equality is SAME even where it excludes equality itself."""
    if wide.is_hidden:
        return UNRESOLVED
    if math.isnan(wide.estimate):
        return NONE
    if math.isnan(wide.low):
        return UNRESOLVED
    if wide.low >= 1 - SAME_WITHIN and wide.high <= 1 + SAME_WITHIN:
        return SAME
    if wide.high < 1:
        return LESS
    return MORE if wide.low > 1 else UNRESOLVED


def more_rounds(wide: Interval) -> float:
    """About how many more rounds would resolve it, as intervals shrink with the root of the rounds: the cheaper of an interval
    that clears equality and one that fits within 1 % of it. NaN if it is unknown."""
    if math.isnan(wide.low) or wide.count < 2:
        return math.nan
    half = (math.log(wide.high) - math.log(wide.low)) / 2
    centre = abs(math.log(wide.estimate))
    target = max(centre, math.log1p(SAME_WITHIN) - centre)
    return float(max(1, math.ceil(wide.count * half * half / (target * target) - wide.count)))


def hidden_text(of_time: bool) -> str:
    """Why there is no verdict."""
    return f"the harness hides the {'time' if of_time else 'memory'}"


def more_rounds_text(more: float) -> str:
    """ "needs about 35 more rounds", or "needs over 1,000 more rounds". Not for NaN."""
    if more > MORE_ROUNDS_MAX:
        return f"needs over {MORE_ROUNDS_MAX:,} more rounds"
    return f"needs about {more:.0f} more round{'' if more == 1 else 's'}"


# ---- runs that stand out from the others of their allocator: flagged, never left out ----

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
