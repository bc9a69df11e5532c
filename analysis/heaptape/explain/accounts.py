# SPDX-License-Identifier: Apache-2.0
"""What resident memory consists of: each byte of each resident page has one account, so that their sum is RSS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .snapshots import PAGE_BYTES, Snapshot, Spacing
from .sums import ACCOUNTS, Sums

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Accounts(Sums):
    """blocks: of the snapshot, a column more: holes_bytes, the empty parts of its pages that each live block holds, shared equally
    with the other blocks of the page; their sum is the account."""

    blocks: pd.DataFrame


class Pages:
    """Resident pages by address, each a row; held: whether a block ever lay there."""

    def __init__(self, runs: pd.DataFrame) -> None:
        lengths = runs["pages"].to_numpy()
        starts = np.cumsum(lengths) - lengths
        self.page: Ints = np.repeat(runs["page"].to_numpy() - starts, lengths) + np.arange(int(lengths.sum()))
        self.held: NDArray[np.bool_] = np.repeat(runs["held"].to_numpy(), lengths)

    def row_of(self, page: Ints) -> Ints:
        """-1: not resident."""
        row = np.searchsorted(self.page, page)
        inside = row < self.page.size
        inside[inside] = self.page[row[inside]] == page[inside]
        return np.where(inside, row, -1)

    def _add(self, total: Ints, page: Ints, amount: Ints) -> None:
        row = self.row_of(page)
        total += np.bincount(row[row >= 0], amount[row >= 0], self.page.size).astype(np.int64)

    def spread(self, start: Ints, end: Ints) -> Ints:
        """How many bytes of these address ranges, which don't overlap, lie in each page."""
        start, end = start[start < end], end[start < end]
        total = np.zeros(self.page.size, dtype=np.int64)
        first, last = start // PAGE_BYTES, (end - 1) // PAGE_BYTES
        one = first == last
        self._add(total, first, np.where(one, end - start, (first + 1) * PAGE_BYTES - start))
        self._add(total, last[~one], (end - last * PAGE_BYTES)[~one])
        return total + PAGE_BYTES * self._between(np.searchsorted(self.page, (first + 1)[~one]), np.searchsorted(self.page, last[~one]))

    def blocks_in(self, first: Ints, last: Ints) -> Ints:
        """How many blocks have bytes in each page."""
        return self._between(np.searchsorted(self.page, first), np.searchsorted(self.page, last, side="right"))

    def _between(self, begin: Ints, end: Ints) -> Ints:
        """How many ranges of rows (up to end and without it) each row is in."""
        rows = self.page.size + 1
        found: Ints = np.cumsum(np.bincount(begin, minlength=rows) - np.bincount(end, minlength=rows))[:-1]
        return found


def _ends(blocks: pd.DataFrame) -> Ints:
    """Where each block ends, which is not behind where the next one begins: of a program of several threads one may have been
    freed while the snapshot was taken."""
    address = blocks["address"].to_numpy()
    end = address + blocks["usable_bytes"].to_numpy()
    following = np.append(address[1:], np.iinfo(np.int64).max)
    before: Ints = np.minimum(end, following)
    return before


@dataclass(frozen=True)
class PageUse:
    """Of each resident page: the bytes of live blocks in it by account, and how many blocks; of each block where it begins and
    ends, and the first and last page of it and its header. asked: the requested bytes of all."""

    pages: Pages
    live: Ints
    rounding: Ints
    headers: Ints
    untouched: Ints
    holders: Ints
    start: Ints
    end: Ints
    first: Ints
    last: Ints
    asked: int


def _margins(start: Ints, end: Ints, spacing: Spacing) -> tuple[Ints, Ints]:
    """Where each block begins and ends with what the allocator keeps beside it, which is never part of a neighbour. As
    page_accounts.c has it."""
    begun, ended = start - spacing.header_bytes, end
    if spacing.own_pages_from_bytes is not None:
        offset = start % PAGE_BYTES
        own = (end - start >= spacing.own_pages_from_bytes) & (True if spacing.own_pages_offset is None else offset == spacing.own_pages_offset)
        begun, ended = np.where(own, start - offset, begun), np.where(own, -(-end // PAGE_BYTES) * PAGE_BYTES, ended)
    before = np.concatenate([np.zeros(1, dtype=np.int64), end])[: start.size]
    begun = np.maximum(begun, before)
    return begun, np.minimum(ended, np.append(begun[1:], np.iinfo(np.int64).max))


def use_of(snapshot: Snapshot) -> PageUse:
    """What live blocks take of each page."""
    blocks, pages = snapshot.blocks, Pages(snapshot.pages)
    start, end = blocks["address"].to_numpy(), _ends(blocks)
    asked = np.minimum(start + blocks["requested_bytes"].to_numpy(), end)
    touched = np.clip(start + (blocks["usable_bytes"] - blocks["untouched_bytes"]).to_numpy(), start, asked)
    begun, ended = _margins(start, end, snapshot.spacing)
    first, last = begun // PAGE_BYTES, np.maximum(ended - 1, start) // PAGE_BYTES
    return PageUse(pages, pages.spread(start, touched), pages.spread(asked, end), pages.spread(begun, start) + pages.spread(end, ended),
                   pages.spread(touched, asked), pages.blocks_in(first, last), start, end, first, last, int((asked - start).sum()))


def account(snapshot: Snapshot, use: PageUse | None = None) -> Accounts:
    """Takes RSS apart."""
    use = use or use_of(snapshot)
    pages, holders = use.pages, use.holders
    used = use.live + use.rounding + use.headers + use.untouched
    holes = np.where(holders > 0, PAGE_BYTES - used, 0)
    share = holes / np.maximum(holders, 1)
    charged = _of_rows(share, pages.row_of(use.first)) + np.where(use.last > use.first, _of_rows(share, pages.row_of(use.last)), 0)
    free = np.count_nonzero(pages.held & (holders == 0)) * PAGE_BYTES
    own = np.count_nonzero(~pages.held & (holders == 0)) * PAGE_BYTES
    amounts = (use.live.sum(), use.rounding.sum(), use.headers.sum(), holes.sum(), free, own, use.untouched.sum())
    not_resident = use.asked - int(use.live.sum() + use.untouched.sum())
    found = {name: int(amount) for name, amount in less_own(dict(zip(ACCOUNTS, amounts, strict=True)), snapshot.null_rss_bytes).items()}
    charged *= found["holes"] / max(int(holes.sum()), 1)
    return Accounts(found, sum(found.values()), not_resident, snapshot.blocks.assign(holes_bytes=charged))


def less_own(amounts: dict[str, Any], null_bytes: Any) -> dict[str, Any]:
    """Without the replay's own pages, which hold no blocks: but for some pages, where the allocator is that of the C library, whose
    heap has blocks of its own. Numbers or arrays."""
    left = dict(amounts)
    for name in ("tables", "free_pages", "holes", "headers", "rounding", "live", "untouched"):
        taken = np.minimum(left[name], null_bytes)
        left[name] = left[name] - taken
        null_bytes = null_bytes - taken
    return left


def _of_rows(value: NDArray[np.float64], row: Ints) -> NDArray[np.float64]:
    return np.where(row >= 0, value[np.maximum(row, 0)], 0) if value.size else np.zeros(row.size)
