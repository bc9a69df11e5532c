# SPDX-License-Identifier: Apache-2.0
"""From a file of snapshots, and the births of the blocks in it, to the answer about its allocator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.allocators import full_name, is_the_linked, other_release
from ..base.arguments import duration_ns
from ..base.errors import HeaptapeError
from ..base.sharing import is_forked, sharing
from ..base.units import byte_count
from ..results.use import also_set
from ..trace import ops
from ..trace.reader import Trace
from .accounts import account, use_of
from .answer import Answer, Moment, WithinCall
from .call_sites import call_sites
from .heap_map import map_of
from .holders import find_holders
from .snapshots import Snapshot, SnapshotFile
from .stretches import accounts_along, break_of, mean_of
from .sums import Sums, verdict_of
from .verdict import shared_lines, trend_of, unmeasured

_COLUMNS = ("event", "op", "thread", "time_ns", "slot", "site")


class _Births:
    """By slot, the latest event that made an object there; and the latest one that gave it memory, with its call site."""

    def __init__(self) -> None:
        self.made = np.full(1024, -1, dtype=np.int64)
        self.thread = np.zeros(1024, dtype=np.int64)
        self.time_ns = np.zeros(1024, dtype=np.int64)
        self.given = np.full(1024, -1, dtype=np.int64)
        self.site = np.zeros(1024, dtype=np.int64)

    def _grow(self, slots: int) -> None:
        more = max(slots, 2 * self.made.size) - self.made.size
        self.made = np.concatenate([self.made, np.full(more, -1, dtype=np.int64)])
        self.thread = np.concatenate([self.thread, np.zeros(more, dtype=np.int64)])
        self.time_ns = np.concatenate([self.time_ns, np.zeros(more, dtype=np.int64)])
        self.given = np.concatenate([self.given, np.full(more, -1, dtype=np.int64)])
        self.site = np.concatenate([self.site, np.zeros(more, dtype=np.int64)])

    def advance(self, chunk: dict[str, NDArray[np.int64]], until: int) -> None:
        """Takes the events up to this one. Of several of a slot the last stays, as numpy assigns in order."""
        rows = np.flatnonzero(ops.OP_MAKES[chunk["op"]] & (chunk["event"] <= until))
        slot, latest = chunk["slot"][rows].astype(np.int64), int(chunk["slot"].max(initial=0))
        if latest >= self.made.size:
            self._grow(latest + 1)
        self.made[slot], self.thread[slot] = chunk["event"][rows], chunk["thread"][rows]
        self.time_ns[slot] = chunk["time_ns"][rows]
        given = np.flatnonzero(ops.OP_LEAVES_OBJECT[chunk["op"]] & (chunk["event"] <= until))
        self.given[chunk["slot"][given]], self.site[chunk["slot"][given]] = chunk["event"][given], chunk["site"][given]

    def of(self, slots: NDArray[np.int64]) -> pd.DataFrame:
        if slots.size and int(slots.max()) >= self.made.size:
            self._grow(int(slots.max()) + 1)
        return pd.DataFrame({"born_event": self.made[slots], "thread": self.thread[slots], "born_ns": self.time_ns[slots],
                             "given_event": self.given[slots], "site": self.site[slots]})


def births_of(trace: Trace, event: int, slots: NDArray[np.int64]) -> pd.DataFrame:
    """A row for each slot with born_event (-1: none), thread, born_ns, given_event and call site of the block that is live there after this event."""
    births = _Births()
    for chunk in trace.event_arrays(_COLUMNS, slots_due=True):
        births.advance(chunk, event)
        if chunk["event"].size and int(chunk["event"][-1]) >= event:
            break
    return births.of(slots)


WITHIN_CALL_SHARE = 0.05
"""A reading of RSS between calls that is less than the peak by no more than this share is taken for the peak."""


def _asked(found: SnapshotFile, at: str) -> Snapshot:
    """The snapshot that was asked for. One with several reasons has the first alone."""
    latest = max(found.snapshots, key=lambda snapshot: snapshot.time_ns)
    if at == "peak":
        return replace(next((snapshot for snapshot in found.snapshots if snapshot.why == "peak"), max(found.snapshots, key=lambda one: one.rss_bytes)),
                       why="peak")
    if at == "end":
        return replace(latest, why="end")
    until_ns = duration_ns(at) or 0
    before = [snapshot for snapshot in found.snapshots if snapshot.time_ns <= until_ns] or found.snapshots[:1]
    return replace(before[-1], why="time")


def _within_call(found: SnapshotFile) -> WithinCall | None:
    """The peak, where RSS between calls never came near it."""
    curve = found.curve
    peak = int(curve["high_bytes"].max()) if len(curve) else 0
    if peak - int(curve["rss_bytes"].max() if len(curve) else 0) <= WITHIN_CALL_SHARE * peak:
        return None
    return WithinCall(peak, int(curve["time_ns"].iloc[int(curve["high_bytes"].argmax())]))


def _mean(along: pd.DataFrame, live_rises: bool) -> list[Moment]:
    mean = mean_of(along)
    return [] if mean is None else [Moment("mean", None, mean, verdict_of(mean, live_rises))]


def _names(trace: Trace) -> dict[int, str]:
    return {int(number): str(name) for number, name in trace.threads["name"].items()}


def _begins_late(trace: Trace) -> str:
    if not (trace.totals or {}).get("inherited_objects"):
        return ""
    return "slice" if "sliced_from" in trace.context else "fork"


_ASK = frozenset({"mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "others"})
"""Control calls that change nothing."""


_SETS = frozenset(f"mallctl({name})" for name in (
    "arena.N.purge", "arena.N.decay", "arena.N.dirty_decay_ms", "arena.N.muzzy_decay_ms", "arenas.dirty_decay_ms", "arenas.muzzy_decay_ms",
    "background_thread", "thread.tcache.flush"))
"""Names of mallctl's that change something; others are only read."""


