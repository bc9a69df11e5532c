# SPDX-License-Identifier: Apache-2.0
"""What resident memory is made of, and how much more of it there is than the program asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from .comparison import MEASURES, is_control
from .curves import median_run, replayed_curve
from .reader import NULL_ALLOCATOR

FIGURES = ("f1", "f2", "f3", "f4")
PARTS = ("rss", "requested", "internal", "untouched", "other")
MOMENTS = ("peak", "end")


def fragmentation(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per allocator of the memory pass, in file order; `frame` as `read_results` gives it.

    allocator; f1 to f4, the ratios of Johnstone and Wilson (docs/method/figures.md), medians over the rounds; and in
    bytes, of the run whose peak is the median one, so that they add up: peak_rss_bytes, peak_requested_bytes (asked for by
    what is live), peak_internal_bytes (usable beyond that), peak_untouched_bytes (of both: never written to, so not
    resident), peak_other_bytes (caches, gaps, tables: the rest), the same with end_, after_free_bytes and
    after_purge_bytes (RSS once everything was freed, and was asked to be given back). NaN where not known.

        rss = requested + internal - untouched + other, without internal or untouched where that is not known
    """
    runs = frame[(frame["pass"] == "memory") & (frame["allocator"] != NULL_ALLOCATOR) & (frame["failures"] == 0)]
    runs = runs[~is_control(runs)]
    rows = [_row(runs, str(name)) for name in dict.fromkeys(runs["allocator"])]
    parts = [f"{moment}_{part}_bytes" for moment in MOMENTS for part in PARTS]
    return pd.DataFrame(rows, columns=["allocator", *FIGURES, *parts, "after_free_bytes", "after_purge_bytes"])


def _row(runs: pd.DataFrame, name: str) -> dict[str, Any]:
    own = runs[runs["allocator"] == name]
    row: dict[str, Any] = {"allocator": name}
    row |= {key: float(own[f"fragmentation_{key}"].median()) for key in FIGURES}
    run = _median_of(own, name)
    by_moment: dict[str, Any] = run["decomposition"]
    for moment in MOMENTS:
        parts = by_moment.get(moment)
        values = _reported(parts) if isinstance(parts, dict) else _derived(run, moment, own)
        row |= {f"{moment}_{part}_bytes": value for part, value in values.items()}
    for key in ("after_free", "after_purge"):
        row[f"{key}_bytes"] = float(run[f"rss_{key}_bytes"])
    return row


def _median_of(own: pd.DataFrame, name: str) -> pd.Series:
    """The run that the curve is drawn of, or, where there are no curves, that of the median peak all the same."""
    run = median_run(own, name)
    if run is not None:
        return run
    ordered = own.sort_values(MEASURES["rss_peak"].column, kind="stable")
    return ordered.iloc[(len(ordered) - 1) // 2]


def _reported(parts: dict[str, Any]) -> dict[str, float]:
    return {part: _number(parts.get(f"{part}_bytes")) for part in PARTS}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _derived(run: pd.Series, moment: str, own: pd.DataFrame) -> dict[str, float]:
    """For results without a decomposition: live bytes from the curve, slop from a run that has it."""
    has_curve = bool(run["timeline"].get("rss_bytes")) and bool(run["timeline"].get("time_ns"))
    curve = replayed_curve(run) if has_curve else pd.DataFrame({"rss_bytes": [], "live_bytes": []})
    requested, rss = math.nan, float(run[f"rss_{moment}_bytes"])
    if len(curve) and curve["rss_bytes"].notna().any():
        at = int(np.nanargmax(curve["rss_bytes"].to_numpy())) if moment == "peak" else len(curve) - 1
        requested = float(curve["live_bytes"].iloc[at])
    internal = float(own["slop_bytes" if moment == "peak" else "slop_end_bytes"].median())
    other = rss - requested - (internal if math.isfinite(internal) else 0.0)
    return {"rss": rss, "requested": requested, "internal": internal, "untouched": math.nan, "other": other}
