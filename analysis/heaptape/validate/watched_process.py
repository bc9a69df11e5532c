# SPDX-License-Identifier: Apache-2.0
"""What is seen of a process that is watched: readings of its anonymous memory, and what the kernel's marks add to them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

POINTS_MAX = 2000


@dataclass
class Watched:
    """What was seen of one process, in seconds since the run began and bytes."""

    pid: int
    cpu_before_ns: int
    cpu_ns: int = 0
    times_s: array[float] = field(default_factory=lambda: array("d"))
    rss_bytes: array[int] = field(default_factory=lambda: array("q"))
    missed_peak_bytes: int = 0
    has_library: bool = False
    ended: bool = False
    file_kb: int = 0
    high_water_kb: int = 0

    def add_reading(self, now_s: float, high_kb: int, anon_kb: int, file_kb: int) -> None:
        """What /proc/PID/status says."""
        self.add_mark(high_kb, file_kb)
        self.times_s.append(now_s)
        self.rss_bytes.append(anon_kb * 1024)

    def add_mark(self, high_kb: int, file_kb: int) -> None:
        """The kernel's mark of the highest RSS, which counts files' pages too. What it has gained since the last reading, less
        the more of these at either, was anonymous, even if only between the two."""
        if self.times_s and high_kb > self.high_water_kb:
            self.missed_peak_bytes = max(self.missed_peak_bytes, (high_kb - max(file_kb, self.file_kb)) * 1024)
        self.high_water_kb, self.file_kb = high_kb, file_kb

    @property
    def sampled_peak_bytes(self) -> int:
        """The highest reading."""
        return max(self.rss_bytes, default=0)

    @property
    def peak_bytes(self) -> int:
        """The highest reading, or what the kernel's own mark proves beyond it."""
        return max(self.sampled_peak_bytes, self.missed_peak_bytes)

    @property
    def mean_bytes(self) -> float:
        """Over time, along straight lines between the readings; NaN without any."""
        times, rss = np.asarray(self.times_s), np.asarray(self.rss_bytes, dtype=float)
        if times.size < 2 or times[-1] == times[0]:
            return float(rss.mean()) if rss.size else float("nan")
        return float(np.sum((rss[1:] + rss[:-1]) / 2 * np.diff(times)) / (times[-1] - times[0]))

    def curve(self, points_max: int = POINTS_MAX) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times in ns since the first reading, and bytes: of each stretch the highest reading."""
        times = np.asarray(self.times_s)
        times_ns = ((times - times[:1]) * 1e9).astype(np.int64)
        rss = np.asarray(self.rss_bytes, dtype=np.int64)
        if times_ns.size <= points_max:
            return times_ns, rss
        edges = np.linspace(0, times_ns.size, points_max + 1).astype(int)
        chosen = np.array([low + int(rss[low:high].argmax()) for low, high in pairwise(edges)])
        return times_ns[chosen], rss[chosen]
