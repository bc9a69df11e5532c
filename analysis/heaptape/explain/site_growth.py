"""Which call sites hold ever more, told from bursts and from caches that have filled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..sites.along import LiveAlong
from ..sites.frames import Frame

_POINTS = 20

_RISE_MIN, _RISE_KEPT = 0.05, 0.5
"""A site grows whose live bytes rise by so much of those at the peak of all in the second half of the time, and in the last
stretch at least so much as in the one before: a cache that has filled does not."""

_STRETCHES = [slice(11, 14), slice(14, 17), slice(17, 20)]
"""These are the last of the points, by threes: their mean is no matter of one moment."""

_LOADED, _STEPS_MIN = 5, 3
"""After so many points, in which programs load, the rise is like one in so many equal steps at least, square of the sum over sum
of the squares: else it was a burst or two, or is lost in what comes and goes."""

_FREED = 0.1
"""Programs that free all as they end: what counts is before the fall in which live bytes go below so much of their peak for the last
time, if that begins in the second half."""


@dataclass(frozen=True)
class SiteGrowth:
    """Live bytes of one call site at a moment and at half that time; and its live blocks then."""

    place: tuple[Frame, ...]
    middle_ns: int
    middle_bytes: int
    end_ns: int
    end_bytes: int
    end_blocks: int


def _points(along: LiveAlong) -> list[int]:
    """Spans at equal distances, up to the end or the last one before all is freed."""
    total = along.bytes.sum(axis=1)
    last = int(np.flatnonzero(total >= _FREED * total.max())[-1])
    if last < total.size - 1:
        while last and total[last - 1] > total[last]:
            last -= 1
        if 2 * (last + 1) < total.size:
            last = total.size - 1
    return [max(-(-(last + 1) * point // _POINTS) - 1, 0) for point in range(1, _POINTS + 1)]


def growing_sites(places: pd.DataFrame, along: LiveAlong, peak_bytes: int, rows_max: int) -> list[SiteGrowth]:
    """The fastest first. places: as by_place makes them."""
    points = _points(along)
    middle, end = points[_POINTS // 2 - 1], points[-1]
    found: list[tuple[int, SiteGrowth]] = []
    for place, sites in zip(places["place"], places["sites"], strict=True):
        live = along.bytes[points][:, sites].sum(axis=1)
        rise = int(live[-1] - live[_POINTS // 2 - 1])
        if rise < max(_RISE_MIN * peak_bytes, 1):
            continue
        steps = np.diff(live[_LOADED - 1 :]).astype(float)
        early, late, latest = (float(live[points].mean()) for points in _STRETCHES)
        if steps.sum() ** 2 >= _STEPS_MIN * (steps**2).sum() and late > early and latest - late >= _RISE_KEPT * (late - early):
            found.append((rise, SiteGrowth(place, int(along.at_ns[middle]), int(live[_POINTS // 2 - 1]), int(along.at_ns[end]), int(live[-1]),
                                           int(along.blocks[end, sites].sum()))))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])[:rows_max]]
