# SPDX-License-Identifier: Apache-2.0
"""A tiny writer of traces for the tests, from docs/reference/trace-format.md and from nothing else: one value at a time, slow and
plain, so that it shares neither code nor cleverness with the reader that it checks."""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections import Counter
from dataclasses import dataclass, field

import xxhash
import zstandard

# (function, variant) → which values an event carries; the table of the specification, written out.
CARRIES: dict[tuple[int, int], str] = {}
for _row in """
1 SZ - Z - -|2 SZX - ZX - -|3 SZ SZ Z SZ SZ|4 SZX SZX ZX SZX SZX|5 S 0 - - 0|6 SZX - ZX - -|7 SZX - ZX - -
8 SZX - ZX - -|9 SZ - Z - -|10 SZ - Z - -|11 SZ Z - - Z|12 SZX ZX - - ZX|13 S 0 - - 0|14 SZ - Z - -|15 SZ - Z - -
16 SZX - ZX - -|17 SZX - ZX - -|18 S 0 - - 0|19 S 0 - - 0|20 SZ Z - - Z|21 SZ Z - - Z|22 SX X - - X|23 SX X - - X
24 SZX ZX - - ZX|25 SZX ZX - - ZX|26 S - - - -|28 SZX - - - -|29 ZX - - - -|30 S - - - -|31 SZ - - - -
""".replace("\n", "|").strip("|").split("|"):
    _function, *_cells = _row.split()
    for _variant, _cell in enumerate(_cells):
        if _cell != "-":
            CARRIES[int(_function), _variant] = _cell.replace("0", "")


@dataclass(frozen=True)
class Event:
    function: int
    variant: int = 0
    thread: int = 0
    time: int = 0
    """In units."""
    slot: int = 0
    size: int = 0
    extra: int = 0
    site: int = 0


@dataclass
class ColumnSpec:
    id: int
    values: list[int]
    difference: bool = False
    compress: bool = False
    width: int | None = None
    nibbles: bool = False


def zigzag(value: int) -> int:
    signed = value - (1 << 64) if value >= 1 << 63 else value
    return (signed << 1 ^ signed >> 63) & (1 << 64) - 1


