"""What malloc is worth to the recorded program: its time beside the CPU time that the program itself used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from .comparison import MEASURES, allocator_order, round_table
from .units import nanoseconds, percent


@dataclass(frozen=True)
class Worth:
    """Times in ns, shares as fractions of the program's CPU time.

    `reference` is the replayed allocator that stands for the one the program was recorded under; `stands_in` says that
    it is another one. `rows` has one row per allocator: allocator, alloc_time_ns, share, saving (negative: costs more).
    """

    cpu_ns: int
    reference: str
    stands_in: bool
    recorded_allocator: str
    rows: pd.DataFrame

    @property
    def share(self) -> float:
        """The reference allocator's part of the program's CPU time: also the most that could be gained."""
        return float(self.rows.set_index("allocator").loc[self.reference, "share"])

    def sentence(self) -> str:
        """The answer in a line or two."""
        best = self.rows.loc[self.rows["saving"].idxmax()]
        text = (f"The program used {nanoseconds(self.cpu_ns)} of CPU time; {percent(self.share)} of that is what "
                f"{self.reference} takes to serve its calls in replay, and so the most that could be gained.")
        if best["allocator"] != self.reference and best["saving"] > 0:
            return f"{text} {best['allocator']} would save about {percent(best['saving'])}."
        return f"{text} No other allocator measured here would save any of it."


def worth(
    runs: pd.DataFrame, context: dict[str, Any], totals: dict[str, Any] | None, baseline: str
) -> Worth | None:
    """None where the recording does not know its CPU time or no time was measured."""
    cpu_ns = int((totals or {}).get("recorded_cpu_ns") or 0)
    medians = round_table(runs, MEASURES["time"]).median().dropna()
    if cpu_ns <= 0 or medians.empty:
        return None
    medians = medians.reindex([name for name in allocator_order(runs, baseline) if name in medians.index])
    recorded = str(context.get("allocator_name") or "")
    stands_in = recorded not in medians.index
    reference = baseline if stands_in else recorded
    if reference not in medians.index:
        return None
    rows = pd.DataFrame({
        "allocator": medians.index,
        "alloc_time_ns": medians.to_numpy(),
        "share": medians.to_numpy() / cpu_ns,
        "saving": (medians[reference] - medians.to_numpy()) / cpu_ns,
    })
    return Worth(cpu_ns, reference, stands_in, recorded, rows)
