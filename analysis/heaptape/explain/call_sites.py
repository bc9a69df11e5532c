# SPDX-License-Identifier: Apache-2.0
"""Which call sites cause what is above the live bytes, or make these grow: who holds the holes, who leaks, who churns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.units import byte_count, counted, nanoseconds, null_unless_known, percent
from ..sites.figures import site_figures
from ..sites.frames import Frame, Stacks, factorized, place_text
from ..sites.table import SUMMED, Node, by_place, call_tree
from ..trace.reader import Trace
from .site_growth import SiteGrowth, growing_sites

_ROWS, _HELD_MIN = 5, 0.01
"""Call sites that are listed, each with a hundredth of the holes or more."""

_CHURN_CALLS, _CHURN_FREED, _CHURN_FREED_MIN, _CHURN_LIFE = 0.1, 0.5, 100, 100
"""Churn: a site makes a tenth of all calls, and half of its blocks or more, at least so many, are freed, after so many events or
fewer."""

_ALL_FREED = 0.995
"""Of a site's blocks: a sentence about as many need not say how many."""

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
    """What there is to say."""
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
