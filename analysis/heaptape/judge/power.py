# SPDX-License-Identifier: Apache-2.0
"""Which difference an experiment finds nine times of ten, and how long it takes to find 1 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from .intervals import BOOTSTRAP_ROUNDS_MIN, CONFIDENCE, MORE_ROUNDS_MAX, SAME_WITHIN, outside
from .model import PEAK, TIME, Comparison, FigureWords, Interval, Json

PROBABILITY = 0.9
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Power:
    """difference: what is found in the time spent, as a share, never less than SAME_WITHIN. seconds: about how long that takes
    to find; more_than: it takes longer than that, as nobody waits for MORE_ROUNDS_MAX rounds more."""

    difference: float
    seconds: float
    more_than: bool


def powers_of(comparison: Comparison) -> dict[str, Power]:
    """The powers of time and of peak RSS by their names, as far as they are known."""
    if math.isnan(comparison.spent_s) or not comparison.controlled:
        return {}
    return {words.name: found for words in (TIME, PEAK) if (found := _power(comparison, words)) is not None}


def power_json(comparison: Comparison) -> Json | None:
    found = powers_of(comparison)
    if not found:
        return None
    return {"probability": PROBABILITY, "spent_s": comparison.spent_s} | {
        name: {"difference": power.difference, "one_percent_s": None if power.more_than else power.seconds} for name, power in found.items()}


def _power(comparison: Comparison, words: FigureWords) -> Power | None:
    """The power for any allocator, as their intervals have the same width in the mean."""
    ratios = [found.estimates[words.name].ratio for choice, found in enumerate(comparison.allocators) if choice != comparison.context.baseline]
    usable, control = [ratio for ratio in ratios if _is_usable(ratio)], comparison.controls[words.name]
    if not usable or not _is_usable(control):
        return None
    own, of_control = spread(usable), spread([control])
    rounds = max(ratio.count for ratio in usable)
    # A smaller one is not told from nothing.
    difference = max(math.expm1(resolved_difference(rounds, own, of_control)), SAME_WITHIN)
    most = rounds + MORE_ROUNDS_MAX
    needed = rounds_for(math.log1p(SAME_WITHIN), own, of_control, most)
    seconds = comparison.spent_s / comparison.rounds * (needed or most)
    return Power(difference, seconds, needed is None)


def _is_usable(ratio: Interval) -> bool:
    """The spread of fewer rounds is not known well enough."""
    return ratio.count >= BOOTSTRAP_ROUNDS_MIN and not ratio.is_hidden and not math.isnan(ratio.low)


def spread(ratios: Sequence[Interval]) -> float:
    """The spread of the logarithms of single rounds' ratios: the standard deviation of a normal distribution whose intervals would be as wide.
    A spread that is known from n rounds alone is off itself; 1 + 1.6 / n makes up for that (by simulation, as Student's t does for
    means)."""
    return sum((math.log(ratio.high) - math.log(ratio.low)) / 2 / _end(ratio.count)[0] * (1 + 1.6 / ratio.count) for ratio in ratios) / len(ratios)


def _end(rounds: int) -> tuple[float, float]:
    """How far an end of the interval of the median lies from it, and its standard error, in standard deviations of a normal
    distribution. It is the order statistic of rank r = outside() + 1, at p = (r - 3/8) / (n + 1/4) (Blom, "Statistical Estimates and
    Transformed Beta-Variables", 1958), with the error sqrt(p (1 - p) / n) / density (David, Nagaraja, "Order Statistics", 2003, 10.2)."""
    share = (outside(rounds, CONFIDENCE) + 1 - 0.375) / (rounds + 0.25)
    half = -_NORMAL.inv_cdf(share)
    return half, math.sqrt(share * (1 - share) / rounds) / _NORMAL.pdf(half)


def resolved_difference(rounds: int, own: float, of_control: float) -> float:
    """The least difference of logarithms that so many rounds tell from nothing nine times of ten, of ratios with these spreads. It is
    told where the interval, widened by the control, leaves out equality. With h and w of _end,

        sqrt((own h)^2 + (of_control (h + sqrt(pi / 2n)))^2) + z(0.9) own w

    as the control's furthest end is one h and, in the mean, about one standard error of a median from equality; z(0.9) errors more
    leave out all but one experiment in ten (the usual sum of two quantiles, Noether, "Sample Size Determination for Some Common
    Nonparametric Tests", J. Am. Stat. Assoc. 82, 1987)."""
    half, error = _end(rounds)
    wide = math.hypot(own * half, of_control * (half + math.sqrt(math.pi / 2 / rounds)))
    return wide + _NORMAL.inv_cdf(PROBABILITY) * own * error


def rounds_for(difference: float, own: float, of_control: float, most: int) -> int | None:
    """About the least number of rounds that find it; None if `most` do not."""
    few, many = BOOTSTRAP_ROUNDS_MIN, most
    if resolved_difference(many, own, of_control) > difference:
        return None
    while few < many:
        middle = (few + many) // 2
        if resolved_difference(middle, own, of_control) > difference:
            few = middle + 1
        else:
            many = middle
    return many


# --- in words

def power_text(comparison: Comparison) -> str:
    """One line, or ""."""
    parts = []
    for name, power in powers_of(comparison).items():
        found = [] if power.difference <= SAME_WITHIN else [f"{_percent_text(power.difference)} in {_time_text(comparison.spent_s)}"]
        found.append(f"1 % in {'over' if power.more_than else 'about'} {_time_text(power.seconds)}")
        parts.append(f"{'time' if name == TIME.name else 'peak RSS'} {', '.join(found)}")
    return f"differences found 9 times of 10: {'; '.join(parts)}" if parts else ""


def _percent_text(share: float) -> str:
    """1.2 %, 12 %, 120 %."""
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _time_text(seconds: float) -> str:
    """0.5 s, 12 s, 14 min, 3 h."""
    if seconds < 9.5:
        return f"{seconds:.2g} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.0f} h"
