# SPDX-License-Identifier: Apache-2.0
"""Where an allocator's figures differ from the baseline's: what became worse or better from an old build to a new one, and in
which functions and size classes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ..base.units import counted
from ..judge import intervals
from ..judge.model import LESS, MORE, NONE, SAME, UNRESOLVED, Interval
from .comparison import MEASURES
from .comparison import SAME as SAME_WORDS
from .counted import calls_by_class, counted_figure, counts_by_allocator, function_table
from .program_time import PROGRAM_TIME, ProgramTime
from .reader import NULL_ALLOCATOR

INSTRUCTIONS, TIME, ROUNDING, MEMORY, HUGE_PAGES = "instructions", "time", "rounding", "RSS", "huge pages"
WORSE, BETTER, ALIKE, OPEN = MORE, LESS, SAME, UNRESOLVED
"""The judge's verdicts on figures that are the better the less they are."""
_SIZES_MAX = 8


@dataclass(frozen=True)
class Shift:
    """A figure of an old build and of a new one. figure: its title; outcome: WORSE, BETTER, ALIKE or OPEN; low and high: the ends of
    the interval that it goes by, of a count the ratio itself; more_rounds: about how many would resolve it; huge_pages: of peak RSS,
    how much more of it is in huge pages."""

    figure: str
    unit: str
    old: float
    new: float
    ratio: float
    low: float
    high: float
    outcome: str
    more_rounds: float = math.nan
    huge_pages: float = 0.0

    @property
    def size(self) -> float:
        """How much more the new build has. The ratio is of pairs of runs, and has taken out what disturbed both."""
        return self.old * (self.ratio - 1) if math.isfinite(self.ratio) else self.new - self.old

    @property
    def extent(self) -> float:
        """How far the ratio is from 1, in either direction."""
        return abs(math.log(self.ratio)) if 0 < self.ratio < math.inf else math.inf


MAIN_FIGURES = (MEASURES["rss_peak"].title, INSTRUCTIONS, MEASURES["time"].title)
"""Those that every answer speaks of."""
_FAULTS = "page faults"
GROUPS = (tuple(MEASURES[name].title for name in ("rss_peak", "rss_end", "rss_mean", "process_rss_peak")), (INSTRUCTIONS, _FAULTS),
          (MEASURES["time"].title,), (PROGRAM_TIME,))
"""An answer in a line names the first figure of each group that differs."""
FIGURES = (*MAIN_FIGURES, PROGRAM_TIME, *GROUPS[0][1:], _FAULTS)


def shifts(runs: pd.DataFrame, comparison: pd.DataFrame, times: Sequence[ProgramTime], old: str, new: str) -> list[Shift]:
    """The shifts of all figures that both have, the main ones first. times: as program_times gives them; comparison: with the old one."""
    huge = sum(change.size for change in _huge_pages(runs, old, new))
    found = [replace(shift, huge_pages=huge) if shift.figure == MAIN_FIGURES[0] else shift for shift in _measured_shifts(comparison, old, new)]
    found += _counted_shifts(runs, old, new)
    by_name = {item.allocator: item for item in times}
    if old in by_name and new in by_name:
        item = by_name[new]
        found.append(Shift(PROGRAM_TIME, "ns", by_name[old].ns, item.ns, item.ratio.ratio, item.ratio.ci_low, item.ratio.ci_high,
                           _outcome(item.verdict, MEASURES["time"].less, MEASURES["time"].more)))
    return sorted(found, key=lambda shift: FIGURES.index(shift.figure))


def _outcome(verdict: str, less: str, more: str) -> str:
    return {less: BETTER, more: WORSE, SAME_WORDS: ALIKE}.get(verdict, OPEN)


def _measured_shifts(comparison: pd.DataFrame, old: str, new: str) -> list[Shift]:
    found = []
    for name, measure in MEASURES.items():
        rows = comparison[comparison["measure"] == name].set_index("allocator")
        if old in rows.index and new in rows.index:
            row = rows.loc[new]
            found.append(Shift(measure.title, measure.unit, float(rows.loc[old, "value"]), float(row["value"]), float(row["ratio"]),
                               float(row["verdict_low"]), float(row["verdict_high"]), _outcome(row["verdict"], measure.less, measure.more),
                               float(row["more_rounds"])))
    return found


def _counted_shifts(runs: pd.DataFrame, old: str, new: str) -> list[Shift]:
    """Counts are exact: the interval is the ratio."""
    counts, found = counts_by_allocator(runs), []
    for figure, title in ((INSTRUCTIONS, INSTRUCTIONS), ("faults", _FAULTS)):
        was, now = (counted_figure(counts.get(name, {}), figure) for name in (old, new))
        if not math.isfinite(was + now):
            continue
        ratio = now / was if was else math.inf if now else 1.0
        outcome = WORSE if math.isinf(ratio) else intervals.verdict(Interval(ratio, ratio, ratio, 1))
        if outcome != NONE:
            found.append(Shift(title, "", was, now, ratio, ratio, ratio, outcome))
    return found


