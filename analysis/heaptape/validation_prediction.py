"""What a replay predicts of the real program. Nothing here is fitted to any program.

Memory is what the recorded program had mapped for itself, as measured in the recording, plus what the allocator holds in
the replay, at each moment of the trace. CPU time is told as the difference between two allocators: what the program does
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

from .comparison import Estimate, Measure, estimate_difference, round_table
from .trace import Trace

Floats = NDArray[np.float64]

CPU_TERMS = ("alloc_time_ns", "background_cpu_ns", "program_time_ns")
"""Of a row of the time pass: calls with the first touches of what they return, the allocator's own threads, and what the
program itself takes longer because of where blocks lie. A row that lacks one has none of it."""


def predicted_cpu_ns(row: Mapping[str, Any]) -> float:
    """What of the program's CPU time depends on the allocator, by one row of the time pass."""
    terms = [row.get(name) for name in CPU_TERMS]
    return float(sum(term for term in terms if term is not None and math.isfinite(term)))


def predicted_differences_ns(rows: pd.DataFrame, baseline: str, startup_ns: Mapping[str, float]) -> dict[str, Estimate]:
    """By allocator: the median over the rounds of the difference to the baseline in the same round, with what starting a
    program costs more under it, and the interval that the rounds of the replay give it."""
    cpu = rows.assign(cpu_ns=[predicted_cpu_ns(row) for row in rows.to_dict("records")])
    table = round_table(cpu, Measure("cpu", "cpu_ns", "time", "ns", "", "", ""))
    if baseline not in table:
        return {}
    startup = {name: startup_ns.get(name, 0.0) - startup_ns.get(baseline, 0.0) for name in table}
    return {str(name): estimate_difference((table[name] - table[baseline] + startup[name]).dropna().to_numpy()) for name in table}


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
    """The program's own memory, all of it, and the end of the trace."""

    own: Curve
    total: Curve
    end_ns: float


def recorded_memory(trace: Trace, duration_ns: float) -> RecordedMemory:
    """From the samples that the recording has of the process."""
    times = _column(trace.samples, "time_ns")
    end_ns = max(duration_ns, float(times[-1]) if times.size else 0.0)
    return RecordedMemory(Curve(times, _column(trace.samples, "own_rss_bytes")),
                          Curve(times, _column(trace.samples, "rss_anon_bytes")), end_ns)


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


def predicted_memory(row: Mapping[str, Any], recorded: RecordedMemory) -> PredictedMemory:
    """Of a row of the memory pass. The peak is that of the sum, not the sum of peaks at different times."""
    heap = heap_curve(row)
    own = recorded.own.at(heap.times_ns)
    peak = int((heap.values + own).argmax())
    last_ns = float(heap.times_ns[-1])
    # The row's mean counts every reading, of which the curve has a selection, and ends with the last call.
    after_ns = max(recorded.end_ns - last_ns, 0.0)
    heap_mean = (float(row["rss_mean_bytes"]) * last_ns + float(heap.values[-1]) * after_ns) / max(last_ns + after_ns, 1.0)
    own_mean = recorded.own.mean(recorded.end_ns)
    return PredictedMemory(float(heap.values[peak] + own[peak]), heap_mean + own_mean, float(own[peak]), own_mean)


def curve_difference(recorded: RecordedMemory, row: Mapping[str, Any]) -> tuple[float, float]:
    """How far the replay's curve, with the program's own memory, is from the recorded one: the time-weighted mean of the
    absolute difference, and the recorded mean, in bytes."""
    times = recorded.total.times_ns
    if times.size < 2:
        return float("nan"), float("nan")
    replayed = heap_curve(row).at(times) + recorded.own.at(times)
    difference = Curve(times, np.abs(replayed - recorded.total.values))
    return difference.mean(recorded.end_ns), recorded.total.mean(recorded.end_ns)
