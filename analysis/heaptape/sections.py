"""Bytes of a trace: header, section headers, columns, footer (docs/trace-format.md). No meaning of events here.

Written from the specification alone, so that it checks the C reader. Every length is checked before it is believed, and
every checksum before a value is used.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from .errors import TraceError

READER_VERSION = 2
OLDEST_VERSION = 2
KNOWN_FEATURES = 0

HEADER = struct.Struct("<8sHHIII32sQ")
SECTION = struct.Struct("<4sBBHIIQQQQ")
DIRECTORY = struct.Struct("<BBBBIII")
FOOTER = struct.Struct("<8sQQQ")
HEADER_MAGIC = b"HTAPETRC"
SECTION_MAGIC = b"HTBK"
FOOTER_MAGIC = b"HTAPEEND"

ROWS_MAX = 65_536
PAYLOAD_BYTES_MAX = 64 << 20
# What a file may make a reader keep in memory (docs/trace-format.md, "Limits").
TEXT_BYTES_MAX = 1 << 20
VALUES_MAX = 1 << 20
FACT_ROWS_FREE = 1 << 20
FACT_ROWS_PER_BYTE = 4
NUMBERS_FREE = 1024
SLOTS_PER_EVENT = 8

TRANSFORM_DIFFERENCE = 1
TRANSFORM_NIBBLES = 2
COMPRESSION_ZSTD = 1

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


class TraceFile:
    """An open trace: reads and checks whole sections by their place in the file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file: BinaryIO = open(self.path, "rb")
        except OSError as error:
            raise TraceError(path, 0, f"can't open: {error.strerror}") from error
        self.bytes = os.fstat(self._file.fileno()).st_size
        self._of_thread = threading.local()
        self.header = self._read_header()

    def close(self) -> None:
        """Close the file; sections can't be read any more."""
        self._file.close()

    def fail(self, offset: int, expected: str) -> TraceError:
        """The error to raise for this file."""
        return TraceError(self.path, offset, expected)

    def _read_at(self, offset: int, length: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), length, offset)
        except OSError as error:
            raise self.fail(offset, f"can't read: {error.strerror}") from error

    def _read_header(self) -> Header:
        raw = self._read_at(0, HEADER.size)
        if not raw.startswith(HEADER_MAGIC[: len(raw)]) or not raw:
            found = ", found lines of JSON: results, as replay -o writes them" if raw.startswith(b"{") else ""
            raise self.fail(0, f'expected a trace (magic "HTAPETRC"){found}')
        if len(raw) < HEADER.size:
            raise self.fail(len(raw), "file ends within the header of 64 bytes")
        _, version, min_reader, features, unit_ns, block_max, _, checksum = HEADER.unpack(raw)
        if xxhash.xxh64_intdigest(raw[:56]) != checksum:
            raise self.fail(56, "header checksum does not match")
        if version < OLDEST_VERSION:
            raise self.fail(8, f"trace of version {version}, never released, is not read: convert its raw log again")
        if min_reader > READER_VERSION:
            raise self.fail(10, f"needs a reader of version {min_reader}; this one is {READER_VERSION}")
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
        if magic != FOOTER_MAGIC:
            return None
        if xxhash.xxh64_intdigest(raw[:24]) != checksum:
            raise self.fail(offset + 24, "footer checksum does not match")
        if file_bytes != self.bytes:
            raise self.fail(offset + 16, f"expected a file of {file_bytes} bytes, found {self.bytes}")
        if not HEADER.size <= index_offset <= offset - SECTION.size:
            raise self.fail(offset + 8, f"expected the index within the file, found offset {index_offset}")
        return int(index_offset)

    def scan(self) -> tuple[list[Section], int]:
        """Whole sections of a file without footer, in order, and the offset where they end. Checks every checksum."""
        sections: list[Section] = []
        offset = HEADER.size
        while offset < self.bytes:
            rest = self._read_at(offset, len(FOOTER_MAGIC))
            if rest == FOOTER_MAGIC[: len(rest)] and len(rest) > 2:
                break
            section = self.section_at(offset)
            if section is None:
                break
            self.payload(section)
            sections.append(section)
            offset = section.end
        if self.bytes - offset > FOOTER.size and self._read_at(offset, 8) == FOOTER_MAGIC:
            raise self.fail(offset + FOOTER.size, "expected the file to end after its footer")
        return sections, offset

    def payload(self, section: Section) -> bytes:
        """The payload of a section whose header was read by `section_at`, its checksum checked."""
        raw = self._read_at(section.offset, SECTION.size + section.payload_bytes)
        if len(raw) < SECTION.size + section.payload_bytes:
            raise self.fail(section.offset + len(raw), "file ends within a section")
        digest = xxhash.xxh64(raw[:40])
        payload = raw[SECTION.size :]
        digest.update(payload)
        if digest.intdigest() != int.from_bytes(raw[40:48], "little"):
            raise self.fail(section.offset + 40, "section checksum does not match")
        return payload

    def columns(self, listed: Section, wanted: frozenset[int] | None = None) -> dict[int, U64]:
        """Column id → values of one section, decoded; only the `wanted` ids where given. Shape of each: (values,)."""
        section = self.section_at(listed.offset)
        if section is None:
            raise self.fail(listed.offset, "expected a whole section where the index names one")
        if (section.kind, section.rows, section.first_event, section.first_time) != (
            listed.kind, listed.rows, listed.first_event, listed.first_time,
        ):
            raise self.fail(listed.offset, "section header disagrees with the index")
        payload = self.payload(section)
        return {
            column.id: self._decode(section, column, payload)
            for column in self._directory(section, payload)
            if wanted is None or column.id in wanted
        }

    def _directory(self, section: Section, payload: bytes) -> list[Column]:
        start = section.columns * DIRECTORY.size
        where = section.offset + SECTION.size
        if start > len(payload):
            raise self.fail(where, f"expected a directory of {section.columns} columns, found {len(payload)} bytes")
        columns = []
        for number in range(section.columns):
            id_, width, transform, compression, values, stored, _ = DIRECTORY.unpack_from(
                payload, number * DIRECTORY.size
            )
            at = where + number * DIRECTORY.size
            if (
                width > 8 or transform > TRANSFORM_NIBBLES or compression > COMPRESSION_ZSTD
                or (transform == TRANSFORM_NIBBLES and width != 1)
            ):
                raise self.fail(at, f"expected a known column layout, found {width}/{transform}/{compression}")
            if values > self._values_max(section.kind):
                raise self.fail(at + 4, f"expected a column within the format's limits, found {values} values")
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
        return TEXT_BYTES_MAX if kind in (Kind.CONTEXT, Kind.TOTALS) else VALUES_MAX

    def _decode(self, section: Section, column: Column, payload: bytes) -> U64:
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
        return undo_differences(values) if column.transform == TRANSFORM_DIFFERENCE else values

    def _inflate(self, raw: bytes, length: int, where: int) -> bytes:
        try:
            declared = zstandard.frame_content_size(raw)
            if declared >= 0 and declared != length:
                raise self.fail(where, f"expected a zstd frame of {length} bytes, found {declared}")
            return self._decompressor().decompress(raw, max_output_size=max(length, 1))
        except zstandard.ZstdError as error:
            raise self.fail(where, f"expected a zstd frame of {length} bytes: {error}") from error

    def _decompressor(self) -> zstandard.ZstdDecompressor:
        """This thread's own, as one of them serves one thread at a time."""
        if not hasattr(self._of_thread, "zstd"):
            self._of_thread.zstd = zstandard.ZstdDecompressor()
        made: zstandard.ZstdDecompressor = self._of_thread.zstd
        return made

    def json_object(self, section: Section) -> dict[str, Any]:
        """The JSON object that a context or totals section holds."""
        columns = self.columns(section)
        if 1 not in columns:
            raise self.fail(section.offset, "expected a column of JSON text")
        try:
            value = json.loads(columns[1].astype(np.uint8).tobytes())
        except (ValueError, RecursionError) as error:
            raise self.fail(section.offset, f"expected JSON text: {error}") from error
        if not isinstance(value, dict):
            raise self.fail(section.offset, "expected a JSON object")
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
