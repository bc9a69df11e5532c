# SPDX-License-Identifier: Apache-2.0
"""Traces that are whole and sealed, and yet contradict themselves: what no accident makes, but a person may."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import naive_writer as writer
import xxhash
import zstandard
from naive_writer import ColumnSpec, Event

CONTEXT, EVENTS, SAMPLES, TOTALS, INDEX = 1, 2, 3, 6, 7
TOKEN, THREAD, LENGTH, TIME, LONG, OP, CODE, WHOLE_SIZE, WHOLE_EXTRA, NAMED, SLOT, SIZE, EXTRA, _, JOINED = range(1, 16)
HEADER_BYTES, SECTION_BYTES, ENTRY_BYTES = 64, 48, 16
# malloc(8) as a whole token, and a free of it as an open one.
GOOD: dict[int, list[int]] = {
    TOKEN: [0, 1], THREAD: [0], LENGTH: [2], TIME: [0, 1], LONG: [], OP: [1, 5], CODE: [1, 0], WHOLE_SIZE: [8],
    WHOLE_EXTRA: [0], NAMED: [3], SLOT: [1], SIZE: [], EXTRA: []}


def sealed(section: bytes) -> bytes:
    """The section with its checksum made right."""
    head, payload = section[:40], section[SECTION_BYTES:]
    return head + struct.pack("<Q", xxhash.xxh64_intdigest(head + payload)) + payload


def patched(content: bytes, offset: int, new: bytes) -> bytes:
    return content[:offset] + new + content[offset + len(new):]


def whole(sections: Iterable[bytes], unit_ns: int = 1) -> bytes:
    return writer.assemble(writer.encode_header(unit_ns=unit_ns), list(sections))[0]


def two_events(first_event: int = 0, first_time: int = 0, without: int = 0,
               **changed: list[int]) -> bytes:
    """A malloc and its free; columns by name as in the names above, in small letters."""
    values = dict(GOOD)
    for name, column in changed.items():
        values[globals()[name.upper()]] = column
    columns = [ColumnSpec(id_, column, width=1 if id_ == JOINED else None, nibbles=id_ == TIME)
               for id_, column in values.items() if id_ != without]
    return writer.encode_section(EVENTS, columns, 2, first_event, first_time)


def entry_changed(section: bytes, column: int, field: int, value: int) -> bytes:
    """One byte of a column's directory entry set: 1 its width, 2 transform, 3 compression, 4 number of values."""
    return sealed(patched(section, SECTION_BYTES + ENTRY_BYTES * (column - 1) + field, bytes([value])))


def two_frames(section: bytes) -> bytes:
    """The section with its first column, of two bytes, in two frames of one byte each."""
    entries = section[5] * ENTRY_BYTES
    payload = section[SECTION_BYTES:]
    frames = b"".join(zstandard.ZstdCompressor().compress(bytes([value])) for value in payload[entries:entries + 2])
    first = payload[:3] + b"\1" + payload[4:8] + struct.pack("<I", len(frames)) + payload[12:ENTRY_BYTES]
    payload = first + payload[ENTRY_BYTES:entries] + frames + payload[entries + 2:]
    return sealed(patched(section[:SECTION_BYTES], 8, struct.pack("<I", len(payload))) + payload)


def with_index(sections: list[bytes], index: bytes) -> bytes:
    """The file with an index of its own making."""
    body = writer.encode_header() + b"".join(sections)
    footer = struct.pack("<8sQQ", b"HTAPEEND", len(body), len(body) + len(index) + 32)
    return body + index + footer + struct.pack("<Q", xxhash.xxh64_intdigest(footer))


def index_of(*rows: tuple[int, int, int, int, int]) -> bytes:
    return writer.encode_section(INDEX, [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*rows, strict=True))], 0)


def of_events(*events: Event) -> bytes:
    return writer.build(writer.TraceSpec(events=list(events)))[0]


