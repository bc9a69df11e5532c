# SPDX-License-Identifier: Apache-2.0
"""Parquet tables read back equal what the trace reader says, whatever wrote the trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import naive_writer
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from heaptape import HeaptapeError, Trace, live_bytes_curve, ops, read_trace
from heaptape.trace import parquet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_writer import CARRIES, Event, TraceSpec, inherits_first
from verbs_here import run_here

ROOT = Path(__file__).resolve().parents[2]
NUMBER_OF = {name: number for number, name in ops.FUNCTIONS.items()}


def _births(events: pd.DataFrame) -> list[int | None]:
    """By slot, one event after the other: the birth of what each event resizes or ends."""
    held: dict[int, int] = {}
    births: list[int | None] = []
    for row in events.itertuples():
        has, makes = ops.OP_CHANGES[row.op], ops.OP_MAKES[row.op]
        births.append(held.get(row.slot) if has and not makes else None)
        if ops.OP_LEAVES_OBJECT[row.op]:
            held[row.slot] = row.event
        elif has:
            held.pop(row.slot, None)
    return births


def _check(trace: Trace, folder: Path) -> None:
    parquet.export_parquet(trace, folder)
    chunks = list(trace.events())
    expected = pd.concat(chunks, ignore_index=True) if chunks else None
    found = pq.read_table(folder / "events.parquet").to_pandas()
    assert len(found) == trace.records
    if expected is None:
        return
    assert np.array_equal(found["function"].map(NUMBER_OF).astype(np.uint8), expected["function"])
    variants = found["variant"].map({v.name.lower(): int(v) for v in ops.Variant})
    assert np.array_equal(variants.astype(np.uint8), expected["variant"])
    for name in ("event", "thread", "time_ns"):
        assert np.array_equal(found[name], expected[name])
    table = pq.read_table(folder / "events.parquet")
    flags = {"slot": ops.OP_HAS_SLOT, "size_bytes": ops.OP_HAS_SIZE, "extra": ops.OP_HAS_EXTRA}
    for name, carries in flags.items():
        column = table.column(name)
        assert np.array_equal(column.is_valid().to_numpy(), carries[expected["op"]])
        plain = column.fill_null(0).to_numpy()
        assert np.array_equal(plain, expected[name.removesuffix("_bytes")]), name
    assert table.column("birth_event").to_pylist() == _births(expected)


def _spec(events: list[Event], block: int) -> TraceSpec:
    return TraceSpec(events, block=block, compress=True, difference=True, unit_ns=16)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(st.tuples(st.sampled_from(sorted(CARRIES)), st.integers(1, 9), st.integers(0, 2)), max_size=60),
       block=st.sampled_from([1, 7, 65_536]))
def test_tables_equal_the_trace(tmp_path: Path, kinds: list[tuple[tuple[int, int], int, int]], block: int) -> None:
    events = [Event(function, variant, thread, number * 3, slot, 8 * number, 1 + number)
              for number, ((function, variant), slot, thread) in enumerate(inherits_first(kinds))]
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(_spec(events, block))[0])
    with read_trace(path) as trace:
        _check(trace, tmp_path / "tables")


@pytest.mark.thorough
def test_recorded_traces(tmp_path: Path, recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        with read_trace(path) as trace:
            _check(trace, tmp_path / path.stem)
            events = pq.read_table(tmp_path / path.stem / "events.parquet")
            assert np.array_equal(events.column("live_bytes"), live_bytes_curve(trace)["live_bytes"])
            for name in ("samples", "residency", "threads"):
                written = pq.read_table(tmp_path / path.stem / f"{name}.parquet").to_pandas()
                expected = getattr(trace, name)
                for column in expected:
                    assert list(written[column]) == list(expected[column]), (name, column)
            about = {key.decode(): value.decode() for key, value in events.schema.metadata.items()}
            assert json.loads(about["heaptape.context"]) == trace.context
            assert json.loads(about["heaptape.totals"]) == trace.totals
            assert about["heaptape.truncated"] == "false"


def test_every_column_says_its_unit(tmp_path: Path, recorded_traces: list[Path]) -> None:
    with read_trace(recorded_traces[0]) as trace:
        paths = parquet.export_parquet(trace, tmp_path)
    text = (ROOT / "docs" / "reference" / "exporting.md").read_text()
    for path in paths:
        for field in pq.read_schema(path):
            assert field.metadata[b"unit"] and field.metadata[b"description"]
            assert f"`{field.name}`" in text, f"docs/reference/exporting.md does not name {field.name}"


def test_call_sites(tmp_path: Path) -> None:
    sites = naive_writer.sites_of([["inlined@a.h:3|caller@a.c:9", "main@main.c:1"], ["libx.so+0x1234", "main@main.c:2"]])
    events = [Event(1, 0, 0, 0, 1, 8, site=2), Event(1, 0, 0, 1, 2, 8), Event(5, 0, 0, 2, 1)]
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, sites=sites))[0])
    with read_trace(tmp_path / "t.bin") as trace:
        parquet.export_parquet(trace, tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "events.parquet").column("site").to_pylist() == [2, None, None]
    rows = pq.read_table(tmp_path / "out" / "sites.parquet").to_pylist()
    assert [(row["site"], row["depth"], row["function"], row["file"], row["line"]) for row in rows] == [
        (1, 0, "inlined", "a.h", 3), (1, 1, "caller", "a.c", 9), (1, 2, "main", "main.c", 1), (2, 0, None, None, None), (2, 1, "main", "main.c", 2)]
    assert (rows[3]["module"], rows[3]["build_id"], rows[3]["offset"]) == ("libx.so", "ab", 0x1234)


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [Event(5, 1, 0, number, 0, 0, 0) for number in range(1_000)]
    (tmp_path / "t.bin").write_bytes(naive_writer.build(_spec(events, 10))[0])
    monkeypatch.setattr(parquet, "SECTIONS_PER_ROW_GROUP", 3)
    with read_trace(tmp_path / "t.bin") as trace:
        parquet.export_parquet(trace, tmp_path)
    file = pq.ParquetFile(tmp_path / "events.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [30] * 33 + [10]


INTERRUPTED = """
import os, signal, sys, time
from heaptape import command_line as program
from heaptape.trace import parquet

