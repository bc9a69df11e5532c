# SPDX-License-Identifier: Apache-2.0
"""The table that `heaptape try` prints."""

from __future__ import annotations

import math

import pandas as pd

from ..base.text_table import table_lines
from ..base.units import decimal, figure, interval
from ..results.as_set import shown_names
from ..results.comparison import BASELINE, MEASURES, UNRESOLVED
from ..results.summary import Summary

ROWS_MAX = 7
_SHOWN = ("time", "rss_peak")


def table(summary: Summary) -> list[str]:
    """At most eight lines: names, then an allocator on each, the baseline first; of more than seven the first ones."""
    versions, shown = _versions(summary.experiment.runs), shown_names(summary.experiment.runs)
    names = list(dict.fromkeys(summary.comparison["allocator"]))[:ROWS_MAX]
    cells = [["allocator", *(cell for name in _SHOWN for cell in (MEASURES[name].title, f"vs {summary.baseline}"))]]
    rows = summary.comparison.set_index(["measure", "allocator"])
    for name in names:
        line = [f"{shown.get(name, name)} {versions.get(name, '')}".rstrip()]
        for measure in _SHOWN:
            line += _cells(rows.loc[(measure, name)]) if (measure, name) in rows.index else ["n/a", ""]
        cells.append(line)
    return table_lines(cells, right=(1, 3))


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