def structures() -> dict[str, bytes]:
    """Header, footer, index, and what they say of one another."""
    good = two_events()
    trace = whole([good])
    end = HEADER_BYTES + len(good)
    row = (HEADER_BYTES, EVENTS, 2, 0, 0)
    too_wide = patched(index_of(row), 4 + 4, struct.pack("<I", (64 << 20) + 1))
    footer = struct.pack("<8sQQ", b"HTAPEEND", len(trace) - 10, len(trace))
    return {
        "header-checksum.bin": patched(trace, 30, b"\1"),
        "header-rows.bin": writer.encode_header(rows=65_537) + trace[HEADER_BYTES:],
        "inherit-late.bin": of_events(Event(1, slot=1, size=5), Event(31, slot=2, size=5)),
        "inherit-late-section.bin": writer.build(writer.TraceSpec(block=2, events=[
            Event(31, slot=1, size=5), Event(30, slot=1), Event(31, slot=2, size=5)]))[0],
        "time-unit.bin": writer.encode_header(unit_ns=0),
        "index-offset.bin": trace[:-32] + footer + struct.pack("<Q", xxhash.xxh64_intdigest(footer)),
        "index-kind.bin": with_index([good], two_events()),
        "index-limits.bin": with_index([good], too_wide),
        "index-payload.bin": with_index([good], patched(index_of(row), 8, struct.pack("<I", 1 << 20))),
        "index-columns.bin": with_index([good], writer.encode_section(INDEX, [], 0)),
        "index-missing-column.bin": with_index([good], writer.encode_section(INDEX, [ColumnSpec(1, [64])], 0)),
        "index-length.bin": with_index([good], writer.encode_section(
            INDEX, [ColumnSpec(1, [64])] + [ColumnSpec(i, [1, 2]) for i in range(2, 6)], 0)),
        "index-rows.bin": with_index([good], writer.encode_section(INDEX, [ColumnSpec(1, [0] * 9)], 0)),
        "index-behind.bin": with_index([good], index_of((end, EVENTS, 2, 0, 0))),
        "index-order.bin": with_index([good], index_of(row, row)),
        "index-differs.bin": with_index([good], index_of((HEADER_BYTES, EVENTS, 1, 0, 0))),
        "index-inside.bin": with_index([good], index_of(row, (HEADER_BYTES + 50, TOTALS, 0, 0, 0))),
        "events-gap.bin": whole([good, two_events(first_event=3)]),
        "time-backwards.bin": whole([two_events(first_time=9), two_events(first_event=2, first_time=8)]),
        "time-overlap.bin": whole([two_events(time=[0, 9]), two_events(first_event=2, first_time=8)]),
        "time-64-bits.bin": whole([two_events(first_time=1 << 62)], unit_ns=4),
    }


