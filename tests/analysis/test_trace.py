# SPDX-License-Identifier: Apache-2.0
"""The trace reader against files that an independent, naive writer made from the specification."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import naive_writer
import numpy as np
import pandas as pd
import pytest
import xxhash
from heaptape import TraceError, live_bytes_curve, ops, read_trace
from heaptape.trace.live import live_chunks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_writer import CARRIES, ColumnSpec, Event, TraceSpec, inherits_first
from quick_tier import quick

U64_MAX = (1 << 64) - 1


def _write(path: Path, spec: TraceSpec) -> Path:
    path.write_bytes(naive_writer.build(spec)[0])
    return path


def _expected(event: Event) -> dict[str, int]:
    carried = CARRIES[event.function, event.variant]
    return {
        "slot": event.slot if "S" in carried else 0, "size": event.size if "Z" in carried else 0,
        "extra": event.extra if "X" in carried else 0,
    }


def _check(path: Path, spec: TraceSpec) -> None:
    with read_trace(path) as trace:
        chunks = list(trace.events())
        table = pd.concat(chunks, ignore_index=True) if chunks else pd.DataFrame({"event": []})
    assert list(table["event"]) == list(range(len(spec.events)))
    for row, event in zip(table.itertuples(), spec.events, strict=True):
        assert (row.function, row.variant, row.thread) == (event.function, event.variant, event.thread)
        assert row.time_ns == event.time * spec.unit_ns
        assert {"slot": row.slot, "size": row.size, "extra": row.extra} == _expected(event)


@st.composite
def _specs(draw: st.DrawFn) -> TraceSpec:
    events, time = [], 0
    for function, variant in inherits_first(draw(st.lists(st.sampled_from(sorted(CARRIES)), max_size=60))):
        time += draw(st.integers(0, (1 << 32) + 14))
        events.append(Event(
            function, variant, draw(st.integers(0, 3) | st.just((1 << 24) - 1)), time,
            draw(st.integers(1, 9) | st.just((1 << 32) - 1)), draw(st.integers(0, U64_MAX)), draw(st.integers(0, U64_MAX))))
    return TraceSpec(
        events, unit_ns=draw(st.sampled_from([1, 16, 1000])), block=draw(st.sampled_from([1, 7, 65_536])),
        compress=draw(st.booleans()), difference=draw(st.booleans()),
        literal_seed=draw(st.none() | st.integers(0, 99)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spec=_specs())
def test_every_event_comes_back(tmp_path: Path, spec: TraceSpec) -> None:
    _check(_write(tmp_path / "t.bin", spec), spec)


_NEAR = [(1, 0), (2, 0), (3, 0), (3, 3), (5, 0), (11, 0), (26, 0), (26, 0), (26, 0)]


@pytest.mark.thorough
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.lists(st.tuples(st.sampled_from(_NEAR), st.integers(0, 1), st.integers(1, 2), st.booleans()), max_size=60),
       literal_seed=st.none() | st.integers(0, 99))
def test_queries_that_are_joined_to_other_events_come_back(tmp_path: Path, raw: list, literal_seed: int | None) -> None:
    time, events = 0, []
    for (function, variant), thread, slot, later in raw:
        time += later
        events.append(Event(function, variant, thread, time, slot, 24, 3))
    spec = TraceSpec(events, literal_seed=literal_seed, compress=True)
    _check(_write(tmp_path / "t.bin", spec), spec)


def test_tables_of_ops_agree_with_the_specification() -> None:
    for byte in range(256):
        carried = CARRIES.get((byte & 31, byte >> 5))
        assert ops.OP_EXISTS[byte] == (carried is not None)
        assert ops.OP_HAS_SLOT[byte] == ("S" in (carried or ""))
        assert ops.OP_HAS_SIZE[byte] == ("Z" in (carried or ""))
        assert ops.OP_HAS_EXTRA[byte] == ("X" in (carried or ""))


def _section(path: Path, ops_: list[int], birth: list[int], named: list[int], slot: list[int]) -> list[int]:
    """The slots that the reader finds in a section of one thread."""
    codes = iter(birth)
    wanted = [(op, next(codes) if ops.OP_MAKES[op] else 0) for op in ops_]
    tokens = sorted(set(wanted))  # all of them open
    columns = [
        ColumnSpec(1, [tokens.index(token) for token in wanted]), ColumnSpec(2, [0]), ColumnSpec(3, [len(ops_)]),
        ColumnSpec(4, [0] * len(ops_), nibbles=True), ColumnSpec(6, [op for op, _ in tokens]),
        ColumnSpec(7, [code for _, code in tokens]), ColumnSpec(10, named), ColumnSpec(11, slot)]
    _one_section(path, columns, len(ops_))
    return [int(value) for chunk in read_trace(path).events(["slot"]) for value in chunk["slot"]]


def test_the_example_of_the_specification(tmp_path: Path) -> None:
    assert _section(tmp_path / "t.bin", [1, 1, 5, 1, 3, 5], [1, 1, 0], [4, 4, 3], [9, 10]) == [9, 10, 9, 9, 10, 10]


def test_what_nobody_owns_is_not_pushed(tmp_path: Path) -> None:
    """A free with code 1 pushes nothing, nor does the free of an object that was reallocated under that code."""
    with pytest.raises(TraceError, match="found it empty"):
        _section(tmp_path / "t.bin", [5, 1], [0], [1], [4])
    with pytest.raises(TraceError, match="found it empty"):
        _section(tmp_path / "t.bin", [3, 5, 1], [0], [1, 3], [4])
    assert _section(tmp_path / "t.bin", [3, 5, 1], [0], [0, 3], [4]) == [4, 4, 4]


@pytest.mark.parametrize("kind", ["take turns", "pile up", "realloc"])
def test_long_chains(tmp_path: Path, kind: str) -> None:
    """The deepest chains that a section can hold: one slot that two calls pass back and forth, a stack of half a section,
    one object that is born again all the time."""
    rows = 65_536
    if kind == "take turns":
        slots = _section(tmp_path / "t.bin", [1, 5] * (rows // 2), [1] + [0] * (rows // 2 - 1), [3] * (rows // 2), [7])
        assert set(slots) == {7}
    elif kind == "pile up":
        third = rows // 4
        slots = _section(
            tmp_path / "t.bin", [1] * third + [5] * third + [1] * third, [1] * third + [0] * third,
            [third + 2 - i for i in range(third)], list(range(1, third + 1)))
        assert slots == [*range(1, third + 1), *range(1, third + 1), *range(third, 0, -1)]
    else:
        assert set(_section(tmp_path / "t.bin", [1] + [3] * (rows - 1), [1], [3] * (rows - 1), [7])) == {7}


def _small() -> TraceSpec:
    return TraceSpec(
        [Event(1, time=5, slot=1, size=100), Event(2, time=6, slot=2, size=8, extra=10), Event(3, time=7, slot=1, size=300),
         Event(5, time=9, slot=2, thread=1), Event(1, time=9, slot=9, size=50), Event(30, time=9, slot=9),
         Event(3, 3, time=10, slot=1, size=0), Event(1, 2, time=11, size=U64_MAX), Event(5, 1, time=12)],
        samples=[(0, 0, 4096, 0, 10, 0), (9, 4, 90_000, 4096, 2_000, 1)], residency=[(0, 17, 20)],
        steps=[(2, 11, 3), (0, 9, 20), (0, 7, 18)],
        threads=[(100, 0, 5, 7, 12, 0, "main"), (101, 3, 9, 1, 10, 1, "worker-with-name")], unit_ns=10, block=4)


def test_sections_beside_the_events(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path / "t.bin", _small()))
    assert not trace.truncated and trace.records == 9
    assert trace.context["command"] == "job" and trace.totals == {"events": 8, "records": 9}
    assert trace.samples["time_ns"].tolist() == [0, 90]
    assert trace.samples["heap_rss_bytes"].tolist() == [4096, 85_904]
    assert trace.samples["own_fresh"].tolist() == [False, True]
    assert trace.residency.to_dict("records") == [{"birth_event": 0, "pages_at_birth": 17, "pages_at_end": 20}]
    assert trace.residency_steps.to_numpy().tolist() == [[0, 70, 18, 0, 0], [0, 90, 20, 0, 0], [2, 110, 3, 0, 0]]
    assert trace.threads["name"].tolist() == ["main", "worker-with-name"]
    assert trace.threads["end_ns"].tolist() == [120, 100] and trace.threads["ended"].tolist() == [False, True]


def test_residency_in_runs(tmp_path: Path) -> None:
    steps = [(0, 9, 20, 300, 15), (0, 9, 20, 0, 5), (0, 7, 18, 0, 0)]
    trace = read_trace(_write(tmp_path / "t.bin", replace(_small(), steps=steps)))
    assert trace.residency_steps.columns.tolist() == ["birth_event", "time_ns", "pages", "first_page", "run_pages"]
    assert trace.residency_steps.to_numpy().tolist() == [[0, 70, 18, 0, 0], [0, 90, 20, 0, 5], [0, 90, 20, 300, 15]]
    cut = _write(tmp_path / "cut.bin", replace(_small(), steps=[step[:4] for step in steps]))
    with pytest.raises(TraceError, match="expected column 5"):
        _ = read_trace(cut).residency_steps


def test_columns_on_demand(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path / "t.bin", _small()))
    assert [list(chunk.columns) for chunk in trace.events(["thread", "size"])] == [["thread", "size"]] * 3
    with pytest.raises(ValueError, match="no such event column: weight"):
        next(trace.events(["weight"]))


def test_live_bytes_by_hand(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path / "t.bin", _small()))
    curve = live_bytes_curve(trace)
    assert curve["live_bytes"].tolist() == [100, 180, 380, 300, 350, 300, 0, 0, 0]
    assert curve["live_objects"].tolist() == [1, 2, 2, 1, 2, 1, 0, 0, 0]


def _naive_live(events: list[Event]) -> list[int]:
    held: dict[int, int] = {}
    curve = []
    for e in events:
        if e.function in (1, 2, 3, 4) and e.variant in (0, 1, 4):
            held[e.slot] = e.size * (e.extra if e.function in (2, 4) else 1)
        elif "S" in CARRIES[e.function, e.variant] and e.function != 26:
            held.pop(e.slot, None)
        curve.append(sum(held.values()))
    return curve


_OPS = [(1, 0), (2, 0), (3, 0), (3, 1), (3, 3), (3, 4), (4, 0), (5, 0), (5, 1), (11, 0), (24, 0), (26, 0), (30, 0)]


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    raw=st.lists(st.tuples(st.sampled_from(_OPS), st.integers(1, 6), st.integers(0, 1000), st.integers(0, 9)), max_size=60),
    block=st.sampled_from([1, 5, 64]))
def test_live_bytes_agree_with_a_plain_loop(tmp_path: Path, raw: list, block: int) -> None:
    events = [Event(f, v, time=i, slot=s, size=z, extra=x) for i, ((f, v), s, z, x) in enumerate(raw)]
    trace = read_trace(_write(tmp_path / "t.bin", TraceSpec(events, block=block)))
    assert live_bytes_curve(trace)["live_bytes"].tolist() == _naive_live(events)


def test_thinned_curve_keeps_the_peak(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    events = [Event(1, time=i, slot=int(s), size=int(z)) for i, (s, z) in enumerate(
        zip(rng.integers(1, 50, 5_000), rng.integers(1, 9_999, 5_000), strict=True))]
    trace = read_trace(_write(tmp_path / "t.bin", TraceSpec(events, block=1_000)))
    whole, thinned = live_bytes_curve(trace), live_bytes_curve(trace, points=100)
    assert len(thinned) <= 120
    assert thinned["live_bytes"].max() == whole["live_bytes"].max()
    assert thinned.iloc[-1].equals(whole.iloc[-1])
    assert thinned["event"].is_monotonic_increasing


def test_empty_trace(tmp_path: Path) -> None:
    trace = read_trace(_write(tmp_path / "t.bin", TraceSpec([])))
    assert trace.records == 0 and list(trace.events()) == [] and live_bytes_curve(trace).empty
    assert trace.samples.empty and trace.threads.empty and list(live_chunks(trace)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("step", [7, 1])
def test_cut_short_at_every_byte(tmp_path: Path, step: int) -> None:
    data, ends = naive_writer.build(_small())
    path = tmp_path / "t.bin"
    events_at = [e for e in ends[1:] if e]  # context, events (3), samples, residency, steps, threads, totals, index
    for length in range(0, len(data), step):
        path.write_bytes(data[:length])
        if length < 64:
            with pytest.raises(TraceError):
                read_trace(path)
            continue
        with read_trace(path) as trace:
            assert trace.truncated
            whole = sum(end <= length for end in events_at)
            assert trace.whole_bytes == max(end for end in ends[:-1] if end <= length)
            assert trace.records == sum((4, 4, 1)[: max(0, min(3, whole - 1))])
            assert sum(len(chunk) for chunk in trace.events()) == trace.records
            assert (trace.totals is None) == (whole < 9)
            assert len(trace.samples) == (2 if whole >= 5 else 0)
    path.write_bytes(data)
    assert not read_trace(path).truncated


def _read_all(path: Path) -> None:
    with read_trace(path) as trace:
        for _ in trace.events():
            pass
        _ = trace.samples, trace.residency, trace.residency_steps, trace.threads


@pytest.mark.parametrize("step", quick([7], [7, 1]))
def test_no_flipped_bit_goes_unnoticed(tmp_path: Path, step: int) -> None:
    """Every byte of the file is under some checksum, and any change is an error that names file and offset, or in the
    footer makes the file one that was cut short."""
    data, _ = naive_writer.build(_small())
    path = tmp_path / "t.bin"
    for position in range(0, len(data), step):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :])
        if position >= len(data) - 32:
            assert read_trace(path).truncated
            continue
        with pytest.raises(TraceError) as caught:
            _read_all(path)
        assert caught.value.path == path and 0 <= caught.value.offset <= len(data)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(("header", "words"), [
    (naive_writer.encode_header(min_reader=3), "needs a reader of version 3"),
    (naive_writer.encode_header(version=1, min_reader=1), "released version, found version 1"),
    (naive_writer.encode_header(features=8), "features 0x8"),
    (naive_writer.encode_header(features=4), "that of a group of processes"),
    (naive_writer.encode_header(unit_ns=0), "time unit"),
])
def test_header_that_this_reader_does_not_know(tmp_path: Path, header: bytes, words: str) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.assemble(header, [naive_writer.encode_json(1, {})])[0])
    with pytest.raises(TraceError, match=words):
        read_trace(path)


def test_newer_version_with_old_minimum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(version=9), [naive_writer.encode_json(1, {})])[0])
    assert read_trace(path).header.version == 9


def _one_section(path: Path, columns: list[ColumnSpec], rows: int) -> Path:
    section = naive_writer.encode_section(2, columns, rows)
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(), [section])[0])
    return path


def _columns(**changed: list[int]) -> list[ColumnSpec]:
    """malloc(8) as a whole token, and a free of it as an open one."""
    values = {"token": [0, 1], "thread": [0], "length": [2], "time": [0, 15], "long": [1], "op": [1, 5], "code": [1, 0],
              "whole_size": [8], "whole_extra": [0], "named": [3], "slot": [1], "size": [], "extra": [],
              "across": []} | changed
    return [ColumnSpec(i, list(v), nibbles=name == "time") for i, (name, v) in enumerate(values.items(), start=1)]


@pytest.mark.parametrize(("changed", "words"), [
    ({"op": [1, 27]}, "expected known ops, found 27"),
    ({"op": [1, 261]}, "expected column 6 in a layout that it may have, found 2/0/0"),
    ({"token": [0]}, "expected 2 values in the token column, found 1"),
    ({"token": [0, 2]}, "tokens below 2, found 2"),
    ({"op": [1] * 257, "code": [1] * 257}, "at most 256 tokens, found 257"),
    ({"whole_size": [8, 0, 0], "whole_extra": [0, 0, 0]}, "at most 256 tokens, found 2 with 3 sizes"),
    ({"whole_extra": []}, "expected 1 values in the token extra column, found 0"),
    ({"whole_extra": [7]}, "tokens with the values that their op has"),
    ({"length": [3]}, "runs that add up to 2"),
    ({"length": [1, 1]}, "a length for every run"),
    ({"slot": [1, 1]}, "expected 1 values in the slot column, found 2"),
    ({"slot": [1 << 32]}, "values below 2"),
    ({"slot": [0]}, "slots from 1 to 2"),
    ({"code": []}, "expected 2 values in the token code column, found 0"),
    ({"code": [2, 0]}, "birth codes 0 and 1, found 2"),
    ({"code": [0, 0], "slot": []}, "stack that an allocation pops"),
    ({"named": []}, "expected 1 values in column 10, found 0"),
    ({"named": [4]}, "a name among 1 births, found one 1 back"),
    ({"named": [2]}, "expected 1 values in the across column, found 0"),
    ({"named": [2], "across": [1]}, "a name among 1 births, found one 1 back"),
    ({"across": [0]}, "expected 0 values in the across column, found 1"),
    ({"named": [(1 << 32) - 1]}, "a name among 1 births"),
    ({"named": [1 << 32]}, "values below 2"),
    ({"long": [1 << 32]}, "values below 2"),
    ({"thread": [1 << 24]}, "threads below 2"),
    ({"size": [8]}, "expected 0 values in column 12, found 1"),
    ({"time": [0]}, "expected 2 values in column 4"),
    ({"long": []}, "expected 1 values in column 5, found 0"),
])
def test_sections_that_contradict_themselves(tmp_path: Path, changed: dict, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        _read_all(_one_section(tmp_path / "t.bin", _columns(**changed), 2))


def test_more_rows_than_the_limit(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="at most 65536 rows"):
        _read_all(_one_section(tmp_path / "t.bin", _columns(), 65_537))


def test_missing_events_are_noticed(tmp_path: Path) -> None:
    sections = [naive_writer.encode_events([Event(5, 1)], 0), naive_writer.encode_events([Event(5, 1)], 2)]
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(), sections)[0])
    with pytest.raises(TraceError, match="expected event 1 to begin here, found 2"):
        read_trace(path)


def test_a_frame_larger_than_its_column_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    entry = struct.pack("<BBBBIII", 1, 1, 0, 1, 2, len(bomb), 0)
    head = struct.pack("<4sBBHIIQQQ", b"HTBK", 2, 1, 0, len(entry + bomb), 2, 0, 0, 0)
    section = head + struct.pack("<Q", xxhash.xxh64_intdigest(head + entry + bomb)) + entry + bomb
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(), [section])[0])
    with pytest.raises(TraceError, match="a zstd frame of 2 bytes, found 50000000"):
        _read_all(path)


@pytest.mark.parametrize("content, found", [
    (b"", "an empty file"), (b"x", "another file"), (b"HTAPERAW" + bytes(200), "a raw log: heaptape convert makes"), (b"\x7fELF" * 40, "another file"),
])
def test_what_is_no_trace(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=rf"offset 0: expected a trace \(HTAPETRC\), found {found}"):
        read_trace(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "absent.bin", "cannot open: No such file or directory"),
                      (tmp_path, "offset 0: expected a trace in a regular file, found no regular file")):
        with pytest.raises(TraceError) as raised:
            read_trace(path)
        assert str(raised.value) == f"{path}: {why}"


def test_bytes_after_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(_small())[0] + b"more")
    trace = read_trace(path)
    assert trace.truncated and trace.records == 9


def test_unknown_sections_and_columns_are_passed_over(tmp_path: Path) -> None:
    columns = [*_columns(), ColumnSpec(77, [1, 2, 3])]
    sections = [naive_writer.encode_section(99, [ColumnSpec(1, [1])], 1), naive_writer.encode_section(2, columns, 2)]
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.assemble(naive_writer.encode_header(), sections)[0])
    assert sum(len(chunk) for chunk in read_trace(path).events()) == 2
