# SPDX-License-Identifier: Apache-2.0
"""Maps of a heap: its pages in order of address, gathered to cells, at each moment that a snapshot was taken of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .accounts import Ints, PageUse
from .holders import size_class
from .snapshots import PAGE_BYTES, Snapshot

CELLS_MAX, CELLS_OF_PAGE_MAX = 20_000, 80_000
"""A map has no more, as no screen shows more; nor have all maps of a page, which is to stay small."""

def cells_each(maps: int) -> int:
    """How many cells each of so many maps of a page may have."""
    return min(CELLS_MAX, CELLS_OF_PAGE_MAX // maps)


SHADES = 16
NOT_RESIDENT, TABLES, FREE, LIVE = 0, 1, 2, 3
"""States of a cell; from LIVE on, by how full it is, one of SHADES."""

_GAP_CELLS = 12
"""A longer gap between resident pages is a break."""

_OWNERS_MAX = 254


@dataclass(frozen=True)
class MapMoment:
    """states: of each cell."""

    why: str
    time_ns: int
    states: NDArray[np.uint8]


@dataclass(frozen=True)
class Details:
    """Of each cell at the moment that is asked for: its resident pages, the share of their bytes that is live in hundredths, blocks
    that have bytes in it, and who holds most of these bytes: a row of owners, counted from 1, or 0.

    owners: size_low, size_high, and thread, None where births are not known."""

    pages: Ints
    percent_live: Ints
    blocks: Ints
    owner: Ints
    owners: list[tuple[int, int, int | None]]


@dataclass(frozen=True)
class HeapMap:
    """cells: the number of each, its address over the bytes of a cell; they are all of the heap but for breaks, so that equal places
    are equal addresses at all moments. ranges: of resident pages at the moment asked for, as the map has them."""

    pages_per_cell: int
    cells: Ints
    details: Details
    ranges: pd.DataFrame
    moments: list[MapMoment] = field(default_factory=list)


def _regions(starts: Ints, ends: Ints, per_cell: int) -> tuple[Ints, Ints]:
    """Cells from first up to end, without it: runs of pages with short gaps between them as one."""
    first, end = starts // per_cell, -(-ends // per_cell)
    reached = np.maximum.accumulate(end)
    begins = np.concatenate([[True], first[1:] > reached[:-1] + _GAP_CELLS])
    return first[begins], reached[np.append(np.flatnonzero(begins)[1:] - 1, first.size - 1)]


def _layout(snapshots: list[Snapshot], cells_max: int) -> tuple[int, Ints]:
    """How many pages a cell has, a power of two, and the cells that have pages resident at any of the moments, or lie between two
    such."""
    runs = pd.concat([snapshot.pages[["page", "pages"]] for snapshot in snapshots]).sort_values("page")
    starts = runs["page"].to_numpy()
    ends, per_cell = starts + runs["pages"].to_numpy(), 1
    if not starts.size:
        return 1, np.zeros(0, dtype=np.int64)
    while True:
        first, end = _regions(starts, ends, per_cell)
        if int((end - first).sum()) + first.size <= cells_max:
            break
        per_cell *= 2
    lengths = end - first
    before = np.cumsum(lengths) - lengths
    return per_cell, np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))


class _Cells:
    """The pages of a snapshot by cell."""

    def __init__(self, use: PageUse, per_cell: int, cells: Ints) -> None:
        self.use, self.per_cell, self.cells = use, per_cell, cells
        self.row = np.searchsorted(cells, use.pages.page // per_cell)

    def sum(self, of_pages: NDArray[np.generic]) -> Ints:
        """The sum over the pages of each cell."""
        return np.bincount(self.row, of_pages.astype(np.float64), self.cells.size).astype(np.int64)

    def states(self) -> NDArray[np.uint8]:
        """Cells with live bytes by the share of their resident bytes."""
        use = self.use
        pages, live = self.sum(np.ones(self.row.size)), self.sum(use.live)
        shade = np.minimum(live * SHADES // np.maximum(pages * PAGE_BYTES, 1), SHADES - 1)
        held = np.where(self.sum(use.pages.held) > 0, FREE, TABLES)
        state = np.where(self.sum(use.holders) > 0, LIVE + shade, held)
        return np.where(pages > 0, state, NOT_RESIDENT).astype(np.uint8)

    def details(self, blocks: pd.DataFrame) -> Details:
        """blocks: requested_bytes, and thread where births are known; in order of address."""
        use, cells = self.use, self.cells
        pages = self.sum(np.ones(self.row.size))
        percent = 100 * self.sum(use.live) // np.maximum(pages * PAGE_BYTES, 1)
        first, last = (np.searchsorted(cells, page // self.per_cell) for page in (use.first, use.last))
        size = cells.size + 1
        inside = np.cumsum(np.bincount(np.minimum(first, cells.size), minlength=size) - np.bincount(np.minimum(last + 1, cells.size), minlength=size))[:-1]
        owner, owners = _owners(blocks, use.end - use.start, first, last, cells.size)
        return Details(pages, percent, np.where(pages > 0, inside, 0), np.where(pages > 0, owner, 0), owners)


def _owners(blocks: pd.DataFrame, bytes_: Ints, first: Ints, last: Ints, cells: int) -> tuple[Ints, list[tuple[int, int, int | None]]]:
    """Groups of blocks by size class and thread, and which of them has most bytes in each cell. A block counts where it begins,
    and owns the cells that it fills."""
    size = blocks["requested_bytes"].to_numpy()
    known = "thread" in blocks
    thread = blocks["thread"].to_numpy() if known else np.zeros_like(size)
    table = pd.DataFrame({"class": size_class(size, 4), "thread": thread, "size": size, "bytes": bytes_, "cell": first})
    groups = table.groupby(["class", "thread"]).agg(low=("size", "min"), high=("size", "max"), bytes=("bytes", "sum"))
    groups = groups.sort_values("bytes", ascending=False, kind="stable")
    number = pd.Series(np.arange(1, len(groups) + 1), groups.index)
    table["group"] = np.minimum(number.reindex(pd.MultiIndex.from_frame(table[["class", "thread"]])).to_numpy(), _OWNERS_MAX + 1)
    found = np.zeros(cells + 1, dtype=np.int64)
    shares = table.groupby(["cell", "group"])["bytes"].sum().reset_index().sort_values("bytes", kind="stable")
    found[np.minimum(shares["cell"].to_numpy(), cells)] = shares["group"].to_numpy()  # the largest is last, and stays
    for block in np.flatnonzero(last > first + 1):
        found[first[block] + 1:last[block]] = table["group"].iloc[block]
    owners = [(int(row.low), int(row.high), int(key[1]) if known else None) for key, row in groups.head(_OWNERS_MAX).iterrows()]
    return np.where(found[:-1] > _OWNERS_MAX, 0, found[:-1]), owners


def _ranges(snapshot: Snapshot, cells: _Cells) -> pd.DataFrame:
    """Runs of cells without a break, largest first: from and to, addresses; resident_pages; live_bytes; blocks."""
    first = np.concatenate([[True], np.diff(cells.cells) > 1]) if cells.cells.size else np.zeros(0, dtype=np.bool_)
    number = np.cumsum(first) - 1
    pages, live = cells.sum(np.ones(cells.row.size)), cells.sum(cells.use.live)
    begun = np.searchsorted(cells.cells, cells.use.first // cells.per_cell)
    blocks = np.bincount(np.minimum(begun, cells.cells.size), minlength=cells.cells.size + 1)[:-1]
    rows = pd.DataFrame({"number": number, "from": cells.cells, "to": cells.cells + 1, "resident_pages": pages, "live_bytes": live, "blocks": blocks})
    found = rows.groupby("number").agg({"from": "first", "to": "last", "resident_pages": "sum", "live_bytes": "sum", "blocks": "sum"})
    found[["from", "to"]] *= cells.per_cell * PAGE_BYTES
    return found[found["resident_pages"] > 0].sort_values("resident_pages", ascending=False, kind="stable", ignore_index=True)


def map_of(snapshots: list[Snapshot], uses: Mapping[int, PageUse], asked: Snapshot, births: pd.DataFrame | None, cells_max: int = CELLS_MAX) -> HeapMap:
    """uses: by the number of the snapshot in the list; asked: one of them, whose details are kept; births: thread of each of its
    blocks."""
    per_cell, cells = _layout(snapshots, cells_max)
    at = next(number for number, snapshot in enumerate(snapshots) if snapshot.blocks is asked.blocks)
    blocks = asked.blocks if births is None else asked.blocks.assign(thread=births["thread"].to_numpy())
    of_asked = _Cells(uses[at], per_cell, cells)
    moments = [MapMoment(snapshot.why, snapshot.time_ns, _Cells(uses[number], per_cell, cells).states()) for number, snapshot in enumerate(snapshots)]
    return HeapMap(per_cell, cells, of_asked.details(blocks), _ranges(asked, of_asked), moments)
