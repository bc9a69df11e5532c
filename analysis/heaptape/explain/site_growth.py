# SPDX-License-Identifier: Apache-2.0
"""Which call sites hold ever more, told from bursts and from caches that have filled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..sites.frames import Frame
from ..sites.spans import Floats, SiteSpans

_POINTS = 20

_RISE_MIN, _RISE_KEPT = 0.05, 0.5
"""What grows rises by so much of all live bytes in the second half of the time, and in the last stretch at least so much as in the
one before: a cache that has filled does not."""

_STRETCH = 3
"""These stretches are the last of the points, by so many: their mean is no matter of one moment."""

_LOADED, _STEPS_MIN = 0.25, 3
"""After so much of the time, in which programs load, the rise is like one in so many equal steps at least, square of the sum over
sum of the squares: else it was a burst or two, or is lost in what comes and goes."""

_KEPT_RISE_MIN, _KEPT_STEPS_MIN, _UNENDED = 0.1, 5, 2
"""The same of what is kept for good, which can only rise; it is not known yet of so many points at the end."""

_IDLE = 0.1
"""A program is at its end, or idle, that allocates so much less often than it mostly did."""

_PARTLY, _LONG = (0.02, 0.9), 0.05
"""Where so much of a site's bytes is left then, after so much of the time, the program has not just ended: it has chosen what to
free."""

_LEVELS_MIN, _LEVEL_BY = 4, (1.2, 2.6)
"""A container that is copied to a larger place, from size to size, each by such a factor of the one before; if it is filled
evenly, it comes to the last size after half of the time."""


@dataclass(frozen=True)
class SiteGrowth:
    """Live bytes at a moment and at half that time; and live blocks then. place: the call site; None: of all."""

    place: tuple[Frame, ...] | None
    middle_ns: int
    middle_bytes: int
    end_ns: int
    end_bytes: int
    end_blocks: int

    @property
    def rise_bytes(self) -> int:
        return self.end_bytes - self.middle_bytes


def _at_work(whole: dict[str, Floats]) -> int:
    """The spans before the program frees what it has, or is idle, until it ends. whole: of all sites."""
    blocks, live = whole["blocks"], whole["live_bytes"]
    if not blocks.any():
        return 1
    mostly = float(np.median(blocks[blocks > 0]))
    last = int(np.flatnonzero(blocks >= max(_IDLE * mostly, min(2, mostly)))[-1])
    while last and live[last] < (1 - _IDLE) * live[last - 1]:
        last -= 1
    return last + 1


def _rises(live: Floats, least: float, steps_min: float) -> bool:
    """live: at points of equal distance. Steadily, and to the end."""
    steps = np.diff(live[int(_LOADED * live.size) - 1 :])
    early, late, latest = (float(live[live.size - (back + 1) * _STRETCH : live.size - back * _STRETCH].mean()) for back in (2, 1, 0))
    steady = steps.sum() ** 2 >= steps_min * (steps**2).sum()
    return bool(live[-1] - live[live.size // 2 - 1] >= least and steady and late > early and latest - late >= _RISE_KEPT * (late - early))


def _doubles(live: Floats, least: float) -> bool:
    """live: at the end of each span."""
    levels = live[np.flatnonzero(np.diff(live, prepend=0))]
    last = int(np.flatnonzero(np.diff(live, prepend=0))[-1]) if levels.size else 0
    factors = levels[1:] / np.maximum(levels[:-1], 1)
    return bool(levels.size >= _LEVELS_MIN and ((factors >= _LEVEL_BY[0]) & (factors <= _LEVEL_BY[1] ** 2)).all()
                and (factors[-_LEVELS_MIN + 1 :] <= _LEVEL_BY[1]).all() and 2 * (last + 1) >= live.size and levels[-1] - levels[-2] >= least)


def _grows(live: Floats, points: list[int], most: float) -> bool:
    """The mean between the points, or what is kept for good, where more comes and goes beside that, as with a collector. most: of
    all live bytes."""
    mean = np.array([live[min(before + 1, point) : point + 1].mean() for before, point in zip([-1, *points[:-1]], points, strict=True)])
    kept = np.minimum.accumulate(live[::-1])[::-1][points][:-_UNENDED]
    return (_rises(mean, max(_RISE_MIN * most, 1), _STEPS_MIN)
            or _rises(kept, max(_KEPT_RISE_MIN * most, 1), _KEPT_STEPS_MIN))


def _points(spans: int) -> list[int]:
    """At equal distances, the last span's end the last one."""
    return [max(-(-spans * point // _POINTS) - 1, 0) for point in range(1, _POINTS + 1)]


def growing_sites(places: pd.DataFrame, spans: SiteSpans, rows_max: int) -> list[SiteGrowth]:
    """The fastest first; where no site grows that would matter, but live bytes do, all of them together. places: as by_place makes
    them."""
    whole, at_ns = spans.of_all(), spans.at_ns
    at_work = _at_work(whole)

    def growth(place: tuple[Frame, ...] | None, of: dict[str, Floats]) -> SiteGrowth | None:
        live = of["live_bytes"]
        partly = live.size - at_work >= _LONG * live.size and _PARTLY[0] * live[at_work - 1] < live[-1] < _PARTLY[1] * live[at_work - 1]
        points = _points(live.size if partly else at_work)
        middle, end = points[_POINTS // 2 - 1], points[-1]
        most, blocks = float(whole["live_bytes"][middle : end + 1].max()), int(of["live_blocks"][end])
        if not (_grows(live[: end + 1], points, most) or (blocks <= 2 and _doubles(live[: end + 1], max(_RISE_MIN * most, 1)))):
            return None
        return SiteGrowth(place, int(at_ns[middle]), int(live[middle]), int(at_ns[end]), int(live[end]), blocks)

    found = [growth(place, spans.of(sites)) for place, sites in zip(places["place"], places["sites"], strict=True)]
    growing = sorted((one for one in found if one), key=lambda one: -one.rise_bytes)[:rows_max]
    together = None if growing else growth(None, whole)
    return [together] if together else growing
