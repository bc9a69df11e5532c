# SPDX-License-Identifier: Apache-2.0
"""Medians over the rounds of the figures beside time and RSS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .intervals import median
from .model import Cell, Comparison, Json, known

PROCESSOR_EVENTS = ("instructions", "cycles", "cache_misses", "llc_load_misses", "dtlb_load_misses", "branch_misses")
PERF_EVENTS = (*PROCESSOR_EVENTS, "context_switches", "cpu_migrations")
LEFTOVERS = ("rss_after_free_bytes", "rss_after_purge_bytes", "lazyfree_bytes", "lazyfree_peak_bytes", "anon_huge_bytes",
             "anon_huge_peak_bytes", "swap_bytes", "swap_peak_bytes")


@dataclass(frozen=True)
class Beside:
    """NaN where no round measured it. perf, leftovers: by PERF_EVENTS and LEFTOVERS; user_only: the processor's counters leave
    out what the kernel did; perf_missing: why these cannot be had, in words; processors_asked: in any round. decomposition: the
    "peak" and the "end" of results, each of one run, so that its parts add up; None: none was taken apart. What is left after
    freeing and after a purge is a median of leftovers."""

    perf: dict[str, float]
    user_only: bool
    perf_missing: str | None
    voluntary_switches: float
    involuntary_switches: float
    leftovers: dict[str, float]
    harness_share: float
    arenas: float
    arenas_max: float
    processors_asked: bool
    decomposition: Json | None


def beside_medians(comparison: Comparison, choice: int) -> Beside:
    cells = [row[1 + choice] for row in comparison.measurements.rounds]
    counted: list[Json] = [cell.time["perf"] for cell in cells if cell.time and cell.time["perf"]]
    exact = [cell.time["perf"] | cell.exact_time.get("perf", {}) for cell in cells if cell.time and cell.time["perf"]]
    return Beside(
        perf={name: _median([known(perf[name]) for perf in exact]) for name in PERF_EVENTS},
        user_only=any(perf["scope"] == "user" for perf in counted),
        perf_missing=counted[-1]["missing"] if counted else None,
        voluntary_switches=_median_of(cells, "voluntary_switches", of_time=True),
        involuntary_switches=_median_of(cells, "involuntary_switches", of_time=True),
        leftovers={name: _median_of(cells, name, of_time=False) for name in LEFTOVERS},
        harness_share=_median([_harness_share(cell) for cell in cells]),
        arenas=_median_of(cells, "arenas", of_time=False),
        arenas_max=_median_of(cells, "arenas_max", of_time=False),
        processors_asked=any(cell.figure("processors_asked", of_time=False) for cell in cells),
        decomposition=_decomposition(cells))


def _median(values: Sequence[float]) -> float:
    """The median of those that are known."""
    return median(value for value in values if not math.isnan(value))


def _median_of(cells: Sequence[Cell], key: str, *, of_time: bool) -> float:
    return _median([cell.value(key, of_time=of_time) for cell in cells])


def _harness_share(cell: Cell) -> float:
    """The null replayer's time as a share of all that was measured. NaN of nothing."""
    harness_ns = cell.value("harness_time_ns", of_time=True)
    all_ns = harness_ns + cell.value("alloc_time_ns", of_time=True)
    return harness_ns / all_ns if all_ns > 0 else math.nan


def _decomposition(cells: Sequence[Cell]) -> Json | None:
    taken: list[Json] = [parts for cell in cells if (parts := cell.figure("decomposition", of_time=False))]
    if not taken:
        return None
    return {moment: _middle_run([parts[moment] for parts in taken]) for moment in ("peak", "end")}


def _middle_run(parts: Sequence[Json]) -> Json:
    """The last whose RSS is the median, the lower of the two in the middle."""
    middle = sorted(part["rss_bytes"] for part in parts)[(len(parts) - 1) // 2]
    return next(part for part in reversed(parts) if part["rss_bytes"] == middle)