def columns() -> dict[str, bytes]:
    """Columns of one events section."""
    good = two_events()
    noise = random.Random(3).randbytes(40)
    packed = writer.encode_section(EVENTS, [ColumnSpec(THREAD, list(noise), compress=True)], 40)
    cycle = writer.encode_section(EVENTS, [ColumnSpec(THREAD, list(range(8)) * 16, compress=True)], 128)
    summed = [ColumnSpec(i, v, i == THREAD, nibbles=i == TIME)
              for i, v in (GOOD | {THREAD: [(1 << 32) - 1, 1 << 32], LENGTH: [1, 1]}).items()]
    of_halves = GOOD | {TIME: [0, 1, 2], TOKEN: [0, 1, 1], LENGTH: [3]}
    three = [ColumnSpec(i, v, nibbles=i == TIME) for i, v in of_halves.items()]
    odd = bytearray(writer.encode_section(EVENTS, three, 3))
    odd[SECTION_BYTES + ENTRY_BYTES * len(three) + 5] |= 0x70  # tokens 0 1 1, the run's 3, times 0 1 and 2
    return {
        "column-twice.bin": whole([writer.encode_section(
            EVENTS, [ColumnSpec(i, v, nibbles=i == TIME) for i, v in (*GOOD.items(), (SLOT, [7]))], 2)]),
        "column-twice-unknown.bin": whole([writer.encode_section(
            EVENTS, [ColumnSpec(i, v, nibbles=i == TIME) for i, v in (*GOOD.items(), (70, [7]), (70, [7]))], 2)]),
        "column-beyond.bin": whole([entry_changed(good, EXTRA, 8, 1)]),
        "column-left.bin": whole([sealed(patched(good, 8, struct.pack("<I", len(good) - SECTION_BYTES + 1)) + b"?")]),
        "column-two-frames.bin": whole([two_frames(good)]),
        "column-32-bits-time.bin": whole([two_events(time=[0, 15], long=[1 << 32])]),
        "column-missing.bin": whole([two_events(without=CODE)]),
        "column-length.bin": whole([two_events(code=[1])]),
        "column-wide.bin": whole([entry_changed(good, CODE, 1, 9)]),
        "column-transform.bin": whole([entry_changed(good, CODE, 2, 3)]),
        "column-compression.bin": whole([entry_changed(good, CODE, 3, 2)]),
        "column-stored.bin": whole([entry_changed(good, CODE, 1, 2)]),
        "column-frame-damaged.bin": whole([sealed(patched(cycle, SECTION_BYTES + ENTRY_BYTES + 9, b"\xff" * 4))]),
        "column-frame.bin": whole([sealed(patched(packed, SECTION_BYTES + ENTRY_BYTES, b"\xff" * 4))]),
        "column-32-bits.bin": whole([two_events(slot=[1 << 32])]),
        "column-32-bits-summed.bin": whole([writer.encode_section(EVENTS, summed, 2)]),
        "column-bytes.bin": whole([entry_changed(good, TOKEN, 2, 1)]),
        "column-halves.bin": whole([entry_changed(good, TIME, 2, 0)]),
        "column-half-left.bin": whole([sealed(bytes(odd))]),
        "column-no-halves.bin": whole([entry_changed(good, CODE, 2, 2)]),
        "tokens-missing.bin": whole([two_events(without=TOKEN)]),
        "tokens-many.bin": whole([two_events(op=[1] * 257, code=[1] * 257)]),
        "tokens-whole.bin": whole([two_events(whole_size=[8] * 3, whole_extra=[0] * 3)]),
        "tokens-values.bin": whole([two_events(whole_extra=[7])]),
        "tokens-beyond.bin": whole([two_events(token=[0, 2])]),
        "joined-few.bin": whole([two_events(joined=[0])]),
        "joined-before-birth.bin": whole([two_events(joined=[1, 0])]),
        "joined-after-end.bin": whole([two_events(joined=[0, 2])]),
        "joined-sum.bin": whole([two_events(joined=[2, 1])]),
        "time-missing.bin": whole([two_events(without=TIME)]),
        "ops-unknown.bin": whole([two_events(op=[1, 27])]),
        "runs-missing.bin": whole([two_events(without=THREAD)]),
        "runs-sum.bin": whole([two_events(length=[1])]),
        "runs-beyond.bin": whole([two_events(length=[3])]),
        "birth-code.bin": whole([two_events(code=[2, 0])]),
        "slot-zero.bin": whole([two_events(slot=[0])]),
        "birth-empty-stack.bin": whole([two_events(code=[0, 0], slot=[])]),
        "named-before-all.bin": whole([two_events(named=[7])]),
    }


