# SPDX-License-Identifier: Apache-2.0
"""A plain model of the heap that a dump's events leave, to hold the verbs on traces against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dump_lines import Event


def objects_named(events: list[Event]) -> Iterator[tuple[Event, int]]:
    """Each event with its object, named by the order of births from 1; 0 where it has none."""
    live: dict[int, int] = {}
    born = 0
    for event in events:
        if event.makes:
            born += 1
            assert event.slot not in live, f"event {event.number}: slot {event.slot} is in use"
            live[event.slot] = born
        name = live[event.slot] if event.slot else 0
        if event.ends:
            del live[event.slot]
        yield event, name


@dataclass
class Heap:
    """What the events leave, and what it came to."""

    live_bytes: int = 0
    peak_bytes: int = 0
    peak_objects: int = 0


def follow(events: list[Event]) -> tuple[dict[int, int], Heap]:
    """The live blocks' sizes at the end by slot, and the peaks."""
    live: dict[int, int] = {}
    heap = Heap()
    for event in events:
        if event.makes or event.resizes:
            heap.live_bytes += event.size_bytes - live.get(event.slot, 0)
            live[event.slot] = event.size_bytes
        elif event.ends:
            heap.live_bytes -= live.pop(event.slot)
        heap.peak_bytes = max(heap.peak_bytes, heap.live_bytes)
        heap.peak_objects = max(heap.peak_objects, len(live))
    return live, heap
