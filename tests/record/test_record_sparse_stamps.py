# SPDX-License-Identifier: Apache-2.0
"""Programs with one thread, most of whose calls have no time in the log: pauses stay where they were, and
so does the order of calls where a signal handler or a second thread begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dump_lines import Event, events_of
from safety_checks import compare, must_work
from tool_runner import Tools

SIZE_FIRST, SIZE_HANDLER, SIZE_AFTER, PAUSES, BLOCKS = 7730, 7740, 7741, 3, 100  # tests/targets/sparse_kinds.c
PAUSE_NS, TICK_NS = 60_000_000, 10_000_000  # of the slowest kernels
UNTIMED = 8
FEATURES_OFFSET = 12
ATTEMPTS = 3


IN_A_TIME_NAMESPACE = ["unshare", "--time", "--monotonic", "50000", "--fork"]


def recorded(tools: Tools, folder: Path, mode: str, status: int, prefix: Sequence[str] = ()) -> list[Event]:
    """The target's calls: those of the process that ends the mode, if there are several."""
    compared = compare(tools, folder, lambda counts: [*prefix, tools.target("sparse_kinds"), counts, mode])
    assert compared.recording.outcome.status == status, compared.recording.outcome
    compared.assert_whole()
    found: list[list[Event]] = []
    for log in compared.recording.logs:
        with log.open("rb") as file:
            features = file.read(16)[FEATURES_OFFSET]
        if not features & UNTIMED:
            pytest.skip("this C library does not say how many threads there are")
        trace = folder / f"{log.stem}.times.bin"
        info = tools.convert_clean(log, trace)
        assert info["repairs"] == 0
        found.append(events_of(tools, trace))
    [events] = [events for events in found if any(event.size == SIZE_AFTER for event in events)]
    return events


def times(events: list[Event], size: int) -> list[int]:
    """Of the calls that allocate blocks of that size, and of the frees of these blocks."""
    found: list[int] = []
    slots: set[int] = set()
    for event in events:
        ours = event.size == size if event.makes else event.slot in slots
        if ours:
            found.append(event.time_ns)
            (slots.add if event.makes else slots.remove)(event.slot)
    return found


@pytest.mark.parametrize("mode,status,prefix", [
    ("pauses", 50, []), ("pauses", 50, IN_A_TIME_NAMESPACE), ("namespace", 53, [])],
    ids=["plain", "from the start in a time namespace", "enters one"])
def test_pauses(tools: Tools, tmp_path: Path, mode: str, status: int, prefix: list[str]) -> None:
    """The program sleeps, computes, and is stopped: its calls stay before and after that. In a time
    namespace the clock's words in memory are not what the program is told."""
    if prefix or mode == "namespace":
        must_work([*IN_A_TIME_NAMESPACE, "true"], "no time namespace can be made here")
    shortest = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        events = recorded(tools, folder, mode, status, prefix)
        groups = [times(events, size) for size in (*range(SIZE_FIRST, SIZE_FIRST + PAUSES), SIZE_AFTER)]
        assert [len(group) for group in groups] == [2 * BLOCKS] * PAUSES + [BLOCKS]
        for before, after in zip(groups, groups[1:], strict=False):
            assert after[0] - before[-1] > PAUSE_NS - TICK_NS
        shortest.append(min(group[-1] - group[0] for group in groups))
    # Calls that follow each other at once do so in the trace, unless a busy machine holds the program up each time.
    assert min(shortest) < TICK_NS


@pytest.mark.parametrize("mode,status", [("interrupted", 51), ("second_thread", 52)])
def test_a_second_stream(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """It uses the blocks of calls that have no time, after which the first stream is silent."""
    events = recorded(tools, tmp_path, mode, status)
    first = [event.time_ns for event in events if event.makes and event.size == SIZE_FIRST][:BLOCKS]
    second = [event.time_ns for event in events if event.makes and event.size == SIZE_HANDLER]
    after = times(events, SIZE_AFTER)
    assert (len(first), len(second), len(after)) == (BLOCKS, BLOCKS // 2, BLOCKS)
    assert first[-1] <= second[0] < second[-1] < after[0]
