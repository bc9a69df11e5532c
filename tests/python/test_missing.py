"""Runs that failed are named wherever a comparison is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from results_factory import run

from heaptape.comparison import experiments
from heaptape.errors import UsageError
from heaptape.missing import missing_lines
from heaptape.results import read_results
from heaptape.summary import summarise
from heaptape.table import comparison_markdown, comparison_object


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
    problem = f"{violations} violations of what an allocator promises" if violations else None
    return row | {"pass": "verify", "violations": violations, "failures": min(violations, 1), "problem": problem}


def test_nothing_is_missing(tmp_path: Path) -> None:
    frame = read_results(write(tmp_path / "r.jsonl", [*rows_of("glibc"), verified("glibc", 0)]))
    assert missing_lines(frame) == []


def test_each_allocator_by_its_last_problem(tmp_path: Path) -> None:
    rows = [*rows_of("glibc"), *rows_of("jemalloc", 3, "killed by SIGKILL"), *rows_of("null", 1), verified("glibc", 0),
            verified("mimalloc", 7)]
    experiment, = experiments(read_results(write(tmp_path / "r.jsonl", rows)))
    expected = [
        "3 of 8 runs of jemalloc failed and are left out (the last: killed by SIGKILL).",
        "1 of 8 runs of the null replayer failed and is left out.",
        "Verification of mimalloc failed (the last: 7 violations of what an allocator promises).",
    ]
    assert missing_lines(experiment.runs) == expected
    summary = summarise(experiment, None)
    text = comparison_markdown(summary)
    assert all(line in text for line in expected)
    assert comparison_object(summary)["missing"] == expected


def test_verification_alone_compares_nothing(tmp_path: Path) -> None:
    results = write(tmp_path / "r.jsonl", [verified("glibc", 0), verified("mimalloc", 2)])
    with pytest.raises(UsageError, match="nothing was measured.*mimalloc"):
        experiments(read_results(results))
