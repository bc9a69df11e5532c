# SPDX-License-Identifier: Apache-2.0
"""Reads malloc-footprint.PID.group as docs/reference/group-format.md, "Snapshots", describes it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import xxhash
import zstandard

HEADER = struct.Struct("<8sHHIIIII32sQQQ")
SNAPSHOT = struct.Struct("<QQII")
MEMBER = struct.Struct("<IIQ16s7QII")
MAPPING = struct.Struct("<QQII")
ABSENT, SHARED, EXCLUSIVE, SWAPPED = range(4)
PEAK, LAST = range(2)


@dataclass
class Mapping:
    start: int
    end: int
    kind: int
    states: bytes


@dataclass
class Member:
    pid: int
    parent_pid: int
    start_ticks: int
    name: str
    rss_anon_bytes: int
    pss_anon_bytes: int
    rss_bytes: int
    pss_bytes: int
    swap_bytes: int
    ksm_bytes: int
    huge_bytes: int
    executed: bool
    mappings: list[Mapping] = field(default_factory=list)

    def state(self, address: int) -> int:
        for one in self.mappings:
            if one.start <= address < one.end:
                return one.states[(address - one.start) // 4096]
        return ABSENT

    def count(self, *states: int) -> int:
        return sum(one.states.count(state) for one in self.mappings for state in states)


@dataclass
class Snapshot:
    time_ns: int
    took_ns: int
    reason: int
    members: list[Member]

    def of(self, pid: int) -> Member:
        return next(one for one in self.members if one.pid == pid)

    @property
    def anonymous_bytes(self) -> int:
        return sum(one.pss_anon_bytes for one in self.members)


@dataclass
class GroupFile:
    run: str
    root_pid: int
    snapshots: list[Snapshot]

    def snapshot(self, reason: int) -> Snapshot:
        return next(one for one in self.snapshots if one.reason == reason)


class Body:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: struct.Struct) -> tuple:
        self.at += form.size
        return form.unpack_from(self.data, self.at - form.size)

    def mapping(self) -> Mapping:
        start, end, kind, zero = self.take(MAPPING)
        assert not zero
        pages = (end - start) // 4096
        packed = self.data[self.at:self.at + (pages + 31) // 32 * 8]
        self.at += len(packed)
        states = bytes(byte >> shift & 3 for byte in packed for shift in (0, 2, 4, 6))
        return Mapping(start, end, kind, states[:pages])

    def member(self) -> Member:
        pid, parent, ticks, name, *figures, flags, mappings = self.take(MEMBER)
        return Member(pid, parent, ticks, name.rstrip(b"\0").decode(), *figures, bool(flags & 1),
                      [self.mapping() for _ in range(mappings)])

    def snapshot(self) -> Snapshot:
        time_ns, took_ns, reason, members = self.take(SNAPSHOT)
        return Snapshot(time_ns, took_ns, reason, [self.member() for _ in range(members)])


def read_group(path: Path) -> GroupFile:
    data = path.read_bytes()
    magic, version, least, features, page, root, count, zero, run, body, stored, checksum = HEADER.unpack_from(data)
    assert (magic, version, least, features, page, zero) == (b"HTAPEGRP", 1, 1, 0, 4096, 0)
    assert stored == len(data) - HEADER.size
    assert xxhash.xxh64(data[:HEADER.size - 8] + data[HEADER.size:]).intdigest() == checksum
    reading = Body(zstandard.ZstdDecompressor().decompress(data[HEADER.size:], max_output_size=body))
    snapshots = [reading.snapshot() for _ in range(count)]
    assert reading.at == len(reading.data) == body
    return GroupFile(run.rstrip(b"\0").decode(), root, snapshots)
