"""Comparisons as plain text and as JSON, for the terminal and for scripts."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import pandas as pd

from .comparison import (
    BASELINE,
    MEASURES,
    SEED,
    Estimate,
    Experiment,
    choose_baseline,
    compare,
    control_estimate,
)
from .missing import missing_lines
from .units import figure, interval
from .verdicts import headline, in_words


def comparison_text(experiment: Experiment, baseline: str | None, seed: int = SEED) -> str:
    """The table of verdicts of one experiment, one block per measure, and the answer below."""
    base = choose_baseline(experiment.runs, baseline)
    comparison = compare(experiment.all_runs, base, seed)
    title = experiment.trace_path or experiment.trace_sha256 or "trace"
    settings = "".join(f", {name} {value}" for name, value in experiment.settings.items())
    lines = [f"{title}{settings}; bootstrap seed {seed}"]
    for measure in MEASURES.values():
        rows = comparison[comparison["measure"] == measure.name]
        if not rows.empty:
            cells = [[measure.title, "", "min", f"vs {base}", "", "rounds", "verdict"]]
            cells += [_cells(row) for _, row in rows.iterrows()]
            lines += ["", *_aligned(cells)]
            lines += _control_line(control_estimate(experiment.all_runs, measure, seed))
    gaps = missing_lines(experiment.runs)
    lines += ["", *gaps] if gaps else []
    return "\n".join([*lines, "", headline(experiment.all_runs, comparison, base, seed)])


def _control_line(control: Estimate | None) -> list[str]:
    if control is None or not math.isfinite(control.ratio):
        return []
    return [f"A/A control {control.ratio:.2f} {interval(control.ci_low, control.ci_high)}".rstrip()]


def _cells(row: pd.Series) -> list[str]:
    is_baseline = row["verdict"] == BASELINE
    ratio = "1.00" if is_baseline else f"{row['ratio']:.2f}" if math.isfinite(row["ratio"]) else "n/a"
    bounds = "" if is_baseline else interval(row["ci_low"], row["ci_high"])
    least = figure(row["minimum"], row["unit"])
    return [row["allocator"], figure(row["value"], row["unit"]), least, ratio, bounds, str(row["rounds"]), in_words(row)]


def _aligned(cells: list[list[str]]) -> list[str]:
    """Columns padded to their widest cell; names, intervals and verdicts to the left, figures to the right."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    right = {1, 2, 3, 5}
    return [
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in cells
    ]


def comparison_object(experiment: Experiment, baseline: str | None, seed: int = SEED) -> dict[str, Any]:
    """One experiment as JSON values; figures that are not known are null."""
    base = choose_baseline(experiment.runs, baseline)
    comparison = compare(experiment.all_runs, base, seed)
    return {
        "trace": {"path": experiment.trace_path, "sha256": experiment.trace_sha256},
        "settings": experiment.settings,
        "baseline": base,
        "bootstrap_seed": seed,
        "headline": headline(experiment.all_runs, comparison, base, seed),
        "controls": {
            name: _nulls(asdict(control)) for name, measure in MEASURES.items()
            if (control := control_estimate(experiment.all_runs, measure, seed)) is not None
        },
        "missing": missing_lines(experiment.runs),
        "comparisons": [_nulls(row) for row in comparison.drop(columns="baseline").to_dict("records")],
    }


def _nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
