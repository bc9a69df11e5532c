# SPDX-License-Identifier: Apache-2.0
"""Malloc's share of the recorded program: of its CPU time, and of its memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.units import byte_count, nanoseconds, percent
from ..trace.reader import Trace, read_trace
from .comparison import MEASURES, SEED, Measure, allocator_order, compare, round_table
from .verdicts import Standing, lead_over, standing_of


@dataclass(frozen=True)
class Saving:
    """What the leader would save over the reference, as a share of the program's; NaN where no saving is shown."""

    allocator: str
    share: float

    def sentence(self) -> str:
        """Follows the sentence about what the program uses."""
        if not math.isfinite(self.share):
            return "No other allocator measured here clearly saves any of it."
        return f"{self.allocator} would save about {percent(self.share)}."


NO_SAVING = Saving("", math.nan)


@dataclass(frozen=True)
class MallocShare:
    """Times in ns, shares as fractions of the program's CPU time, without the recorder's if `alone`.

    `reference` is the allocator that the program was recorded under, or, with `stands_in`, the baseline
    in its place. `rows` has one row per allocator: allocator, alloc_time_ns, share, saving (negative: costs more; NaN
    where it is not shown to differ from the reference). `saving` is the leader's.
    """

    cpu_ns: int
    reference: str
    stands_in: bool
    recorded_allocator: str
    rows: pd.DataFrame
    saving: Saving
    alone: bool

    @property
    def share(self) -> float:
        """The part of the program's CPU time that the replayed calls take under the reference allocator. It bounds no saving: where
        blocks lie changes the program's own time too."""
        return float(self.rows.set_index("allocator").loc[self.reference, "share"])

    def sentence(self) -> str:
        """The answer in a line or two."""
        return (f"The program used {nanoseconds(self.cpu_ns)} of CPU time; {self.reference} takes "
                f"{percent(self.share)} of it for the same calls in replay. {self.saving.sentence()} "
                "Where blocks lie also changes the program's own time, perhaps by more.")


def _savings(runs: pd.DataFrame, comparison: pd.DataFrame, measure: Measure, reference: str, seed: int) -> pd.Series:
    """By allocator: which part of what the reference takes it would save; NaN where the verdict leaves that open."""
    against = comparison
    if comparison["baseline"].iloc[0] != reference:
        against = compare(runs, reference, seed)
    rows = against[against["measure"] == measure.name].set_index("allocator")
    shown = rows["verdict"].isin([measure.less, measure.more])
    found = (1 - rows["ratio"]).where(shown)
    found[reference] = 0.0
    return found


def _leads(runs: pd.DataFrame, standing: Standing, reference: str, part: float, seed: int) -> Saving:
    """The leader's saving; `part` is the reference's share of what the program used."""
    lead = lead_over(runs, standing, reference, seed)
    return Saving(str(standing.leader), (1 - lead.estimate.ratio) * part) if lead.shown else NO_SAVING


def malloc_share(
    runs: pd.DataFrame, context: dict[str, Any], totals: dict[str, Any] | None, comparison: pd.DataFrame, seed: int = SEED
) -> MallocShare | None:
    """None where the recording does not know its CPU time or no time was measured. `runs` has the control's, too, and
    `comparison` is theirs with the baseline."""
    measure, baseline = MEASURES["time"], str(comparison["baseline"].iloc[0])
    cpu_ns, alone = program_cpu_ns(context, totals)
    medians = round_table(runs, measure).median().dropna()
    if cpu_ns <= 0 or medians.empty:
        return None
    medians = medians.reindex([name for name in allocator_order(runs, baseline) if name in medians.index])
    recorded = str(context.get("allocator_name") or "")
    stands_in = recorded not in medians.index
    reference = baseline if stands_in else recorded
    if reference not in medians.index:
        return None
    share = float(medians[reference]) / cpu_ns
    savings = _savings(runs, comparison, measure, reference, seed)
    rows = pd.DataFrame({
        "allocator": medians.index,
        "alloc_time_ns": medians.to_numpy(),
        "share": medians.to_numpy() / cpu_ns,
        "saving": savings.reindex(medians.index).to_numpy() * share,
    })
    standing = standing_of(runs, comparison, measure, seed)
    return MallocShare(cpu_ns, reference, stands_in, recorded, rows, _leads(runs, standing, reference, share, seed), alone)


