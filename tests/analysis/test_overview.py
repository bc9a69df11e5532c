# SPDX-License-Identifier: Apache-2.0
"""What opens a report on several traces: a table of their ratios and geometric means."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import results_factory
from heaptape import read_results
from heaptape.command_line import main
from heaptape.report.old_new import overview
from heaptape.results.comparison import SEED, experiments
from heaptape.results.found_trace import FoundTrace
from heaptape.results.summary import Summary, summary_of

FACTORS = {"a.bin": 1.0, "b.bin": 4.0}
"""By how much slower mimalloc is there than elsewhere."""


def rows_of(names: dict[str, tuple[str, ...]], rounds: int = 6) -> list[dict]:
    rows = []
    for path, allocators in names.items():
        for row in results_factory.schedule(rounds=rounds, names=allocators, noise=0.0):
            if row["allocator"]["name"] == "mimalloc" and row["pass"] == "time":
                row["alloc_time_ns"] = round(row["alloc_time_ns"] * FACTORS.get(Path(path).name, 1.0))
            rows.append(row | {"trace": {"path": path, "sha256": f"{path!s:0<64}".replace("/", "0"), "events": 10}})
    return rows


def summaries_of(tmp_path: Path, rows: list[dict], baseline: str | None = None) -> list[Summary]:
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows))
    return [summary_of(one, baseline, SEED, FoundTrace(None, "not asked for")) for one in experiments(frame)]


@pytest.mark.thorough
def test_ratios_and_their_geometric_mean(tmp_path: Path) -> None:
    summaries = summaries_of(tmp_path, rows_of({"/t/a.bin": ("glibc", "mimalloc", "jemalloc"), "/t/b.bin": ("glibc", "mimalloc", "jemalloc")}))
    time, peak = overview(summaries)
    assert time.title == "Time in malloc against glibc" and time.allocators == ["jemalloc", "mimalloc"]
    assert time.rows == [(1, "a.bin", ["0.56 faster", "0.45 faster"]), (2, "b.bin", ["0.56 faster", "1.80 slower"])]
    assert float(time.mean[1].split()[0]) == pytest.approx(math.sqrt(0.45 * 1.8), abs=0.006) and "[" in time.mean[1]
    assert peak.title == "Peak RSS against glibc" and "do not hold for other programs" in peak.note


def test_an_allocator_that_a_trace_lacks_has_no_mean(tmp_path: Path) -> None:
    time, _ = overview(summaries_of(tmp_path, rows_of({"/t/a.bin": ("glibc", "mimalloc", "jemalloc"), "/t/b.bin": ("glibc", "jemalloc")})))
    assert time.allocators == ["jemalloc", "mimalloc"] and time.mean[1] == "" and time.rows[1][2][1] == ""


def test_a_trace_without_a_ratio_leaves_no_mean(tmp_path: Path) -> None:
    """Where all its runs of an allocator failed, a mean of the other traces would pass for that of all."""
    rows = rows_of({"/t/a.bin": ("glibc", "mimalloc", "jemalloc"), "/t/b.bin": ("glibc", "mimalloc", "jemalloc")})
    for row in rows:
        if row["trace"]["path"] == "/t/b.bin" and row["allocator"]["name"] == "mimalloc":
            row["alloc_time_ns"] = None
    time, _ = overview(summaries_of(tmp_path, rows))
    assert time.allocators == ["jemalloc", "mimalloc"] and time.mean[0] and time.mean[1] == "" and time.rows[1][2][1] == ""


@pytest.mark.thorough
def test_names_tell_experiments_apart(tmp_path: Path) -> None:
    rows = rows_of({"/one/a.bin": ("glibc", "mimalloc"), "/two/a.bin": ("glibc", "mimalloc"), "/two/c.bin": ("glibc", "mimalloc")})
    rows += [row | {"touch": "none"} for row in rows if row["trace"]["path"] == "/two/c.bin"]
    assert [name for _, name, _ in overview(summaries_of(tmp_path, rows))[0].rows] == [
        "one/a.bin, touch recorded", "two/a.bin, touch recorded", "c.bin, touch recorded", "c.bin, touch none"]


@pytest.mark.thorough
def test_one_experiment_and_other_baselines_have_none(tmp_path: Path) -> None:
    assert overview(summaries_of(tmp_path, rows_of({"/t/a.bin": ("glibc", "mimalloc")}))) == []
    rows = rows_of({"/t/a.bin": ("glibc", "mimalloc"), "/t/b.bin": ("jemalloc", "mimalloc")})
    assert overview(summaries_of(tmp_path, rows)) == []


@pytest.mark.thorough
def test_one_round_has_no_interval(tmp_path: Path) -> None:
    time, _ = overview(summaries_of(tmp_path, rows_of({"/t/a.bin": ("glibc", "mimalloc"), "/t/b.bin": ("glibc", "mimalloc")}, rounds=1)))
    assert re.fullmatch(r"\d\.\d\d", time.mean[0]) and time.note == ""


@pytest.mark.thorough
def test_the_report_opens_with_it(tmp_path: Path) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", rows_of({"/t/a.bin": ("glibc", "mimalloc"), "/t/b.bin": ("glibc", "mimalloc")}))
    assert main(["report", "-q", str(results), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert page.index("<h1>2 experiments</h1>") < page.index("<article")
    assert re.findall(r'<a href="#(experiment-\d)">([^<]*)</a>', page)[:2] == [("experiment-1", "a.bin"), ("experiment-2", "b.bin")]
    assert page.count('id="experiment-') == 2
