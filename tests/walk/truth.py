# SPDX-License-Identifier: Apache-2.0
"""The blocks that were live at a moment of a recording, by address: what a walk of the same heap must find.

    truth.py LOG [--at MONOTONIC_NS] > live.csv        # lines `address,requested_bytes`, by address

It reads the raw log by docs/reference/raw-log-format.md and shares no code with the converter. Without --at the moment is the
log's end, as for a program that was killed while it stood still. Blocks that a forked process inherited come from its parent's log.

No log has these, although they are in glibc's heap: each thread's tcache_perthread_struct, the struct of each arena, fenceposts,
and what was allocated before the recorder was loaded. (That is nothing of glibc's: the loader's own first blocks lie in its data,
and glibc calls malloc by its public name, so that stdio's buffers, thread vectors and the like are recorded.)"""

from __future__ import annotations

import argparse
import mmap
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Numbers = np.ndarray
FREE, MALLOC, REALLOC, REALLOCATED, ALIGNED, FRESH, NEW, DELETE, DELETE_SIZED, LONG, MODIFIER = 1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15
ALLOCATES = (MALLOC, 3, ALIGNED, FRESH, NEW)
FREES = (FREE, DELETE, DELETE_SIZED)
COUNT, FAILED, LOW_BITS = 2, 4, 5
ABOUT_TO_FORK = 4


@dataclass
class Stream:
    """The records of a stream but long ones, in order, chunk after chunk."""
    parts: list[tuple[int, int, Numbers, Numbers, Numbers, Numbers, Numbers]] = field(default_factory=list)
    forks: list[tuple[int, int]] = field(default_factory=list)
    """Of each record *about to fork*: how many records precede it, its stamp."""
    records: int = 0


@dataclass
class Events:
    """Parts of calls that begin or end a block's life, in order of stamps."""
    stamp: Numbers
    address: Numbers
    size: Numbers
    born: Numbers


def _lengths() -> Numbers:
    """By the head of a record: its bytes. 0: a long record, or the end."""
    head = np.arange(1 << 16)
    nibbles = np.zeros(1 << 16, int)
    for shift in (4, 8, 12):
        code = head >> shift & 15
        if shift == 12:
            code = np.where(head & 15 == MODIFIER, 0, code)  # its kind
        nibbles += np.where(code == 15, 16, code)
    lengths = 2 + (nibbles + 1) // 2
    lengths[(head & 15 == LONG) | (head == 0)] = 0
    return lengths.astype(np.uint8)


LENGTHS = _lengths()


def _read_chunk(stream: Stream, chunk: bytes, base_stamp: int, base_address: int) -> None:
    raw = np.frombuffer(chunk + bytes(64), np.uint8)
    heads = np.ndarray((len(raw) - 1,), "<u2", raw, strides=(1,))
    step = LENGTHS[heads[:len(chunk) + 1]].tobytes()
    starts: list[int] = []
    at = 0
    while at < len(chunk):
        if step[at]:
            starts.append(at)
            at += step[at]
            continue
        head = int(heads[at])
        if not head:
            break
        if head >> 4 & 15 == ABOUT_TO_FORK:
            stream.forks.append((stream.records + len(starts), struct.unpack_from("<Q", chunk, at + 2)[0]))
        at += 2 + 8 * (head >> 8)
    where = np.array(starts, np.int64)
    head = heads[where].astype(np.int64)
    op, kind = head & 15, head >> 12
    widths = [np.where(code == 15, 16, code) for code in (head >> 4 & 15, head >> 8 & 15, np.where(op == MODIFIER, 0, kind))]
    words = np.ndarray((len(raw) - 7,), "<u8", raw, strides=(1,))
    values, nibble = [], np.zeros(len(where), np.int64)
    for width in widths:
        first = where + 2 + nibble // 2
        odd = (nibble & 1).astype(bool)
        value = np.where(odd, words[first] >> np.uint64(4) | raw[first + 8].astype(np.uint64) << np.uint64(60), words[first])
        mask = np.where(width == 16, ~np.uint64(0), (np.uint64(1) << (np.uint64(4) * (width & 15).astype(np.uint64))) - np.uint64(1))
        values.append(value & mask)
        nibble = nibble + width
    stream.parts.append((base_stamp, base_address & ~7, op, kind, *values))
    stream.records += len(where)


