# SPDX-License-Identifier: Apache-2.0
"""The files of a group of processes, written and read by other code than the product's: snapshots of pages as `record` leaves
them, and what the trace of a group holds (docs/reference/group-format.md)."""

from __future__ import annotations

import json
import mmap
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import xxhash
import zstandard

PAGE = mmap.PAGESIZE
MEMBER, LAYOUT, STATES = 17, 18, 19
ABSENT, SHARED, EXCLUSIVE, SWAPPED, CALLED = 0, 1, 2, 3, 4
SECTION = struct.Struct("<IBBHIIQQQQ")
COLUMN = struct.Struct("<BBBBIII")


def states_of(pid: int, start: int, end: int) -> list[int]:
    with Path(f"/proc/{pid}/pagemap").open("rb") as pages:
        pages.seek(start // PAGE * 8)
        entries = struct.unpack(f"<{(end - start) // PAGE}Q", pages.read((end - start) // PAGE * 8))
    return [(SWAPPED if entry >> 62 & 1 else ABSENT) if not entry >> 63 or entry >> 61 & 1
            else EXCLUSIVE if entry >> 56 & 1 else SHARED for entry in entries]


def mappings_of(pid: int) -> list[tuple[int, int, int, list[int]]]:
    """Start, end, kind and states of each that has anonymous pages."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        name = words[5] if len(words) > 5 else ""
        if name in ("[vvar]", "[vsyscall]", "[vdso]", "[vvar_vclock]") or words[1][3] != "p":
            continue
        kind = 1 if name == "[heap]" else 2 if name == "[stack]" else 3 if name.startswith("/") else 0
        states = states_of(pid, start, end)
        if any(states):
            found.append((start, end, kind, states))
    return found


def rollup(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def packed(states: list[int]) -> bytes:
    bits = sum(state << 2 * i for i, state in enumerate(states))
    return bits.to_bytes((len(states) * 2 + 63) // 64 * 8, "little")


def member_of(pid: int) -> bytes:
    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    name, memory, mappings = Path(f"/proc/{pid}/comm").read_bytes().strip(), rollup(pid), mappings_of(pid)
    body = struct.pack("<IIQ16s", pid, int(stat[1]), int(stat[19]), name[:15])
    body += struct.pack("<7Q", memory["Anonymous"], memory.get("Pss_Anon", 0), memory["Rss"], memory["Pss"],
                        memory.get("Swap", 0), memory.get("KSM", 0), memory.get("AnonHugePages", 0))
    body += struct.pack("<II", 0, len(mappings))
    for start, end, kind, states in mappings:
        body += struct.pack("<QQII", start, end, kind, 0) + packed(states)
    return body


def snapshot_of(pids: list[int], reason: int = 1) -> bytes:
    """pids: the root first, parents before children."""
    began_ns = time.monotonic_ns()
    members = b"".join(member_of(pid) for pid in pids)
    return struct.pack("<QQII", began_ns, time.monotonic_ns() - began_ns, reason, len(pids)) + members


def write_snapshots(folder: Path, root: int, snapshots: list[bytes], run: str = "") -> Path:
    body = b"".join(snapshots)
    stored = zstandard.compress(body)
    header = struct.pack("<8sHHIIIII32sQQ", b"HTAPEGRP", 1, 1, 0, PAGE, root, len(snapshots), 0, run.encode(), len(body), len(stored))
    path = folder / f"malloc-footprint.{root}.group"
    path.write_bytes(header + struct.pack("<Q", xxhash.xxh64_intdigest(header + stored)) + stored)
    return path


@dataclass
class Group:
    """All that the trace of a group holds."""

    context: dict
    members: dict[int, bytes]
    layouts: dict[int, list[tuple[int, int]]]  # page and offset of each block
    states: dict[tuple[int, int], bytes]  # by process and moment

    @property
    def processes(self) -> list[dict]:
        return self.context["group"]["processes"]


def column(payload: bytes, columns: int, wanted: int) -> list[int]:
    at = COLUMN.size * columns
    for i in range(columns):
        number, width, transform, compression, values, stored, _ = COLUMN.unpack_from(payload, i * COLUMN.size)
        if number == wanted:
            planes = payload[at : at + stored]
            planes = zstandard.decompress(planes, width * values) if compression else planes
            found = [sum(planes[plane * values + row] << 8 * plane for plane in range(width)) for row in range(values)]
            total, summed = 0, []
            for value in found if transform == 1 else ():
                total = (total + (value >> 1 ^ -(value & 1))) & (1 << 64) - 1
                summed.append(total)
            return summed if transform == 1 else found
        at += stored
    return []


def read_group(path: Path) -> Group:
    data, at, group = path.read_bytes(), 64, Group({}, {}, {}, {})
    assert data[:8] == b"HTAPETRC" and struct.unpack_from("<I", data, 12)[0] == 4
    while data[at : at + 8] != b"HTAPEEND":
        _, kind, columns, _, size, _, process, moment, _, _ = SECTION.unpack_from(data, at)
        payload, at = data[at + SECTION.size : at + SECTION.size + size], at + SECTION.size + size
        if kind == 1:
            group.context = json.loads(bytes(column(payload, columns, 1)))
        elif kind == MEMBER:
            group.members[process] = group.members.get(process, b"") + bytes(column(payload, columns, 1))
        elif kind == LAYOUT:
            group.layouts.setdefault(process, []).extend(zip(column(payload, columns, 1), column(payload, columns, 2), strict=True))
        elif kind == STATES:
            key = (process, moment)
            group.states[key] = group.states.get(key, b"") + bytes(column(payload, columns, 1))
    return group
