# SPDX-License-Identifier: Apache-2.0
"""Small raw logs, one field of which is wrong (docs/reference/raw-log-format.md)."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<8sHHIIIIIIIQQIIQQQQQQQQIIIIQQIIIIQ")
FIELDS = ("magic version min_reader features header_bytes page_bytes pid sequence parent_pid parent_sequence "
          "fork_stamp start_realtime_ns clock_kind clock_shift first_stamp first_mono_ns last_stamp last_mono_ns "
          "later_stamp later_mono_ns chunks_end reserve_bytes state stop_reason stop_errno streams stop_stamp "
          "lost_calls context_bytes control append_cost_calls append_cost_counts upkeep_counts").split()
CHUNK = struct.Struct("<IIIIQQQIIQQ")
HEADER_BYTES, CONTEXT_OFFSET, CHUNK_BYTES = 16_384, 4_096, 4_096
ENDED_CALLS_OFFSET = 456
FREE, MALLOC, REALLOC_END = 1, 2, 5
SITE = 8
PARENT = 7


def record(op: int, address: int, size: int = 0, before: int = 0) -> bytes:
    """One call, a nanosecond after the one before, which was of address `before`."""
    step = (address - before) // 8
    fields = [1, step * 2 if step >= 0 else -step * 2 - 1, size]
    word, bit = op, 16
    for number, value in enumerate(fields):
        nibbles = max(-(-value.bit_length() // 4), 1)
        word |= nibbles << (4 + 4 * number) | value << bit
        bit += 4 * nibbles
    return word.to_bytes(-(-bit // 8), "little")


def long_record(kind: int, *words: int) -> bytes:
    return struct.pack(f"<H{len(words)}Q", 14 | kind << 4 | len(words) << 8, *words)


def chunk(records: bytes, stream: int = 0, index: int = 0, outer: int = 0, used: int = 0, calls_before: int = 0,
          says_bytes: int = CHUNK_BYTES) -> bytes:
    head = CHUNK.pack(0x4E575448, stream, 100 + stream, index, says_bytes, 0, 0, used, outer, calls_before, 0)
    return (head + records).ljust(CHUNK_BYTES, b"\0")


SOUND = record(MALLOC, 0x1000, 24) + record(FREE, 0x1000, before=0x1000)


def log(*chunks: bytes, context: bytes = b"command=job\0", **changed: int | bytes) -> bytes:
    end = HEADER_BYTES + CHUNK_BYTES * len(chunks)
    values: dict[str, int | bytes] = dict.fromkeys(FIELDS, 0) | {
        "magic": b"HTAPERAW", "version": 1, "min_reader": 1, "header_bytes": HEADER_BYTES, "page_bytes": 4096,
        "pid": 9, "clock_kind": 3, "chunks_end": end, "reserve_bytes": end, "state": 3, "context_bytes": len(context)}
    header = HEADER.pack(*(values | changed).values())
    return header.ljust(CONTEXT_OFFSET, b"\0") + context.ljust(HEADER_BYTES - CONTEXT_OFFSET, b"\0") + b"".join(chunks)


def child() -> bytes:
    """Of a process forked from PARENT a microsecond after that one's start, in run A."""
    return log(chunk(SOUND), context=b"run=A\0", parent_pid=PARENT, fork_stamp=1000, first_stamp=1000)


def broken() -> dict[str, bytes]:
    return {
        "features.mraw": log(chunk(SOUND), features=32),
        "header-bytes.mraw": log(chunk(SOUND), header_bytes=8192),
        "header-cut.mraw": log()[:9000],
        "context.mraw": log(chunk(SOUND), context_bytes=12_289),
        "stream.mraw": log(chunk(SOUND, stream=1 << 20)),
        "nested.mraw": log(chunk(SOUND, outer=1)),
        "realloc.mraw": log(chunk(SOUND + record(REALLOC_END, 0x2000, before=0x1000))),
        "site.mraw": log(chunk(SOUND + long_record(SITE, 1, 0)), features=4),  # sites are numbered from 1
        "chunk-bytes.mraw": log(chunk(SOUND), chunk(SOUND, index=1, says_bytes=1 << 30)),
        "calls-before.mraw": log(chunk(SOUND), chunk(SOUND, index=1, calls_before=9)),
        "chunk-last.mraw": log(chunk(SOUND, used=CHUNK.size + len(SOUND))),
        "chunk-zeros.mraw": log(chunk(SOUND, used=200), chunk(SOUND, index=1)),
        "no-calls.mraw": log(),
        "paused.mraw": log(state=4),
        "stopped.mraw": log(state=2, stop_reason=4),
        "orphan.mraw": log(chunk(SOUND)),
        "parent-empty.mraw": b"",
        "parent-text.mraw": b"this is no recording\n",
        "parent-trace.mraw": b"HTAPETRC",
        "parent-other.mraw": log(chunk(SOUND), pid=8),
        "parent-run.mraw": log(chunk(SOUND), context=b"run=B\0", pid=PARENT),
        "parent-clock.mraw": log(chunk(SOUND), pid=PARENT, clock_kind=1),
        "parent-late.mraw": log(chunk(SOUND), pid=PARENT, first_stamp=2000),
        "parent-early.mraw": log(chunk(SOUND), pid=PARENT, state=2, stop_reason=2, stop_stamp=500),
        "parent-itself.mraw": child(),  # the very file whose parent it should be
    }
