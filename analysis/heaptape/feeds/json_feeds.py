# SPDX-License-Identifier: Apache-2.0
"""Feeds that are JSON: of Bencher, github-action-benchmark and hyperfine. A figure that was not measured is in none of them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..results.comparison import MEASURES
from ..results.summary import Summary
from .series import Figure, figures, titles


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
