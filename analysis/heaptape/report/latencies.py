"""How long single calls take: percentiles of each function, one curve per allocator."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..base.units import count, nanoseconds, three_digits
from .figures import Figure, Table
from .svg import Drawing, shorten, spread_labels, text_width

PERCENTILES = {"p50": "50 %", "p90": "90 %", "p99": "99 %", "p999": "99.9 %", "max": "longest"}
READINGS_MIN = {"p99": 100, "p999": 1_000}
"""With fewer readings the percentile is little else than the longest of them."""

FUNCTIONS_SHOWN = 4


def latency_table(runs: pd.DataFrame, allocators: list[str]) -> pd.DataFrame:
    """One row per function and allocator: function, allocator, readings (sum over the rounds), p50 to p999 and max, in ns,
    each the median over the rounds, NaN where there were too few readings. Functions with most readings come first."""
    timed = runs[(runs["pass"] == "time") & (runs["failures"] == 0)]
    rows = []
    for name in allocators:
        for latencies in timed.loc[timed["allocator"] == name, "latency_ns"]:
            for function, entry in latencies.items():
                if isinstance(entry, dict):
                    rows.append({"function": function, "allocator": name, "readings": entry.get("count")}
                                | {key: entry.get(key) for key in PERCENTILES})
    if not rows:
        return pd.DataFrame(columns=["function", "allocator", "readings", *PERCENTILES])
    table = pd.DataFrame(rows)
    table[["readings", *PERCENTILES]] = table[["readings", *PERCENTILES]].apply(pd.to_numeric, errors="coerce")
    groups = table.groupby(["function", "allocator"], sort=False)
    result = groups[list(PERCENTILES)].median()
    result.insert(0, "readings", groups["readings"].sum())
    result = result.reset_index()
    for key, least in READINGS_MIN.items():
        result.loc[result["readings"] < least, key] = math.nan
    weight = result.groupby("function")["readings"].transform("max")
    place = result["allocator"].map({name: number for number, name in enumerate(allocators)})
    ordered = result.assign(weight=weight, place=place).sort_values(
        ["weight", "function", "place"], ascending=[False, True, True], kind="stable", ignore_index=True)
    return ordered.drop(columns=["weight", "place"])


def latency_figures(runs: pd.DataFrame, allocators: list[str], classes: dict[str, str]) -> list[Figure]:
    """One for each of the functions that were called most."""
    table = latency_table(runs, allocators)
    made = []
    for function in list(dict.fromkeys(table["function"]))[:FUNCTIONS_SHOWN]:
        rows = table[table["function"] == function]
        cells = Table(["allocator", "readings", *PERCENTILES.values()], [
            [row["allocator"], count(row["readings"]), *(nanoseconds(row[key]) for key in PERCENTILES)]
            for _, row in rows.iterrows()])
        drawing = _draw(rows, function, classes)
        if drawing is not None:
            made.append(Figure(str(function), "Of the calls, this share took no longer; medians over the rounds, less the cost of reading the clock.",
                               drawing.markup(), "", cells, []))
    return made


_WIDTH, _HEIGHT = 440, 300


def _draw(rows: pd.DataFrame, function: str, classes: dict[str, str]) -> Drawing | None:
    values = rows[list(PERCENTILES)].to_numpy(dtype=float)
    shown = values[np.isfinite(values)]
    if not shown.size:
        return None
    # What is faster than the clock can tell lies on the floor of the figure.
    low = 10 ** math.floor(math.log10(max(float(shown.min()), 1.0)))
    high = 10 ** math.ceil(math.log10(max(float(shown.max()), 10.0 * low)))
    drawing = Drawing(_WIDTH, _HEIGHT, f"Latency of {function}: percentiles, one curve per allocator")
    names = [shorten(str(name), 16) for name in rows["allocator"]]
    left, right, top, bottom = 56.0, _WIDTH - text_width(names, 13) - 20, 14.0, _HEIGHT - 34.0

    def y_of(value: float) -> float:
        return bottom - math.log10(max(value, low) / low) / math.log10(high / low) * (bottom - top)

    places = np.linspace(left + 14, right - 4, len(PERCENTILES))
    tick = float(low)
    while tick <= high * 1.001:
        drawing.line(left, y_of(tick), right, y_of(tick), "axis" if tick == low else "grid")
        drawing.text(left - 8, y_of(tick) + 4.5, _short(tick), "tick", "end")
        tick *= 10
    for x, words in zip(places, PERCENTILES.values(), strict=True):
        drawing.text(x, bottom + 20, words, "tick", "middle")
    ends = []
    for (_, row), curve in zip(rows.iterrows(), values, strict=True):
        known = np.isfinite(curve)
        heights = np.array([y_of(value) for value in curve[known]])
        css = classes[row["allocator"]]
        for part in np.split(np.flatnonzero(known), np.flatnonzero(np.diff(np.flatnonzero(known)) > 1) + 1):
            drawing.path(places[part], np.array([y_of(value) for value in curve[part]]), f"curve {css}")
        for key, x, y, value in zip(np.array(list(PERCENTILES.values()))[known], places[known], heights, curve[known], strict=True):
            drawing.dot(x, y, 3, f"point {css}", f"{row['allocator']}, {key}: {nanoseconds(value)}")
        ends.append(float(heights[-1]) if heights.size else bottom)
    for height, wanted, name, allocator in zip(
            spread_labels(ends, 16, top, bottom), ends, names, rows["allocator"], strict=True):
        drawing.line(right, wanted, right + 8, height, f"leader {classes[allocator]}")
        drawing.text(right + 11, height + 4.5, name, f"label {classes[allocator]}")
    return drawing


def _short(value: float) -> str:
    step, unit = next((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (0.0, "ns")) if value >= s)
    return f"{value / (step or 1):g} {unit}" if value / (step or 1) >= 1 else f"{three_digits(value)} {unit}"