name = sys.argv.pop()

def write(trace, path, progress):
    path.write_bytes(b"half a table")
    os.kill(os.getpid(), signal.Signals[name])
    time.sleep(60)

parquet._write_events = write
sys.exit(program.run_program())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupted_it_leaves_nothing(tmp_path: Path, recorded_traces: list[Path], name: str) -> None:
    folder = tmp_path / "tables"
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, "export", recorded_traces[0], "-o", folder, name],
                          env=_environment(), capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (-signal.Signals[name], b"")
    assert not folder.exists()


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT / 'analysis'}:{os.environ.get('PYTHONPATH', '')}"}


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "heaptape", "export", *map(str, arguments)], env=_environment(),
                          capture_output=True, text=True, timeout=120, check=False)


def test_the_verb(tmp_path: Path, recorded_traces: list[Path]) -> None:
    done = _run(recorded_traces[0], "-o", tmp_path / "a")
    assert (done.returncode, done.stdout) == (0, "") and "in 5 tables" in done.stderr
    assert _run("-q", recorded_traces[0], "-o", tmp_path / "a").stderr == ""
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "events.parquet", "residency.parquet", "samples.parquet", "sites.parquet", "threads.parquet"]


def test_bad_input_and_bad_output_are_one_line(tmp_path: Path, recorded_traces: list[Path]) -> None:
    whole = recorded_traces[0].read_bytes()
    (tmp_path / "torn.bin").write_bytes(whole[:80])
    (tmp_path / "text").write_text("no trace\n" * 20)
    (tmp_path / "flipped.bin").write_bytes(whole[:3000] + bytes(byte ^ 255 for byte in whole[3000:3020]) + whole[3020:])
    for name, status, words in (("text", 3, "expected a trace"), ("flipped.bin", 3, "offset"), ("none", 3, "none")):
        done = run_here("export", tmp_path / name, "-o", "tables", cwd=tmp_path)
        assert done.returncode == status and done.stderr.count("\n") == 1 and words in done.stderr, done.stderr
        assert not (tmp_path / "tables").exists()
    done = run_here("export", recorded_traces[0], "-o", "text", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == "heaptape export: text: cannot write: Not a directory\n"


def test_a_truncated_trace_says_so(tmp_path: Path, recorded_traces: list[Path]) -> None:
    (tmp_path / "t.bin").write_bytes(recorded_traces[0].read_bytes()[:-40])
    done = run_here("export", "t.bin", "-o", "tables", cwd=tmp_path)
    assert done.returncode == 3 and "cut short" in done.stderr
    metadata = pq.read_schema(tmp_path / "tables" / "events.parquet").metadata
    assert metadata[b"heaptape.truncated"] == b"true"


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   recorded_traces: list[Path]) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "_write_table", full)
    with read_trace(recorded_traces[0]) as trace, pytest.raises(HeaptapeError, match="No space left"):
        parquet.export_parquet(trace, tmp_path / "tables")
    assert list(tmp_path.iterdir()) == []
