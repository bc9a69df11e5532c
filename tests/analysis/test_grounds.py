# SPDX-License-Identifier: Apache-2.0
"""What a report says that its figures rest on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from heaptape import read_results, write_report
from heaptape.results.comparison import experiments
from heaptape.results.remarks import grounds

import results_factory


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
