# SPDX-License-Identifier: Apache-2.0
"""Memory in the terms of the process: the heap under an allocator with what the program held beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quick_tier import quick
from tool_runner import Tools

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = ROOT / "traces" / "postgres.bin"  # much of its memory is its own: it was forked


def memory_row(tools: Tools, trace: Path, results: Path, *more: str) -> dict:
    rows = tools.replay(trace, "glibc", results, "--pass", "memory", "-q", *more)
    (row,) = [row for row in rows if row["allocator"]["name"] == "glibc" and not row["control"]]
    return row


def test_the_process_is_heap_and_own_memory_at_one_moment(tools: Tools, tmp_path: Path) -> None:
    recorded = tools.info(POSTGRES)
    row = memory_row(tools, POSTGRES, tmp_path / "r.jsonl", "--points", "10000")
    curve = row["timeline"]
    sums = [heap + own for heap, own in zip(curve["rss_bytes"], curve["own_rss_bytes"], strict=True)]
    assert max(curve["own_rss_bytes"]) <= recorded["recorded_own_peak_bytes"]
    # The curve has of each stretch the point where the heap is largest.
    assert row["rss_peak_bytes"] < max(sums) <= row["process_rss_peak_bytes"] <= row["rss_peak_bytes"] + recorded["recorded_own_peak_bytes"]
    assert row["process_rss_peak_bytes"] == pytest.approx(recorded["recorded_rss_peak_bytes"], rel=0.05)
    assert row["process_rss_end_bytes"] == row["rss_end_bytes"] + curve["own_rss_bytes"][-1]


@pytest.mark.thorough
def test_text_json_and_conditions_have_it(tools: Tools, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    command = [tools.replay_program, "--alloc", "glibc,b=glibc", "--pass", "memory", "--rounds", "2", "-q", "-o", results, POSTGRES]
    text = tools.succeed([*command, "--fail-if", "process_rss_peak>2"]).stdout.decode()
    assert "  process  " in text and "without file pages" in text
    compared = json.loads(tools.succeed([*command, "--json"]).stdout)
    (_, other) = compared["allocators"]
    assert other["process_rss_peak_bytes"]["ratio"] == pytest.approx(1, abs=0.02)
    assert other["process_rss_peak_bytes"]["median"] > other["rss_peak_bytes"]["median"]
    done = tools.succeed([tools.heaptape, "compare", results, "--fail-if", "process_rss_peak>2", "--json"])
    measures = {row["measure"] for one in json.loads(done.stdout) for row in one["comparisons"]}
    assert "process_rss_peak" in measures


@pytest.mark.parametrize("more", quick([[]], [["--scale", "2"], ["--age", "0.5"], []]))
def test_unknown_is_null(tools: Tools, tmp_path: Path, more: list[str]) -> None:
    """Several copies of the program, a used heap, and a trace without samples, which make_trace writes."""
    trace = POSTGRES
    if not more:
        trace = tmp_path / "t.bin"
        tools.succeed([tools.build / "bench" / "make_trace", trace, "1000", "50", "1", "1", "1000"])
    row = memory_row(tools, trace, tmp_path / "r.jsonl", *more)
    assert row["process_rss_peak_bytes"] is None and row["process_rss_end_bytes"] is None
    assert row["timeline"]["own_rss_bytes"] is None and row["rss_peak_bytes"] > 0
    done = tools.succeed([tools.replay_program, "--alloc", "glibc", "--pass", "memory", "--rounds", "1", "-q", *more, trace])
    assert b"without file pages" not in done.stdout
