# SPDX-License-Identifier: Apache-2.0
"""The program's modelled time in the report: what is gained, its causes, and whose placement it is."""

from __future__ import annotations

from ..base import units
from ..results.comparison import MEASURES
from ..results.program_time import CAUSES, PARTS, BlockClass, ProgramTime, interval_means
from ..results.summary import Summary
from .answer import Gain
from .figures import Table

MEASURE = "program_time"
_PARTS = dict(zip(PARTS, ("in the allocator", "its own"), strict=True))


def program_gain(summary: Summary) -> Gain:
    """Of the allocator with the least modelled time, where the model shows it to be less than the baseline's."""
    base, *others = summary.program_times
    less = [item for item in others if item.verdict == MEASURES["time"].less]
    best = min(less, key=lambda item: item.ratio.ratio, default=None)
    if best is None:
        amount, words = "none clear" if others else "nothing to compare", [f"{base.allocator}: {units.nanoseconds(base.ns)}"]
    else:
        bounds = units.interval(best.ratio.ci_low, best.ratio.ci_high, 3)
        amount = f"−{units.percent(1 - best.ratio.ratio)}"
        words = [f"{units.nanoseconds(best.ns)} instead of {units.nanoseconds(base.ns)}, modelled", f"ratio {best.ratio.ratio:.3f} {bounds}"]
    return Gain(MEASURE, "Your program’s time", best.allocator if best else "", amount, words, interval_means(summary.program_times[0].bursts), None, _split(summary.program_times))


def _split(times: list[ProgramTime]) -> Table:
    """A row for each allocator and part: differences in percent of the program's time under the baseline."""
    base, *others = times
    columns = ["allocator", "time", f"vs {base.allocator}", "interval", "part", "change", *CAUSES]
    rows = [[base.allocator, units.nanoseconds(base.ns), *[""] * (len(columns) - 2)]]
    for item in others:
        head = [item.allocator, units.nanoseconds(item.ns), units.decimal(item.ratio.ratio, 3),
                units.interval(item.ratio.ci_low, item.ratio.ci_high, 3)]
        for part, words in _PARTS.items():
            rows.append([*head, words, *(units.signed_percent(item.share(part, cause)) for cause in (None, *CAUSES))])
            head = [item.allocator, "", "", ""]
    return Table(columns, rows)


def placement_table(summary: Summary) -> Table | None:
    """The size classes whose misses change most; None where none change."""
    rows = [[item.allocator, _sizes(block), f"{block.far_misses:+,}", f"{block.near_misses:+,}"]
            for item in summary.program_times for block in item.blocks]
    return Table(["allocator", "blocks of", "far misses", "near misses"], rows) if rows else None


def _sizes(block: BlockClass) -> str:
    high = units.counted(block.high_bytes, "byte")
    return high if block.low_bytes == block.high_bytes else f"{block.low_bytes:,} to {high}"
