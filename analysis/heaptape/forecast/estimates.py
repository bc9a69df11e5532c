# SPDX-License-Identifier: Apache-2.0
"""From replays of several extensions to RSS at a time, and its slope, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..judge.intervals import student_interval

LAST_SHARE = 0.1
"""RSS at the end is the mean over this part of the time: at one moment it depends on what is just being done."""


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    @property
    def resolved(self) -> bool:
        """Whether it is shown not to be 0."""
        return self.low > 0 or self.high < 0


_STEPS = 200
"""Of time, with a mean of RSS each, through which the slope's line goes."""


def estimate(values: Sequence[float], more: float = 0.0) -> Estimate:
    """Mean and interval of what several parts gave; more: half width of a doubt that all have in common."""
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return Estimate(mean, -math.inf, math.inf)
    low, high = student_interval(values)
    half = math.hypot((high - low) / 2, more)
    return Estimate(mean, mean - half, mean + half)


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """Of what the same parts gave under two allocators, part by part: what the parts differ by, and what the recording leaves open of
    live bytes, both have in common."""
    return estimate([one - other for one, other in zip(values, base, strict=True)])


def means_over_time(time_ns: NDArray[np.float64], rss_bytes: NDArray[np.float64], edges_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of RSS between each edge and the next. RSS is what it was last, until it is read again."""
    until_then = np.concatenate(([0.0], np.cumsum(rss_bytes[:-1] * np.diff(time_ns))))
    return np.asarray(np.diff(np.interp(edges_ns, time_ns, until_then)) / np.diff(edges_ns))


def _begin_ns(extended: dict[str, Any]) -> float:
    """The first repetition is left out, in which the heap still settles."""
    end_ns, until_ns = extended["to_ns"], extended["until_ns"]
    return float(max(until_ns, min(2 * until_ns - extended["from_ns"], (until_ns + end_ns) / 2)))


def rss_and_slope(line: dict[str, Any]) -> tuple[float, float]:
    """RSS at the end of one run of the memory pass, and its slope over what is extrapolated, in bytes per hour."""
    extended = line["trace"]["extended"]
    time_ns, rss = (np.array(line["timeline"][key], float) for key in ("time_ns", "rss_bytes"))
    begin_ns, end_ns = _begin_ns(extended), extended["to_ns"]
    edges_ns = np.linspace(begin_ns, end_ns, _STEPS + 1)
    slope = np.polyfit((edges_ns[:-1] + edges_ns[1:]) / 2 / 3600e9, means_over_time(time_ns, rss, edges_ns), 1)[0]
    last_ns = np.array([end_ns - LAST_SHARE * (end_ns - begin_ns), end_ns])
    return float(means_over_time(time_ns, rss, last_ns)[0]), float(slope)


def growth_left_out(whole: dict[str, Any], part: dict[str, Any]) -> tuple[float, float]:
    """What the whole stretch has more of live bytes than the part, at the end and per hour, where one of them grows: a part is
    too short to show a slow growth, or takes a wander for one."""
    if not (whole["grows"] or part["grows"]):
        return 0.0, 0.0
    slopes = [said["live_slope_bytes_per_hour"] if said["grows"] else 0.0 for said in (whole, part)]
    slope = float(slopes[0] - slopes[1])
    # RSS at the end is a mean over some time before it.
    before_h = LAST_SHARE / 2 * (part["to_ns"] - _begin_ns(part)) / 3600e9
    return float(whole["live_to_bytes"] - part["live_to_bytes"]) - slope * before_h, slope