def encode_column(spec: ColumnSpec) -> tuple[bytes, bytes]:
    """Directory entry and bytes."""
    values, before = [], 0
    for value in spec.values:
        values.append(zigzag((value - before) % (1 << 64)) if spec.difference else value)
        before = value
    width = spec.width if spec.width is not None else max((-(-v.bit_length() // 8) for v in values), default=0)
    raw = b"".join(bytes(v >> 8 * plane & 255 for v in values) for plane in range(width))
    if spec.nibbles:
        width = 1
        raw = bytes(sum(v << 4 * i for i, v in enumerate(pair)) for pair in (values[i : i + 2] for i in range(0, len(values), 2)))
    stored = zstandard.ZstdCompressor().compress(raw) if spec.compress and raw else raw
    compression = 1 if spec.compress and raw else 0
    transform = 2 if spec.nibbles else spec.difference
    return struct.pack("<BBBBIII", spec.id, width, transform, compression, len(values), len(stored), 0), stored


def encode_section(
    kind: int, columns: list[ColumnSpec], rows: int, first_event: int = 0, first_time: int = 0
) -> bytes:
    entries, stored = zip(*(encode_column(spec) for spec in columns), strict=True) if columns else ((), ())
    payload = b"".join(entries) + b"".join(stored)
    head = struct.pack("<4sBBHIIQQQ", b"HTBK", kind, len(columns), 0, len(payload), rows, first_event, first_time, 0)
    return head + struct.pack("<Q", xxhash.xxh64_intdigest(head + payload)) + payload


def encode_header(
    version: int = 2, min_reader: int = 2, features: int = 0, unit_ns: int = 1, rows: int = 65_536
) -> bytes:
    head = struct.pack("<8sHHIII32s", b"HTAPETRC", version, min_reader, features, unit_ns, rows, b"")
    return head + struct.pack("<Q", xxhash.xxh64_intdigest(head))


def encode_json(kind: int, value: object, compress: bool = False) -> bytes:
    return encode_section(kind, [ColumnSpec(1, list(json.dumps(value).encode()), compress=compress, width=1)], 0)


def encode_slots(events: list[Event], literal: random.Random | None) -> tuple[list[int], list[int], list[int]]:
    """The code of every event (0 without a slot) and the columns slot and across, by walking through the events as the
    specification does. Where a slot could be named without its number, or by a birth of the thread, `literal` may decide
    to do otherwise, as a writer is free to."""
    stacks: dict[int, list[int]] = {}
    births: list[tuple[int, int, int | None]] = []  # thread, number among its births, owner
    born: dict[int, int] = {}  # thread: its births so far
    latest: dict[int, int] = {}  # slot: the number of its latest birth, from 1
    codes: list[int] = []
    slots: list[int] = []
    across: list[int] = []

    def bear(event: Event, owner: int | None) -> None:
        born[event.thread] = born.get(event.thread, 0) + 1
        births.append((event.thread, born[event.thread], owner))
        latest[event.slot] = len(births)

    for event in events:
        if "S" not in CARRIES[event.function, event.variant]:
            codes.append(0)
            continue
        stack = stacks.setdefault(event.thread, [])
        plainly = literal is not None and literal.random() < 0.2
        owner: int | None = event.thread
        if makes_object(event):
            if stack and stack[-1] == event.slot and not plainly:
                stack.pop()
                codes.append(0)
            else:
                codes.append(1)
                slots.append(event.slot)
            bear(event, owner)
            continue
        if event.slot in latest and not plainly:
            thread, number, owner = births[latest[event.slot] - 1]
            if thread == event.thread and not (literal is not None and literal.random() < 0.2):
                codes.append(3 + born[thread] - number)
            else:
                codes.append(2)
                across.append(len(births) - latest[event.slot])
        else:
            nobody = literal is not None and literal.random() < 0.5
            codes.append(1 if nobody else 0)
            owner = None if nobody else owner
            slots.append(event.slot)
        if event.function in (3, 4) and event.variant == 0:
            bear(event, owner)
        elif event.function not in (26, 28) and owner == event.thread:  # neither a query nor a madvise ends an object
            stack.append(event.slot)
    return codes, slots, across


def inherits_first(kinds: list) -> list:
    """Events, or functions and variants, in an order that a trace may have them in."""
    def function(kind: object) -> object:
        while isinstance(kind, tuple):
            kind = kind[0]
        return kind
    return sorted(kinds, key=lambda kind: function(kind) != 31)


def makes_object(event: Event) -> bool:
    if event.function in (3, 4):
        return event.variant in (1, 4)
    return event.variant == 0 and event.function in (1, 2, 6, 7, 8, 9, 10, 14, 15, 16, 17, 31)


def join_queries(events: list[Event], literal: random.Random | None) -> tuple[list[Event], list[int]]:
    """The events without the queries that are joined to their neighbours, and what is joined to each. Only queries of the
    neighbour's time are, so that none is moved; `literal` may decide to leave some alone."""
    kept: list[Event] = []
    joined: list[int] = []
    for event in events:
        near = bool(kept) and (kept[-1].thread, kept[-1].slot, kept[-1].time) == (event.thread, event.slot, event.time)
        near = near and "S" in CARRIES[kept[-1].function, kept[-1].variant] and not (literal is not None and literal.random() < 0.2)
        if near and event.function == 26 and not joined[-1] & 2 and (
                makes_object(kept[-1]) or kept[-1].function == 26 or (kept[-1].function in (3, 4) and kept[-1].variant == 0)):
            joined[-1] |= 2
        elif near and kept[-1].function == 26 and not joined[-1] and "S" in CARRIES[event.function, event.variant] and (
                not makes_object(event)):
            kept[-1], joined[-1] = event, 1
        else:
            kept.append(event)
            joined.append(0)
    return kept, joined


@dataclass
class Tokens:
    """The tokens of a section, and what open ones leave to other columns."""

    whole: list[tuple[int, int, int, int, int]]  # op, code, size, extra, joined queries
    open: list[tuple[int, int, int]]  # op, code, joined queries
    token: list[int]
    named: list[int]
    size: list[int]
    extra: list[int]


def tokenize(events: list[Event], codes: list[int], joined: list[int], literal: random.Random | None) -> Tokens:
    """Whole tokens for the first 150 patterns that come more than once. `literal` may decide to leave any of them open,
    as a writer is free to, which may even leave a token that no event has."""
    patterns = []
    for event, code, queries in zip(events, codes, joined, strict=True):
        carried = CARRIES[event.function, event.variant]
        patterns.append((event.function | event.variant << 5, code, event.size if "Z" in carried else 0,
                         event.extra if "X" in carried else 0, queries))
    whole = [pattern for pattern, count in Counter(patterns).items() if count > 1][:150]
    tokens = Tokens(whole, [], [], [], [], [])
    for event, pattern in zip(events, patterns, strict=True):
        if pattern in whole and not (literal is not None and literal.random() < 0.2):
            tokens.token.append(whole.index(pattern))
            continue
        op, code, size, extra, queries = pattern
        token = op, code if makes_object(event) else 0, queries
        if token not in tokens.open:
            tokens.open.append(token)
        tokens.token.append(len(whole) + tokens.open.index(token))
        carried = CARRIES[event.function, event.variant]
        tokens.named += [code] if "S" in carried and not makes_object(event) else []
        tokens.size += [size] if "Z" in carried else []
        tokens.extra += [extra] if "X" in carried else []
    return tokens


def encode_events(
    events: list[Event], first_event: int, compress: bool = False, difference: bool = False,
    literal: random.Random | None = None,
) -> bytes:
    rows, first_time = len(events), events[0].time if events else 0
    events, joined = join_queries(events, literal)
    runs: list[list[int]] = []
    for event in events:
        if runs and runs[-1][0] == event.thread:
            runs[-1][1] += 1
        else:
            runs.append([event.thread, 1])
    steps = [0] + [b.time - a.time for a, b in itertools.pairwise(events)]
    codes, slot, across = encode_slots(events, literal)
    tokens = tokenize(events, codes, joined, literal)
    all_columns = [
        ColumnSpec(1, tokens.token, compress=compress),
        ColumnSpec(2, [run[0] for run in runs], compress=compress),
        ColumnSpec(3, [run[1] for run in runs], compress=compress),
        ColumnSpec(4, [min(step, 15) for step in steps], compress=compress, nibbles=True),
        ColumnSpec(5, [step - 15 for step in steps if step >= 15], compress=compress),
        ColumnSpec(6, [token[0] for token in (*tokens.whole, *tokens.open)], compress=compress),
        ColumnSpec(7, [token[1] for token in (*tokens.whole, *tokens.open)], compress=compress),
        ColumnSpec(8, [token[2] for token in tokens.whole], compress=compress),
        ColumnSpec(9, [token[3] for token in tokens.whole], compress=compress),
        ColumnSpec(10, tokens.named, compress=compress),
        ColumnSpec(11, slot, difference, compress),
        ColumnSpec(12, tokens.size, difference, compress),
        ColumnSpec(13, tokens.extra, difference, compress),
        ColumnSpec(14, across, compress=compress),
    ]
    if any(joined):
        all_columns.append(ColumnSpec(15, [token[-1] for token in (*tokens.whole, *tokens.open)], compress=compress, width=1))
    sites = [event.site for event in events if makes_object(event) or event.variant == 2 or event.function in (3, 4)]
    if any(sites):
        all_columns.append(ColumnSpec(16, sites, difference=False, compress=compress))
    # A column without values may be left out, or be there.
    columns = [column for column in all_columns if column.values or literal]
    return encode_section(2, columns, rows, first_event, first_time)


@dataclass
class Sites:
    """The tables of call sites, as docs/reference/trace-format.md has them."""

    modules: list[dict[str, str]]
    locations: list[tuple[int, int]]
    callers: list[tuple[int, int]]
    sites: list[tuple[int, int]]
    names: list[tuple[int, int, int, int]]
    strings: list[str]

    def sections(self) -> list[bytes]:
        tables = ((10, self.locations), (11, self.callers), (12, self.sites), (13, self.names))
        made = [encode_json(9, {"modules": self.modules})]
        made += [encode_section(kind, [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*rows, strict=True))], len(rows))
                 for kind, rows in tables if rows]
        # In two sections, which are numbered through.
        for part in (self.strings[:1], self.strings[1:]):
            text = b"".join(string.encode() + b"\0" for string in part)
            made += [encode_section(14, [ColumnSpec(1, list(text), width=1)], 0)] if text else []
        return made


def sites_of(stacks: list[list[str]], modules: dict[str, str] | None = None, flags: dict[int, int] | None = None) -> Sites:
    """Tables of stacks, innermost frame first: a frame is "function@file:line", or "module+0xoffset" without a name; inlined
    functions come before their caller, each with | between them: "inlined@a.h:3|caller@a.c:9". The first stack is site 1.
    modules: their build ids, where a frame names them."""
    paths = ["/usr/bin/job", *dict.fromkeys(frame.split("+0x")[0] for stack in stacks for frame in stack if "@" not in frame)]
    places: dict[str, int] = {}
    callers: dict[tuple[int, int], int] = {}
    strings: dict[str, int] = {}
    found = Sites([{"path": path, "build_id": (modules or {}).get(path, "ab")} for path in paths], [], [], [], [], [])
    for number, stack in enumerate(stacks):
        parent = 0
        for frame in reversed(stack):
            if frame not in places:
                places[frame] = len(places)
                module, _, offset = frame.partition("+0x") if "@" not in frame else (paths[0], "", hex(0x1000 + 16 * len(places)))
                found.locations.append((paths.index(module) + 1, int(offset, 16)))
                for name in frame.split("|") if "@" in frame else []:
                    function, _, place = name.partition("@")
                    file, _, line = place.rpartition(":")
                    numbers = [strings.setdefault(text, len(strings) + 1) if text else 0 for text in (function, file)]
                    found.names.append((places[frame], *numbers, int(line)))
            parent = callers.setdefault((parent, places[frame]), len(callers) + 1)
        found.sites.append((parent, (flags or {}).get(number + 1, 0)))
    found.callers = list(callers)
    found.strings = list(strings)
    return found


@dataclass
class TraceSpec:
    events: list[Event]
    context: dict[str, object] = field(default_factory=lambda: {"command": "job", "page_bytes": 4096, "pid": 7})
    totals: dict[str, object] | None = None
    samples: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    residency: list[tuple[int, int, int]] = field(default_factory=list)
    steps: list[tuple[int, ...]] = field(default_factory=list)
    threads: list[tuple[int, int, int, int, int, int, str]] = field(default_factory=list)
    unit_ns: int = 1
    block: int = 65_536
    compress: bool = False
    difference: bool = False
    literal_seed: int | None = None
    sites: Sites | None = None


def build(spec: TraceSpec) -> tuple[bytes, list[int]]:
    """The file and the offsets at which its sections end (the header's end first)."""
    sections = [encode_json(1, spec.context, spec.compress)]
    literal = None if spec.literal_seed is None else random.Random(spec.literal_seed)
    for start in range(0, len(spec.events), spec.block):
        block = spec.events[start : start + spec.block]
        sections.append(encode_events(block, start, spec.compress, spec.difference, literal))
    if spec.samples:
        columns = [ColumnSpec(i + 1, list(c), i < 5) for i, c in enumerate(zip(*spec.samples, strict=True))]
        sections.append(encode_section(3, columns, len(spec.samples)))
    if spec.residency:
        columns = [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*spec.residency, strict=True))]
        sections.append(encode_section(4, columns, len(spec.residency)))
    if spec.steps:
        columns = [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*spec.steps, strict=True))]
        sections.append(encode_section(8, columns, len(spec.steps)))
    if spec.threads:
        columns = [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*(t[:6] for t in spec.threads), strict=True))]
        names = [t[6].encode()[:16].ljust(16, b"\0") for t in spec.threads]
        columns.append(ColumnSpec(7, [int.from_bytes(name[:8], "little") for name in names]))
        columns.append(ColumnSpec(8, [int.from_bytes(name[8:], "little") for name in names]))
        sections.append(encode_section(5, columns, len(spec.threads)))
    sections += spec.sites.sections() if spec.sites else []
    calls = sum(1 for event in spec.events if event.function < 28)
    totals = spec.totals if spec.totals is not None else {"events": calls, "records": len(spec.events)}
    sections.append(encode_json(6, totals, spec.compress))
    features = int(any(event.function == 26 for event in spec.events)) | 2 * any(event.function in (28, 29) for event in spec.events)
    return assemble(encode_header(features=features, unit_ns=spec.unit_ns), sections)


def assemble(header: bytes, sections: list[bytes]) -> tuple[bytes, list[int]]:
    """Header, sections, their index and the footer."""
    data, ends, rows = header, [len(header)], []
    for section in sections:
        kind, count, first_event, first_time = (
            section[4], *struct.unpack_from("<I", section, 12), *struct.unpack_from("<QQ", section, 16))
        rows.append((len(data), kind, count, first_event, first_time))
        data += section
        ends.append(len(data))
    index_offset = len(data)
    data += encode_section(7, [ColumnSpec(i + 1, list(c)) for i, c in enumerate(zip(*rows, strict=True))], 0)
    ends.append(len(data))
    foot = b"HTAPEEND" + struct.pack("<QQ", index_offset, len(data) + 32)
    return data + foot + struct.pack("<Q", xxhash.xxh64_intdigest(foot)), ends
