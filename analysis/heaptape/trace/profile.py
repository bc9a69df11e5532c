# SPDX-License-Identifier: Apache-2.0
"""Sizes and lifetimes of a trace's blocks and the curve of its live bytes, from `heaptape stats`, which counts ten times as fast as Python."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import HeaptapeError
from ..base.programs import ToolFailed, as_ours, run_tool


@dataclass(frozen=True)
class TraceProfile:
    """Each table has one row per class, classes being powers of two, those without any left out.

    sizes: to_bytes (the class's upper bound, included), requests (allocations and reallocs), bytes (asked for).
    lifetimes: to_events (upper bound), blocks (that ended), bytes (their last size). A lifetime is the number of events from
        the birth of a block to its end; a realloc goes on with it. live_at_end: blocks that never ended.
    live: time_ns and live_bytes at the peak and at the end of each stretch of time, without rows between two of the same value;
        so the peak of the whole is exact.
    """

    sizes: pd.DataFrame
    lifetimes: pd.DataFrame
    live_at_end: int
    live: pd.DataFrame


def trace_profile(heaptape: str, path: Path, points: int) -> TraceProfile:
    """points: how many rows the curve has at most. Raises HeaptapeError."""
    stats = _stats(heaptape, path, max(points // 2, 1))
    try:
        lifetimes = stats["lifetimes"]
        return TraceProfile(_table(stats["size_classes"], "bytes", "requests"), _table(lifetimes["ended"], "events", "blocks"),
                            int(lifetimes["live_at_end"]), _curve(stats["churn"], stats["duration_ns"]))
    except KeyError as error:
        raise HeaptapeError(f"{heaptape} stats --json: expected {error}; is it of another version?") from error


def _stats(heaptape: str, path: Path, points: int) -> dict[str, Any]:
    try:
        printed = run_tool([heaptape, "stats", "--json", "--points", str(points), "--", str(path)])
    except ToolFailed as error:
        if not error.printed:  # it is there, in spite of the status, if the trace was cut short
            raise as_ours(error) from error
        printed = error.printed
    found: dict[str, Any] = json.loads(printed)
    return found


def _table(classes: list[dict[str, Any]], unit: str, counted: str) -> pd.DataFrame:
    """The classes of stats, several to a power of two, added up."""
    sums: dict[int, list[float]] = {}
    for row in classes:
        if row[counted]:
            power = max(int(row[f"from_{unit}"]) - 1, 0).bit_length()  # all of a class lies below the same power
            sums[power] = [a + b for a, b in zip(sums.get(power, [0, 0]), (row[counted], row["bytes"]), strict=True)]
    rows = sorted(sums.items())
    return pd.DataFrame({f"to_{unit}": [2.0**power for power, _ in rows], counted: [count for _, (count, _) in rows],
                         "bytes": [float(size) for _, (_, size) in rows]})


def _curve(churn: dict[str, Any], duration_ns: int) -> pd.DataFrame:
    rows: list[tuple[int, int]] = []
    for point in churn["points"]:
        end_ns = min(point["time_ns"] + churn["step_ns"] - 1, duration_ns)
        rows += [(point["live_peak_time_ns"], point["live_peak_bytes"]), (end_ns, point["live_end_bytes"])]
    table = np.array(rows, dtype=np.int64).reshape(-1, 2)
    table = table[int(np.argmax(table[:, 1] > 0)):]  # from the first block on
    changes = np.diff(table[:, 1]) != 0
    table = table[np.append(True, changes) | np.append(changes, True)]
    return pd.DataFrame({"time_ns": table[:, 0], "live_bytes": table[:, 1]})