def new_fails(runs: pd.DataFrame, old: str, new: str) -> bool:
    """Whether runs of the new build failed, and none of the old one's."""
    failed = set(runs[(runs["failures"] > 0) | (runs["refused_calls"] > 0)]["allocator"])
    return new in failed and old not in failed


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
    """The differences of any two allocators that were counted; empty for others."""
    counts = counts_by_allocator(runs)
    names = set(runs["allocator"]) - {NULL_ALLOCATOR}
    others = names - {baseline}
    if len(others) != 1 or not names <= counts.keys():
        return []
    (allocator,) = others
    classes = _largest(_all_classes(counts[baseline], counts[allocator]))
    return [*classes, *_sorted(_times(runs, baseline, allocator)), *_rounding(runs, baseline, allocator), *_memory(comparison, baseline, allocator)]


def inside(of_traces: Iterable[tuple[pd.DataFrame, Sequence[Shift], str]], old: str, new: str) -> list[Change]:
    """Where an old build and a new one differ, together in all traces, what grew first: instructions by function and size, rounding
    by size where it is 1 % of peak RSS, and time by function in those traces where the judge resolved a difference of it; then huge
    pages of each trace. For each trace its runs, its shifts, and the words that name it among others."""
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    huge, peak = [], 0.0
    for runs, found, words in of_traces:
        counts = counts_by_allocator(runs)
        listed = [*_all_classes(counts.get(old, {}), counts.get(new, {})), *_rounding_by_size(runs, old, new)]
        if any(shift.figure == MEASURES["time"].title and shift.outcome in (BETTER, WORSE) for shift in found):
            listed += _times(runs, old, new)
        peak += sum(shift.old for shift in found if shift.figure == MAIN_FIGURES[0])
        for one in listed:
            total = sums[one.figure, one.of, one.unit]
            total[0] += one.base
            total[1] += one.value
        huge += [replace(change, of=f"{change.of}{words}") for change in _huge_pages(runs, old, new)]
    changes = [change for change in (Change(*key, *total) for key, total in sums.items())
               if change.figure != ROUNDING or abs(change.size) >= intervals.SAME_WITHIN * peak]
    shown = sorted(_sorted(_by_function(changes)), key=lambda change: -change.size)
    for figure in (INSTRUCTIONS, TIME, ROUNDING):
        largest = _largest([change for change in changes if change.figure == figure])
        shown += sorted(largest[:_SIZES_MAX], key=lambda change: -change.size) + largest[_SIZES_MAX:]
    return [*shown, *huge]


def _by_function(changes: Iterable[Change]) -> list[Change]:
    """Instructions of all sizes."""
    sums: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.figure == INSTRUCTIONS:
            sums[change.of.partition(",")[0]].append(change)
    return [Change(INSTRUCTIONS, f"{function}, all sizes", "", sum(one.base for one in found), sum(one.value for one in found)) for function, found in sums.items()]


def _sorted(changes: Iterable[Change]) -> list[Change]:
    return sorted((change for change in changes if change.size), key=lambda change: abs(change.size), reverse=True)


def _largest(changes: Iterable[Change]) -> list[Change]:
    """The largest differences of one figure, and a line for all others."""
    ranked = _sorted(changes)
    shown, rest = ranked[:_SIZES_MAX], ranked[_SIZES_MAX:]
    if rest:
        shown.append(Change(rest[0].figure, counted(len(rest), "more class"), rest[0].unit, sum(one.base for one in rest), sum(one.value for one in rest)))
    return shown


def _all_classes(base: dict[str, Any], other: dict[str, Any]) -> list[Change]:
    """None where they are not known of both."""
    old, new = calls_by_class(base), calls_by_class(other)
    if old is None or new is None:
        return []
    return [Change(INSTRUCTIONS, f"{function}, {_sizes(function, low)}", "", old.get((function, low), 0.0), new.get((function, low), 0.0))
            for function, low in dict.fromkeys([*old, *new])]


def _sizes(function: str, low: int) -> str:
    """The sizes of the class, four of which make a power of two."""
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


def _rounding_by_size(runs: pd.DataFrame, old: str, new: str) -> list[Change]:
    """At the peak of live bytes, of those that report usable sizes."""
    if "slop_by_size" not in runs:
        return []
    by_name = {str(name): {item.get("to_bytes"): item for item in listed}
               for name, listed in zip(runs["allocator"], runs["slop_by_size"], strict=True) if isinstance(listed, list)}
    if old not in by_name or new not in by_name:
        return []
    return [Change(ROUNDING, f"blocks of up to {counted(to, 'byte')}" if to else "larger blocks", "bytes", _slop(by_name[old].get(to)), _slop(by_name[new].get(to)))
            for to in dict.fromkeys([*by_name[old], *by_name[new]])]


def _slop(item: dict[str, Any] | None) -> float:
    return float((item or {}).get("usable_bytes") or 0) - float((item or {}).get("requested_bytes") or 0)


def _huge_pages(runs: pd.DataFrame, old: str, new: str) -> list[Change]:
    """What of peak RSS is in huge pages, if any of it is."""
    rows = runs[(runs["pass"] == "memory") & (runs["failures"] == 0)]
    medians = rows.groupby("allocator")["anon_huge_peak_bytes"].median() if "anon_huge_peak_bytes" in rows else {}
    was, now = (float(medians.get(name, math.nan)) for name in (old, new))
    if not was + now > 0:
        return []
    modes = [mode for mode in dict.fromkeys(rows["thp"]) if mode]
    return [Change(HUGE_PAGES, f"part of peak RSS{f' (kernel: {modes[0]})' if modes else ''}", "bytes", was, now)]