@cache
def others() -> dict[str, bytes]:
    """Texts, the rare facts, and what only a replay can find."""
    good, nothing = two_events(), writer.encode_json(CONTEXT, {})
    bomb = writer.encode_section(CONTEXT, [ColumnSpec(1, [0] * ((1 << 20) + 1), width=0)], 0)
    hollow = writer.encode_section(SAMPLES, [ColumnSpec(i, []) for i in range(1, 7)], 65_536)
    for column in range(1, 7):
        hollow = sealed(patched(hollow, SECTION_BYTES + ENTRY_BYTES * (column - 1) + 4, struct.pack("<I", 65_536)))
    return {
        "info-totals.bin": whole([nothing, good, writer.encode_section(TOTALS, [ColumnSpec(1, list(b"[]"))], 0)]),
        "info-text.bin": whole([bomb, good, writer.encode_json(TOTALS, {})]),
        "info-context.bin": whole([writer.encode_section(CONTEXT, [ColumnSpec(1, list(b"{]"))], 0), good]),
        "info-zero.bin": whole([writer.encode_section(CONTEXT, [ColumnSpec(1, list(b"{}\0{}"), width=1)], 0), good]),
        "info-context-twice.bin": whole([nothing, nothing, good, writer.encode_json(TOTALS, {})]),
        "info-threads.bin": (writer.encode_header() + two_events(thread=[3]) + b"HTB"),
        "replay-facts.bin": whole([nothing, good, *([hollow] * 17)]),
        "replay-nothing.bin": of_events(Event(1, 2, size=5)),
        "replay-twice.bin": of_events(Event(1, slot=1, size=5), Event(1, slot=1, size=5)),
        "replay-unborn.bin": of_events(Event(5, slot=1)),
        "replay-inherit.bin": of_events(Event(1, slot=1, size=5), Event(31, slot=2, size=5)),
        "replay-slot.bin": of_events(Event(1, slot=1, size=5), Event(1, slot=1_000_000, size=5)),
        "replay-slot-limit.bin": of_events(Event(1, slot=1 << 29, size=5)),
        "replay-thread.bin": of_events(Event(1, slot=1, size=5), Event(1, thread=1_000_000, slot=2, size=5)),
        "replay-threads.bin": writer.build(writer.TraceSpec(
            events=[Event(1, slot=1, size=5), Event(5, thread=1, slot=1)], threads=[(5, 0, 0, 1, 0, 0, "one")]))[0],
        "replay-size.bin": of_events(Event(1, slot=1, size=1 << 63)),
        "replay-live.bin": of_events(*(Event(1, slot=number, size=(1 << 63) - 1) for number in (1, 2))),
        "replay-time.bin": of_events(Event(1, slot=1, size=5, time=1 << 61)),
    }


def call_sites() -> dict[str, bytes]:
    """Tables that name what they do not have; the events are good."""
    def table(kind: int, *columns: list[int]) -> bytes:
        return writer.encode_section(kind, [ColumnSpec(i + 1, column) for i, column in enumerate(columns)], len(columns[0]))

    def strings(text: bytes) -> bytes:
        return writer.encode_section(14, [ColumnSpec(1, list(text), width=1)], 0)

    location, caller, site = table(10, [0], [64]), table(11, [0], [0]), table(12, [1], [0])
    good = [writer.encode_json(9, {"modules": []}), location, caller, site]
    hollow = table(10, [], [])
    hollow = sealed(patched(hollow, 12, struct.pack("<I", 65_536)))
    for column in range(2):
        hollow = sealed(patched(hollow, SECTION_BYTES + ENTRY_BYTES * column + 4, struct.pack("<I", 65_536)))
    wrong = {
        "module": [writer.encode_json(9, {"modules": [{"path": "a"}]}), table(10, [0, 1, 2], [64, 65, 66])],
        "no-modules": [table(10, [1], [64])],
        "modules-text": [writer.encode_json(9, ["modules"])],
        "modules-list": [writer.encode_json(9, {"modules": 3})],
        "modules-row": [writer.encode_json(9, {"modules": [3]})],
        "modules-path": [writer.encode_json(9, {"modules": [{"path": 3}]})],
        "flags": [location, caller, table(12, [1], [1 << 32])],
        "parent": [location, table(11, [1], [0])],
        "caller-location": [location, table(11, [0], [1])],
        "site-caller": [location, caller, table(12, [2], [0])],
        "name-location": [*good, table(13, [1], [0], [0], [0])],
        "name-order": [table(10, [0, 0], [64, 65]), caller, site, table(13, [1, 0], [0, 0], [0, 0], [0, 0])],
        "line": [*good, table(13, [0], [0], [0], [1 << 32])],
        "name-far": [*good, table(13, [0], [1 << 32], [0], [0])],
        "name-string": [*good, table(13, [0], [2], [0], [0]), strings(b"work\0")],
        "no-strings": [*good, strings(b"")],
        "string-end": [*good, strings(b"work")],
        "rows": [hollow] * 17,
    }
    unknown = writer.build(writer.TraceSpec([Event(1, slot=1, size=5, site=3)]))[0]
    return {"sites-event.bin": unknown} | {f"sites-{name}.bin": whole([two_events(), *sections]) for name, sections in wrong.items()}


def broken() -> dict[str, bytes]:
    return structures() | columns() | others() | call_sites()
