# SPDX-License-Identifier: Apache-2.0
"""Bytes of a trace: header, section headers, columns, footer (docs/reference/trace-format.md). No meaning of events here.

Written from the specification alone, so that it checks the C reader. Every length is checked before it is believed, and
every checksum before a value is used.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
import threading
from dataclasses import dataclass
from enum import IntEnum
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from ..base.errors import TraceError

READER_VERSION = 2
OLDEST_VERSION = 2
KNOWN_FEATURES = 3
GROUP_FEATURE = 4

HEADER = struct.Struct("<8sHHIII32sQ")
SECTION = struct.Struct("<4sBBHIIQQQQ")
DIRECTORY = struct.Struct("<BBBBIII")
FOOTER = struct.Struct("<8sQQQ")
HEADER_MAGIC = b"HTAPETRC"
SECTION_MAGIC = b"HTBK"
FOOTER_MAGIC = b"HTAPEEND"

ROWS_MAX = 65_536
PAYLOAD_BYTES_MAX = 64 << 20
COLUMNS_MAX = 16
TIME_LIMIT_NS = 1 << 63
# What a file may make a reader keep in memory (docs/reference/trace-format.md, "Limits").
TEXT_BYTES_MAX = 1 << 20
VALUES_MAX = 1 << 20
FACT_ROWS_FREE = 1 << 20
FACT_ROWS_PER_BYTE = 4
NUMBERS_FREE = 1024
SLOTS_PER_EVENT = 8

TRANSFORM_PLAIN = 0
TRANSFORM_DIFFERENCE = 1
TRANSFORM_NIBBLES = 2
COMPRESSION_ZSTD = 1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

U64 = NDArray[np.uint64]


class Kind(IntEnum):
    """What a section holds."""

    CONTEXT = 1
    EVENTS = 2
    SAMPLES = 3
    RESIDENCY = 4
    THREADS = 5
    TOTALS = 6
    INDEX = 7
    RESIDENCY_STEPS = 8
    MODULES = 9
    LOCATIONS = 10
    CALLERS = 11
    SITES = 12
    NAMES = 13
    STRINGS = 14


TEXT_KINDS = frozenset({Kind.CONTEXT, Kind.TOTALS, Kind.MODULES, Kind.STRINGS})
"""Sections of one column, which is text."""


class Values(IntEnum):
    """What the values of a column are, which decides how they may be stored."""

    WIDE = 0
    """Below 2^64."""
    NARROW = 1
    """Below 2^32."""
    BYTES = 2
    """Bytes, one plane of them as they are."""
    NIBBLES = 3
    """Below 16, two in a byte."""


VALUES_OF_EVENTS = {
    1: Values.BYTES, 2: Values.NARROW, 3: Values.NARROW, 4: Values.NIBBLES, 5: Values.NARROW, 6: Values.BYTES,
    7: Values.NARROW, 10: Values.NARROW, 11: Values.NARROW, 14: Values.NARROW, 15: Values.BYTES,
    16: Values.NARROW,
}
"""How the columns of events sections are coded; those not named are WIDE."""


@dataclass(frozen=True)
class Header:
    """What the first 64 bytes say."""

    version: int
    time_unit_ns: int
    block_events_max: int


@dataclass(frozen=True)
class Section:
    """Where a section lies and what its header says; `payload_bytes` is 0 while known from the index only."""

    offset: int
    kind: int
    rows: int
    first_event: int
    first_time: int
    columns: int = 0
    payload_bytes: int = 0

    @property
    def end(self) -> int:
        """Offset of the first byte after the section."""
        return self.offset + SECTION.size + self.payload_bytes


@dataclass(frozen=True)
class Column:
    """One directory entry and where its bytes lie within the payload."""

    id: int
    width: int
    transform: int
    compression: int
    values: int
    stored_bytes: int
    start: int


def _other_file(start: bytes) -> str:
    """What was given in place of a trace, in words."""
    if not start:
        return "an empty file"
    if start.startswith(b"HTAPERAW"):
        return "a raw log: heaptape convert makes a trace of it"
    return "lines of JSON: results, as heaptape replay -o writes them" if start.startswith(b"{") else "another file"


def open_regular(path: str | Path) -> BufferedReader:
    """A trace's file, if it is one. A pipe under such a name must not hang us. Raises TraceError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TraceError(path, None, f"cannot open: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise TraceError(path, 0, "expected a trace in a regular file, found no regular file")


