# SPDX-License-Identifier: Apache-2.0
"""Traces that were tampered with, checksums made right: the reader in C and the one here refuse the same ones, and see the
same events in the others. HEAPTAPE_AGREE_ROUNDS=10000 tries more."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import naive_writer
import pytest
import xxhash
from heaptape import read_trace
from heaptape.base.errors import TraceError
from heaptape.trace.reader import EVENT_COLUMNS
from naive_writer import Event, TraceSpec, sites_of
from test_dump_agrees import _call, _sound_events

HEADER, SECTION, ENTRY, FOOTER = 64, 48, 16, 32
_FUNCTION = re.compile(r"( site \d+) \(.*")
"""The function behind a site's number."""

ROUNDS = int(os.environ.get("HEAPTAPE_AGREE_ROUNDS", "80"))
SHIPPED = Path(__file__).resolve().parents[1] / "golden" / "sqlite3.bin"


def _parts(data: bytes) -> list[bytes]:
    """Header, sections, footer."""
    parts, at = [data[:HEADER]], HEADER
    while data[at : at + 4] == b"HTBK":
        end = at + SECTION + struct.unpack_from("<I", data, at + 8)[0]
        parts.append(data[at:end])
        at = end
    return [*parts, data[at:]]


def _sealed(parts: list[bytes], rnd: random.Random) -> bytes:
    """The file with every checksum right; now and then the index and footer follow what has become of the sections."""
    header = parts[0][:56] + struct.pack("<Q", xxhash.xxh64_intdigest(parts[0][:56]))
    sections = []
    for part in parts[1:-1]:
        head, payload = part[:40], part[SECTION:]
        sections.append(head + struct.pack("<Q", xxhash.xxh64_intdigest(head + payload)) + payload)
    if rnd.random() < 0.8:
        return naive_writer.assemble(header, sections[:-1])[0]
    footer = parts[-1][:24]
    return header + b"".join(sections) + footer + struct.pack("<Q", xxhash.xxh64_intdigest(footer))


def _odd(rnd: random.Random, bits: int) -> int:
    return rnd.choice([0, 1, 2, 3, 15, 16, 255, 65_536, (1 << bits) - 1, 1 << bits - 1, rnd.getrandbits(bits)]) % (1 << bits)


def _change_field(part: bytes, rnd: random.Random, at: int, width: int) -> bytes:
    before = int.from_bytes(part[at : at + width], "little")
    after = rnd.choice([_odd(rnd, 8 * width), before + 1, before - 1, before ^ 1 << rnd.randrange(8 * width)])
    return part[:at] + (after % (1 << 8 * width)).to_bytes(width, "little") + part[at + width :]


def _tamper_head(part: bytes, rnd: random.Random) -> bytes:
    at, width = rnd.choice([(4, 1), (5, 1), (12, 4), (16, 8), (24, 8)])
    return _change_field(part, rnd, at, width)


def _tamper_entry(part: bytes, rnd: random.Random) -> bytes:
    if not part[5]:
        return part
    entry = SECTION + ENTRY * rnd.randrange(part[5])
    at, width = rnd.choice([(0, 1), (1, 1), (2, 1), (3, 1), (4, 4), (8, 4)])
    return _change_field(part, rnd, entry + at, width)


def _tamper_values(part: bytes, rnd: random.Random) -> bytes:
    begin = SECTION + ENTRY * part[5]
    if begin >= len(part):
        return part
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.randrange(begin, len(part))
        part = part[:at] + bytes([_odd(rnd, 8)]) + part[at + 1 :]
    return part


def _tamper_length(part: bytes, rnd: random.Random) -> bytes:
    """Bytes more or fewer at the end, with the payload's length made right."""
    part = part + rnd.randbytes(rnd.randrange(1, 9)) if rnd.random() < 0.5 else part[: -rnd.randrange(1, 9)]
    if len(part) < SECTION + ENTRY:
        return part
    return part[:8] + struct.pack("<I", len(part) - SECTION) + part[12:]


def _double_entry(part: bytes, rnd: random.Random) -> bytes:
    """A column once more, without or with its values."""
    count = part[5]
    if not count or count > 200:
        return part
    directory = part[SECTION : SECTION + ENTRY * count]
    at = ENTRY * rnd.randrange(count)
    entry = bytearray(directory[at : at + ENTRY])
    if rnd.random() < 0.5:
        entry[0] = _odd(rnd, 8)
    entry[4:12] = bytes(8)
    payload = directory + bytes(entry) + part[SECTION + ENTRY * count :]
    return part[:5] + bytes([count + 1]) + part[6:8] + struct.pack("<I", len(payload)) + part[12:SECTION] + payload


TAMPERINGS: list[Callable[[bytes, random.Random], bytes]] = [
    _tamper_head, _tamper_entry, _tamper_values, _tamper_values, _tamper_length, _double_entry]


