# SPDX-License-Identifier: Apache-2.0
"""What each call site allocates, how long its blocks live, and which are live at the peak and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..trace import ops
from ..trace.live import asked_bytes
from ..trace.reader import Arrays, Trace
from .spans import SiteSpans, SpanSums

_COLUMNS = ("event", "op", "thread", "time_ns", "slot", "size", "extra", "site")
_SUMS = ("calls", "blocks", "handed", "bytes", "square_bytes", "freed_life_ns", "freed_life_events", "life_ns", "life_events", "square_life_ns", "square_life_events", "peak_blocks", "peak_bytes",
         "end_blocks", "end_bytes")
_THREAD_BITS = 24

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SiteFigures:
    """sites: a row for each site, 0 (unknown) first. calls: that asked for memory, failed ones too; bytes: that they got; blocks:
    these and those that the trace began with; handed: that another thread freed; life_ns, life_events: the sums of their lives, in time and in events of the
    trace, until the end where they are not freed; freed_*: of those that are; square_*: sums of squares; peak_*, end_*: live when live bytes were highest,
    and at the end. A realloc ends the life of a block and begins another's at its own site.
    threads: calls by site and thread."""

    sites: pd.DataFrame
    threads: pd.DataFrame
    peak_event: int
    peak_ns: int
    peak_bytes: int
    end_ns: int
    events: int
    spans: SiteSpans


class _Live:
    """What each slot holds, carried from chunk to chunk; and the sums by site."""

    def __init__(self, sites: int) -> None:
        self.rows = sites + 1
        self.spans = SpanSums()
        self.sums = {name: np.zeros(self.rows) if name.startswith("square") else np.zeros(self.rows, dtype=np.int64) for name in _SUMS}
        self.of_slot = {name: np.zeros(1024, dtype=np.int64) for name in ("held", "size", "site", "event", "time_ns", "thread")}
        self.by_thread = pd.Series(dtype=np.int64)
        self.live_bytes, self.peak_bytes, self.peak_event, self.peak_ns = 0, 0, 0, 0
        self.event = self.time_ns = 0

    def _of_sites(self, site: NDArray[Any], weights: NDArray[Any] | None = None) -> Ints:
        found: Ints = np.bincount(site, weights, self.rows).astype(np.int64)
        return found

    def _grow(self, slots: int) -> None:
        for name, values in self.of_slot.items():
            if slots > values.size:
                self.of_slot[name] = np.concatenate([values, np.zeros(max(slots, 2 * values.size) - values.size, dtype=np.int64)])

    def advance(self, chunk: Arrays) -> None:
        """Takes the next events."""
        op = chunk["op"]
        self.spans.reach(int(chunk["time_ns"][-1]) if op.size else 0)
        self._count_calls(chunk)
        rows = np.flatnonzero(ops.OP_CHANGES[op])
        after = {"held": ops.OP_LEAVES_OBJECT[op[rows]].astype(np.int64), "site": chunk["site"][rows].astype(np.int64),
                 "event": chunk["event"][rows], "time_ns": chunk["time_ns"][rows], "thread": chunk["thread"][rows].astype(np.int64)}
        after["size"] = asked_bytes(chunk, rows) * after["held"]
        slot = chunk["slot"][rows].astype(np.int64)
        self._grow(int(slot.max(initial=0)) + 1)
        # A chunk has at most 2^16 rows: sorting keys is several times as fast as argsort.
        key = np.sort(slot << 16 | np.arange(slot.size))
        slot, order, first = key >> 16, key & 0xffff, np.ones(slot.size, dtype=np.bool_)
        first[1:] = slot[1:] != slot[:-1]
        last = np.roll(first, -1)
        before = {}
        for name, values in after.items():
            ordered = values[order]
            before[name] = np.empty_like(values)
            before[name][order] = np.where(first, self.of_slot[name][slot], np.roll(ordered, 1))
            self.of_slot[name][slot[last]] = ordered[last]
        self._end_lives(before, after["event"], after["time_ns"])
        handed = (before["held"] != 0) & (before["thread"] != after["thread"])
        self.sums["handed"] += self._of_sites(before["site"][handed])
        self._count_live(before, after)
        if op.size:
            self.event, self.time_ns = int(chunk["event"][-1]), int(chunk["time_ns"][-1])

    def _count_calls(self, chunk: Arrays) -> None:
        op = chunk["op"]
        calls = np.flatnonzero(ops.OP_HAS_SITE[op] & ops.OP_IS_CALL[op])
        site = chunk["site"][calls].astype(np.int64)
        self.sums["calls"] += self._of_sites(site)
        size = asked_bytes(chunk, calls) * ops.OP_LEAVES_OBJECT[op[calls]]
        self.sums["bytes"] += self._of_sites(site, size)
        self.sums["square_bytes"] += np.bincount(site, size.astype(np.float64) ** 2, self.rows)
        self.spans.add(chunk["time_ns"][calls], site, calls=None, bytes=size)
        key, count = np.unique(site << _THREAD_BITS | chunk["thread"][calls], return_counts=True)
        self.by_thread = self.by_thread.add(pd.Series(count, key), fill_value=0)

    def _end_lives(self, before: dict[str, Ints], event: Ints, time_ns: Ints) -> None:
        ended = before["held"] != 0
        site = before["site"][ended]
        lives = {"life_ns": (time_ns - before["time_ns"])[ended], "life_events": (event - before["event"])[ended]}
        for name, life in lives.items():
            self.sums[name] += self._of_sites(site, life)
            self.sums[f"square_{name}"] += np.bincount(site, life.astype(np.float64) ** 2, self.rows)
        self.spans.add(before["time_ns"][ended], site, blocks=None, **lives)

    def _count_live(self, before: dict[str, Ints], after: dict[str, Ints]) -> None:
        live = self.live_bytes + np.cumsum(after["size"] - before["size"])
        if live.size and int(live.max()) > self.peak_bytes:
            peak = int(live.argmax())
            self.peak_bytes, self.peak_event, self.peak_ns = int(live[peak]), int(after["event"][peak]), int(after["time_ns"][peak])
            for kind in ("blocks", "bytes"):
                self.sums[f"peak_{kind}"] = self.sums[f"end_{kind}"] + self._change(before, after, kind, slice(peak + 1))
        for kind in ("blocks", "bytes"):
            self.sums[f"end_{kind}"] += self._change(before, after, kind, slice(None))
        for sign, of in ((-1, before), (1, after)):
            rows = of["held"] != 0
            self.spans.add(after["time_ns"][rows], of["site"][rows], live_bytes=sign * of["size"][rows], live_blocks=sign * of["held"][rows])
        self.sums["blocks"] += self._of_sites(after["site"][after["held"] != 0])
        self.live_bytes = int(live[-1]) if live.size else self.live_bytes

    def _change(self, before: dict[str, Ints], after: dict[str, Ints], kind: str, rows: slice) -> Ints:
        """What these rows add to the live blocks or bytes of each site. A row that ends a block has no site."""
        name = "held" if kind == "blocks" else "size"
        return self._of_sites(after["site"][rows], after[name][rows]) - self._of_sites(before["site"][rows], before[name][rows])

    def finish(self) -> None:
        """Blocks that nobody freed live until the end."""
        for name in ("life_ns", "life_events"):
            self.sums[f"freed_{name}"] = self.sums[name].copy()
        held = np.flatnonzero(self.of_slot["held"])
        left = {name: values[held] for name, values in self.of_slot.items()}
        self._end_lives(left, np.full(held.size, self.event), np.full(held.size, self.time_ns))


@lru_cache(maxsize=2)
def site_figures(trace: Trace) -> SiteFigures:
    """One pass over the trace; none where it was the latest one."""
    live = _Live(len(trace.sites.sites))
    for chunk in trace.event_arrays(_COLUMNS, slots_due=True):
        live.advance(chunk)
    live.finish()
    key = live.by_thread.index.to_numpy(dtype=np.int64)
    threads = pd.DataFrame({"site": key >> _THREAD_BITS, "thread": key & ((1 << _THREAD_BITS) - 1),
                            "calls": live.by_thread.to_numpy(dtype=np.int64)})
    return SiteFigures(pd.DataFrame(live.sums), threads, live.peak_event, live.peak_ns, live.peak_bytes, live.time_ns, trace.records,
                       live.spans.finish(live.time_ns))
