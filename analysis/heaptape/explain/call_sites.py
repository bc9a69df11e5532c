# SPDX-License-Identifier: Apache-2.0
"""Which call sites cause what is above the live bytes, or make these grow: who holds the holes, who leaks, who churns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..base.units import byte_count, counted, nanoseconds, null_unless_known, percent
from ..sites.figures import site_figures
from ..sites.frames import Frame, Stacks, factorized, place_text
from ..sites.spans import Floats, SiteSpans
from ..sites.table import SUMMED, Node, by_place, call_tree
from ..trace.reader import Trace

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
"""What is kept for good can only rise, and has to rise by so much in so many steps; that is not known yet of so many points at the end."""

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


_ROWS, _HELD_MIN = 5, 0.01
"""Call sites that are listed, each with a hundredth of the holes or more."""

_CHURN_CALLS, _CHURN_FREED, _CHURN_FREED_MIN, _CHURN_LIFE = 0.1, 0.5, 100, 100
"""Churn: a site makes a tenth of all calls, and half of its blocks or more, at least so many, are freed, after so many events or
fewer."""

_ALL_FREED = 0.995
"""A sentence about this share of a site's blocks, or more, need not say how many they are."""

Place = tuple[Frame, ...]
Churn = tuple[Place, int, float, float, float]


@dataclass(frozen=True)
class SiteHolder:
    """Live blocks of one call site, and the holes that they hold."""

    place: Place
    blocks: int
    requested_bytes: int
    holes_bytes: float


@dataclass(frozen=True)
class CallSites:
    """places: as by_place makes them; tree: all; both with the holes held, holes_bytes. holders: of the moment that is asked for,
    worst first; growing: the fastest first; churn: a site, its calls, their share of all, the mean life of those of its blocks that are
    freed, and the share of these."""

    places: pd.DataFrame
    tree: Node
    holders: list[SiteHolder]
    growing: list[SiteGrowth]
    churn: Churn | None


def _holders(blocks: pd.DataFrame, stacks: Stacks) -> list[SiteHolder]:
    by_site = blocks.groupby("site").agg({"slot": "size", "requested_bytes": "sum", "holes_bytes": "sum"})
    number, places = factorized([stacks.place(int(site)) for site in by_site.index])
    rows = by_site.groupby(number).sum().sort_values("holes_bytes", ascending=False, kind="stable")
    least = max(_HELD_MIN * float(rows["holes_bytes"].sum()), 1)
    return [SiteHolder(places[number], int(row.slot), int(row.requested_bytes), float(row.holes_bytes))
            for number, row in zip(rows.index[:_ROWS], rows.head(_ROWS).itertuples(), strict=True) if row.holes_bytes >= least]


def _churn(places: pd.DataFrame) -> Churn | None:
    calls = float(places["calls"].sum())
    freed = places["blocks"] - places["end_blocks"]
    many = (freed >= _CHURN_FREED_MIN) & (freed >= _CHURN_FREED * places["blocks"])
    found = places[(places["calls"] >= _CHURN_CALLS * calls) & many & (places["freed_life_events"] <= _CHURN_LIFE * freed)]
    if found.empty:
        return None
    worst = found.loc[found["calls"].idxmax()]
    freed_here = float(freed[worst.name])
    return worst["place"], int(worst["calls"]), float(worst["calls"]) / calls, float(worst["freed_life_ns"]) / freed_here, freed_here / float(worst["blocks"])


def call_sites(trace: Trace, blocks: pd.DataFrame) -> CallSites | None:
    """blocks: of the snapshot, with their holes and sites. None of a trace without call sites."""
    if trace.sites.sites.empty:
        return None
    stacks, figures = Stacks(trace.sites), site_figures(trace)
    held = blocks.groupby("site")["holes_bytes"].sum().round().astype("int64")
    sites = figures.sites.assign(holes_bytes=held.reindex(figures.sites.index, fill_value=0))
    tree, everywhere = call_tree(sites, stacks, [*SUMMED, "holes_bytes"]), by_place(sites, stacks)
    places = everywhere[[place[0].function != "[unknown]" for place in everywhere["place"]]]
    return CallSites(everywhere, tree, _holders(blocks, stacks), growing_sites(places, figures.spans, _ROWS), _churn(places))


def site_sentences(found: CallSites | None) -> list[str]:
    """The sentences about them."""
    if found is None:
        return []
    lines = []
    for one in found.growing:
        who = f"{place_text(one.place)} keeps" if one.place else "no call site alone, but all together keep"
        lines.append(f"Growth: {who} ever more: {byte_count(one.end_bytes)} in {counted(one.end_blocks, 'block')} at "
                     f"{nanoseconds(one.end_ns)}, {byte_count(one.middle_bytes)} at {nanoseconds(one.middle_ns)}.")
    if found.churn:
        place, calls, share, life, freed = found.churn
        blocks = "of blocks that are freed" if freed >= _ALL_FREED else f"and {percent(freed)} of its blocks are freed,"
        lines.append(f"Churn: {place_text(place)} makes {calls:,} of the calls ({percent(share)}), {blocks} after {nanoseconds(life)}.")
    return lines


def site_rows(found: CallSites, holes_bytes: int) -> list[list[str]]:
    """A table, its head first."""
    return [["holes", "share", "blocks", "live", "call site"], *(
        [byte_count(one.holes_bytes), percent(one.holes_bytes / max(holes_bytes, 1)), f"{one.blocks:,}", byte_count(one.requested_bytes),
         place_text(one.place)] for one in found.holders)]


def sites_object(found: CallSites | None) -> dict[str, Any] | None:
    """For JSON."""
    if found is None:
        return None

    def frames(place: Place) -> list[dict[str, Any]]:
        return [frame.object() for frame in place]

    return {"holders": [{"frames": frames(one.place), "blocks": one.blocks, "requested_bytes": one.requested_bytes, "holes_bytes": one.holes_bytes}
                        for one in found.holders],
            "growing": [{"frames": frames(one.place) if one.place else None, "middle_ns": one.middle_ns, "middle_bytes": one.middle_bytes, "end_ns": one.end_ns,
                         "end_bytes": one.end_bytes, "end_blocks": one.end_blocks}
                        for one in found.growing],
            "churn": found.churn and {"frames": frames(found.churn[0]), "calls": found.churn[1], "share": found.churn[2],
                                      "mean_life_ns": null_unless_known(found.churn[3])}}
