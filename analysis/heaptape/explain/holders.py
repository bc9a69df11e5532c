# SPDX-License-Identifier: Apache-2.0
"""Who holds the empty parts of pages: live blocks grouped by size, thread and time of birth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

WINDOW_SHARE = 0.8
"""The window of births holds this share of a group's holes."""

WINDOW_OF_RUN_MAX = 0.5
"""A window that is longer, of the trace so far, says nothing: the group is named without one."""

HOLDERS_MAX, HOLDER_SHARE_MIN = 5, 0.01
_TRIED = 3
"""Groups of each grouping, those with most of the holes."""

_ALL_SIZES, _CUT, _CLEARLY = 0.4, 0.4, 0.02
"""The breadth of a group of all sizes; what is left of a breadth where a window of births says more; by how much one group
must be better than a narrower one."""


@dataclass(frozen=True)
class Holder:
    """A group of live blocks. Sizes are from size_low up to and with size_high, as asked for; thread: its number in the trace,
    None: any; born: trace time; windowed: that is a small part of it."""

    size_low: int
    size_high: int
    thread: int | None
    born_from_ns: int
    born_to_ns: int
    windowed: bool
    blocks: int
    holes_bytes: float
    requested_bytes: int


def size_class(bytes_: NDArray[np.int64], steps: int) -> NDArray[np.int64]:
    """The class of each size, of so many to each doubling; a class begins at its lowest size."""
    size = np.maximum(bytes_, 1)
    power = np.floor(np.log2(size)).astype(np.int64)
    found: NDArray[np.int64] = power * steps + ((size - (np.int64(1) << power)) * steps >> power)
    return found


@dataclass(frozen=True)
class _Grouping:
    group: NDArray[np.int64]
    """The group that each block is in."""

    breadth: float
    """How much a group of it is held to say less than one block size of one thread."""


def _groupings(blocks: pd.DataFrame) -> list[_Grouping]:
    """By size class and thread, by either alone, and all blocks as one."""
    size = blocks["requested_bytes"].to_numpy()
    threads, thread = np.unique(blocks["thread"].to_numpy(), return_inverse=True)
    classes = [(size_class(size, 4), 0.0), (size_class(size, 1), 0.05), (np.zeros(size.size, dtype=np.int64), _ALL_SIZES)]
    any_thread = [(np.zeros_like(thread), 0.02)] if threads.size > 1 else []
    return [_Grouping(of_size * threads.size + of_thread, wide + more) for of_size, wide in classes for of_thread, more in [(thread, 0.0), *any_thread]]


def _window(born: NDArray[np.int64], holes: NDArray[np.float64]) -> tuple[int, int]:
    """The shortest span of births, which are in order, that has WINDOW_SHARE of the holes."""
    running = np.cumsum(holes)
    before = running - holes
    end = np.searchsorted(running, before + WINDOW_SHARE * running[-1] * (1 - 1e-9))
    inside = end < born.size
    starts = np.flatnonzero(inside)
    best = int(np.argmin(born[end[inside]] - born[starts]))
    return int(born[starts[best]]), int(born[end[starts[best]]])


def _candidates(born: NDArray[np.int64], holes: NDArray[np.float64], groupings: list[_Grouping], until_ns: int,
                ) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Groups, each whole and cut to its window of births: rows, and the breadth."""
    for grouping in groupings:
        held = np.bincount(grouping.group, holes)
        for number in np.argsort(-held, kind="stable")[:_TRIED]:
            rows = np.flatnonzero(grouping.group == number)
            if not held[number]:
                continue
            yield rows, grouping.breadth
            first, last = _window(born[rows], holes[rows])
            if last - first <= WINDOW_OF_RUN_MAX * max(until_ns, 1):
                begin, end = np.searchsorted(born[rows], first), np.searchsorted(born[rows], last, side="right")
                yield rows[begin:end], grouping.breadth * _CUT


def _worst(blocks: pd.DataFrame, groupings: list[_Grouping], until_ns: int, total_holes: float, total_blocks: int) -> tuple[Holder, NDArray[np.int64]]:
    """The group with most of the holes for few of the blocks, and its rows; of equal ones the narrowest, which comes first."""
    born, holes = blocks["born_ns"].to_numpy(), blocks["holes_bytes"].to_numpy()
    best, highest = np.arange(holes.size), -np.inf
    for rows, breadth in _candidates(born, holes, groupings, until_ns):
        score = holes[rows].sum() / total_holes - 0.5 * rows.size / total_blocks - breadth
        if score > highest + _CLEARLY:
            best, highest = rows, float(score)
    of = blocks.iloc[best]
    threads = of["thread"].unique()
    windowed = of["born_ns"].max() - of["born_ns"].min() <= WINDOW_OF_RUN_MAX * max(until_ns, 1)
    return Holder(int(of["requested_bytes"].min()), int(of["requested_bytes"].max()), int(threads[0]) if threads.size == 1 else None,
                  int(of["born_ns"].min()), int(of["born_ns"].max()), bool(windowed), len(of), float(of["holes_bytes"].sum()),
                  int(of["requested_bytes"].sum())), best


def find_holders(blocks: pd.DataFrame, until_ns: int) -> list[Holder]:
    """Worst first, no block in two of them, at most HOLDERS_MAX that each hold a hundredth of the holes or more.

    blocks: requested_bytes, holes_bytes, thread, born_ns. until_ns: trace time of the snapshot."""
    blocks = blocks.sort_values("born_ns", kind="stable", ignore_index=True)
    groupings = _groupings(blocks)
    total, count = float(blocks["holes_bytes"].sum()), len(blocks)
    found: list[Holder] = []
    while len(found) < HOLDERS_MAX and total and float(blocks["holes_bytes"].sum()) >= total * HOLDER_SHARE_MIN:
        holder, chosen = _worst(blocks, groupings, until_ns, total, count)
        if holder.holes_bytes < total * HOLDER_SHARE_MIN:
            break
        found.append(holder)
        left = np.ones(len(blocks), dtype=np.bool_)
        left[chosen] = False
        blocks = blocks[left]
        groupings = [_Grouping(grouping.group[left], grouping.breadth) for grouping in groupings]
    return found
