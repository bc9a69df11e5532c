# SPDX-License-Identifier: Apache-2.0
"""A large block that the program filled bit by bit is recorded so, and touched so by a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay_traces import imported
from tool_runner import Outcome, Tools

BLOCK_BYTES = 32 << 20  # tests/targets/slow_fill.c
PAGES = BLOCK_BYTES // 4096


def recorded(tools: Tools, folder: Path, kind: str) -> Path:
    recording = tools.preload([tools.target("slow_fill"), kind], folder / "logs")
    assert recording.outcome == Outcome(18, b"", b"")
    tools.convert_clean(recording.logs[0], folder / "t.bin")
    return folder / "t.bin"


def mean_rss(tools: Tools, trace: Path, *more: str) -> float:
    """As a share of the block, of glibc's replay."""
    results = trace.with_suffix(".jsonl")
    results.unlink(missing_ok=True)
    rows = tools.replay(trace, "glibc", results, "--pass", "memory", *more)
    [row] = [row for row in rows if row["allocator"]["name"] == "glibc"]
    return row["rss_mean_bytes"] / BLOCK_BYTES


def filled(trace: Path, begin_ns: float, end_ns: float) -> tuple[float, float]:
    """Of the first block, from the trace's own steps, whatever the pace at which the program filled it: the mean share in
    a part of the time, or at a moment, and by how much it may be off, as what is filled between two steps was so at any
    time between them: much where the machine halted the program."""
    numpy = pytest.importorskip("numpy")
    with pytest.importorskip("heaptape.trace.reader").read_trace(trace) as opened:
        born = opened.residency[opened.residency["birth_event"] == 0]["pages_at_birth"].iloc[0]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == 0]
    times, pages = numpy.array([0, *steps["time_ns"]]), numpy.array([born, *steps["pages"]])
    moments = numpy.linspace(begin_ns, end_ns, 10_000)
    before = pages[numpy.searchsorted(times, moments, "right") - 1]
    after = pages[numpy.minimum(numpy.searchsorted(times, moments), len(pages) - 1)]
    return numpy.interp(moments, times, pages).mean() / PAGES, (after - before).mean() / 2 / PAGES


def expected_mean(tools: Tools, trace: Path, kind: str) -> tuple[float, float]:
    """And by how much it may be off. As the steps say, or evenly: where no call shows how, filling took the time in which
    the program had a processor; other programs may have had it for the rest."""
    info = tools.info(trace)
    if kind == "calls":
        return filled(trace, 0, info["duration_ns"])
    return 1 - min(info["recorded_cpu_ns"] / info["duration_ns"], 1) / 2, 0


@pytest.mark.parametrize("kind", ["calls", "silent", "sleeps"])
def test_filled_as_recorded(tools: Tools, tmp_path: Path, kind: str) -> None:
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    trace = recorded(tools, tmp_path, kind)
    with read_trace(trace) as opened:
        [birth] = opened.residency[opened.residency["pages_at_end"] >= PAGES]["birth_event"]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == birth]
    assert PAGES <= steps["pages"].iloc[-1] <= PAGES + 1 and steps["pages"].is_monotonic_increasing
    # A reading of the pages waits until the program has run a multiple of what the last one took: few where it is dear.
    assert len(steps) > 5 if kind == "calls" else len(steps) == 1
    expected, doubt = expected_mean(tools, trace, kind)
    assert mean_rss(tools, trace) == pytest.approx(expected, abs=0.2 + doubt)


@pytest.mark.thorough
def test_filled_where_the_program_did(tools: Tools, tmp_path: Path) -> None:
    """A block's second half, from its end on: when the first half is all that is kept, nothing of it is left."""
    trace = recorded(tools, tmp_path, "downward")
    with pytest.importorskip("heaptape.trace.reader").read_trace(trace) as opened:
        [birth] = opened.residency[opened.residency["pages_at_end"] >= PAGES / 2]["birth_event"]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == birth]
    last = steps[steps["pages"] == steps["pages"].max()]
    assert last["run_pages"].sum() == last["pages"].iloc[0] >= PAGES / 2
    assert last["first_page"].max() + last["run_pages"].iloc[-1] >= PAGES
    piece = tmp_path / "late.bin"
    tools.succeed([tools.heaptape, "slice", trace, "--from-time", f"{int(steps['time_ns'].median())}ns", "-o", piece])
    for half in (trace, piece):
        rows = tools.replay(half, "glibc", tmp_path / f"{half.stem}.jsonl", "--pass", "memory", "--rounds", "1")
        [row] = [row for row in rows if row["allocator"]["name"] == "glibc"]
        assert row["rss_peak_bytes"] == pytest.approx(BLOCK_BYTES / 2, rel=0.02)
        assert row["rss_end_bytes"] < BLOCK_BYTES / 32


@pytest.mark.thorough
def test_other_passes_know_of_it(tools: Tools, tmp_path: Path) -> None:
    """What is untouched falls with each portion; all of it is there when asked for; patterns are checked to the end."""
    trace = recorded(tools, tmp_path, "silent")
    rows = tools.replay(trace, "glibc", tmp_path / "r.jsonl", "--verify")
    [memory] = [row for row in rows if row["pass"] == "memory" and row["allocator"]["name"] == "glibc"]
    assert memory["decomposition"]["peak"]["untouched_bytes"] < BLOCK_BYTES / 16
    assert mean_rss(tools, trace, "--touch", "pages") > 0.9
    twice = mean_rss(tools, trace, "--scale", "2", "--threads", "1")
    assert twice == pytest.approx(2 * expected_mean(tools, trace, "silent")[0], abs=0.4)


@pytest.mark.thorough
def test_a_slice_begins_where_the_block_was(tools: Tools, tmp_path: Path) -> None:
    """From the middle on it is filled from about half to whole; up to there, from nothing to half."""
    trace = recorded(tools, tmp_path, "calls")
    end_ns = tools.info(trace)["duration_ns"]
    for name, option, begin, end in (("early", "--to-time", 0, 0.5), ("late", "--from-time", 0.5, 1)):
        piece = tmp_path / f"{name}.bin"
        tools.succeed([tools.heaptape, "slice", trace, option, f"{end_ns // 2}ns", "-o", piece])
        at_begin, _ = filled(trace, begin * end_ns, begin * end_ns)
        assert filled(piece, 0, 0)[0] == pytest.approx(at_begin, abs=0.01)
        expected, doubt = filled(trace, begin * end_ns, end * end_ns)
        assert mean_rss(tools, piece) == pytest.approx(expected, abs=0.08 + doubt), name


@pytest.mark.parametrize(("size", "touched"), [(30_000, True), (200_000, False)])
def test_blocks_of_calloc_of_which_nothing_is_known(tools: Tools, tmp_path: Path, size: int, touched: bool) -> None:
    """A program uses what it asks calloc for, but of large blocks perhaps little."""
    lines = [f"1: calloc 0x{(i + 1) << 20:x} 1 {size}" for i in range(BLOCK_BYTES // size)]
    trace = imported(tools, tmp_path / "t.bin", "\n".join(lines) + "\n", "android")
    [row] = [row for row in tools.replay(trace, "glibc", tmp_path / "r.jsonl", "--pass", "memory")
             if row["allocator"]["name"] == "glibc"]
    assert (row["rss_peak_bytes"] > 0.95 * BLOCK_BYTES) == touched
    assert (row["decomposition"]["peak"]["untouched_bytes"] < 0.05 * BLOCK_BYTES) == touched
