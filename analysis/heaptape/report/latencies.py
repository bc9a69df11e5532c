# SPDX-License-Identifier: Apache-2.0
"""How long single calls take: percentiles of each function, one curve per allocator."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..base.units import count, listing, nanoseconds
from .figures import Figure, Table
from .svg import Drawing, curve, framed, share

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
        if drawing:
            made.append(Figure(str(function), "", drawing, cells))
    return made


_HEIGHT_PX = 220


def _draw(rows: pd.DataFrame, function: str, classes: dict[str, str]) -> str:
    """Percentiles on a logarithmic axis, or "" where none is known."""
    values = rows[list(PERCENTILES)].to_numpy(dtype=float)
    shown = values[np.isfinite(values)]
    if not shown.size:
        return ""
    # Times below the resolution of the clock are drawn at the lowest line.
    low = 10 ** math.floor(math.log10(max(float(shown.min()), 1.0)))
    high = 10 ** math.ceil(math.log10(max(float(shown.max()), 10.0 * low)))
    decades = round(math.log10(high / low))
    places = np.linspace(0.06, 0.94, len(PERCENTILES))
    heights = np.log10(np.maximum(values, low) / low) / decades
    drawing = Drawing(None, _HEIGHT_PX, f"Latency of {function} under {listing([str(name) for name in rows['allocator']])}: percentiles, as in the table.")
    curves, dots = [], []
    for name, times, line in zip(rows["allocator"], values, heights, strict=True):
        known = np.flatnonzero(np.isfinite(times))
        curves += [curve(places[part], line[part], classes[name]) for part in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)]
        dots += [(place, share(1 - line[place]), name, times[place]) for place in known]
    drawing.plot(curves)
    for place, y, name, time in dots:
        drawing.dot(share(places[place]), y, 3.5, f"point {classes[name]}", f"{name}, {list(PERCENTILES.values())[place]}: {nanoseconds(time)}")
    up = [(decade / decades, nanoseconds(low * 10.0**decade).replace(".00", "").replace(".0", "")) for decade in range(decades + 1)]
    return framed(drawing, up, list(zip(places.tolist(), PERCENTILES.values(), strict=True)))
