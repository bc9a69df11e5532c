# SPDX-License-Identifier: Apache-2.0
"""What all programs together say of the predictions: errors, signs, ranks. Of the rows of the tables (tables.py) and of the counts."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

NORMAL_95 = 1.96
Row = dict[str, str]
Tables = dict[str, list[Row]]
"""By file name, what is in it."""

Counted = dict[str, Any]
"""A program's line of counts.jsonl."""


@dataclass(frozen=True)
class Spread:
    """Errors of many pairs of program and allocator: as shares of the real figure, without sign."""

    median: float
    high: float  # the 90th percentile
    most: float
    whose: str
    count: int


def spread(errors: list[tuple[float, str]]) -> Spread | None:
    """Of errors and whose they are."""
    if not errors:
        return None
    values = sorted(error for error, _ in errors)
    high = statistics.quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
    most, whose = max(errors)
    return Spread(statistics.median(values), high, most, whose, len(values))


def memory_errors(tables: Tables, figure: str) -> Spread | None:
    """`figure` is peak or mean."""
    return spread([(abs(float(error)) / 100, f"{row['program']} under {row['allocator']}") for row in tables.get("memory.csv", [])
                   if (error := row[f"{figure}_error_percent"])])


def ends_agree(tables: Tables, figure: str) -> tuple[int, int]:
    """Programs whose least and most agree, of so many that have them."""
    known = [row[f"{figure}_ends_agree"] for row in tables["programs.csv"] if row[f"{figure}_ends_agree"]]
    return known.count("yes"), len(known)


def resolved(tables: Tables) -> list[Row]:
    """The differences of CPU time that are shown to be there."""
    return [row for row in tables.get("cpu.csv", []) if row["resolved"] == "yes"]


def signs(rows: list[Row]) -> tuple[int, int]:
    """Differences of CPU time with the right sign, of so many."""
    return sum(float(row["predicted_difference_ms"]) * float(row["real_difference_ms"]) > 0 for row in rows), len(rows)


def savings_off(rows: list[Row]) -> float | None:
    """How far the predicted differences are from the real ones, median."""
    return statistics.median(abs(float(row["predicted_over_real"]) - 1) for row in rows) if rows else None


def savings_noise(rows: list[Row]) -> float | None:
    """What savings_off() would be of right predictions: errors of the real differences alone, drawn from their 95 % intervals."""
    if not rows:
        return None
    real, low, high = (np.array([float(row[f"real_{name}_ms"]) for row in rows]) for name in ("difference", "low", "high"))
    drawn = np.random.default_rng(20817).standard_normal((10_000, len(rows))) * (high - low) / 2 / NORMAL_95
    return float(np.median(np.median(np.abs(drawn / real), axis=1)))


def curves(tables: Tables) -> float | None:
    """The mean distance of curves, median of the programs."""
    known = [float(row["curve_percent"]) / 100 for row in tables["programs.csv"] if row["curve_percent"]]
    return statistics.median(known) if known else None


def count_pairs(counted: list[Counted]) -> list[tuple[Counted, dict[str, Any]]]:
    """Program and allocator, where both differences are known."""
    return [(result, item) for result in counted for item in result["allocators"] if item["instructions_error"] is not None]


def count_errors(counted: list[Counted]) -> Spread | None:
    """Of differences of instructions."""
    return spread([(item["instructions_error"], f"{result['name']} under {item['name']}") for result, item in count_pairs(counted)])


def malloc_error(item: dict[str, Any]) -> float | None:
    """How far the replayed difference is from that within the program's calls of malloc; None where there is none."""
    parts = item.get("count_differences") or {}
    real, replayed = (parts.get(name, {}).get("instructions") for name in ("allocator", "replayed"))
    return abs(replayed / real - 1) if real and replayed is not None else None


def malloc_errors(counted: list[Counted]) -> Spread | None:
    """Of differences of instructions within malloc."""
    return spread([(error, f"{result['name']} under {item['name']}") for result, item in count_pairs(counted)
                   if (error := malloc_error(item)) is not None])


def count_signs(counted: list[Counted]) -> tuple[int, int]:
    """Differences of instructions with the right sign, of so many."""
    pairs = [item for _, item in count_pairs(counted)]
    return sum(item["instructions_delta_real"] * item["instructions_delta_predicted"] > 0 for item in pairs), len(pairs)
