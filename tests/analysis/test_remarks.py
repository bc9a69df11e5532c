# SPDX-License-Identifier: Apache-2.0
"""What is said of an experiment beside its verdicts: what it rests on, which runs failed, and whether their order mattered."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import results_factory
from heaptape import read_results, write_report
from heaptape.base.errors import UsageError
from heaptape.report.provenance import result_warnings
from heaptape.report.table import comparison_markdown, comparison_object
from heaptape.results.comparison import experiments
from heaptape.results.remarks import control_lines, find_trends, grounds, missing_lines
from heaptape.results.summary import Summary, summarise
from results_factory import run


def lines_of(tmp_path: Path, **settings: object) -> list[str]:
    rows = results_factory.schedule(rounds=4)
    trace = settings.pop("trace", {})
    results = results_factory.write(tmp_path / "r.jsonl", [row | settings | {"trace": row["trace"] | trace} for row in rows])
    (experiment,) = experiments(read_results(results))
    page = write_report(read_results(results), tmp_path / "r.html").read_text()
    said = grounds(experiment, placement_known=False)
    for line in said:
        assert line.split(":")[0] + ":" in re.sub(r"<wbr>", "", page)
    return said


@pytest.mark.parametrize(("settings", "words"), [
    ({}, "Extrapolated: nothing."),
    ({"trace": {"extended": {"from_ns": 60_000_000_000, "until_ns": 180_000_000_000, "to_ns": 3_600_000_000_000}}}, "by repeating"),
    pytest.param({"scale": 4}, "4 copies of the program", marks=pytest.mark.thorough),
    pytest.param({"age_occupancy": 0.9, "age_multiple": 10}, "a used heap", marks=pytest.mark.thorough),
    ({"processors": 64}, "64 processors"),
])
def test_what_is_measured_extrapolated_and_unknown(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    measured, extrapolated, unknown = lines_of(tmp_path, **settings)
    assert measured.startswith("Measured: ") and words in extrapolated
    assert unknown.startswith("Not known: ") and "--accesses" in unknown


def test_an_extension_is_an_experiment_of_its_own(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=4)
    extended = {"from_ns": 1, "until_ns": 2, "to_ns": 9}
    later = [row | {"trace": row["trace"] | {"extended": extended}, "started_at": f"{row['started_at']}x"} for row in rows]
    results = results_factory.write(tmp_path / "r.jsonl", [*rows, *later])
    found = experiments(read_results(results))
    assert ["extended" in experiment.settings for experiment in found] == [False, True]
    assert [experiment.is_as_recorded for experiment in found] == [True, False]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def failing_rows(name: str, failed: int = 0, problem: str | None = None) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    rows = [run(name, kind, number, rng) for number in range(4) for kind in ("time", "memory")]
    for row in rows[:failed]:
        row |= {"failures": 1, "problem": problem}
    return rows


def verified(name: str, violations: int) -> dict[str, Any]:
    row = run(name, "memory", 0, np.random.default_rng(1))
    problem = f"{violations} violations of malloc's contract" if violations else None
    return row | {"pass": "verify", "violations": violations, "failures": min(violations, 1), "problem": problem}


def test_nothing_is_missing(tmp_path: Path) -> None:
    frame = read_results(write(tmp_path / "r.jsonl", [*failing_rows("glibc"), verified("glibc", 0)]))
    assert missing_lines(frame) == []


@pytest.mark.thorough
def test_each_allocator_by_its_last_problem(tmp_path: Path) -> None:
    rows = [*failing_rows("glibc"), *failing_rows("jemalloc", 3, "killed by SIGKILL"), *failing_rows("null", 1), verified("glibc", 0),
            verified("mimalloc", 7)]
    experiment, = experiments(read_results(write(tmp_path / "r.jsonl", rows)))
    expected = [
        "3 of 8 runs of jemalloc failed and are left out (the last: killed by SIGKILL).",
        "1 of 8 runs of the null replayer failed and is left out.",
        "Verification of mimalloc failed (the last: 7 violations of malloc's contract).",
    ]
    assert missing_lines(experiment.runs) == expected
    summary = summarise(experiment, None)
    text = comparison_markdown(summary)
    assert all(line in text for line in expected)
    assert comparison_object(summary)["missing"] == expected


def test_an_allocator_that_refuses_calls_is_named_before_the_verdict(tmp_path: Path) -> None:
    problem = "refuses 19,680 of 20,000 calls of aligned_alloc (such as alignment 64, size 100)"
    rows = [*failing_rows("glibc"), *(row | {"failures": 19_680, "refused_calls": 19_680, "problem": problem} for row in failing_rows("scudo19"))]
    summary = summarise(experiments(read_results(write(tmp_path / "r.jsonl", rows)))[0], None)
    sentence = f"scudo19 {problem}: no figure of it would be of this program."
    assert summary.headline.startswith(sentence) and summary.missing == [sentence]
    assert "scudo19" not in set(summary.comparison["allocator"])


def test_verification_alone_compares_nothing(tmp_path: Path) -> None:
    results = write(tmp_path / "r.jsonl", [verified("glibc", 0), verified("mimalloc", 2)])
    with pytest.raises(UsageError, match="nothing was measured.*mimalloc"):
        experiments(read_results(results))


@pytest.mark.thorough
def test_builds_under_one_name_are_reported(tmp_path: Path) -> None:
    """As where a library was built anew between two replays that append to one file."""
    from heaptape.report.provenance import result_warnings
    from heaptape.report.table import comparison_object
    from heaptape.results.comparison import experiments
    from heaptape.results.summary import summarise, tell_apart

    rows = results_factory.schedule(rounds=6, names=("glibc", "jemalloc"), points=4)
    for row in rows:
        if row["allocator"]["name"] == "jemalloc" and row["round"] >= 3:
            row["allocator"]["build_id"] = "f" * 40
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows))
    summary = summarise(experiments(frame)[0], None)
    assert len(summary.mixed) == 1 and summary.mixed[0].startswith("jemalloc names 2 builds (5.3.0 ")
    assert comparison_object(summary)["mixed"] == summary.mixed
    assert summary.mixed[0] in result_warnings(summary)
    # Two versions of a trace are two experiments, and have one path.
    others = [row | {"trace": row["trace"] | {"sha256": "ab" * 32}} for row in rows]
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows + others))
    names = [item.trace_name for item in tell_apart([summarise(item, None) for item in experiments(frame)])]
    assert len(set(names)) == 2 and names[1] == "job.bin (abababababab)"


@pytest.mark.thorough
def test_every_warning_is_in_the_report(tmp_path: Path) -> None:
    from heaptape.report.provenance import result_warnings
    from heaptape.results.comparison import experiments
    from heaptape.results.summary import summarise

    rows = results_factory.schedule(rounds=2, names=("glibc", "other"), points=4, noise=0.05)
    for row in rows:
        row["trace"]["events"] = 900
        row["machine"] |= {"governor": "powersave", "turbo": True}
    summary = summarise(experiments(read_results(results_factory.write(tmp_path / "r.jsonl", rows)))[0], None)
    text = " ".join(result_warnings(summary))
    for words in ("Fewer than 6 rounds", "governor is powersave", "Turbo is on", "only 900 calls", "is not resolved against glibc's"):
        assert words in text


def test_control_calls_that_some_obey() -> None:
    def of(trim: bool, advice: bool) -> dict[str, dict[str, object]]:
        return {"malloc_trim": {"calls": 6, "obeyed": trim}, "mallopt(M_ARENA_MAX)": {"calls": 1, "obeyed": trim},
                "madvise(MADV_HUGEPAGE)": {"calls": 2, "obeyed": advice}, "mallinfo": {"calls": 9, "obeyed": False}}

    frame = pd.DataFrame({"allocator": ["null", "glibc", "jemalloc", "glibc"], "control_calls": [of(True, True), of(True, True), of(False, True), of(True, True)]})
    assert control_lines(frame) == ["The program calls malloc_trim 6 times and mallopt(M_ARENA_MAX) once: glibc alone obeys."]
    assert control_lines(frame.assign(control_calls=[{}] * 4)) == []


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
