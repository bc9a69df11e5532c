# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own format: curves along the trace as counter tracks, a group for each allocator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..explain.snapshots import SnapshotFile, snapshots_of
from ..explain.stretches import accounts_along
from ..results.curves import recorded_curves, replayed_curves
from ..results.found_trace import FoundTrace
from ..results.summary import Summary
from .series import titles

_ACCOUNTS = {"holes": "holes", "free_pages": "free pages", "headers": "headers", "rounding": "rounding", "tables": "tables", "untouched": "untouched"}
"""Some accounts of `explain`, with the names of their tracks."""

_SEQUENCE = 1
_STATE_CLEARED = 1
_COUNTER = 4
_BYTES = 3
_MESSAGES = {
    "Trace": {"packet": (1, "TracePacket*")},
    "TracePacket": {"timestamp": (8, "number"), "trusted_packet_sequence_id": (10, "number32"), "track_event": (11, "TrackEvent"),
                    "sequence_flags": (13, "number32"), "track_descriptor": (60, "TrackDescriptor")},
    "TrackDescriptor": {"uuid": (1, "number"), "name": (2, "string"), "parent_uuid": (5, "number"), "counter": (8, "CounterDescriptor")},
    "CounterDescriptor": {"unit": (3, "enum")},
    "TrackEvent": {"type": (9, "enum"), "track_uuid": (11, "number"), "counter_value": (30, "int")},
}
"""The fields that are written here, of Perfetto's messages of these names, by number."""


class _Tracks:
    """A trace that is being filled."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self._uuid = 0

    def _packet(self) -> Any:
        packet = self.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        if len(self.trace.packet) == 1:
            packet.sequence_flags = _STATE_CLEARED
        return packet

    def _track(self, name: str, parent: int) -> Any:
        self._uuid += 1
        track = self._packet().track_descriptor
        track.uuid, track.name = self._uuid, name.encode("utf-8", "replace").decode()
        if parent:
            track.parent_uuid = parent
        return track

    def group(self, name: str, parent: int = 0) -> int:
        """A track without counters; its number."""
        return int(self._track(name, parent).uuid)

    def counter(self, name: str, parent: int, time_ns: pd.Series, size: pd.Series) -> None:
        """Bytes, at moments of the trace; those that are not known are left out."""
        known = size.notna()
        if not known.any():
            return
        track = self._track(name, parent)
        track.counter.unit = _BYTES
        times, values = (column[known].to_numpy(dtype=np.float64).round().astype(np.int64).tolist() for column in (time_ns, size))
        for time, value in zip(times, values, strict=True):
            packet = self._packet()
            packet.timestamp = time
            event = packet.track_event
            event.type, event.track_uuid, event.counter_value = _COUNTER, track.uuid, value


def _groups(summary: Summary, found: FoundTrace, snapshots: Sequence[SnapshotFile]) -> Iterator[tuple[str, list[tuple[str, pd.Series, pd.Series]]]]:
    """Names, times and values of curves: the recorded program's, if its trace is there, and each allocator's."""
    if found.trace and summary.experiment.is_as_recorded:
        recorded = recorded_curves(found.trace)
        yield "recorded", [({"recorded heap": "RSS of the heap", "recorded whole": "RSS"}[name], curve["time_ns"], curve["rss_bytes"])
                           for name, curve in recorded.items()]
    along = {str(one.allocator["name"]): accounts_along(one) for one in snapshots}
    order = list(dict.fromkeys(summary.comparison["allocator"]))
    curves = replayed_curves(summary.experiment.runs, order)
    for name in order:
        counters = [(title, curves[name]["time_ns"], curves[name][column]) for title, column in (("RSS", "rss_bytes"), ("live", "live_bytes"))
                    if name in curves]
        if name in along:
            counters += [(title, along[name]["time_ns"], along[name][account]) for account, title in _ACCOUNTS.items()]
        if counters:
            yield name, counters


def to_perfetto(summaries: Sequence[Summary], found: Sequence[FoundTrace], snapshots: Sequence[SnapshotFile]) -> bytes:
    """Raises UsageError where no run has a curve."""
    from ..sites.profile_message import message_class  # needs a package that no other feed needs

    tracks = _Tracks(message_class("perfetto.protos", _MESSAGES, "Trace", proto3=False)())
    for title, summary, trace in zip(titles(summaries), summaries, found, strict=True):
        groups = list(_groups(summary, trace, snapshots_of(snapshots, summary.experiment)))
        parent = tracks.group(title) if any(name != "recorded" for name, _ in groups) else 0
        for name, counters in groups if parent else []:
            own = tracks.group(name, parent)
            for counter, times, values in counters:
                tracks.counter(counter, own, times, values)
    if not tracks.trace.packet:
        raise UsageError("--to perfetto: expected runs of the memory pass with curves, found none")
    return bytes(tracks.trace.SerializeToString())