def _tampered(data: bytes, rnd: random.Random) -> bytes:
    parts = _parts(data)
    for _ in range(rnd.choice([1, 1, 1, 2, 3])):
        what = rnd.random()
        number = rnd.randrange(1, len(parts) - 1)
        if what < 0.04:
            at, width = rnd.choice([(8, 2), (10, 2), (12, 4), (16, 4), (20, 4)])
            parts[0] = _change_field(parts[0], rnd, at, width)
        elif what < 0.08:
            at = rnd.choice([8, 16])
            parts[-1] = _change_field(parts[-1].ljust(FOOTER, b"\0"), rnd, at, 8)
        elif what < 0.14:
            other = rnd.randrange(1, len(parts) - 1)
            parts[number], parts[other] = parts[other], parts[number]
        elif what < 0.18:
            parts.insert(rnd.randrange(1, len(parts) - 1), parts[number])
        elif what < 0.22 and len(parts) > 4:
            del parts[number]
        else:
            parts[number] = rnd.choice(TAMPERINGS)(parts[number], rnd)
    data = _sealed(parts, rnd)
    return data[: rnd.randrange(HEADER, len(data))] if rnd.random() < 0.05 else data


def _c_reader(binary: Path, path: Path) -> list[str] | None:
    """The dump; None for a trace that dump or info refuses."""
    dump, info = (subprocess.run([binary, *words, path], capture_output=True, text=True, check=False, timeout=60)
                  for words in (["dump"], ["info", "--json"]))
    for done in (dump, info):
        assert done.returncode in (0, 3), (done.returncode, done.stderr)
        assert done.stderr.count("\n") == (done.returncode == 3), done.stderr
    return None if dump.returncode or info.returncode else [_FUNCTION.sub(r"\1", line) for line in dump.stdout.splitlines()]


def _python_reader(path: Path) -> list[str] | None:
    lines = []
    try:
        with read_trace(path) as trace:
            assert len(trace.sites.sites) >= 0
            for chunk in trace.events([*EVENT_COLUMNS, "site"]):
                for row in chunk.itertuples(index=False):
                    call = _call(row.function, row.variant, row.slot, row.size, row.extra)
                    lines.append(f"{row.event} {row.time_ns} t{row.thread} {call}" + (f" site {row.site}" if row.site else ""))
            if trace.totals is None:  # info counts then, and looks at the facts
                assert all(len(table) >= 0 for table in (trace.samples, trace.residency, trace.residency_steps, trace.threads))
            return None if trace.truncated else lines
    except TraceError as error:
        assert "\n" not in str(error)
        return None


def _originals() -> list[bytes]:
    events = [Event(31, 0, 0, 0, 50_000, 16), Event(31, 0, 0, 0, 50_001, 32), *_sound_events(400)[2:]]
    sound = TraceSpec(events, block=90, samples=[(0, 0, 4096, 0, 10, 0), (9, 4, 90_000, 4096, 2_000, 1)],
                      residency=[(0, 17, 20)], steps=[(2, 11, 3)], threads=[(100, 0, 5, 7, 12, 0, "main")])
    small = TraceSpec([Event(31, slot=3, size=9), Event(1, slot=1, size=100, time=5), Event(5, slot=1, time=1 << 30),
                       Event(3, 1, slot=2, size=7, time=1 << 30), Event(30, slot=2, time=1 << 30)], unit_ns=1000, block=2)
    packed = TraceSpec(sound.events, block=200, compress=True, difference=True, literal_seed=3)
    stacks = sites_of([["inner@a.c:1|outer@a.c:2", "main@a.c:3"], ["b.so+0x10", "main@a.c:4"]])
    sited = TraceSpec([replace(event, site=number % 3) for number, event in enumerate(sound.events)], block=200, sites=stacks)
    return [naive_writer.build(spec)[0] for spec in (sound, small, packed, small, sited)] + [SHIPPED.read_bytes()]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_tampered_traces(heaptape_binary: Path, tmp_path: Path, seed: int) -> None:
    """HEAPTAPE_AGREE_ROUNDS=10000 for more of them."""
    rnd, originals, path = random.Random(seed), _originals(), tmp_path / "t.bin"
    whole = 0
    for number in range(ROUNDS):
        data = _tampered(rnd.choices(originals, [4, 6, 4, 6, 4, 0.2])[0], rnd)
        path.write_bytes(data)
        left, right = _c_reader(heaptape_binary, path), _python_reader(path)
        if left != right:
            kept = tmp_path / f"differs-{seed}-{number}.bin"
            kept.write_bytes(data)
            pytest.fail(f"{kept}: " + ("C refuses it, Python does not" if left is None else
                                       "Python refuses it, C does not" if right is None else "the events differ"))
        whole += left is not None
    assert whole > ROUNDS // 20, "hardly any of them was accepted: this shows nothing"
    sys.stdout.write(f"{whole} of {ROUNDS} accepted\n")
