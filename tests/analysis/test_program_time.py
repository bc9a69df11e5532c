# SPDX-License-Identifier: Apache-2.0
"""The program's modelled time in compare and the report, from lines of the count pass of known truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import results_factory
from heaptape.command_line import main
from heaptape.results.comparison import experiments
from heaptape.results.program_time import MODEL_RESIDUAL, NOT_KNOWN, program_times
from heaptape.results.reader import read_results

KINDS = ("instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", "l2_miss", "far_4mib_miss", "far_8mib_miss", "far_16mib_miss", "far_32mib_miss",
         "dtlb_miss", "stlb_miss", "fault", "mapping_call")
# What results before the distances of far misses had, with an interval of the latency.
OLDER_KINDS = tuple(kind for kind in KINDS if not kind.startswith("far_"))


def part(**ns: float) -> dict[str, Any]:
    costs = dict.fromkeys(KINDS, 0.0) | ns
    return {"instructions": 1, "modelled_ns": {**costs, "total": sum(costs.values())}}


def line(name: str, allocator: dict[str, Any], program: dict[str, Any], blocks: list[tuple[int, int, int]], uncertain: float = 0) -> dict[str, Any]:
    costs = {kind: {"latency_ns": 40.0, "low_ns": 0.0, "high_ns": 400.0, "share": 0.25, "cost_ns": 10.0, "cost_low_ns": 10.0,
                    "cost_high_ns": 10.0 * (1 + uncertain)} for kind in KINDS}
    counts = {"accesses": "x.acc", "calibrated": True, "costs": costs, "allocator": allocator, "program": program, "program_time": {"ns": 1.0},
              "blocks": [{"size_low": low, "accesses": 9, "l1d_misses": l1, "l2_misses": l2} for low, l1, l2 in blocks]}
    return results_factory.run(name, "count", 0, results_factory.np.random.default_rng(1)) | {
        "counts": counts, "rss_peak_bytes": None, "timeline": None, "started_at": f"2025-11-20T09:00:{len(name):02d}Z"}


# Under glibc 100 ms, 20 of them in the allocator; mimalloc saves 10 ms there and costs the program 4 ms of misses.
GLIBC = line("glibc", part(instruction=20e6), part(instruction=50e6, l2_miss=20e6, far_32mib_miss=10e6), [(48, 900, 500), (1024, 10, 10)])
MIMALLOC = line("mimalloc", part(instruction=10e6), part(instruction=50e6, l2_miss=21e6, far_32mib_miss=12e6, dtlb_miss=1e6), [(48, 800, 700), (1024, 10, 5)])


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return results_factory.write(tmp_path / "r.jsonl", [GLIBC, MIMALLOC, *results_factory.schedule(2, ("glibc", "mimalloc", "null"))])


def test_the_difference_by_part_and_cause(results: Path) -> None:
    (experiment,) = experiments(read_results(results))
    base, other = program_times(experiment.runs, "glibc")
    assert (base.allocator, base.ns, other.ns) == ("glibc", 100e6, 94e6)
    assert other.ratio.ratio == pytest.approx(0.94)
    assert (other.share("allocator"), other.share("program")) == (pytest.approx(-0.10), pytest.approx(0.04))
    assert other.share("program", "far misses") == pytest.approx(0.03) and other.share(cause="TLB") == pytest.approx(0.01)
    assert other.main_causes() == [("instructions", pytest.approx(-0.10)), ("far misses", pytest.approx(0.03))]
    assert [(block.low_bytes, block.high_bytes, block.far_misses, block.near_misses) for block in other.blocks] == \
        [(48, 55, 200, -300), (1024, 1279, -5, 5)]
    # The other way round.
    back, _ = program_times(experiment.runs, "mimalloc")[::-1]
    assert back.allocator == "glibc" and back.ratio.ratio == pytest.approx(100 / 94)


def test_the_interval_is_the_models(tmp_path: Path) -> None:
    """Of the residual alone where the costs are exact, and wider where they are not."""
    def half_widths(uncertain: float) -> tuple[float, float]:
        rows = [line(name, row["counts"]["allocator"], row["counts"]["program"], [], uncertain)
                for name, row in (("glibc", GLIBC), ("mimalloc", MIMALLOC))]
        runs = read_results(results_factory.write(tmp_path / f"{uncertain}.jsonl", rows))
        ratio = program_times(runs, "glibc")[1].ratio
        return ratio.ratio - ratio.ci_low, ratio.ci_high - ratio.ratio

    off = MODEL_RESIDUAL * (0.10**2 + (0.94 * 0.20) ** 2 + 0.04**2) ** 0.5
    assert half_widths(0) == (pytest.approx(off), pytest.approx(off))
    below, above = half_widths(1)
    assert below > off and above > off


def test_older_results_have_the_interval_of_the_latency(tmp_path: Path) -> None:
    def older(row: dict[str, Any], high_ns: float) -> dict[str, Any]:
        counts = row["counts"]
        costs = {kind: {"latency_ns": 10.0, "low_ns": 10.0, "high_ns": high_ns, "share": 0.5, "cost_ns": 5.0} for kind in OLDER_KINDS}
        parts = {name: {"modelled_ns": {kind: ns for kind, ns in counts[name]["modelled_ns"].items() if kind in (*OLDER_KINDS, "total")}}
                 for name in ("allocator", "program")}
        return row | {"counts": counts | parts | {"costs": costs}}

    def other(high_ns: float) -> Any:
        rows = results_factory.write(tmp_path / f"{high_ns}.jsonl", [older(GLIBC, high_ns), older(MIMALLOC, high_ns)])
        return program_times(read_results(rows), "glibc")[1]

    exact, uncertain = other(10), other(20)
    assert exact.share("program", "far misses") == pytest.approx(0.01 / 0.9) and exact.ratio.ratio == pytest.approx(82 / 90)
    assert uncertain.ratio.ci_high > exact.ratio.ci_high and uncertain.ratio.ratio == exact.ratio.ratio


def sampled(row: dict[str, Any], *ns: float) -> dict[str, Any]:
    groups = {"bursts": 2 * len(ns), "groups": [{"accesses": 1000, "ns": value} for value in ns]}
    return row | {"counts": row["counts"] | {"sampled": groups}}


@pytest.mark.thorough
def test_the_interval_has_the_sample_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the groups of bursts have in common is no error; one that differs is."""
    def half_width(*ns: float) -> float:
        path = results_factory.write(tmp_path / "r.jsonl", [sampled(GLIBC, *[1e6] * 4), sampled(MIMALLOC, *ns)])
        assert main(["compare", str(path)]) == 0
        ratio = program_times(read_results(path), "glibc")[1].ratio
        return ratio.ratio - ratio.ci_low

    off = MODEL_RESIDUAL * (0.10**2 + (0.94 * 0.20) ** 2 + 0.04**2) ** 0.5
    assert half_width(2e6, 2e6, 2e6, 2e6) == pytest.approx(off)
    of_sample = 1.75 * (4 / 3 * (3 * 1e6**2 + 3e6**2)) ** 0.5 / 100e6
    assert half_width(2e6, 2e6, 2e6, 6e6) == pytest.approx((off**2 + of_sample**2) ** 0.5)
    assert "near misses sampled in 8 bursts" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("how", [[], ["--markdown"]])
