# SPDX-License-Identifier: Apache-2.0
"""How far the figures of a call site vary along its own trace: so much, at least, differs between two runs of one program. Calls
that come in batches, and blocks that wait in one queue, vary far more than as many independent ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from .spans import Floats

DEVIATIONS = 4
"""Standard deviations that chance hardly makes."""

GROUPS_MIN = 5
"""Fewer spans do not tell how much a figure varies."""

_REFERENCE_CALLS_MIN = 30
"""Sites of fewer calls do not measure how much work a program did."""

_MOMENTS = 32
"""Live bytes are compared with those this part of the trace before."""

_SHORT = 1 / 16
"""A peak that lasts for a smaller part of the trace is short."""


@dataclass(frozen=True)
class Error:
    """The square of a figure's standard error; freedom: of how many values it is the scatter."""

    square: float
    freedom: float


@dataclass(frozen=True)
class Course:
    """The figures of one call site along the trace. of: by spans of so much time, as SiteSpans has them; at_peak: live bytes at the peak
    of the whole trace."""

    span_ns: int
    of: dict[str, Floats]
    at_peak: float


def clear_of(difference: float, old: Error, new: Error) -> bool:
    """Whether chance hardly makes it. With few values, their scatter itself is uncertain: about as Student's distribution says."""
    freedom = max(min(old.freedom, new.freedom), 1)
    return abs(difference) > DEVIATIONS * (1 + 6 / freedom) * sqrt(old.square + new.square)


def _equal_parts(values: Floats) -> float:
    """How many equal values are as uneven as these."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else 0.0


def _steps(values: Floats) -> float:
    """The variance by what changes from each value to the next, so that a trend or a phase of the program adds almost nothing."""
    return float((np.diff(values) ** 2).sum()) / 2 / max(values.size - 1, 1)


def measures_work(calls: Floats) -> bool:
    """Whether the calls of another site can say how much the program did, and when."""
    return bool(calls.sum() >= _REFERENCE_CALLS_MIN and _equal_parts(calls) >= GROUPS_MIN)


def error_of_calls(calls: Floats, work: Floats) -> Error | None:
    """work: calls of what measures how much the program did: those of this site vary against it. None where too few spans have any."""
    if _equal_parts(calls) < GROUPS_MIN:
        return None
    padded = np.concatenate([[0.0], calls - calls.sum() / work.sum() * work, [0.0]])
    return Error(max(_steps(padded) * (padded.size - 1), float(calls.sum())), calls.size - 1)


def error_of_mean(course: Course, name: str, rows: str, apart_ns: float = 0) -> Error | None:
    """The standard error of what a row has in the mean. Rows of less than apart_ns apart are together."""
    size = max(int(np.ceil(apart_ns / course.span_ns)), 1)
    starts = np.arange(0, course.of[rows].size, size)
    sums, counts = (np.add.reduceat(course.of[one], starts) for one in (name, rows))
    groups = _equal_parts(counts)
    if groups < GROUPS_MIN:
        return None
    total = counts.sum()
    apart = np.concatenate([[0.0], sums - sums.sum() / total * counts, [0.0]])
    return Error(_steps(apart) * (apart.size - 1) / total**2 * groups / (groups - 1), groups - 1)


def spread_of_live(course: Course, at_peak: bool) -> float:
    """The standard deviation of live bytes at one moment. What stands out at the peak for a short time may as well be nothing. What
    came and went while the program started says nothing of its end."""
    live = np.concatenate([[0.0], course.of["live_bytes"]])
    if at_peak and (live >= course.at_peak / 2).mean() < _SHORT:
        return course.at_peak
    apart = max(live.size // _MOMENTS, 1)
    squares = (live[apart:] - live[:-apart]) ** 2
    mean = squares.mean() if at_peak else min(squares.mean(), squares[squares.size // 2 :].mean())
    return sqrt(float(mean) / 2)
