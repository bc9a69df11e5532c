# SPDX-License-Identifier: Apache-2.0
"""bench/validity/public_cases.py: what an answer comes to, and that a rebuilt report can be recorded, replayed and run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bench.validity.public_cases import judge, others, page, sums
from tool_runner import Tools, clean_environment

ROOT = Path(__file__).resolve().parents[2]
CASES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "bench" / "validity" / "public_cases.toml").read_text())
JEMALLOC = {"program": ["a.c", "a"], "reference": ["A report", "https://example.org/1"], "question": "is it so?", "asked": "jemalloc", "figure": "peak"}


def result(real: dict[str, float], answered: dict[str, float], said: str = "", verdict: str | None = "smaller") -> dict[str, Any]:
    """In MB. The first allocator is the program's own."""
    own = next(iter(answered))
    return {"runs": 1, "rounds": 2, "said": said,
            "real": {name: {"peak": [value * 1e6], "end": [value * 1e6]} for name, value in real.items()},
            "answered": {name: {"problem": None, "peak": value * 1e6, "end": value * 1e6, "baseline": name == own,
                                "verdict": {"peak": verdict, "end": verdict}} for name, value in answered.items()}}


@pytest.mark.parametrize(("real", "answered", "said", "verdict", "outcome", "missed"), [
    ((100, 60), (104, 64), "", "smaller", "right", ""),
    ((100, 60), (100, 70), "", "smaller", "wrong", "jemalloc +17 %"),  # the verdict is right, its memory is not
    ((100, 104), (100, 94), "", "smaller", "wrong", "less, really the same"),
    ((100, 104), (100, 106), "", "larger", "right", ""),  # on either side of the bound, and as good as equal
    ((100, 60), (150, 60), "too much", "smaller", "unknown", "glibc +50 %"),
    ((100, 60), (100, 99), "", None, "unknown", "the same, really less"),
])
def test_what_an_answer_comes_to(real: tuple[int, int], answered: tuple[int, int], said: str, verdict: str | None, outcome: str, missed: str) -> None:
    names = ("glibc", "jemalloc")
    judged = judge(JEMALLOC, result(dict(zip(names, real, strict=True)), dict(zip(names, answered, strict=True)), said, verdict))
    assert judged.outcome == outcome
    assert missed in judged.missed and (judged.said == (said or "not resolved")) == (outcome == "unknown")


def test_the_named_allocator_has_the_least_or_nearly() -> None:
    best, answered = JEMALLOC | {"asked": "best"}, {"glibc": 50, "jemalloc": 41, "tcmalloc": 60, "mimalloc": 42}
    near = {"glibc": 50, "jemalloc": 43, "tcmalloc": 60, "mimalloc": 42}
    assert judge(best, result(near, answered)).outcome == "right"
    assert judge(best, result(near | {"mimalloc": 30}, answered)).missed == "1.43 of the least"


def test_a_figure_that_nobody_asked_for_is_listed_where_it_is_far_off() -> None:
    """Not where heaptape itself says so; and a page has a row for each."""
    cases = {"one": JEMALLOC, "two": JEMALLOC}
    far = result({"glibc": 100, "jemalloc": 60, "mimalloc": 80}, {"glibc": 100, "jemalloc": 60, "mimalloc": 60})
    results = {"one": far, "two": far | {"said": "not so"}}
    assert others(cases, results) == [f"- **one**, mimalloc, {figure}: 80.0 MB real, 60.0 answered (−25 %)" for figure in ("peak", "end")]
    assert sums(cases, results) == "2 questions: 1 right, 0 wrong, 1 unknown (1 of these as in reality)"
    assert {line.count(" | ") for line in page(cases, results).splitlines() if line.startswith("| ")} == {10}


def test_what_is_listed() -> None:
    """Reports have an address, and each program has its case."""
    assert len({case["reference"][1] for case in CASES.values()}) >= 25
    for name, case in CASES.items():
        file, which = case["program"]
        assert f'"{which}"' in (ROOT / "bench" / "programs" / "public" / file).read_text(), name
        assert case["reference"][1].startswith("https://") and case["figure"] in ("peak", "end")
        assert set(case) <= {"reference", "question", "program", "under", "env", "asked", "figure", "note"}
        assert re.fullmatch(r"best|[a-z0-9]+(:\w+=\d+)?", case["asked"]), name


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
def test_one_case_from_end_to_end(tools: Tools, tmp_path: Path) -> None:
    """Recorded, replayed and run."""
    results = tmp_path / "results.jsonl"
    command = [sys.executable, ROOT / "bench" / "validity" / "public_cases.py", "--build", tools.build, "--only", "minicoro", "--runs", "1", "--results", results]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in (0, 1) and "1 questions: " in done.stdout, done.stderr
    (line,) = map(json.loads, results.read_text().splitlines())
    assert line["real"]["glibc"]["peak"][0] > 2e6 and set(line["real"]) == set(line["answered"]) == {"glibc", "jemalloc", "tcmalloc", "mimalloc"}
