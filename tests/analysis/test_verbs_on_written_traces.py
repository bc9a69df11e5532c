# SPDX-License-Identifier: Apache-2.0
"""lint, stats and slice on traces that no recorder wrote: every function and variant, and mistakes."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import naive_writer
import numpy as np
import pytest
from heaptape import read_trace
from naive_writer import CARRIES, Event, TraceSpec

MALLOC, CALLOC, REALLOC, FREE, FREE_SIZED = 1, 2, 3, 5, 11
POSIX_MEMALIGN, ALIGNED_ALLOC, FREE_ALIGNED_SIZED = 6, 7, 12
NEW, NEW_ARRAY, NEW_ALIGNED = 14, 15, 16
DELETE, DELETE_ARRAY, DELETE_SIZED, DELETE_ALIGNED = 18, 19, 20, 22
QUERY, DROP, INHERIT = 26, 30, 31


def _verb(binary: Path, verb: str, events: list[Event], folder: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
    path = folder / "t.bin"
    threads = [(100 + i, 0, 0, 0, 0, 0, "") for i in range(3)]
    path.write_bytes(naive_writer.build(TraceSpec(events, block=50, threads=threads))[0])
    return subprocess.run([binary, verb, path, *more], capture_output=True, check=False, timeout=120)


def _lint(binary: Path, events: list[Event], folder: Path) -> tuple[int, dict[str, int]]:
    done = _verb(binary, "lint", events, folder, "--json")
    report = json.loads(done.stdout)
    return done.returncode, {row["finding"]: row["count"] for row in report["findings"] if row["count"]}


def _block(make: int, end: int, **given: int) -> list[Event]:
    """A block of 64 bytes, aligned to 64 where its function takes that, and its end."""
    extra = {CALLOC: 1}.get(make, 64)
    return [Event(make, 0, 0, 5, 1, 64, extra),
            Event(end, 0, 1, 9, 1, given.get("size", 64), given.get("alignment", 64))]


@pytest.mark.parametrize(("events", "finding"), [
    (_block(MALLOC, FREE), None),
    (_block(CALLOC, FREE_SIZED), None),
    (_block(ALIGNED_ALLOC, FREE), None),
    (_block(ALIGNED_ALLOC, FREE_ALIGNED_SIZED), None),
    (_block(NEW, DELETE), None),
    (_block(NEW_ARRAY, DELETE_ARRAY), None),
    (_block(NEW_ALIGNED, DELETE_ALIGNED), None),
    (_block(INHERIT, DELETE), None),
    (_block(INHERIT, FREE), None),
    (_block(MALLOC, DELETE), "mismatched_pair"),
    (_block(NEW, FREE), "mismatched_pair"),
    (_block(NEW, REALLOC), "mismatched_pair"),
    (_block(NEW_ARRAY, DELETE), "mismatched_pair"),
    (_block(NEW, DELETE_ARRAY), "mismatched_pair"),
    (_block(NEW_ALIGNED, DELETE), "mismatched_pair"),
    (_block(NEW, DELETE_ALIGNED), "mismatched_pair"),
    (_block(MALLOC, FREE_SIZED, size=63), "size_mismatch"),
    (_block(NEW, DELETE_SIZED, size=65), "size_mismatch"),
    (_block(NEW_ALIGNED, DELETE_ALIGNED, alignment=32), "alignment_mismatch"),
    (_block(MALLOC, FREE_ALIGNED_SIZED), "alignment_mismatch"),
    (_block(MALLOC, DROP), "unseen_free"),
])
def test_pairs(heaptape_binary: Path, tmp_path: Path, events: list[Event], finding: str | None) -> None:
    expected = {finding: 1} if finding else {}
    assert _lint(heaptape_binary, events, tmp_path) == (int(bool(finding)), expected)


def test_alignments_that_are_no_power_of_two(heaptape_binary: Path, tmp_path: Path) -> None:
    events = [Event(ALIGNED_ALLOC, 0, 0, 1, 1, 48, 24), Event(POSIX_MEMALIGN, 2, 0, 2, 0, 48, 3),
              Event(POSIX_MEMALIGN, 0, 0, 3, 2, 48, 8)]
    assert _lint(heaptape_binary, events, tmp_path) == (1, {"bad_alignment": 2, "failed_call": 1})


def test_sizes_that_not_every_allocator_serves(heaptape_binary: Path, tmp_path: Path) -> None:
    """As scudo, which returns NULL: for information, like calls that failed, whatever their reason."""
    events = [Event(ALIGNED_ALLOC, slot=1, size=100, extra=64), Event(ALIGNED_ALLOC, slot=2, size=128, extra=64),
              Event(ALIGNED_ALLOC, 2, size=100, extra=64), Event(POSIX_MEMALIGN, slot=3, size=100, extra=64)]
    assert _lint(heaptape_binary, events, tmp_path) == (0, {"odd_size": 1, "failed_call": 1})
    # POSIX wants multiples of a pointer's size.
    events = [Event(POSIX_MEMALIGN, 2, size=100, extra=4), Event(ALIGNED_ALLOC, slot=1, size=100, extra=4)]
    assert _lint(heaptape_binary, events, tmp_path) == (1, {"bad_alignment": 1, "failed_call": 1})


def test_a_slice_begins_with_its_first_event_even_if_that_is_left_out(heaptape_binary: Path, tmp_path: Path) -> None:
    events = [Event(MALLOC, slot=number + 1, size=1 << 20 if number > 5 else 8, time=100 * number) for number in range(10)]
    done = _verb(heaptape_binary, "slice", events, tmp_path, "-o", str(tmp_path / "s.bin"), "--from-event", "4", "--only", "size=1KiB-1GiB")
    assert done.returncode == 0, done.stderr
    with read_trace(tmp_path / "s.bin") as cut, read_trace(tmp_path / "t.bin") as whole:
        old, new = (np.concatenate([chunk["time_ns"] for chunk in trace.event_arrays(["time_ns"])]) for trace in (whole, cut))
    assert (new[-4:] == old[6:] - old[4]).all()


def test_live_bytes_that_wrap_around_are_refused(heaptape_binary: Path, tmp_path: Path) -> None:
    events = [Event(MALLOC, slot=number + 1, size=(1 << 63) - 1, time=number) for number in range(3)]
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, threads=[(1, 0, 0, 0, 0, 0, "")]))[0])
    done = subprocess.run([heaptape_binary.with_name("replay"), "-q", "--alloc", "null", tmp_path / "t.bin"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "expected live bytes below 2^63" in done.stderr, done.stderr


def test_a_query_of_no_block_is_refused(heaptape_binary: Path, tmp_path: Path) -> None:
    events = [Event(MALLOC, slot=number + 1, size=8, time=number) for number in range(2_000)]
    events.append(Event(QUERY, slot=900_000, size=8, time=2_001))
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, threads=[(1, 0, 0, 0, 0, 0, "")]))[0])
    done = subprocess.run([heaptape_binary, "extend", "-q", tmp_path / "t.bin", "--to", "1h", "-o", tmp_path / "long.bin"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 3 and "expected a slot with a live object" in done.stderr, done.stderr


@pytest.mark.parametrize("verb", ["lint", "stats", "slice"])
@pytest.mark.parametrize("events", [
    [Event(MALLOC, slot=1, size=8), Event(FREE, slot=1), Event(FREE, slot=1)],
    [Event(MALLOC, slot=1, size=8), Event(MALLOC, slot=1, size=8)],
    [Event(REALLOC, slot=1, size=8)],
    [Event(MALLOC, slot=1, size=8), Event(FREE, slot=4_000_000_000)],
], ids=["free twice", "take twice", "realloc nothing", "free nothing"])
def test_impossible_traces_are_refused(heaptape_binary: Path, tmp_path: Path, verb: str, events: list[Event]) -> None:
    more = ["-o", str(tmp_path / "s.bin")] if verb == "slice" else []
    done = _verb(heaptape_binary, verb, events, tmp_path, *more)
    assert done.returncode == 3, done
    assert done.stdout == b"" and b"expected" in done.stderr and done.stderr.count(b"\n") == 1
    assert not (tmp_path / "s.bin").exists()


def _every_op(count: int) -> list[Event]:
    source, live, events = random.Random(11), [], [Event(INHERIT, 0, 0, 0, 1, 100), Event(INHERIT, 0, 0, 0, 2, 90_000)]
    live = [1, 2]
    kinds = sorted(key for key in CARRIES if key[0] < 28)  # calls of the family
    while len(events) < count:
        function, variant = source.choice(kinds)
        shape = CARRIES[function, variant]
        realloc, ends = function in (3, 4), variant == 3
        frees = function in (5, 11, 12, 13, *range(18, 26))
        needs = (frees or realloc or function == QUERY) and variant in (0, 3) and "S" in shape
        ends = ends or (needs and frees)
        if needs and not live:
            continue
        slot = source.choice(live) if needs else len(events) + 1 if "S" in shape else 0
        if ends:
            live.remove(slot)
        elif not needs and slot:
            live.append(slot)
        events.append(Event(function, variant, source.randrange(3), len(events) * 3, slot, source.randrange(9_000),
                            source.randrange(1, 9) if function in (2, 4) else 1 << source.randrange(3, 12)))
    return events


def test_every_op_goes_through_every_verb(heaptape_binary: Path, tmp_path: Path) -> None:
    events = _every_op(2_500)
    calls = sum(e.function < DROP for e in events)
    done = _verb(heaptape_binary, "stats", events, tmp_path, "--json")
    stats = json.loads(done.stdout)
    assert done.returncode == 0 and stats["events"] == calls == sum(r["calls"] for r in stats["functions"].values())
    assert len(stats["functions"]) == 26
    done = _verb(heaptape_binary, "lint", events, tmp_path, "--json")
    assert json.loads(done.stdout)["calls"] == calls
    done = _verb(heaptape_binary, "slice", events, tmp_path, "-o", str(tmp_path / "s.bin"), "--from-event", "700")
    assert done.returncode == 0, done.stderr
    info = json.loads(subprocess.run([heaptape_binary, "info", "--json", tmp_path / "s.bin"], capture_output=True,
                                     check=True, timeout=60).stdout)
    assert info["events"] == sum(e.function < DROP for e in events[700:])
    assert info["end_live_bytes"] == stats["lifetimes"]["live_at_end_bytes"]


@pytest.mark.parametrize("verb", ["lint", "stats", "slice"])
def test_a_far_slot_costs_no_memory(heaptape_binary: Path, tmp_path: Path, verb: str) -> None:
    """Nothing is walked or touched up to it: the process's peak stays far below what a full table would take."""
    events = [Event(MALLOC, slot=4_294_967_295, size=8, time=1), Event(MALLOC, slot=3, size=8, time=2)]
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, threads=[(1, 0, 0, 0, 0, 0, "")]))[0])
    more = ["-o", str(tmp_path / "s.bin"), "--from-event", "1"] if verb == "slice" else []
    with subprocess.Popen([heaptape_binary, verb, tmp_path / "t.bin", *more], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss < 1 << 20  # 1 GiB: a child's peak begins with what its parent had
