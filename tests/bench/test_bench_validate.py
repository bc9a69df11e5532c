# SPDX-License-Identifier: Apache-2.0
"""What bench/validity/validate.py makes of many validations: totals, page, drawings; and that what it lists can be run at all."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PROGRAMS = tomllib.loads((BENCH / "validity" / "programs.toml").read_text())


def allocator(name: str, peak: float, mean: float, cpu: tuple[float, float] | None, resolved: bool = True) -> dict[str, Any]:
    """One that held 100 bytes more than predicted by such shares; CPU times are differences, predicted and real."""
    memory = {figure: {"predicted_bytes": 1e6 * (1 + error), "real_bytes": 1e6, "own_bytes": 0.25e6 * (1 + error), "error": error}
              for figure, error in (("peak", peak), ("mean", mean))}
    reported: dict[str, Any] = {"real_ns": 1e9}
    if cpu:
        predicted, real = cpu
        reported |= {"predicted_difference_ns": predicted, "real_difference_ns": real, "real_low_ns": real - 1e6,
                 "real_high_ns": real + 1e6, "resolved": resolved, "sign_agrees": predicted * real > 0 if resolved else None,
                 "predicted_over_real": predicted / real if resolved else None}
    return {"name": name, "problem": None, "memory": memory, "cpu": reported}


def result(name: str, allocators: list[dict[str, Any]], agrees: bool, curve: float) -> dict[str, Any]:
    ends = {"best": {"agrees": True}, "worst": {"agrees": agrees}}
    validation = {"server": False, "baseline": "glibc", "rounds": 3, "allocators": allocators, "warnings": ["it is odd"] if name == "jq" else [],
                  "agreement": {"peak": ends, "mean": {"best": {"agrees": True}, "worst": {"agrees": True}}},
                  "curve": {"difference": curve},
                  "recorded": {"calls": 10, "threads": 1, "duration_ns": 1e9, "cpu_ns": 1e9}}
    curves = {kind: {"time_ns": [0, 500_000_000, 1_000_000_000], "rss_bytes": [0, 900_000, 1_000_000]}
              for kind in ("recorded", "predicted", "real")}
    return {"name": name, "elapsed_s": 1, "validation": validation, "curves": curves}


def counts(name: str, pairs: dict[str, tuple[int, int]], warnings: list[str]) -> dict[str, Any]:
    """Differences of instructions, predicted and real."""
    allocators = [{"name": "glibc", "problem": None, "instructions_delta_real": None, "instructions_error": None}]
    allocators += [{"name": key, "problem": None, "instructions_delta_predicted": predicted, "instructions_delta_real": real,
                    "instructions_error": abs(predicted - real) / abs(real)} for key, (predicted, real) in pairs.items()]
    return {"name": name, "baseline": "glibc", "warnings": warnings, "allocators": allocators}


@dataclass
class Made:
    """What one run of bench/validity/validate.py printed and wrote."""

    printed: str
    said: str
    page: str
    tables: Path

    def rows(self, file: str) -> list[dict[str, str]]:
        with (self.tables / file).open(newline="") as lines:
            return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("validity")
    lines = [result("cc1", [allocator("glibc", 0.01, 0.02, None), allocator("jemalloc", -0.12, 0.04, (-30e6, -40e6))], False, 0.01),
             result("lua", [allocator("glibc", 0.00, 0.06, None), allocator("jemalloc", 0.02, -0.16, (5e6, -10e6))], True, 0.03),
             result("jq", [allocator("glibc", 0.03, 0.00, None), allocator("jemalloc", 0.01, 0.01, (9e6, 1e6), False)], True, 0.02)]
    results, page, tables = folder / "results.jsonl", folder / "validity.md", folder / "tables"
    tables.mkdir()
    counted = [counts("cc1", {"jemalloc": (-30_300_000, -30_000_000), "mimalloc": (-110, -100)}, []),
               counts("lua", {"jemalloc": (-500_000, 1_000_000)}, ["the program does not repeat"])]
    (tables / "counts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in counted))
    results.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"name":"cut sh')
    arguments = ("--no-run", "--page", page, "--tables", tables, "--counts", tables / "counts.jsonl")
    done = bench("-o", results, *arguments)
    assert done.returncode == 0, done.stderr
    first = page.read_text()
    # The tables have all that the page has.
    assert bench("-o", folder / "none", *arguments).returncode == 0 and page.read_text() == first
    return Made(done.stdout, done.stderr, page.read_text(), tables)


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH / "validity" / "validate.py", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.thorough
def test_the_totals_are_those_of_all_programs(made: Made) -> None:
    totals = made.printed.split("\n\n")[0]
    assert totals in made.page
    found = dict(line.strip("| ").split(" | ")[:2] for line in totals.splitlines()[2:])
    assert found["peak RSS: median error of 6 pairs of program and allocator"] == "1.5 %"
    assert found["peak RSS: worst error (cc1 under jemalloc)"] == "12 %"
    assert found["peak RSS: programs whose smallest and largest allocator are as predicted"] == "2 of 3, 67 %"
    assert found["mean RSS: median error of 6 pairs of program and allocator"] == "3.0 %"
    assert found["mean RSS: worst error (lua under jemalloc)"] == "16 %"
    assert found["mean RSS: programs whose smallest and largest allocator are as predicted"] == "3 of 3, 100 %"
    assert found["CPU time: sign of the difference right, of differences resolved at 95 % (3 in all)"] == "1 of 2, 50 %"
    # 0.75 and -0.5 are 0.25 and 1.5 from 1.
    assert found["CPU time: error of the predicted difference, median of those resolved"] == "88 %"
    assert found["recorded RSS curve against that of glibc's replay, time-weighted mean difference, median"] == "2.0 %"
    instructions = "instructions: error of the predicted difference"
    assert (found[f"{instructions}, median of 3 pairs"], found[f"{instructions}, 90th percentile"]) == ("10 %", "122 %")
    assert found["instructions: sign of the difference right"] == "2 of 3, 67 %"


def test_tables_and_drawings_show_misses(made: Made) -> None:
    programs, memory, cpu = (made.rows(f"{name}.csv") for name in ("programs", "memory", "cpu"))
    assert [(row["program"], row["peak_ends_agree"], row["mean_ends_agree"]) for row in programs] == [
        ("cc1", "no", "yes"), ("lua", "yes", "yes"), ("jq", "yes", "yes")]
    assert memory[1] == {"program": "cc1", "allocator": "jemalloc", "peak_predicted_mb": "0.88", "peak_real_mb": "1", "peak_error_percent": "-12.0",
                         "peak_own_percent": "25", "mean_predicted_mb": "1.04", "mean_real_mb": "1", "mean_error_percent": "4.0"}
    assert list(cpu[1].values()) == ["lua", "1", "jemalloc", "5.0", "-10.0", "-11.0", "-9.0", "yes", "-0.50"]
    assert list(cpu[2].values()) == ["jq", "1", "jemalloc", "9.0", "1.0", "0.0", "2.0", "no", ""]
    for name in ("cc1", "lua", "jq"):
        assert f"![{name}](tables/{name}.svg)" in made.page
        paths = ElementTree.parse(made.tables / f"{name}.svg").findall(".//{http://www.w3.org/2000/svg}path")
        assert [path.get("class") for path in paths] == ["recorded", "predicted", "real"]


def test_the_page_has_misses_and_resolved_differences(made: Made) -> None:
    assert "| cc1 | **−12.0** |  |\n" in made.page and "| lua |  | **−16.0** |\n" in made.page and "| jq | +3.0 |  |\n" in made.page
    assert "| cc1 | jemalloc −30.0/−40.0 | −30.3/−30.0 | −0.0001/−0.0001 |" in made.page
    assert "| lua | jemalloc +5.0/−10.0 | **−0.50/+1.00** |  |" in made.page
    assert "- **jq**: it is odd." in made.page and "- **lua**, instructions: the program does not repeat." in made.page
    assert "Instructions not counted yet: jq." in made.page


def test_a_result_that_was_cut_short_is_said(made: Made) -> None:
    assert "a line that is no JSON is passed over" in made.said


@pytest.mark.thorough
def test_programs_that_are_not_listed_are_refused() -> None:
    done = bench("--only", "nothing-of-that-name")
    assert done.returncode == 2 and "nothing-of-that-name" in done.stderr


def test_what_is_counted_is_a_smaller_work() -> None:
    for name, program in PROGRAMS.items():
        places = [*program.get("command", []), *(program.get(key, "") for key in ("setup", "load"))]
        for old in program.get("count", {}):
            assert any(old == place or (place in (program.get("setup"), program.get("load")) and old in place) for place in places), f"{name}: {old}"


def test_files_that_programs_need_are_there() -> None:
    folders = {"BENCH": BENCH, "RECIPES": ROOT / "traces" / "recipes"}
    assert len(PROGRAMS) >= 14 and sum("start" in program for program in PROGRAMS.values()) >= 3
    for name, program in PROGRAMS.items():
        for folder, path in re.findall(r"\$(BENCH|RECIPES)/([\w./-]+)", json.dumps(program)):
            assert (folders[folder] / path).is_file(), f"{name}: {path}"


def test_times_with_accesses_are_held_against_the_real_ones(tmp_path: Path) -> None:
    """Of four pairs one has the wrong sign, and one is off by a twentieth of a difference of 2 %."""
    lines = [{"name": name, "calls": 10, "baseline": "glibc", "baseline_ns": 1e9, "allocators": [
        {"name": allocator, "problem": None, "real_ns": real * 1e7, "splice_ns": splice * 1e7, "bare_ns": 0}
        for allocator, real, splice in pairs]}
        for name, pairs in (("cmake", [("jemalloc", 2, 2.1), ("mimalloc", -3, -3)]), ("vim", [("jemalloc", 1.5, -0.1), ("mimalloc", 0.5, 0.5)]))]
    lines[1]["allocators"].append({"name": "tcmalloc", "problem": "it broke"})
    results = tmp_path / "s.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([sys.executable, BENCH / "validity" / "splice.py", "--no-run", "-o", results], capture_output=True, text=True, check=True,
                          timeout=60)
    rows = [line.split(" | ") for line in done.stdout.splitlines()]
    assert [row[1] for row in rows if row[0].startswith("| program's time")] == ["0.1 %", "1.8 %", "5.0 %", "2 of 3, 67 %", "0.80"]
    assert "| **+1.50 / −0.10 / +0.00** | +0.50 / +0.50 / +0.00 | n/a |" in done.stdout


def test_right_predictions_are_off_by_what_the_intervals_leave() -> None:
    sys.path.insert(0, str(ROOT))
    from bench.validity.totals import savings_noise
    row = {"real_difference_ms": "-100", "real_low_ms": "-120", "real_high_ms": "-80"}
    # Of a normal distribution half lies within 0.674 standard deviations, 95 % within 1.96.
    assert savings_noise([row]) == pytest.approx(0.2 * 0.6745 / 1.96, rel=0.03)
    assert savings_noise([]) is None
