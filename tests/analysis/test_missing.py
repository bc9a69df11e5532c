# SPDX-License-Identifier: Apache-2.0
"""Runs that failed are named wherever a comparison is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import results_factory
from heaptape.base.errors import UsageError
from heaptape.report.table import comparison_markdown, comparison_object
from heaptape.results.comparison import experiments
from heaptape.results.remarks import control_lines
from heaptape.results.remarks import missing_lines
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise
from results_factory import run


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(name: str, failed: int = 0, problem: str | None = None) -> list[dict[str, Any]]:
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
    frame = read_results(write(tmp_path / "r.jsonl", [*rows_of("glibc"), verified("glibc", 0)]))
    assert missing_lines(frame) == []


@pytest.mark.thorough
def test_each_allocator_by_its_last_problem(tmp_path: Path) -> None:
    rows = [*rows_of("glibc"), *rows_of("jemalloc", 3, "killed by SIGKILL"), *rows_of("null", 1), verified("glibc", 0),
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
    rows = [*rows_of("glibc"), *(row | {"failures": 19_680, "refused_calls": 19_680, "problem": problem} for row in rows_of("scudo19"))]
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
