# SPDX-License-Identifier: Apache-2.0
"""Where an allocator's figures differ from the baseline's: instructions by function and size class, time by function, rounding and
memory; the largest differences first within each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.units import counted
from .comparison import MEASURES
from .counted import calls_by_class, counts_by_allocator
from .functions import function_table
from .reader import NULL_ALLOCATOR

INSTRUCTIONS, TIME, ROUNDING, MEMORY = "instructions", "time", "rounding", "RSS"
_SIZES_MAX = 8


@dataclass(frozen=True)
class Change:
    """One figure of both; `of` says of what, `unit` is "", "ns" or "bytes"."""

    figure: str
    of: str
    unit: str
    base: float
    value: float

    @property
    def size(self) -> float:
        return self.value - self.base


def differences(runs: pd.DataFrame, comparison: pd.DataFrame, baseline: str) -> list[Change]:
    """Old against new: empty but of two allocators that were counted."""
    counts = counts_by_allocator(runs)
    names = set(runs["allocator"]) - {NULL_ALLOCATOR}
    others = names - {baseline}
    if len(others) != 1 or not names <= counts.keys():
        return []
    (allocator,) = others
    classes = _classes(counts[baseline], counts[allocator])
    return [*classes, *_sorted(_times(runs, baseline, allocator)), *_rounding(runs, baseline, allocator), *_memory(comparison, baseline, allocator)]


def _sorted(changes: Iterable[Change]) -> list[Change]:
    return sorted((change for change in changes if change.size), key=lambda change: abs(change.size), reverse=True)


def _classes(base: dict[str, Any], other: dict[str, Any]) -> list[Change]:
    """The largest, and a line for all others; none where they are not known of both."""
    old, new = calls_by_class(base), calls_by_class(other)
    if old is None or new is None:
        return []
    changes = _sorted(Change(INSTRUCTIONS, f"{function}, {_sizes(function, low)}", "", old.get((function, low), 0.0), new.get((function, low), 0.0))
                      for function, low in dict.fromkeys([*old, *new]))
    shown, rest = changes[:_SIZES_MAX], changes[_SIZES_MAX:]
    if rest:
        shown.append(Change(INSTRUCTIONS, counted(len(rest), "more class"), "", sum(one.base for one in rest), sum(one.value for one in rest)))
    return shown


def _sizes(function: str, low: int) -> str:
    """Of the class, four of which make a power of two."""
    if low == 0:
        return "NULL or at most 1 byte" if function == "free" else "at most 1 byte"
    if low < 4:
        return f"{low} bytes"
    high = low + (1 << (low.bit_length() - 3)) - 1
    return f"{low} to {high} bytes" if high > low else f"{low} bytes"


def _times(runs: pd.DataFrame, baseline: str, allocator: str) -> list[Change]:
    old, new = (function_table(runs, name).set_index("function")["time_ns"] for name in (baseline, allocator))
    return [Change(TIME, str(name), "ns", float(old[name]), float(new[name])) for name in old.index if name in new.index
            and math.isfinite(old[name]) and math.isfinite(new[name])]


def _rounding(runs: pd.DataFrame, baseline: str, allocator: str) -> list[Change]:
    """At the peak of live bytes, of those that report usable sizes."""
    known: dict[str, float] = {}
    if "slop_bytes" in runs:
        measured = runs[runs["slop_bytes"].notna()]
        known = {str(name): float(value) for name, value in zip(measured["allocator"], measured["slop_bytes"], strict=True)}
    if baseline not in known or allocator not in known:
        return []
    return [Change(ROUNDING, "live blocks at the peak", "bytes", known[baseline], known[allocator])]


def _memory(comparison: pd.DataFrame, baseline: str, allocator: str) -> list[Change]:
    changes = []
    for name, measure in MEASURES.items():
        rows = comparison[comparison["measure"] == name].set_index("allocator")["value"]
        if measure.pass_name == "memory" and baseline in rows.index and allocator in rows.index:
            changes.append(Change(MEMORY, measure.title, "bytes", float(rows[baseline]), float(rows[allocator])))
    return _sorted(changes)
