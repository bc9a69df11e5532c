# SPDX-License-Identifier: Apache-2.0
"""Where the program's allocator is part of it and none of those that were replayed: what the recording says of its memory is
what theirs is held against."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from ..base.own_allocator import full_name, is_the_linked
from ..base.units import byte_count, known, listing
from .reader import NULL_ALLOCATOR

_LESS = 0.99


@dataclass(frozen=True)
class OwnAllocator:
    """Its name with its version, the process's recorded peak, and what of that the process would hold under each allocator."""

    name: str
    peak_bytes: float
    ratios: dict[str, float]

    @property
    def best(self) -> str:
        """The allocator under which the process would hold least, if that is less than it did; else ""."""
        least = min(self.ratios, key=lambda name: self.ratios[name], default="")
        return least if least and self.ratios[least] < _LESS else ""

    def sentence(self, baseline: str) -> str:
        """What replaces a verdict against it."""
        ratios = listing([f"{ratio:.2f} under {name}" for name, ratio in sorted(self.ratios.items(), key=lambda item: item[1])])
        return (f"The program's own {self.name} is part of it and not replayed: it held {byte_count(self.peak_bytes)} at its peak"
                f"{f'; of that the process would hold {ratios}' if ratios else ''}. No figure of time is held against it; what follows is against {baseline}.")


def own_allocator(runs: pd.DataFrame) -> OwnAllocator | None:
    """None where the program's allocator was loaded, or is one of these."""
    recorded = next((value for value in runs.get("trace_recorded_allocator", ()) if isinstance(value, dict)), None)
    if not recorded or recorded.get("linked") is not True:
        return None
    peaks = pd.to_numeric(runs["trace_rss_peak_bytes"], errors="coerce").dropna()
    served = zip(runs["allocator"], runs["allocator_version"], strict=True)
    if peaks.empty or any(is_the_linked(recorded, str(name), str(version)) for name, version in served):
        return None
    rows = runs[(runs["allocator"] != NULL_ALLOCATOR) & (runs["pass"] == "memory") & (runs["failures"] == 0)]
    medians = rows.groupby("allocator", sort=False)["process_rss_peak_bytes"].median() / float(peaks.iloc[0])
    return OwnAllocator(full_name(recorded), float(peaks.iloc[0]), {str(name): float(ratio) for name, ratio in medians.items() if known(ratio)})