def test_compare_names_it(results: Path, how: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *how, str(results)]) == 0
    printed = capsys.readouterr().out
    assert "your program's time (modelled)" in printed and "instructions −10.0 %, far misses +3.0 %" in printed and "0.940" in printed
    assert NOT_KNOWN not in printed


@pytest.mark.thorough
def test_its_json(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--json", str(results)]) == 0
    base, other = json.loads(capsys.readouterr().out)[0]["program_time"]
    assert base["verdict"] == "baseline" and other["ratio"] == pytest.approx(0.94) and other["ratio_low"] < 0.94 < other["ratio_high"]
    assert other["shares"]["program"]["TLB"] == pytest.approx(0.01) and other["blocks"][0]["far_misses"] == 200


@pytest.mark.thorough
def test_without_accesses_one_line_says_what_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timed = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(2, ("glibc", "mimalloc")))
    assert main(["compare", str(timed)]) == 0
    assert capsys.readouterr().out.count(NOT_KNOWN) == 1
    assert main(["report", "-q", str(timed), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().count(NOT_KNOWN.replace("'", "&#39;")) == 1


def test_the_report_names_whose_placement_it_is(results: Path, tmp_path: Path) -> None:
    assert main(["report", "-q", str(results), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "How long does the program take?" in page and "Which blocks cause it?" in page and "48 to 55 bytes" in page


@pytest.mark.thorough
def test_counts_alone_can_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(results_factory.write(tmp_path / "r.jsonl", [GLIBC, MIMALLOC]))]) == 0
    assert "0.940" in capsys.readouterr().out
