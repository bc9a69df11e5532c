# SPDX-License-Identifier: Apache-2.0
"""Small files that claim much: refused in one line, before memory is taken for what they claim."""

from __future__ import annotations

import struct
from pathlib import Path

import broken_traces
import naive_writer
import pytest
import refresh
from naive_writer import ColumnSpec, Event

from heaptape.base.errors import TraceError
from heaptape.trace.live import live_bytes_curve
from heaptape.trace.reader import read_trace
from verbs_here import run_here


SECTION_BYTES, ENTRY_BYTES = 48, 16


def claiming(section: bytes, values: int) -> bytes:
    """The section with that many values in its first column, of which none is stored."""
    return broken_traces.sealed(
        broken_traces.patched(section, SECTION_BYTES + 4, struct.pack("<I", values)))


def read_all(path: Path) -> None:
    with read_trace(path) as trace:
        for _ in trace.events():
            pass
        assert len(trace.samples) + len(trace.residency) + len(trace.residency_steps) + len(trace.threads) >= 0
        assert trace.sites is not None
        live_bytes_curve(trace, 100)


def test_a_slot_beyond_what_the_events_account_for(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(broken_traces.of_events(Event(1, slot=(1 << 32) - 1, size=8)))
    with pytest.raises(TraceError, match="offset 176: expected slots up to 1032"):
        read_all(path)


def test_an_export_of_a_slot_beyond_what_the_events_account_for(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(broken_traces.of_events(Event(1, slot=(1 << 32) - 1, size=8)))
    done = run_here("export", "-q", path, "-o", "tables", cwd=tmp_path)
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "expected slots up to 1032" in done.stderr
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("kind", [1, 3, 4, 5, 6])
def test_a_column_of_many_values_and_no_bytes(tmp_path: Path, kind: int) -> None:
    names = range(2, 9)
    section = naive_writer.encode_section(kind, [ColumnSpec(1, []), *(ColumnSpec(i, []) for i in names)], 0)
    path = tmp_path / "t.bin"
    path.write_bytes(broken_traces.whole([claiming(section, (1 << 26) - 1)]))
    with pytest.raises(TraceError, match="a column within the format's limits, found 67108863 values"):
        read_all(path)


def test_an_index_of_many_rows_and_no_bytes(tmp_path: Path) -> None:
    index = naive_writer.encode_section(7, [ColumnSpec(i, []) for i in range(1, 6)], 0)
    path = tmp_path / "t.bin"
    path.write_bytes(broken_traces.with_index([broken_traces.two_events()], claiming(index, (1 << 26) - 1)))
    with pytest.raises(TraceError, match="found 67108863 values"):
        read_all(path)


def test_json_nested_without_end(tmp_path: Path) -> None:
    section = naive_writer.encode_section(1, [ColumnSpec(1, list(b"[" * 100_000), compress=True)], 0)
    path = tmp_path / "t.bin"
    path.write_bytes(broken_traces.whole([section]))
    with pytest.raises(TraceError, match="expected JSON text"):
        read_all(path)


# Threads it does not derive.
PATIENT = {"info-threads.bin"}
REFUSED = [name for name in sorted(refresh.damaged())
           if name.endswith(".bin") and not name.startswith("replay-") and name not in PATIENT]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_tools_refuse_ends_in_one_error_here_too(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError) as caught:
        with read_trace(refresh.write(tmp_path, name)) as trace:
            for _ in trace.events(["op", "site"]):
                pass
            for _ in trace.events():
                pass
            assert trace.sites is not None
            if trace.truncated:
                raise TraceError(trace.path, trace.whole_bytes, "expected a whole file")
    assert "\n" not in str(caught.value)
