"""A plain reading of what `heaptape dump` prints, to hold the verbs on traces against."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tool_runner import Tools

LINE = re.compile(r"(\d+) (\d+) t(\d+) ([\w\[\]]+)\((.*?)\)(?: = (NULL|#\d+))?(?: \((\w+)\))?$")
COUNTED = ("calloc", "reallocarray")
REALLOCS = ("realloc", "reallocarray")


@dataclass(frozen=True)
class Event:
    number: int
    time_ns: int
    thread: int
    function: str
    variant: str  # plain, null, failed, released, foreign
    slot: int  # 0: none
    size: int
    extra: int

    @property
    def size_bytes(self) -> int:
        return self.size * self.extra if self.function in COUNTED else self.size

    @property
    def is_call(self) -> bool:
        return self.function not in ("drop", "inherit")

    @property
    def is_realloc(self) -> bool:
        return self.function in REALLOCS

    @property
    def is_free(self) -> bool:
        return self.function == "drop" or "free" in self.function or "delete" in self.function

    @property
    def makes(self) -> bool:
        if self.is_realloc:
            return self.variant in ("null", "foreign")
        return not self.is_free and self.variant == "plain"

    @property
    def ends(self) -> bool:
        return self.variant == "released" or self.is_free and self.variant == "plain"

    @property
    def resizes(self) -> bool:
        return self.is_realloc and self.variant == "plain"


def parse(line: str) -> Event:
    match = LINE.match(line)
    assert match, line
    number, time_ns, thread, function, inside, result, note = match.groups()
    words = inside.split(", ")
    slot = 0
    variant = note or "plain"
    names_object = function in REALLOCS or "free" in function or "delete" in function \
        or function == "drop"
    if names_object:
        operand = words.pop(0)
        if operand == "NULL":
            variant = "null"
        elif operand.startswith("#"):
            slot = int(operand[1:])
    if result and result.startswith("#"):
        assert slot in (0, int(result[1:])), f"a realloc changed the slot: {line}"
        slot = int(result[1:])
    numbers = [int(word.removeprefix("align ")) for word in words]
    aligned = [n for n, word in zip(numbers, words, strict=True) if word.startswith("align ")]
    if names_object and function not in REALLOCS:
        size = next((n for n, w in zip(numbers, words, strict=True) if w[0] != "a"), 0)
        return Event(int(number), int(time_ns), int(thread), function, variant, slot, size,
                     aligned[0] if aligned else 0)
    extra = numbers[0] if len(numbers) == 2 else 0
    return Event(int(number), int(time_ns), int(thread), function, variant, slot, numbers[-1],
                 extra)


def events_of(tools: Tools, trace: Path, *more: str) -> list[Event]:
    done = tools.succeed([tools.heaptape, "dump", trace, *more])
    return [parse(line) for line in done.stdout.decode().splitlines()]


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
