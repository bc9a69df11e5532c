"""What `heaptape try` prints: the answer in two sentences, a table, and the lines that put it to use."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ..base.units import decimal, figure, interval
from ..results.comparison import BASELINE, MEASURES, UNRESOLVED
from ..results.standing import standing_of
from ..results.summary import Summary

ROWS_MAX = 7
_SHOWN = ("time", "rss_peak")


def leaders(summary: Summary) -> list[str]:
    """Who is shown to be faster, then who is shown to be smaller than the baseline; none where nobody is."""
    found = [standing_of(summary.experiment.all_runs, summary.comparison, MEASURES[name], summary.seed).leader for name in _SHOWN]
    return [name for name in dict.fromkeys(found) if name is not None and name != summary.baseline]


def table(summary: Summary) -> list[str]:
    """At most eight lines: names, then an allocator on each, the baseline first; of more than seven the first ones."""
    versions = _versions(summary.experiment.runs)
    names = list(dict.fromkeys(summary.comparison["allocator"]))[:ROWS_MAX]
    cells = [["allocator", *(cell for name in _SHOWN for cell in (MEASURES[name].title, f"vs {summary.baseline}"))]]
    rows = summary.comparison.set_index(["measure", "allocator"])
    for name in names:
        line = [f"{name} {versions.get(name, '')}".rstrip()]
        for measure in _SHOWN:
            line += _cells(rows.loc[(measure, name)]) if (measure, name) in rows.index else ["n/a", ""]
        cells.append(line)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return ["  ".join(cell.rjust(width) if i in (1, 3) else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in cells]


def _cells(row: pd.Series) -> list[str]:
    value, ratio = float(row["value"]), float(row["ratio"])
    shown = figure(value, row["unit"]) if math.isfinite(value) else "n/a"
    if row["verdict"] == BASELINE:
        return [shown, "1"]
    if not math.isfinite(ratio):
        return [shown, "n/a"]
    verdict = f" {UNRESOLVED}" if row["verdict"] == UNRESOLVED else ""
    return [shown, f"{decimal(ratio)} {interval(row['ci_low'], row['ci_high'])}".rstrip() + verdict]


def _versions(runs: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(group["allocator_version"].iloc[0]) for name, group in runs.groupby("allocator")} \
        if "allocator_version" in runs else {}


def variables_of(runs: pd.DataFrame, name: str) -> list[str]:
    """NAME=value: what an allocator had besides being preloaded."""
    found: Any = runs[runs["allocator"] == name].get("allocator_environment", pd.Series(dtype=object))
    return [str(item) for item in found.iloc[0]] if len(found) and isinstance(found.iloc[0], list) else []