class Log:
    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            header = file.read(4096)
            if header[:8] != b"HTAPERAW":
                raise SystemExit(f"{path}: not a raw log")
            self.chunks_at, self.end = struct.unpack_from("<I", header, 16)[0], struct.unpack_from("<Q", header, 112)[0]
            self.parent_pid, self.parent_sequence, self.fork_stamp = struct.unpack_from("<2IQ", header, 32)
            self.clock_pairs = sorted(struct.iter_unpack("<QQ", header[64:112]))
            self.first_stamp = struct.unpack_from("<Q", header, 64)[0]
            self.streams: dict[int, Stream] = {}
            with mmap.mmap(file.fileno(), self.end, prot=mmap.PROT_READ) as mapped:
                self._read(mapped)

    def _read(self, mapped: mmap.mmap) -> None:
        at = self.chunks_at
        while at + 64 <= self.end:
            magic, number, _, _, size, stamp, address, used = struct.unpack_from("<4s3I3QI", mapped, at)
            if magic != b"HTWN":
                at += 4096
                continue
            _read_chunk(self.streams.setdefault(number, Stream()), mapped[at + 64:at + (used or size)], stamp, address)
            at += size

    def stamp_at(self, monotonic_ns: int) -> int:
        (stamp, ns), *_, (last_stamp, last_ns) = [pair for pair in self.clock_pairs if pair[0]]
        return stamp + round((monotonic_ns - ns) * (last_stamp - stamp) / max(last_ns - ns, 1))

    def parent(self) -> Path | None:
        if not self.parent_pid:
            return None
        dot = f".{self.parent_sequence}" if self.parent_sequence else ""
        return self.path.with_name(f"malloc-footprint.{self.parent_pid}{dot}.mraw")

    def _events_of(self, stream: Stream, fork_stamp: int | None) -> list[Numbers]:
        """stamp, address, size, born of each. fork_stamp: only what a child of this fork inherited."""
        op, kind, time, value, size = (np.concatenate([part[i] for part in stream.parts]) for i in range(2, 7))
        is_call = op != MODIFIER
        calls = np.flatnonzero(is_call)
        count, failed, low = np.ones(len(calls), np.uint64), np.zeros(len(calls), np.uint64), np.zeros(len(calls), np.uint64)
        for what, into in ((COUNT, count), (FAILED, failed), (LOW_BITS, low)):
            modifiers = np.flatnonzero(~is_call & (kind == what))
            owners = np.searchsorted(calls, modifiers)
            there = owners < len(calls)  # the call of a log's last modifier may be missing
            into[owners[there]] = value[modifiers[there]]
        zigzag = value[calls]
        delta = ((zigzag >> np.uint64(1)) ^ (np.uint64(0) - (zigzag & np.uint64(1)))) << np.uint64(3)
        delta[(failed != 0) & (op[calls] != REALLOC)] = 0
        lengths = [len(part[2]) for part in stream.parts]
        chunk = np.repeat(np.arange(len(lengths)), lengths)[calls]

        def absolute(steps: Numbers, bases: list[int]) -> Numbers:
            """Sums of steps that begin anew, from the base, in each chunk."""
            sums = np.cumsum(steps, dtype=np.uint64)
            firsts = np.searchsorted(chunk, np.arange(len(lengths)))
            before = np.concatenate([np.zeros(1, np.uint64), sums])[firsts]
            return sums - before[chunk] + np.array(bases, np.uint64)[chunk]

        stamp = absolute(time[calls], [part[0] for part in stream.parts])
        address = absolute(delta, [part[1] for part in stream.parts]) | low
        op, size = op[calls], size[calls] * count
        if fork_stamp is not None:
            mine = [records for records, forked in stream.forks if forked == fork_stamp]
            kept = calls < mine[0] if mine else stamp < np.uint64(fork_stamp)
            op, size, stamp, address, failed = (array[kept] for array in (op, size, stamp, address, failed))
        # A realloc's two records follow each other. One that failed, or has not ended, has changed nothing.
        begins = np.flatnonzero(op == REALLOC)
        ended = begins + 1 < len(op)
        ended[ended] = op[begins[ended] + 1] == REALLOCATED
        changed = begins[ended][failed[begins[ended] + 1] != 1]
        size[begins[ended] + 1] = size[begins[ended]]
        dies = np.isin(op, FREES)
        dies[changed] = True
        born = (np.isin(op, ALLOCATES) | (op == REALLOCATED)) & (failed == 0)
        either = dies | born
        return [stamp[either], address[either], size[either], born[either]]

    def events(self, fork_stamp: int | None = None) -> Events:
        columns = [self._events_of(stream, fork_stamp) for _, stream in sorted(self.streams.items()) if stream.records]
        path = self.parent()
        if path and path.exists():
            inherited = live_blocks(Log(path).events(self.fork_stamp or self.first_stamp))
            columns.insert(0, [np.zeros(len(inherited), np.uint64), *np.array(sorted(inherited.items()), np.uint64).reshape(-1, 2).T,
                               np.ones(len(inherited), bool)])
        elif path:
            print(f"{self.path}: {path} is missing: blocks of the parent are unknown", file=sys.stderr)
        if not columns:
            return Events(*(np.zeros(0, np.uint64) for _ in range(3)), np.zeros(0, bool))
        joined = [np.concatenate(column) for column in zip(*columns, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return Events(*(column[order] for column in joined))


def live_blocks(events: Events, until: int | None = None) -> dict[int, int]:
    """Requested bytes by address. A block is live if the last that happened to its address, up to this stamp, is its birth."""
    end = len(events.stamp) if until is None else int(np.searchsorted(events.stamp, np.uint64(until), "right"))
    _, from_behind = np.unique(events.address[:end][::-1], return_index=True)
    last = end - 1 - from_behind
    last = last[events.born[last]]
    return dict(zip(events.address[last].tolist(), events.size[last].tolist(), strict=True))


def touched_between(events: Events, start: int, end: int) -> set[int]:
    """Addresses where a block began or ended its life between these stamps."""
    first, last = np.searchsorted(events.stamp, np.array([start, end], np.uint64), "right")
    return set(events.address[first:last].tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--at", type=int, help="a moment, as CLOCK_MONOTONIC counts nanoseconds (default: the log's end)")
    options = parser.parse_args()
    log = Log(options.log)
    live = live_blocks(log.events(), None if options.at is None else log.stamp_at(options.at))
    sys.stdout.writelines(f"{address:#x},{size}\n" for address, size in sorted(live.items()))
    print(f"{len(live)} live blocks, {sum(live.values())} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
