# SPDX-License-Identifier: Apache-2.0
"""Blocks of events as encodings see them: a trace's arrays, and the codes of its slots anew.

A block decodes alone: names and stacks start empty in each. The loops here are plain Python, for
any block size and any way of naming; docs/reference/trace-format.md ("Slots") has the one in use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heaptape import ops, read_trace

Ints = NDArray[np.int64]
EXPLICIT, OWN = 1, 0  # a birth with its slot, a name with its slot
ACROSS = 2  # a name by another thread's birth, where births are counted by thread
FIRST = 3  # the first code of a name without its slot


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive events. All arrays have one value per event, 0 where it has none."""

    op: NDArray[np.uint8]
    thread: Ints
    gap: Ints  # time units since the event before
    slot: Ints
    size: Ints
    extra: Ints

    @property
    def rows(self) -> int:
        return int(self.op.size)


def read_blocks(path: Path, rows: int, most: int) -> list[Block]:
    """Up to `most` blocks of so many rows, spread evenly; a shorter trace is one block."""
    with read_trace(path) as trace:
        unit_ns, total = trace.header.time_unit_ns, trace.records
        count = max(1, min(most, total // rows))
        starts = (
            [int(start) for start in np.linspace(0, max(0, total - rows), count + 2)[1:-1]]
            if total > rows
            else [0]
        )
        return [_cut(trace, start, min(rows, total - start), unit_ns) for start in starts]


def _cut(trace: Any, start: int, rows: int, unit_ns: int) -> Block:
    names = ("op", "thread", "time_ns", "slot", "size", "extra")
    parts: dict[str, list[NDArray[Any]]] = defaultdict(list)
    at = 0
    for chunk in trace.event_arrays(names):
        size = chunk["op"].size
        low, high = max(0, start - at), min(size, start + rows - at)
        if low < high:
            for name in names:
                parts[name].append(chunk[name][low:high])
        at += size
        if at >= start + rows:
            break
    joined = {name: np.concatenate(parts[name]) for name in names}
    units = joined["time_ns"] // unit_ns
    rest = {name: joined[name].astype(np.int64) for name in ("thread", "slot", "size", "extra")}
    return Block(op=joined["op"], gap=np.diff(units, prepend=units[0]), **rest)


@dataclass(frozen=True, eq=False)
class Codes:
    """How the events of a block give their slots. birth: per event that makes an object. named: per
    way of naming, per event that names one. across: per ACROSS. slot: what neither has."""

    birth: Ints
    named: dict[str, Ints]
    across: Ints
    slot: Ints


THREAD = "births of the thread"  # the format's
WAYS = ("births", THREAD, "births of the size", "live births", "step of birth")


@dataclass(frozen=True)
class Birth:
    """An object's latest: its number among all, and among those of its thread and of its size."""

    number: int
    in_thread: int
    in_size: int
    thread: int
    owner: int
    size: int


class Births:
    """The objects of a block that have been born, and what each way of naming calls them.

    births: how many births ago. births of the thread: counting only those of the event's thread.
    births of the size: counting only those of the object's size. live births: counting only objects
    that still live, which is their rank in order of last use. step of birth: the difference to the
    birth that was named last."""

    def __init__(self) -> None:
        self.latest: dict[int, Birth] = {}  # by slot
        self.count = 0
        self.of_thread: dict[int, int] = defaultdict(int)
        self.of_size: dict[int, int] = defaultdict(int)
        self.live: list[int] = []
        self.last_named = 0

    def bear(self, slot: int, thread: int, owner: int, size: int) -> None:
        self.count += 1
        self.of_thread[thread] += 1
        self.of_size[size] += 1
        in_thread, in_size = self.of_thread[thread], self.of_size[size]
        self.latest[slot] = Birth(self.count, in_thread, in_size, thread, owner, size)
        self.live.append(self.count)

    def name(self, birth: Birth, thread: int) -> dict[str, int]:
        step = birth.number - self.last_named
        place = bisect_left(self.live, birth.number)
        names = {
            "births": self.count - birth.number,
            THREAD: self.of_thread[thread] - birth.in_thread if birth.thread == thread else -1,
            "births of the size": self.of_size[birth.size] - birth.in_size,
            "live births": len(self.live) - 1 - place,
            "step of birth": 2 * step if step > 0 else 1 - 2 * step,
        }
        self.last_named = birth.number
        del self.live[place]
        return names


@cache
def code_slots(block: Block) -> Codes:
    """The codes of all ways of naming. A name that no birth explains counts as the thread's own."""
    births = Births()
    stacks: dict[int, list[int]] = defaultdict(list)
    birth_codes: list[int] = []
    named: dict[str, list[int]] = {way: [] for way in WAYS}
    slots: list[int] = []
    across: list[int] = []
    for op, thread, slot, size in _rows(block):
        owner = thread
        if ops.OP_MAKES[op]:
            explicit = not (stacks[thread] and stacks[thread][-1] == slot)
            birth_codes.append(EXPLICIT if explicit else 0)
            if not explicit:
                stacks[thread].pop()
        else:
            birth = births.latest.get(slot)
            explicit = birth is None
            names = births.name(birth, thread) if birth else {}
            owner = birth.owner if birth else thread
            for way, codes in named.items():
                codes.append(FIRST + names[way] if birth else OWN)
            if names.get(THREAD) == -1:
                across.append(names["births"])
        if explicit:
            slots.append(slot)
        if ops.OP_MAKES[op] or ops.OP_REBORN[op]:
            births.bear(slot, thread, owner, size)
        elif ops.OP_ENDS[op]:
            births.latest.pop(slot, None)
            if owner == thread:
                stacks[thread].append(slot)
    arrays = {way: np.array(codes, np.int64) for way, codes in named.items()}
    separate = (np.array(values, np.int64) for values in (across, slots))
    return Codes(np.array(birth_codes, np.int64), arrays, *separate)


def _rows(block: Block) -> Iterator[tuple[int, int, int, int]]:
    has = ops.OP_HAS_SLOT[block.op]
    columns = (block.op, block.thread, block.slot, block.size)
    return zip(*(column[has].tolist() for column in columns), strict=True)
