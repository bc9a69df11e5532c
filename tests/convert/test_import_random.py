# SPDX-License-Identifier: Apache-2.0
"""Random calls, written in each format that can hold them, must come out as the same calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick_tier import quick

from foreign_writers import FORMATS, Format, expected_of, named_by_birth, random_calls
from tool_runner import Tools


@pytest.mark.parametrize("seed", quick([0], range(3)))
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.write.__name__)
def test_what_is_written_is_imported(tools: Tools, tmp_path: Path, form: Format, seed: int) -> None:
    calls = random_calls(form, seed, 1500)
    source = tmp_path / "foreign"
    source.write_bytes(form.write(calls))
    trace = tools.convert(source, tmp_path / "t.bin")
    heap = expected_of(calls)
    assert named_by_birth(tools.dump(trace)) == heap.lines
    info = tools.info(trace)
    assert info["context"]["source_format"] == form.name
    assert info["events"] == sum(call.function != "thread_done" for call in calls)
    assert info["threads"] == heap.threads_seen
    assert info["peak_live_bytes"] == heap.peak_bytes
    assert info["end_live_objects"] == len(heap.blocks)
    assert (info["anomalies"], info["foreign_frees"]) == (heap.anomalies, heap.foreign)
    assert info["failed_calls"] == heap.failed
    assert info["skipped"] == 0 and not info["truncated"]