@dataclass(frozen=True)
class ProgramUse:
    """What the recorded program uses; 0: not known. heap_bytes are the part of whole_bytes, live_bytes the most that was live."""

    cpu_ns: int
    whole_bytes: int
    heap_bytes: int
    live_bytes: int


def program_use(path: Path) -> ProgramUse:
    """By its trace. Raises TraceError."""
    with read_trace(path) as trace:
        return ProgramUse(program_cpu_ns(trace.context, trace.totals)[0], *(heap_at_peak(trace) or (0, 0)), int((trace.totals or {}).get("peak_live_bytes") or 0))


def program_cpu_ns(context: Mapping[str, Any], totals: Mapping[str, Any] | None) -> tuple[int, bool]:
    """The recorded process's CPU time, 0 where it is not known, and whether it is without the recorder's: as `record --check` saw both."""
    cpu_ns = int((totals or {}).get("recorded_cpu_ns") or 0)
    check = context.get("check")
    recorded, alone = (check.get(f"{run}_cpu_ns") if isinstance(check, Mapping) else None for run in ("recorded", "alone"))
    if not (recorded and alone):
        return cpu_ns, False
    return round(cpu_ns * min(alone / recorded, 1.0)), True


@dataclass(frozen=True)
class MemoryShare:
    """Bytes at the moment when the recorded program held most anonymous memory; shares are fractions of that.

    `reference` as in `MallocShare`. `gain` is what malloc held beyond the blocks that were live at
    most; None where more was live than resident, or an allocator was seen to save more: the program did not touch all of its blocks. `rows`:
    allocator, rss_peak_bytes, saving; `saving` as in `MallocShare`.
    """

    whole_bytes: int
    heap_bytes: int
    live_bytes: int
    gain: float | None
    reference: str
    rows: pd.DataFrame
    saving: Saving

    @property
    def share(self) -> float:
        """The heap's part of the program's memory."""
        return self.heap_bytes / self.whole_bytes

    def sentence(self) -> str:
        """The answer in a line or two."""
        text = (f"At its peak the program held {byte_count(self.whole_bytes)}, {percent(self.share)} of it in malloc's heap; ")
        if self.gain is None:
            text += ("it never touched part of its blocks, so malloc's overhead is unknown.")
        else:
            text += f"at most {byte_count(self.live_bytes)} were live: {percent(self.gain)} is malloc's overhead."
        return f"{text} {self.saving.sentence()}"


def heap_at_peak(trace: Trace) -> tuple[int, int] | None:
    """All bytes and malloc's when the program held most anonymous memory; None where that is not known."""
    samples = trace.samples
    if samples.empty or not trace.heap_is_known:
        return None
    at_peak = samples.iloc[int(samples["rss_anon_bytes"].to_numpy().argmax())]
    whole = int(at_peak["rss_anon_bytes"])
    return (whole, int(at_peak["heap_rss_bytes"])) if whole > 0 else None


def memory_share(runs: pd.DataFrame, trace: Trace, comparison: pd.DataFrame, seed: int = SEED) -> MemoryShare | None:
    """None where the recording has no samples of the program's memory, or its heap is unknown, or the memory pass was not run. Savings are the
    ratios that replay shows, of what malloc held in the recording."""
    at_peak, measure, baseline = heap_at_peak(trace), MEASURES["rss_peak"], str(comparison["baseline"].iloc[0])
    live = int((trace.totals or {}).get("peak_live_bytes") or 0)
    medians = round_table(runs, measure).median().dropna()
    if at_peak is None or live <= 0 or medians.empty:
        return None
    whole, heap = at_peak
    recorded = str(trace.context.get("allocator_name") or "")
    reference = recorded if recorded in medians.index else baseline
    if reference not in medians.index:
        return None
    names = [name for name in allocator_order(runs, baseline) if name in medians.index]
    saving = _savings(runs, comparison, measure, reference, seed).reindex(names).to_numpy() * heap / whole
    rows = pd.DataFrame({"allocator": names, "rss_peak_bytes": medians.reindex(names).to_numpy(), "saving": saving})
    best = _leads(runs, standing_of(runs, comparison, measure, seed), reference, heap / whole, seed)
    gain = (heap - live) / whole if heap > live else None
    if gain is not None and max([best.share, *rows["saving"]], key=lambda share: share if math.isfinite(share) else 0.0) >= gain:
        gain = None
    return MemoryShare(whole, heap, live, gain, reference, rows, best)
