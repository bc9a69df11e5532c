# SPDX-License-Identifier: Apache-2.0
"""What opens a report on several traces: each trace's ratios in one table, and their geometric means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.units import interval
from ..results.comparison import MEASURES, SEED, Floats, paired_ratios, round_table
from ..results.geometric_mean import INTERVAL_MEANS, geometric_mean
from ..results.summary import Summary

_MEASURES = ("time", "rss_peak")
_WORDS = {"time": "Time in malloc", "rss_peak": "Peak RSS"}


@dataclass(frozen=True)
class OverviewTable:
    """Of one measure. rows: number of the experiment in the report, its name, a cell for each allocator; mean: such cells, empty
    where traces lack an allocator."""

    title: str
    allocators: list[str]
    rows: list[tuple[int, str, list[str]]]
    mean: list[str]
    note: str


def overview(summaries: Sequence[Summary], seed: int = SEED) -> list[OverviewTable]:
    """Empty for one experiment alone, and where baselines differ: their ratios do not compare."""
    if len(summaries) < 2 or len({summary.baseline for summary in summaries}) > 1:
        return []
    names = experiment_names(summaries)
    tables = [_table(summaries, names, measure, seed) for measure in _MEASURES]
    return [table for table in tables if table.allocators]


def experiment_names(summaries: Sequence[Summary]) -> list[str]:
    """The trace's file, with its folder where files have one name, and how it was replayed where that differs."""
    paths = [Path(summary.experiment.trace_path) for summary in summaries]
    several = {path.name for path in paths if len({other for other in paths if other.name == path.name}) > 1}
    settings = [summary.experiment.settings for summary in summaries]
    differ = [name for name in dict.fromkeys(key for one in settings for key in one) if len({one.get(name) for one in settings}) > 1]
    return [", ".join([str(Path(*path.parts[-2:])) if path.name in several else path.name or "a trace",
                       *(f"{name} {one.get(name, 'as usual')}" for name in differ)])
            for path, one in zip(paths, settings, strict=True)]


def ratios_of(summary: Summary, measure: str) -> dict[str, Floats]:
    """Of each round, by allocator."""
    table = round_table(summary.experiment.runs, MEASURES[measure])
    if summary.baseline not in table:
        return {}
    return {str(name): paired_ratios(table[name], table[summary.baseline]) for name in table if name != summary.baseline}


def _table(summaries: Sequence[Summary], names: list[str], measure: str, seed: int) -> OverviewTable:
    cells: list[dict[str, str]] = []
    for summary in summaries:
        rows = summary.comparison[(summary.comparison["measure"] == measure) & (summary.comparison["allocator"] != summary.baseline)]
        cells.append({str(row["allocator"]): f"{row['ratio']:.2f} {str(row['verdict']).partition(' ')[0]}" for _, row in rows.iterrows()
                      if math.isfinite(row["ratio"])})
    ratios = [ratios_of(summary, measure) for summary in summaries]
    allocators = list(dict.fromkeys(name for one in cells for name in one))
    # Not a number where a trace has no ratio: a mean of the others is another one.
    found = {name: geometric_mean([one[name] for one in ratios], seed) for name in allocators if all(name in one for one in ratios)}
    means = {name: mean for name, mean in found.items() if math.isfinite(mean[0])}
    allocators.sort(key=lambda name: means.get(name, (math.inf,))[0])
    return OverviewTable(
        title=f"{_WORDS[measure]} against {summaries[0].baseline}",
        allocators=allocators,
        rows=[(number, name, [one.get(allocator, "") for allocator in allocators]) for number, (name, one) in enumerate(zip(names, cells, strict=True), 1)],
        mean=[_mean_text(means.get(name)) for name in allocators] if means else [],
        note=f"{INTERVAL_MEANS}." if any(math.isfinite(low) for _, low, _ in means.values()) else "",
    )


def _mean_text(mean: tuple[float, float, float] | None) -> str:
    return "" if mean is None else f"{mean[0]:.2f} {interval(*mean[1:])}".rstrip()
