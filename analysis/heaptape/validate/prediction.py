# SPDX-License-Identifier: Apache-2.0
"""What a replay predicts of the real program. Nothing here is fitted to any program.

Memory is what the recorded program had mapped for itself, as measured in the recording, plus what the allocator holds in
the replay, at each moment of the trace. CPU time is given as the difference between two allocators: what the program does
besides is in both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..results.comparison import Difference, Measure, estimate_saving, round_table
from ..trace.reader import Trace

Floats = NDArray[np.float64]

CPU_TERMS = ("alloc_time_ns", "background_cpu_ns")
"""The terms of CPU time in a row of the time pass: calls, with the first touch of what they return and the last of what they free, and the
allocator's own threads. A row that lacks one has none of it."""


def predicted_cpu_ns(row: Mapping[str, Any]) -> float:
    """The part of the program's CPU time that depends on the allocator, by one row of the time pass."""
    terms = [row.get(name) for name in CPU_TERMS]
    return float(sum(term for term in terms if term is not None and math.isfinite(term)))


def predicted_differences_ns(rows: pd.DataFrame, baseline: str, startup_ns: Mapping[str, float]) -> dict[str, Difference]:
    """By allocator: how much more than the baseline's, paired within rounds, with what starting a program costs more under it,
    and the interval that the rounds of the replay give it."""
    cpu = rows.assign(cpu_ns=[predicted_cpu_ns(row) for row in rows.to_dict("records")])
    table = round_table(cpu, Measure("cpu", "cpu_ns", "time", "ns", "", "", ""))
    if baseline not in table:
        return {}
    startup = {name: startup_ns.get(name, 0.0) - startup_ns.get(baseline, 0.0) for name in table}
    return {str(name): estimate_saving(table[name].to_numpy(), table[baseline].to_numpy(), startup[name]) for name in table}


@dataclass(frozen=True)
class Curve:
    """Bytes at points of trace time. Straight lines lie between them, and it goes on level at either end."""

    times_ns: Floats
    values: Floats

    def at(self, times_ns: Floats) -> Floats:
        """Interpolated."""
        if self.times_ns.size == 0:
            return np.zeros(times_ns.shape)
        return np.array(np.interp(times_ns, self.times_ns, self.values), dtype=np.float64)

    def mean(self, end_ns: float) -> float:
        """Over time, from 0 to the end."""
        inside = self.times_ns[(self.times_ns > 0) & (self.times_ns < end_ns)]
        times = np.concatenate([[0.0], inside, [float(end_ns)]])
        values = self.at(times)
        return float(np.sum((values[1:] + values[:-1]) / 2 * np.diff(times)) / end_ns) if end_ns > 0 else float(values[-1])


def _column(frame: pd.DataFrame, name: str) -> Floats:
    return np.asarray(frame[name], dtype=np.float64)


@dataclass(frozen=True)
class RecordedMemory:
    """The program's own memory, all of it, the end of the trace, and how long the program had been starting before it."""

    own: Curve
    total: Curve
    end_ns: float
    start_ns: float = 0.0


def recorded_memory(trace: Trace, duration_ns: float) -> RecordedMemory:
    """From the samples that the recording has of the process."""
    times = _column(trace.samples, "time_ns")
    end_ns = max(duration_ns, float(times[-1]) if times.size else 0.0)
    # What the first sample knows of CPU time beyond the trace's own was the loader's.
    start_ns = max(float(_column(trace.samples, "cpu_ns")[0] - times[0]), 0.0) if times.size else 0.0
    return RecordedMemory(Curve(times, _column(trace.samples, "own_rss_bytes")),
                          Curve(times, _column(trace.samples, "rss_anon_bytes")), end_ns, start_ns)


@dataclass(frozen=True)
class PredictedMemory:
    """Bytes of the whole process, and of the program's own part of it."""

    peak: float
    mean: float
    own_at_peak: float
    own_mean: float


def heap_curve(row: Mapping[str, Any]) -> Curve:
    """The allocator's memory along the trace, of a row of the memory pass."""
    timeline = row["timeline"]
    return Curve(np.asarray(timeline["time_ns"], dtype=float), np.asarray(timeline["rss_bytes"], dtype=float))


def predicted_memory(row: Mapping[str, Any], recorded: RecordedMemory, surplus_bytes: float = 0.0) -> PredictedMemory:
    """The memory that a row of the memory pass predicts. The peak is that of the sum, not the sum of peaks at different times. The mean begins with
    the program: while it starts its memory grows to what is its own at the first call. surplus_bytes: of the recorded
    memory, what only the recorder had."""
    heap = heap_curve(row)
    own = np.maximum(recorded.own.at(heap.times_ns) - surplus_bytes, 0.0)
    peak = int((heap.values + own).argmax())
    # The curve has a selection of the readings: of each stretch where the heap, not the sum, is largest.
    missed = max(float(row["rss_peak_bytes"]) - float(heap.values.max()), 0.0)
    whole = row.get("process_rss_peak_bytes")
    if whole is None or math.isnan(whole):
        peak_bytes = float(heap.values[peak] + own[peak]) + missed
    else:
        peak_bytes = max(float(whole) - surplus_bytes, 0.0)
    last_ns = float(heap.times_ns[-1])
    # So the row's mean counts more, but ends with the last call.
    after_ns = max(recorded.end_ns - last_ns, 0.0)
    heap_mean = (float(row["rss_mean_bytes"]) * last_ns + float(heap.values[-1]) * after_ns) / max(last_ns + after_ns, 1.0)
    own_mean = max(recorded.own.mean(recorded.end_ns) - surplus_bytes, 0.0)
    started = recorded.end_ns / max(recorded.end_ns + recorded.start_ns, 1.0)
    own_mean = own_mean * started + float(own[0]) / 2 * (1 - started)
    return PredictedMemory(peak_bytes, heap_mean * started + own_mean, float(own[peak]), own_mean)


def curve_difference(recorded: RecordedMemory, row: Mapping[str, Any]) -> tuple[float, float]:
    """How far the replay's curve, with the program's own memory, is from the recorded one: the time-weighted mean of the
    absolute difference, and the recorded mean, in bytes."""
    times = recorded.total.times_ns
    if times.size < 2:
        return float("nan"), float("nan")
    replayed = heap_curve(row).at(times) + recorded.own.at(times)
    difference = Curve(times, np.abs(replayed - recorded.total.values))
    return difference.mean(recorded.end_ns), recorded.total.mean(recorded.end_ns)
