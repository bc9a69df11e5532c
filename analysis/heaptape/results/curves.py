# SPDX-License-Identifier: Apache-2.0
"""Memory along the trace: one replayed curve per allocator, the recorded program's own beside them; and memory taken apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..trace.reader import Trace
from .comparison import MEASURES, is_control
from .reader import NULL_ALLOCATOR

CURVE_COLUMNS = ("time_ns", "event", "live_bytes", "rss_bytes", "high_bytes")

SPIKE_SHARE = 0.005
"""A rise within a call by a smaller share of the highest RSS is no spike of the drawn curve."""


def median_run(runs: pd.DataFrame, allocator: str) -> pd.Series | None:
    """The run of the memory pass whose peak is the median one (the lower of two), so that a curve is one real run and
    not an average that never happened. None without a run that has a timeline."""
    rows = runs[(runs["allocator"] == allocator) & (runs["pass"] == "memory") & (runs["failures"] == 0)]
    rows = rows[[_has_curve(value) for value in rows["timeline"]]]
    if rows.empty:
        return None
    ordered = rows.sort_values(MEASURES["rss_peak"].column, kind="stable")
    return ordered.iloc[(len(ordered) - 1) // 2]


def _has_curve(timeline: dict[str, object]) -> bool:
    time, rss = timeline.get("time_ns"), timeline.get("rss_bytes")
    return isinstance(time, list) and isinstance(rss, list) and len(time) == len(rss) > 0


def replayed_curve(run: pd.Series) -> pd.DataFrame:
    """time_ns, event, live_bytes, rss_bytes, high_bytes of one run, NaN in columns that it lacks; in order of time. high_bytes:
    the highest RSS since the point before, within calls too."""
    timeline = run["timeline"]
    length = len(timeline["time_ns"])
    curve = pd.DataFrame({
        name: timeline[name] if len(timeline.get(name) or []) == length else np.nan for name in CURVE_COLUMNS
    }).astype(float)
    return curve.sort_values("time_ns", kind="stable", ignore_index=True)


def with_spikes(curve: pd.DataFrame) -> pd.DataFrame:
    """To be drawn: where RSS within a call was above that of the points around it, three points of one time, the highest in the middle."""
    rss, high = curve["rss_bytes"].to_numpy(), curve["high_bytes"].to_numpy()
    spikes = np.flatnonzero(high - rss > SPIKE_SHARE * np.nanmax(high, initial=0.0))
    at = np.sort(np.concatenate([np.arange(len(curve)), spikes, spikes]))
    drawn = curve.iloc[at].reset_index(drop=True)
    middle = np.searchsorted(at, spikes) + 1
    drawn.loc[middle, "rss_bytes"] = high[spikes]
    return drawn


def replayed_curves(runs: pd.DataFrame, allocators: list[str]) -> dict[str, pd.DataFrame]:
    """Allocator → the curve of its median run with its spikes, in the order given."""
    curves = {}
    for name in allocators:
        run = median_run(runs, name)
        if run is not None:
            curves[name] = with_spikes(replayed_curve(run))
    return curves


def timeline(frame: pd.DataFrame, allocators: Sequence[str] | None = None) -> pd.DataFrame:
    """Memory along the trace as replayed: one row per point and allocator, the allocator's points in order of time.

    allocator; time_ns, trace time; event, how many events came before; live_bytes, asked for and not given back; rss_bytes,
    resident, less the replayer's own, at the peak the peak; high_bytes, the same at most since the point before, within calls
    too. Of each allocator the run whose peak is the median one. `frame` as `read_results` gives it; all its allocators, in file
    order, unless some are named; NaN where a run does not have a column."""
    names = list(allocators) if allocators is not None else [
        name for name in dict.fromkeys(frame["allocator"]) if name != NULL_ALLOCATOR]
    chosen = {name: median_run(frame[~is_control(frame)], name) for name in names}
    tables = [replayed_curve(run).assign(allocator=name)[["allocator", *CURVE_COLUMNS]] for name, run in chosen.items() if run is not None]
    if not tables:
        return pd.DataFrame({name: pd.Series(dtype=float if name in CURVE_COLUMNS else object)
                             for name in ("allocator", *CURVE_COLUMNS)})
    return pd.concat(tables, ignore_index=True)


def recorded_curves(trace: Trace) -> dict[str, pd.DataFrame]:
    """The recorded program: "recorded heap" (what malloc held) and "recorded whole" (all anonymous memory). Columns as in
    `replayed_curve`. Empty for a trace without samples, or with sizes that were rounded; without the former where it is not known."""
    samples = trace.samples
    if samples.empty or trace.context.get("shared", {}).get("size_bits"):
        return {}
    base = {"time_ns": samples["time_ns"], "event": samples["event"], "live_bytes": np.nan}
    columns = {"recorded heap": "heap_rss_bytes"} if trace.heap_is_known else {}
    columns["recorded whole"] = "rss_anon_bytes"
    return {name: pd.DataFrame(base | {"rss_bytes": samples[column]}).astype(float) for name, column in columns.items()}


def thin(time: NDArray[np.float64], value: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """Rows to draw: of each of `buckets` equal stretches of time the first, least, greatest and last value, so that no
    peak or dip is lost whatever the resolution. Sorted row numbers; time must ascend."""
    if time.size <= 4 * buckets:
        return np.arange(time.size, dtype=np.int64)
    span = max(float(time[-1] - time[0]), 1.0)
    bucket = np.minimum((time - time[0]) / span * buckets, buckets - 1).astype(np.int64)
    order = np.lexsort((value, bucket))
    first = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    last = np.append(first[1:], time.size) - 1
    return np.unique(np.concatenate([order[first], order[last], first, last]))


# ---- memory taken apart ----

FIGURES = ("f1", "f2", "f3", "f4")
PARTS = ("rss", "requested", "internal", "untouched", "other")
MOMENTS = ("peak", "end")


def fragmentation(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per allocator of the memory pass, in file order; `frame` as `read_results` gives it.

    allocator; f1 to f4, the ratios of Johnstone and Wilson (docs/method/method.md), medians over the rounds; and in
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