class TraceFile:
    """An open trace: reads and checks whole sections by their place in the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open_regular(path)
        self.bytes = os.fstat(self._file.fileno()).st_size
        self._of_thread = threading.local()
        self.header = self._read_header()

    def close(self) -> None:
        """Close the file; sections cannot be read any more."""
        self._file.close()

    def fail(self, offset: int, expected: str) -> TraceError:
        """The error to raise for this file."""
        return TraceError(self.path, offset, expected)

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), length, offset)
        except OSError as error:
            raise self.fail(offset, f"cannot read: {error.strerror}") from error

    def _read_header(self) -> Header:
        raw = self._read_at(0, HEADER.size)
        if not raw.startswith(HEADER_MAGIC[: len(raw)]) or not raw:
            raise self.fail(0, f"expected a trace (HTAPETRC), found {_other_file(raw)}")
        if len(raw) < HEADER.size:
            raise self.fail(len(raw), "file ends within the header of 64 bytes")
        _, version, min_reader, features, unit_ns, block_max, _, checksum = HEADER.unpack(raw)
        found = xxhash.xxh64_intdigest(raw[:56])
        if found != checksum:
            raise self.fail(0, f"expected bytes of checksum {checksum:016x}, found {found:016x}")
        if version < OLDEST_VERSION:
            raise self.fail(8, f"expected a trace of a released version, found version {version}: convert its raw log again")
        if min_reader > READER_VERSION:
            raise self.fail(10, f"needs a reader of version {min_reader}; this one is {READER_VERSION}")
        if features & GROUP_FEATURE:
            raise self.fail(12, "expected the trace of one process, found that of a group of processes, which heaptape info, "
                            "replay and explain take")
        if features & ~KNOWN_FEATURES:
            raise self.fail(12, f"needs features {features & ~KNOWN_FEATURES:#x}, unknown to this reader")
        if unit_ns < 1:
            raise self.fail(16, "expected a time unit of at least 1 ns")
        if block_max > ROWS_MAX:
            raise self.fail(20, f"expected at most {ROWS_MAX} events a block, found {block_max}")
        return Header(version, unit_ns, block_max)

    def section_at(self, offset: int) -> Section | None:
        """The section whose header lies at `offset`; None where the file ends before the section does."""
        raw = self._read_at(offset, SECTION.size)
        if raw[:4] != SECTION_MAGIC[: len(raw[:4])]:
            raise self.fail(offset, 'expected a section (magic "HTBK")')
        if len(raw) < SECTION.size:
            return None
        _, kind, columns, _, payload_bytes, rows, first_event, first_time, _, _ = SECTION.unpack(raw)
        if columns > COLUMNS_MAX:
            raise self.fail(offset + 5, f"expected at most {COLUMNS_MAX} columns, found {columns}")
        if payload_bytes > PAYLOAD_BYTES_MAX:
            raise self.fail(offset + 8, f"expected a payload of at most 64 MiB, found {payload_bytes} bytes")
        if rows > ROWS_MAX:
            raise self.fail(offset + 12, f"expected at most {ROWS_MAX} rows, found {rows}")
        section = Section(offset, kind, rows, first_event, first_time, columns, payload_bytes)
        return section if section.end <= self.bytes else None

    def footer(self) -> int | None:
        """Offset of the index section, or None for a file that was cut short before its footer was whole."""
        if self.bytes < HEADER.size + FOOTER.size:
            return None
        offset = self.bytes - FOOTER.size
        raw = self._read_at(offset, FOOTER.size)
        magic, index_offset, file_bytes, checksum = FOOTER.unpack(raw)
        if magic != FOOTER_MAGIC or xxhash.xxh64_intdigest(raw[:24]) != checksum or file_bytes != self.bytes:
            return None
        if not HEADER.size <= index_offset <= offset - SECTION.size:
            raise self.fail(offset + 8, f"expected the index within the file, found offset {index_offset}")
        return int(index_offset)

    def scan(self) -> tuple[list[Section], int]:
        """Whole sections of a file without footer, in order up to the first that is not whole or is the index, and the
        offset where they end. Checks every checksum."""
        sections: list[Section] = []
        order = SectionOrder(self)
        offset = HEADER.size
        while offset < self.bytes:
            try:
                section = self.section_at(offset)
                if section is None or section.kind == Kind.INDEX:
                    break
                self._directory(section, self.payload(section))
                order.add(section)
            except TraceError:
                break
            sections.append(section)
            offset = section.end
        return sections, offset

    def payload(self, section: Section) -> bytes:
        """The payload of a section whose header was read by `section_at`, its checksum checked."""
        raw = self._read_at(section.offset, SECTION.size + section.payload_bytes)
        if len(raw) < SECTION.size + section.payload_bytes:
            raise self.fail(section.offset + len(raw), "file ends within a section")
        digest = xxhash.xxh64(raw[:40])
        payload = raw[SECTION.size :]
        digest.update(payload)
        expected, found = int.from_bytes(raw[40:48], "little"), digest.intdigest()
        if found != expected:
            raise self.fail(section.offset, f"expected bytes of checksum {expected:016x}, found {found:016x}")
        return payload

    def columns(self, listed: Section, wanted: frozenset[int], end: int | None = None) -> dict[int, U64]:
        """Column id → values of one section, decoded, of the `wanted` ids. end: the section may go no further. Shape of
        each: (values,)."""
        section = self.section_at(listed.offset)
        if section is None or (end is not None and section.end > end):
            raise self.fail(listed.offset, "expected a whole section where the index names one")
        if (section.kind, section.rows, section.first_event, section.first_time) != (
            listed.kind, listed.rows, listed.first_event, listed.first_time,
        ):
            raise self.fail(listed.offset, "section header disagrees with the index")
        payload = self.payload(section)
        return {
            column.id: self._decode(section, column, payload)
            for column in self._directory(section, payload)
            if column.id in wanted
        }

    def _directory(self, section: Section, payload: bytes) -> list[Column]:
        start = section.columns * DIRECTORY.size
        where = section.offset + SECTION.size
        if start > len(payload):
            raise self.fail(where, f"expected a directory of {section.columns} columns, found {len(payload)} bytes")
        columns: list[Column] = []
        for number in range(section.columns):
            id_, width, transform, compression, values, stored, _ = DIRECTORY.unpack_from(
                payload, number * DIRECTORY.size
            )
            at = where + number * DIRECTORY.size
            if any(column.id == id_ for column in columns):
                raise self.fail(at, f"expected each column once, found column {id_} again")
            if start + stored > len(payload):
                raise self.fail(at + 8, f"expected column {id_} to end within its section")
            columns.append(Column(id_, width, transform, compression, values, stored, start))
            start += stored
        if start != len(payload):
            left = len(payload) - start
            raise self.fail(where + start, f"expected the payload to end with its columns, {left} bytes left")
        return columns

    def _values_max(self, kind: int) -> int:
        """A frame of a few bytes may claim any number of values. The index has one for each section of the file."""
        if kind == Kind.INDEX:
            return self.bytes // SECTION.size
        return TEXT_BYTES_MAX if kind in TEXT_KINDS else VALUES_MAX

    def _check_layout(self, section: Section, column: Column) -> Values:
        """What the column's values are, once it is sure that it is stored as such values may be. What is in a column that
        nobody asks for is nobody's business."""
        at = section.offset + SECTION.size
        kind = VALUES_OF_EVENTS.get(column.id, Values.WIDE) if section.kind == Kind.EVENTS else Values.WIDE
        if section.kind in TEXT_KINDS:
            kind = Values.BYTES
        widest, transforms = {
            Values.WIDE: (8, (TRANSFORM_PLAIN, TRANSFORM_DIFFERENCE)),
            Values.NARROW: (8, (TRANSFORM_PLAIN, TRANSFORM_DIFFERENCE)),
            Values.BYTES: (1, (TRANSFORM_PLAIN,)),
            Values.NIBBLES: (1, (TRANSFORM_NIBBLES,)),
        }[kind]
        known = column.width <= widest and column.transform in transforms and column.compression <= COMPRESSION_ZSTD
        if not known or (kind == Values.NIBBLES and column.width != 1):
            found = f"{column.width}/{column.transform}/{column.compression}"
            raise self.fail(at, f"expected column {column.id} in a layout that it may have, found {found}")
        if column.values > self._values_max(section.kind):
            raise self.fail(at, f"expected a column within the format's limits, found {column.values} values")
        return kind

    def _decode(self, section: Section, column: Column, payload: bytes) -> U64:
        kind = self._check_layout(section, column)
        where = section.offset + SECTION.size + column.start
        raw = payload[column.start : column.start + column.stored_bytes]
        nibbles = column.transform == TRANSFORM_NIBBLES
        length = (column.values + 1) // 2 if nibbles else column.values * column.width
        if column.compression == COMPRESSION_ZSTD and raw:
            raw = self._inflate(raw, length, where)
        if len(raw) != length:
            raise self.fail(where, f"expected {length} bytes in column {column.id}, found {len(raw)}")
        if nibbles:
            if column.values % 2 and raw[-1] > 15:
                raise self.fail(where, f"expected nothing behind the last value of column {column.id}")
            return nibbles_to_values(raw, column.values)
        values = planes_to_values(raw, column.width, column.values)
        if column.transform == TRANSFORM_DIFFERENCE:
            values = undo_differences(values)
        if kind == Values.NARROW and (values >> np.uint64(32)).any():
            raise self.fail(where, f"expected values below 2^32 in column {column.id}, found {int(values.max())}")
        return values

    def _inflate(self, raw: bytes, length: int, where: int) -> bytes:
        try:
            declared = zstandard.frame_content_size(raw)
            if (declared >= 0 and declared != length) or not raw.startswith(ZSTD_MAGIC):
                raise self.fail(where, f"expected a zstd frame of {length} bytes, found {declared}")
            return self._decompressor().decompress(raw, max_output_size=max(length, 1), allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise self.fail(where, f"expected a zstd frame of {length} bytes: {error}") from error

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        """This thread's own: only one thread at a time may use one."""
        if not hasattr(self._of_thread, "zstd"):
            self._of_thread.zstd = zstandard.ZstdDecompressor()
        made: zstandard.ZstdDecompressor = self._of_thread.zstd
        return made

    def text(self, section: Section, end: int | None = None) -> bytes:
        """The bytes that a section of text holds; strings end with a zero byte."""
        columns = self.columns(section, frozenset((1,)), end)
        if 1 not in columns:
            raise self.fail(section.offset, f"expected a column of {'strings' if section.kind == Kind.STRINGS else 'JSON text'}")
        text = columns[1].astype(np.uint8).tobytes()
        if section.kind == Kind.STRINGS and not text.endswith(b"\0"):
            raise self.fail(section.offset, "expected strings that end with a zero byte")
        return text

    def json_object(self, section: Section, end: int | None = None) -> dict[str, Any]:
        """The JSON object that a section of text holds."""
        try:
            value = read_json(self.text(section, end))
        except (ValueError, RecursionError) as error:
            raise self.fail(section.offset, f"expected JSON text: {error}") from error
        if not isinstance(value, dict):
            raise self.fail(section.offset, "expected a JSON object")
        return value


class SectionOrder:
    """What sections must be beside one another: one behind the other, events numbered without a gap (a table of them
    would be silently wrong), times that never decrease and stay below 2^63 ns."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self._behind = HEADER.size
        self._latest = 0
        self.records = 0

    def add(self, section: Section) -> None:
        """The next section. Raises TraceError where it cannot follow on those before it."""
        fail = self._file.fail
        if section.offset < self._behind:
            raise fail(section.offset, "expected sections in the order of their offsets")
        if section.rows > ROWS_MAX:
            raise fail(section.offset, f"expected at most {ROWS_MAX} rows, found {section.rows}")
        self._behind = section.offset + SECTION.size
        if section.kind != Kind.EVENTS:
            return
        if section.first_event != self.records:
            raise fail(section.offset, f"expected event {self.records} to begin here, found {section.first_event}")
        if not self._latest <= section.first_time <= (TIME_LIMIT_NS - 1) // self._file.header.time_unit_ns:
            raise fail(section.offset, f"expected times that never decrease, found {section.first_time} units")
        self._latest = section.first_time
        self.records += section.rows


def read_json(text: bytes) -> Any:
    """The value of a JSON text as the format wants it: UTF-8, integers of 64 bits with sign, finite numbers, and strings
    that any reader can hold. Raises ValueError."""
    def integer(digits: str) -> int:
        value = int(digits)
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError("an integer of more than 64 bits")
        return value

    def real(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError("a number that is too large")
        return value

    def constant(word: str) -> float:
        raise ValueError(f"{word} is no number")

    value = json.loads(text.decode("utf-8"), parse_int=integer, parse_float=real, parse_constant=constant)
    again = json.dumps(value, ensure_ascii=False).encode("utf-8")  # fails on half of a surrogate pair
    if b"\\u0000" in again.replace(b"\\\\", b""):
        raise ValueError("a zero character")
    return value


def planes_to_values(raw: bytes, width: int, values: int) -> U64:
    """Undo the byte planes: `width` planes of `values` bytes, lowest first, to shape (values,)."""
    result = np.zeros(values, dtype=np.uint64)
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(width, values)
    for number in range(width):
        plane = planes[number].astype(np.uint64)
        result |= plane << np.uint64(8 * number)
    return result


def nibbles_to_values(raw: bytes, values: int) -> U64:
    """Undo transform 2: two values in a byte, the first in its low half. Shape (values,)."""
    pairs = np.frombuffer(raw, dtype=np.uint8)
    result = np.empty(2 * pairs.size, dtype=np.uint64)
    result[::2], result[1::2] = pairs & 15, pairs >> 4
    return result[:values]


def undo_differences(values: U64) -> U64:
    """Undo zigzag, then the running sum modulo 2^64. Shape is kept."""
    one = np.uint64(1)
    signed = (values >> one) ^ (np.uint64(0) - (values & one))
    return np.cumsum(signed, dtype=np.uint64)
