# SPDX-License-Identifier: Apache-2.0
"""--age: a heap that has been used before the trace begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heaptape import read_results, write_report
from heaptape.results.comparison import experiments
from replay_traces import imported
from tool_runner import Tools, run

BLOCKS, BLOCK_BYTES = 20_000, 96


def written(tools: Tools, trace: Path, lines: list[str]) -> Path:
    return imported(tools, trace, "\n".join([str(1 << 20), "", *lines, ""]), "malloc_wrap")


@pytest.fixture(scope="module")
def small_blocks(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks of one size, all live at once, then freed."""
    lines = [f"m {block} {BLOCK_BYTES}" for block in range(1, BLOCKS + 1)] + [f"f {block}" for block in range(1, BLOCKS + 1)]
    return written(tools, tmp_path_factory.mktemp("age") / "t.bin", lines)


def memory_row(tools: Tools, trace: Path, results: Path, *more: str) -> dict:
    rows = tools.replay(trace, "glibc", results, "--pass", "memory", "--seed", "1", *more)
    return [row for row in rows if row["allocator"]["name"] == "glibc" and not row["control"]][-1]


@pytest.mark.thorough
def test_what_a_used_heap_is_made_of(tools: Tools, small_blocks: Path, tmp_path: Path) -> None:
    row = memory_row(tools, small_blocks, tmp_path / "r.jsonl", "--age", "0.75")
    assert (row["age_occupancy"], row["age_multiple"]) == (0.75, 4)
    assert row["aged_blocks"] == 4 * BLOCKS
    assert row["aged_kept_blocks"] == pytest.approx(0.75 * 4 * BLOCKS, rel=0.01)
    assert row["aged_kept_bytes"] == BLOCK_BYTES * row["aged_kept_blocks"]
    fresh = memory_row(tools, small_blocks, tmp_path / "fresh.jsonl")
    assert (fresh["age_occupancy"], fresh["aged_blocks"]) == (0, 0)


@pytest.mark.thorough
def test_blocks_of_one_size_fit_the_holes(tools: Tools, small_blocks: Path, tmp_path: Path) -> None:
    """So that the peak is little more than the heap had before, and RSS is what that has beyond the blocks that stay: their
    headers and the holes."""
    row = memory_row(tools, small_blocks, tmp_path / "r.jsonl", "--age", "0.75")
    chunk_bytes = BLOCK_BYTES + 16
    expected = row["aged_blocks"] * chunk_bytes - row["aged_kept_bytes"]
    assert row["rss_peak_bytes"] == pytest.approx(expected, rel=0.05)
    more = memory_row(tools, small_blocks, tmp_path / "m.jsonl", "--age", "0.75,1")
    # Room for a quarter of the blocks; the others lie behind.
    expected = (1 + 0.75) * BLOCKS * chunk_bytes - more["aged_kept_bytes"]
    assert more["rss_peak_bytes"] == pytest.approx(expected, rel=0.05)


def test_sizes_are_those_that_are_live(tools: Tools, tmp_path: Path) -> None:
    """Weighted by how long: a size that is allocated often but lives shortly is rare in the heap."""
    lines = [f"m {block} 1000" for block in range(1, 101)]
    for block in range(101, 2101):
        lines += [f"m {block} 16", f"f {block}"]
    trace = written(tools, tmp_path / "t.bin", lines)
    row = memory_row(tools, trace, tmp_path / "r.jsonl", "--age", "0.5,20")
    assert row["aged_kept_bytes"] / row["aged_kept_blocks"] == pytest.approx(1000, rel=0.05)


@pytest.mark.thorough
def test_runs_repeat_and_all_passes_work(tools: Tools, small_blocks: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    rows = tools.replay(small_blocks, "glibc,jemalloc", results, "--age", "0.9", "--rounds", "2")
    peaks = [row["rss_peak_bytes"] for row in rows
             if row["pass"] == "memory" and row["allocator"]["name"] == "glibc" and not row["control"]]
    assert len(peaks) == 2 and max(peaks) - min(peaks) < 65536
    assert not any(row["failures"] for row in rows)
    assert {row["pass"] for row in rows} == {"time", "memory"}


@pytest.mark.parametrize("text", ["", "0", "1", "1.5", "nan", "0.5,0", "0.5,nan", "0.5,1001", "0.5x", "0.5,2x", ",2"])
def test_what_is_no_age(tools: Tools, small_blocks: Path, text: str) -> None:
    done = run([tools.replay_program, "--age", text, small_blocks])
    assert done.returncode == 2 and b"--age" in done.stderr and b"expected a share between 0 and 1" in done.stderr


def test_more_than_the_machine_has_is_refused(tools: Tools, small_blocks: Path) -> None:
    done = run([tools.replay_program, "--age", "0.5,1000", "--max-live", "100M", small_blocks])
    assert done.returncode == 1 and b"with those of --age, need" in done.stderr


@pytest.mark.thorough
def test_a_verdict_that_depends_on_age_is_said(tools: Tools, tmp_path: Path) -> None:
    """Results as of a trace on two heaps: an allocator that is larger on one, and smaller on the other."""
    results = tmp_path / "r.jsonl"
    trace = written(tools, tmp_path / "t.bin", [f"m {block} 64" for block in range(1, 101)])
    tools.replay(trace, "glibc,jemalloc", results, "--pass", "memory")
    tools.succeed([tools.replay_program, "--alloc", "glibc,jemalloc", "--pass", "memory", "--rounds", "1", "--age", "0.5", trace, "-o", results])
    rows = []
    for row in map(json.loads, results.read_text().splitlines()):
        for number in range(8):
            peak = 1e6 * (1 + number / 1e5) * (1 if row["allocator"]["name"] == "glibc" else 0.8 if row["age_occupancy"] else 1.25)
            rows.append(row | {"round": number, "rss_peak_bytes": peak, "started_at": f"{row['started_at']}{number}"})
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = experiments(read_results(results))
    assert [experiment.settings.get("age") for experiment in found] == [None, "0.5,2"]
    done = tools.succeed([tools.heaptape, "compare", results])
    said = "peak RSS of jemalloc against glibc: larger (1.25) on a fresh heap; smaller (0.80) on a heap of --age 0.5,2."
    assert said in done.stderr.decode()
    assert said in write_report(read_results(results), tmp_path / "r.html").read_text()
