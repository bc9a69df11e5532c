# SPDX-License-Identifier: Apache-2.0
"""The tables of figures beside docs/method/validity.md, of which the page is made."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.validity.totals import Tables

Result = dict[str, Any]
FIGURES = ("peak", "mean")
FILES = ("programs.csv", "memory.csv", "cpu.csv", "requests.csv")


def measured(result: Result) -> list[Result]:
    """The allocators under which the program could be measured."""
    return [item for item in result["validation"]["allocators"] if "memory" in item]


def differences(result: Result) -> Iterator[tuple[str, Result]]:
    """Of each allocator but the baseline what there is about CPU time."""
    for item in measured(result):
        if item["name"] != result["validation"]["baseline"] and item["cpu"].get("real_difference_ns") is not None:
            yield item["name"], item["cpu"]


def baseline_ns(result: Result) -> float | None:
    """The CPU time that the real program takes under the baseline."""
    name = result["validation"]["baseline"]
    return next((item["cpu"]["real_ns"] for item in measured(result) if item["name"] == name), None)


def ranks_agree(result: Result, figure: str) -> bool | None:
    """Whether who has least and who has most is as predicted."""
    ends = result["validation"]["agreement"].get(figure)
    # Neither a hit nor a miss where the allocators do not differ: there was nothing to predict.
    known = [ends[end]["agrees"] for end in ("best", "worst") if ends[end]["agrees"] is not None] if ends else []
    return all(known) if known else None


def _number(value: float | None, scale: float = 1) -> str:
    """Of three digits."""
    return "" if value is None else f"{float(f'{value * scale:.3g}'):g}"


def _tenths(value: float | None, scale: float) -> str:
    return "" if value is None else f"{value * scale:.1f}"


def _remarks(validation: Result) -> str:
    problems = [f"under {item['name']} not measured: {item['problem']}" for item in validation["allocators"] if item["problem"]]
    return "; ".join([*problems, *validation["warnings"]])


def tables_of(results: list[Result], programs: dict[str, dict[str, Any]]) -> Tables:
    """All figures, by file."""
    rows: Tables = {file: [] for file in FILES}
    for result in results:
        name, validation = result["name"], result["validation"]
        recorded, curve = validation["recorded"], validation["curve"]
        rows["programs.csv"].append({
            "program": name, "what": programs[name]["does"], "calls": str(recorded["calls"]), "threads": str(recorded["threads"]),
            "lasts_s": _number(recorded["duration_ns"], 1e-9), "cpu_s": _number(recorded["cpu_ns"], 1e-9),
            "curve_percent": _tenths(curve and curve["difference"], 100),
            **{f"{figure}_ends_agree": {True: "yes", False: "no", None: ""}[ranks_agree(result, figure)] for figure in FIGURES},
            "rounds": str(validation["rounds"]), "remarks": _remarks(validation)})
        for item in measured(result):
            rows["memory.csv"].append({"program": name, "allocator": item["name"]} | {
                f"{figure}_{key}": cell for figure in FIGURES for key, cell in _memory(item["memory"][figure], figure).items()})
            if validation["server"]:
                rows["requests.csv"].append({"program": name, "allocator": item["name"]} | {
                    f"{key}_us": _number(item["latency"][f"{key}_ns"], 1e-3)
                    for key in ("request_p50", "request_p99", "malloc_p99", "free_p99")})
        for allocator, cpu in differences(result):
            rows["cpu.csv"].append({
                "program": name, "baseline_cpu_s": _number(baseline_ns(result), 1e-9), "allocator": allocator,
                **{f"{key}_ms": _tenths(cpu[f"{key}_ns"], 1e-6)
                   for key in ("predicted_difference", "real_difference", "real_low", "real_high")},
                "resolved": "yes" if cpu["resolved"] else "no",
                "predicted_over_real": f"{cpu['predicted_over_real']:.2f}" if cpu["resolved"] else ""})
    return {file: lines for file, lines in rows.items() if lines}


def _memory(of: dict[str, Any], figure: str) -> dict[str, str]:
    cells = {"predicted_mb": _number(of["predicted_bytes"], 1e-6), "real_mb": _number(of["real_bytes"], 1e-6),
             "error_percent": _tenths(of["error"], 100)}
    if figure == "peak":
        cells["own_percent"] = _number(of["own_bytes"] / of["predicted_bytes"], 100)
    return cells


def write_tables(rows: Tables, folder: Path) -> None:
    """Each into its file."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in rows.items():
        with (folder / file).open("w", newline="") as output:
            writer = csv.DictWriter(output, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


def read_tables(folder: Path) -> Tables:
    """What an earlier run has written."""
    found: Tables = {}
    for file in FILES:
        if (folder / file).exists():
            with (folder / file).open(newline="") as lines:
                found[file] = list(csv.DictReader(lines))
    return found
