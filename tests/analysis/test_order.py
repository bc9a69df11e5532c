# SPDX-License-Identifier: Apache-2.0
"""Ratios that move with the rounds are reported, and those that scatter are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import results_factory
from heaptape.report.provenance import result_warnings
from heaptape.report.table import comparison_markdown, comparison_object
from heaptape.results.comparison import experiments
from heaptape.results.remarks import find_trends
from heaptape.results.reader import read_results
from heaptape.results.summary import Summary, summarise


def rows_of(rounds: int, **more: Any) -> list[dict[str, Any]]:
    return results_factory.schedule(rounds=rounds, names=("glibc", "jemalloc"), points=4, **more)


def summary_of(tmp_path: Path, rows: list[dict[str, Any]]) -> Summary:
    return summarise(experiments(read_results(results_factory.write(tmp_path / "r.jsonl", rows)))[0], None)


def grown(rows: list[dict[str, Any]], by: float) -> list[dict[str, Any]]:
    """jemalloc's time is higher by so much from each round to the next."""
    for row in rows:
        if row["allocator"]["name"] == "jemalloc" and row["pass"] == "time":
            row["alloc_time_ns"] *= 1 + by * row["round"]
    return rows


@pytest.mark.parametrize(("by", "word"), [(0.02, "rises"), (-0.02, "falls")])
def test_a_trend_is_in_every_output(tmp_path: Path, by: float, word: str) -> None:
    summary = summary_of(tmp_path, grown(rows_of(16), by))
    (found,) = comparison_object(summary)["order"]
    assert (found["measure"], found["allocator"], found["rounds"]) == ("time", "jemalloc", 16)
    assert found["p"] < 0.01 and found["correlation"] * by > 0.8 * abs(by)
    line = f"Over the rounds the time in malloc of jemalloc {word} (rank correlation "
    assert line in comparison_markdown(summary)
    assert any(warning.startswith(line) for warning in result_warnings(summary))


def test_schedules_are_ranked_apart(tmp_path: Path) -> None:
    """A second schedule on a day when jemalloc is slower is no trend; two that both rise are."""
    later = [row | {"seed": 2} for row in rows_of(16)]
    for row in later:
        if row["allocator"]["name"] == "jemalloc" and row["pass"] == "time":
            row["alloc_time_ns"] *= 1.5
    assert summary_of(tmp_path, rows_of(16) + later).trends == []
    (found,) = summary_of(tmp_path, grown(rows_of(6), 0.05) + grown([row | {"seed": 2} for row in rows_of(6)], 0.05)).trends
    assert found.rounds == 12


def test_few_rounds_and_equal_ones_show_nothing(tmp_path: Path) -> None:
    assert summary_of(tmp_path, grown(rows_of(7), 0.2)).trends == []
    rows = rows_of(16)
    for row in rows:
        row["alloc_time_ns" if row["pass"] == "time" else "rss_peak_bytes"] = 1e6
    assert summary_of(tmp_path, rows).trends == []


@pytest.mark.thorough
def test_chance_is_reported_as_rarely_as_promised(tmp_path: Path) -> None:
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows_of(10)))
    rng, found = np.random.default_rng(3), 0
    for _ in range(60):
        frame["alloc_time_ns"] = np.exp(rng.normal(size=len(frame)))
        frame["rss_peak_bytes"] = np.exp(rng.normal(size=len(frame)))
        found += bool(find_trends(frame, "glibc"))
    assert found <= 9  # 3 expected at most
