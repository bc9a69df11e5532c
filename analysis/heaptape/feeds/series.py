# SPDX-License-Identifier: Apache-2.0
"""A name for each allocator of each experiment and its figures with their intervals, and the feeds in JSON that are made of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..results.comparison import (
    BASELINE,
    MEASURES,
    Experiment,
    Floats,
    Measure,
    estimate_difference,
    round_table,
)
from ..results.summary import Summary


@dataclass(frozen=True)
class Figure:
    """A measure of one allocator: its values by round, their median and its 95 % interval; and the ratio to the baseline with the
    interval that verdicts go by. NaN where it is not known; of the baseline the ratio is not."""

    allocator: str
    baseline: str
    measure: Measure
    values: Floats
    middle: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    verdict: str


_USUAL = {"threads": "trace", "touch": "recorded"}


def _title(experiment: Experiment) -> str:
    settings = [f", {key} {value}" for key, value in experiment.settings.items() if _USUAL.get(key) != value]
    return (PurePath(experiment.trace_path).name or experiment.trace_sha256[:12] or "trace") + "".join(settings)


def titles(summaries: Sequence[Summary]) -> list[str]:
    """A title for each experiment that stays the same from run to run, wherever the trace is: its file's name, and what was unusual in
    its replay. Where several have the same, the path or checksum, too."""
    short = [_title(summary.experiment) for summary in summaries]
    times = Counter(short)
    return [name if times[name] == 1 else summary.title for name, summary in zip(short, summaries, strict=True)]


def figures(summary: Summary) -> Iterator[Figure]:
    """In the order of the comparison: by measure, the baseline first."""
    tables = {name: round_table(summary.experiment.runs, measure) for name, measure in MEASURES.items()}
    for row in summary.comparison.itertuples():
        values = tables[row.measure][row.allocator].dropna().to_numpy()
        own = estimate_difference(values, summary.seed)
        compared = row.verdict != BASELINE
        ratio, low, high = (float(value) if compared else math.nan for value in (row.ratio, row.verdict_low, row.verdict_high))
        yield Figure(str(row.allocator), str(row.baseline), MEASURES[row.measure], values, own.middle, own.ci_low, own.ci_high, ratio, low, high,
                     str(row.verdict))


def _named(summaries: Sequence[Summary]) -> list[tuple[str, Figure]]:
    return [(title, figure) for title, summary in zip(titles(summaries), summaries, strict=True) for figure in figures(summary)]


def _metric(middle: float, low: float, high: float) -> dict[str, float]:
    bounds = {"lower_value": low, "upper_value": high} if math.isfinite(low) and math.isfinite(high) else {}
    return {"value": middle} | bounds


def to_bencher(summaries: Sequence[Summary]) -> bytes:
    """Bencher Metric Format: a benchmark for each trace and allocator, a measure for each figure and its ratio to the baseline."""
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for title, figure in _named(summaries):
        measures = benchmarks.setdefault(f"{title} {figure.allocator}", {})
        name = figure.measure.name.replace("_", "-")
        measures[name] = _metric(figure.middle, figure.low, figure.high)
        if math.isfinite(figure.ratio):
            measures[f"{name}-ratio"] = _metric(figure.ratio, figure.ratio_low, figure.ratio_high)
    return _dumped(benchmarks)


def to_github_action(summaries: Sequence[Summary]) -> bytes:
    """What github-action-benchmark takes as customSmallerIsBetter."""
    entries: list[dict[str, Any]] = []
    for title, figure in _named(summaries):
        entry: dict[str, Any] = {"name": f"{title} {figure.allocator}: {figure.measure.title}", "unit": figure.measure.unit, "value": figure.middle}
        if math.isfinite(figure.low):
            entry["range"] = f"95 %: {figure.low:.0f} to {figure.high:.0f}"
        if math.isfinite(figure.ratio_low):
            entry["extra"] = f"{figure.ratio:.3f} [{figure.ratio_low:.3f}, {figure.ratio_high:.3f}] of {figure.baseline}: {figure.verdict}"
        entries.append(entry)
    return _dumped(entries)


def to_hyperfine(summaries: Sequence[Summary]) -> bytes:
    """hyperfine's JSON: time in malloc, in seconds, of each round. What it has of user and system time is not measured here."""
    results = []
    for title, figure in _named(summaries):
        if figure.measure is not MEASURES["time"]:
            continue
        times = figure.values / 1e9
        results.append({
            "command": f"{title} {figure.allocator}", "mean": float(times.mean()), "stddev": float(times.std(ddof=1)) if times.size > 1 else None,
            "median": float(np.median(times)), "min": float(times.min()), "max": float(times.max()), "times": times.tolist(),
            "exit_codes": [0] * int(times.size), "parameters": {"trace": title, "allocator": figure.allocator}})
    if not results:
        raise UsageError("--to hyperfine: expected runs of the time pass, found none")
    return _dumped({"results": results})


def _dumped(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
