# SPDX-License-Identifier: Apache-2.0
"""Of which large blocks it is measured how much is touched."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tool_runner import Tools

MEGABYTE = 1 << 20


def measured(tools: Tools, folder: Path, *words: int) -> Counter[int]:
    """How many blocks of each size have their residency in the trace."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    recording = tools.preload([tools.target("hardly_touched"), *words], folder / "logs")
    assert recording.outcome.status == 0
    tools.convert_clean(recording.logs[0], folder / "t.bin")
    lines = tools.dump(folder / "t.bin")
    with read_trace(folder / "t.bin") as trace:
        births = trace.residency["birth_event"].tolist()
    return Counter(int(re.search(r"\((\d+)\)", lines[birth])[1]) for birth in births)  # type: ignore[index]


@pytest.mark.parametrize("size", [20_000, MEGABYTE])
def test_few_are_measured_where_calls_follow_each_other(tools: Tools, tmp_path: Path, size: int) -> None:
    blocks = 200_000
    assert 10 < measured(tools, tmp_path, blocks, size, 4096)[size] < blocks / 5


def test_all_are_measured_where_time_passes(tools: Tools, tmp_path: Path) -> None:
    assert measured(tools, tmp_path, 40, MEGABYTE, 4096, 2000)[MEGABYTE] == 40


def test_larger_ones_come_first(tools: Tools, tmp_path: Path) -> None:
    """One in 4,000 is larger, and written whole: that takes a hundred times what measuring takes."""
    found = measured(tools, tmp_path, 100_000, 100_000, 4096, 0, 4_000, 16 * MEGABYTE)
    assert found[16 * MEGABYTE] > 20 and found[100_000] < 50_000


def test_what_was_resident_before_a_free_is_no_later_than_it(tools: Tools, tmp_path: Path) -> None:
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    recording = tools.preload([tools.target("hardly_touched"), 20, 16 * MEGABYTE, 16 * MEGABYTE, 2000], tmp_path / "logs")
    tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    with read_trace(tmp_path / "t.bin") as trace:
        times = [time for chunk in trace.events() for time in chunk["time_ns"].tolist()]
        samples = trace.samples
    before_events = samples[samples["event"] < len(times)]
    assert (samples["rss_anon_bytes"] > 16 * MEGABYTE).sum() >= 2
    assert all(time <= times[event] for time, event in zip(before_events["time_ns"], before_events["event"], strict=True))
