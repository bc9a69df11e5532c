# SPDX-License-Identifier: Apache-2.0
"""What bench/validity/validate.py makes of many validations: tables, totals, page; and that what it lists can be run at all."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.validity.page import page, savings_noise  # noqa: E402
from bench.validity.validate import accesses_rows, instructions_rows, put, read_programs, read_tables, times_rows  # noqa: E402

BENCH = ROOT / "bench"
PROGRAMS = read_programs()


def allocator(name: str, peak: float, mean: float, cpu: tuple[float, float] | None, resolved: bool = True) -> dict[str, Any]:
    """One that held 100 bytes more than predicted by such shares; CPU times are differences, predicted and real."""
    memory = {figure: {"predicted_bytes": 1e6 * (1 + error), "real_bytes": 1e6, "own_bytes": 0.25e6 * (1 + error), "error": error}
              for figure, error in (("peak", peak), ("mean", mean))}
    if cpu:
        memory["peak"] |= {"change": -0.1, "change_low": -0.11, "change_high": -0.09, "real_change": -0.1 - peak, "real_change_low": -0.11 - peak,
                           "real_change_high": -0.09 - peak}
    reported: dict[str, Any] = {"real_ns": 1e9}
    if cpu:
        predicted, real = cpu
        reported |= {"predicted_difference_ns": predicted, "real_difference_ns": real, "real_low_ns": real - 1e6,
                 "real_high_ns": real + 1e6, "predicted_low_ns": predicted - 1e6, "predicted_high_ns": predicted + 1e6, "resolved": resolved, "sign_agrees": predicted * real > 0 if resolved else None,
                 "predicted_over_real": predicted / real if resolved else None}
    return {"name": name, "problem": None, "memory": memory, "cpu": reported}


def validation(allocators: list[dict[str, Any]], agrees: bool, curve: float, *warnings: str) -> dict[str, Any]:
    ends = {"best": {"agrees": True}, "worst": {"agrees": agrees}}
    return {"server": False, "baseline": "glibc", "rounds": 3, "allocators": allocators, "warnings": list(warnings),
            "agreement": {"peak": ends, "mean": {"best": {"agrees": True}, "worst": {"agrees": True}}}, "curve": {"difference": curve},
            "recorded": {"calls": 10, "threads": 1, "duration_ns": 1e9, "cpu_ns": 1e9}}


def counts(pairs: dict[str, tuple[int, int]], *warnings: str) -> dict[str, Any]:
    """Differences of instructions, predicted and real; a tenth of the real one lies outside malloc."""
    allocators = [{"name": "glibc", "problem": None, "instructions_delta_real": None, "instructions_delta_predicted": None, "count_differences": None}]
    allocators += [{"name": name, "problem": None, "instructions_delta_predicted": predicted, "instructions_delta_real": real,
                    "count_differences": {"allocator": {"instructions": real - real // 10}, "program": {"instructions": real // 10}}}
                   for name, (predicted, real) in pairs.items()]
    return {"baseline": "glibc", "warnings": list(warnings), "allocators": allocators}


def placements(pairs: dict[str, tuple[float, float] | None]) -> dict[str, Any]:
    """Differences of the modelled time in percent of a second, really and with accesses; of calls alone none."""
    def parts(ms: float) -> dict[str, Any]:
        return {"allocator": {"modelled_ns": {"total": 0.75e6 * ms}}, "program": {"modelled_ns": {"total": 0.25e6 * ms}}, "replayed_time": {"modelled_ns": {"total": 0}}}
    allocators: list[dict[str, Any]] = [{"name": "glibc", "problem": None, "counts": parts(1000), "cpu": {"real_ns": 2e9, "startup_ns": 1e6}}]
    for name, pair in pairs.items():
        real, accesses = pair or (0, 0)
        allocators.append({"name": name, "problem": None if pair else "it broke", "count_differences": parts(10 * real),
                           "cpu": {"startup_ns": 3e6, "modelled_difference_ns": 2e7 * accesses + 2e6}})
    return {"baseline": "glibc", "recorded": {"calls": 10}, "allocators": allocators}


@dataclass
class Made:
    """What one run of bench/validity/validate.py printed and wrote."""

    printed: str
    page: str
    tables: Path

    def rows(self, file: str) -> list[dict[str, str]]:
        with (self.tables / file).open(newline="") as lines:
            return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("validity")
    timed = {"jq": validation([allocator("glibc", 0.03, 0.00, None), allocator("jemalloc", 0.01, 0.01, (9e6, 1e6), False)], True, 0.02, "it is odd"),
             "lua": validation([allocator("glibc", 0.00, 0.06, None), allocator("jemalloc", 0.02, -0.16, (5e6, -10e6))], True, 0.03),
             "cc1": validation([allocator("glibc", 0.01, 0.02, None), allocator("jemalloc", -0.12, 0.04, (-30e6, -40e6))], False, 0.01)}
    counted = {"cc1": counts({"jemalloc": (-30_300_000, -30_000_000), "mimalloc": (-110, -100)}),
               "lua": counts({"jemalloc": (-500_000, 1_000_000)}, "the program does not repeat")}
    placed = {"cmake": placements({"jemalloc": (2, 2.1), "mimalloc": (-3, -3)}),
              "vim": placements({"jemalloc": (1.5, -0.1), "mimalloc": (0.5, 0.5), "tcmalloc": None})}
    tables, page = folder / "tables", folder / "validity.md"
    tables.mkdir()
    # What is measured again takes the place of what was there, in the order of the list.
    for rows, documents in ((times_rows, {"lua": timed["jq"]}), (times_rows, timed), (instructions_rows, counted), (accesses_rows, placed)):
        for name, document in documents.items():
            put(tables, rows(name, PROGRAMS[name], document), name, list(PROGRAMS))
    done = bench("page", "--tables", tables, "--page", page)
    assert done.returncode == 0, done.stderr
    return Made(done.stdout, page.read_text(), tables)


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BENCH / "validity" / "validate.py", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.thorough
def test_the_totals_are_those_of_all_programs(made: Made) -> None:
    totals = made.printed
    found = dict(line.strip("| ").split(" | ")[:2] for line in totals.splitlines()[2:])
    assert found["peak RSS: error, median"] == "1.5 % of 6 pairs"
    assert found["peak RSS: worst error"] == "12 % (cc1 under jemalloc)"
    assert found["peak RSS: smallest and largest allocator as predicted"] == "2 of 3, 67 %"
    # Changes by a tenth: real ones are 11, 12 and +2 %, the last two beyond the intervals.
    assert found["peak RSS: sign of changes above 1.0 % right"] == "2 of 2, 100 %"
    assert found["peak RSS: error of the change, median, 90th percentile"] == "2.0 %, 10 %"
    assert found["peak RSS: change held by the interval of the rounds"] == "1 of 3, 33 %"
    assert found["peak RSS: change held by the interval of `try`"] == "2 of 3, 67 %"
    assert found["mean RSS: error, median"] == "3.0 % of 6 pairs"
    assert found["mean RSS: worst error"] == "16 % (lua under jemalloc)"
    assert found["mean RSS: smallest and largest allocator as predicted"] == "3 of 3, 100 %"
    assert found["CPU time: sign right of differences resolved at 95 %"] == "1 of 2, 50 %"
    # 0.75 and -0.5 are 0.25 and 1.5 from 1.
    assert found["CPU time: error of these differences, median"] == "88 %"
    assert found["CPU time: the intervals of both meet"] == "0 of 2, 0.0 %"
    assert found["recorded RSS curve against that of its replay, time-weighted mean difference, median"] == "2.0 %"
    instructions = "instructions: error of the predicted difference"
    assert (found[f"{instructions}, median of 3 pairs"], found[f"{instructions}, 90th percentile"]) == ("10 %", "122 %")
    assert found["instructions: sign of the difference right"] == "2 of 3, 67 %"


def test_tables_show_misses(made: Made) -> None:
    programs, memory, cpu = (made.rows(f"{name}.csv") for name in ("programs", "memory", "cpu"))
    assert [(row["program"], row["peak_ends_agree"], row["mean_ends_agree"]) for row in programs] == [
        ("cc1", "no", "yes"), ("lua", "yes", "yes"), ("jq", "yes", "yes")]
    expected = {"program": "cc1", "allocator": "jemalloc", "peak_predicted_mb": "0.88", "peak_real_mb": "1", "peak_error_percent": "-12.0",
                "peak_own_percent": "25", "peak_change_percent": "-10.00", "peak_real_change_low_percent": "1.00", "mean_predicted_mb": "1.04",
                "mean_real_mb": "1", "mean_error_percent": "4.0", "mean_change_percent": ""}
    assert expected.items() <= memory[1].items()
    assert list(cpu[1].values()) == ["lua", "1", "jemalloc", "5.0", "4.0", "6.0", "-10.0", "-11.0", "-9.0", "yes", "-0.50"]
    assert list(cpu[2].values()) == ["jq", "1", "jemalloc", "9.0", "8.0", "10.0", "1.0", "0.0", "2.0", "no", ""]


def test_the_page_has_misses_and_resolved_differences(made: Made) -> None:
    assert "| cc1 | **−12.0** |  |\n" in made.page and "| lua |  | **−16.0** |\n" in made.page and "| jq | +3.0 |  |\n" in made.page
    assert "| cc1 | jemalloc −30.0/−40.0 | −30.3/−30.0 | −0.0001/−0.0001 |" in made.page
    assert "| lua | jemalloc +5.0/−10.0 | **−0.50/+1.00** |  |" in made.page
    assert "- **jq**: it is odd." in made.page and re.search(r"- \*\*lua\*\*, instructions: .*the program does not repeat\.\n", made.page)
    assert "| lua | +0.10, 156 % |" in made.page
    assert "Instructions not counted yet: jq." in made.page


def test_times_with_accesses_are_held_against_the_real_ones(made: Made) -> None:
    """Of four pairs one has the wrong sign, and one is off by a twentieth of a difference of 2 %."""
    rows = [line.split(" | ") for line in made.page.splitlines()]
    assert [row[1] for row in rows if row[0].startswith("| program's time")] == ["0.1 %", "1.8 %", "5.0 %", "2 of 3, 67 %", "0.80"]
    assert "| **+1.50 / −0.10 / +0.00** | +0.50 / +0.50 / +0.00 | n/a |" in made.page


@pytest.mark.thorough
def test_programs_that_are_not_listed_are_refused() -> None:
    done = bench("times", "--only", "nothing-of-that-name")
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
            assert (folders[folder] / path).exists(), f"{name}: {path}"


def test_right_predictions_are_off_by_what_the_intervals_leave() -> None:
    row = {"real_difference_ms": "-100", "real_low_ms": "-120", "real_high_ms": "-80"}
    # Of a normal distribution half lies within 0.674 standard deviations, 95 % within 1.96.
    assert savings_noise([row]) == pytest.approx(0.2 * 0.6745 / 1.96, rel=0.03)
    assert savings_noise([]) is None


def test_the_page_is_made_of_the_tables_beside_it() -> None:
    written = ROOT / "docs" / "method" / "validity.md"
    assert page(read_tables(written.with_suffix("")), PROGRAMS, written.with_suffix(""), written.parent) == written.read_text()