def _controls(trace: Trace) -> dict[str, int]:
    calls = (trace.totals or {}).get("control_calls") or {}
    return {str(name): int(count) for name, count in calls.items() if name not in _ASK and not (name.startswith("mallctl(") and name not in _SETS)}


def _extended(trace: Trace) -> dict[str, Any] | None:
    """The words of heaptape extend about it; a slice's times begin anew."""
    said, cut = trace.context.get("extended"), trace.context.get("sliced_from")
    if not isinstance(said, dict):
        return None
    return said | {"of_slice": isinstance(cut, dict) and cut.get("of_extension") is True}


def _own(trace: Trace, allocator: dict[str, Any]) -> str:
    """The caution where this is not the allocator that is part of the program, else ""."""
    context, peak = trace.context, (trace.totals or {}).get("recorded_rss_peak_bytes")
    recorded = {"name": context.get("allocator_name"), "version": context.get("allocator_version")}
    if not context.get("linked_allocator") or not peak or is_the_linked(recorded, str(allocator["name"]), str(allocator["version"])):
        return ""
    return (f"Caution: the program's own {full_name(recorded)} is part of it and not replayed: under that the process held {byte_count(peak)} at its "
            f"peak. What follows is of {' '.join(filter(None, [allocator['name'], allocator['version']]))} in its place.")


def _release(trace: Trace, allocator: dict[str, Any]) -> str:
    """The caution where this is another release of the program's allocator, else ""."""
    recorded = {"name": trace.context.get("allocator_name"), "version": trace.context.get("allocator_version")}
    said = "" if trace.context.get("linked_allocator") else other_release(recorded, str(allocator["name"]), str(allocator["version"]))
    return f"Caution: {said}." if said else ""


def answer_of(found: SnapshotFile, at: str, trace: Trace | None, cells_max: int) -> Answer:
    """at: as --at takes it. trace: None where it is not to be had: nobody knows then who allocated the blocks. cells_max: of the
    map; 0: none is wanted."""
    if not found.snapshots:
        raise HeaptapeError(f"{found.path}: no call to take a snapshot at")
    snapshot = _asked(found, at)
    uses = dict(enumerate(map(use_of, found.snapshots))) if cells_max else {}
    each = [account(one, uses.get(number)) for number, one in enumerate(found.snapshots)]
    accounts = next(one for one, of in zip(each, found.snapshots, strict=True) if of.blocks is snapshot.blocks)
    births = births_of(trace, snapshot.event, accounts.blocks["slot"].to_numpy()) if trace else None
    blocks = None if births is None else pd.concat([accounts.blocks, births], axis=1)
    holders = [] if blocks is None else find_holders(blocks, snapshot.time_ns)
    lines = None if blocks is None else shared_lines(blocks)
    sites = call_sites(trace, blocks) if trace and blocks is not None else None
    a_site_grows = bool(sites and sites.growing)
    trend = trend_of(found.curve, a_site_grows)
    rises = trend.live_rises or a_site_grows
    begins_late = _begins_late(trace) if trace else ""
    moments = [Moment(of.why, of.time_ns, Sums(one.bytes, one.rss_bytes, one.not_resident_bytes), verdict_of(one, rises))
               for one, of in zip(each, found.snapshots, strict=True)]
    along = accounts_along(found)
    return Answer(str(trace.path if trace else found.trace["path"]), snapshot, int(found.curve["time_ns"].max()), accounts,
                  verdict_of(accounts, rises), trend, holders,
                  _names(trace) if trace else {}, None, lines, [*moments, *_mean(along, rises)], along, break_of(found, along, snapshot.time_ns, begins_late != ""),
                  map_of(found.snapshots, uses, snapshot, births, cells_max) if cells_max else None,
                  str(trace.context.get("command") or "") if trace else "", also_set(trace.context) if trace else "",
                  sites, _extended(trace) if trace else None,
                  unmeasured(trace, blocks) if trace and blocks is not None else None, _within_call(found), sharing(is_forked(trace.context, trace.totals)) if trace else "",
                  found.baseline_check, not trace or (trace.totals or {}).get("recorded_rss_peak_bytes") is not None,
                  begins_late=begins_late, fresh_heap=begins_late == "slice" and trace is not None and trace.context.get("prelude") != "whole",
                  controls=_controls(trace) if trace else {},
                  own=_own(trace, snapshot.allocator) if trace else "", release=_release(trace, snapshot.allocator) if trace else "")
