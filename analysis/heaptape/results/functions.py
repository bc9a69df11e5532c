# SPDX-License-Identifier: Apache-2.0
"""Time by function, in the shape of `ltrace -c`."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

COLUMNS = ("share", "time_ns", "touch_ns", "ns_per_call", "calls", "function")


def function_table(runs: pd.DataFrame, allocator: str) -> pd.DataFrame:
    """One row per function, most expensive first: share (of the time in all of them), time_ns, touch_ns (the part of it
    that went into first touches of what the calls returned) and calls, as medians over the rounds, and ns_per_call. NaN
    where a run did not time its functions. Empty without runs of the time pass.

    The first touches count: page faults are a price of the allocator's choices, and the total includes them too."""
    chosen = runs[(runs["allocator"] == allocator) & (runs["pass"] == "time") & (runs["failures"] == 0)]
    rows = [
        {"function": name, "call_ns": _number(entry, "time_ns"), "touch_ns": _number(entry, "touch_ns"),
         "calls": _number(entry, "count")}
        for calls in chosen["calls"]
        for name, entry in calls.items()
    ]
    if not rows:
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.DataFrame(rows).groupby("function", sort=False, as_index=False).median()
    table = table[table["calls"] > 0]
    table["time_ns"] = table["call_ns"] + table["touch_ns"].fillna(0)
    # The harness is subtracted from each function apart, so a function with few calls may come out a little below 0.
    positive = table["time_ns"].clip(lower=0)
    table["share"] = positive / positive.sum() if positive.sum() > 0 else math.nan
    table["ns_per_call"] = table["time_ns"] / table["calls"]
    table = table.sort_values(["time_ns", "calls"], ascending=False, kind="stable", ignore_index=True)
    return table[list(COLUMNS)]


def _number(entry: Any, key: str) -> float:
    value = entry.get(key) if isinstance(entry, dict) else None
    return float(value) if isinstance(value, (int, float)) else math.nan
