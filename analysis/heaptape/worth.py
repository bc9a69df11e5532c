"""What malloc is worth to the recorded program: its time beside the CPU time that the program itself used, and its memory
beside all that the program held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from .comparison import MEASURES, allocator_order, round_table
from .trace import Trace
from .units import byte_count, nanoseconds, percent


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


@dataclass(frozen=True)
class MemoryWorth:
    """Bytes at the moment when the recorded program held most anonymous memory; shares are fractions of that.

    `reference` as in `Worth`. `gain` is the most that could be gained: what malloc held beyond the blocks that were live at
    most; None where more was live than resident, so that it is not known. `rows`: allocator, rss_peak_bytes, saving.
    """

    whole_bytes: int
    heap_bytes: int
    live_bytes: int
    gain: float | None
    reference: str
    rows: pd.DataFrame

    @property
    def share(self) -> float:
        """The heap's part of the program's memory."""
        return self.heap_bytes / self.whole_bytes

    def sentence(self) -> str:
        """The answer in a line or two."""
        text = (f"At its peak the program held {byte_count(self.whole_bytes)}, {percent(self.share)} of it in malloc's hands; ")
        if self.gain is None:
            text += ("as it never touched part of the blocks it asked for, the most that could be gained is not known.")
        else:
            text += (f"at most {byte_count(self.live_bytes)} were live, so that {percent(self.gain)} is the most that could "
                     f"be gained.")
        best = self.rows.loc[self.rows["saving"].idxmax()]
        if best["allocator"] != self.reference and best["saving"] > 0:
            return f"{text} {best['allocator']} would save about {percent(best['saving'])}."
        return f"{text} No other allocator measured here would save any of it."


def memory_worth(runs: pd.DataFrame, trace: Trace, baseline: str) -> MemoryWorth | None:
    """None where the recording has no samples of the program's memory, or the memory pass was not run."""
    samples = trace.samples
    live = int((trace.totals or {}).get("peak_live_bytes") or 0)
    medians = round_table(runs, MEASURES["rss_peak"]).median().dropna()
    if samples.empty or live <= 0 or medians.empty:
        return None
    at_peak = samples.iloc[int(samples["rss_anon_bytes"].to_numpy().argmax())]
    whole, heap = int(at_peak["rss_anon_bytes"]), int(at_peak["heap_rss_bytes"])
    recorded = str(trace.context.get("allocator_name") or "")
    reference = recorded if recorded in medians.index else baseline
    if whole <= 0 or reference not in medians.index:
        return None
    names = [name for name in allocator_order(runs, baseline) if name in medians.index]
    medians = medians.reindex(names)
    saving = (medians[reference] - medians.to_numpy()) / whole
    rows = pd.DataFrame({"allocator": names, "rss_peak_bytes": medians.to_numpy(), "saving": saving})
    gain = (heap - live) / whole if heap > live else None
    return MemoryWorth(whole, heap, live, gain, reference, rows)
