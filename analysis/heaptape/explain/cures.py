# SPDX-License-Identifier: Apache-2.0
"""What would help, tried: the trace replayed with other settings and under other allocators."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.allocators import SETTINGS, to_try
from ..base.builds import builds_here, usual
from ..base.errors import HeaptapeError
from ..base.programs import ToolFailed, find_heaptape, list_allocators, run_tool
from ..base.units import nanoseconds, null_unless_known
from ..judge import attached
from ..judge.model import END, TIME, AllocatorEstimates, FigureWords
from ..results.comparison import estimate_unpaired
from ..results.use import use_lines
from ..trace.reader import read_trace
from .holders import Holder

_PURGES = {"arena.<all>.purge": "mallctl(arena.N.purge)"}
"""Calls in an allocator's list that have another name in a trace's totals."""

CACHES = ("no thread caches", "the smallest thread caches", "thread caches of 7 blocks of each size")


@dataclass(frozen=True)
class Cure:
    """What replays with it saved of RSS, median and 95 % interval (NaN where one round is all there is), in bytes; time_ratio: of time in malloc, None where it was not
    measured. lines: what puts it to use. alloc: None where the program must change. bound: nobody could do it; it saves no less than what one could."""

    name: str
    alloc: str | None
    saves_bytes: float
    ci_low: float
    ci_high: float
    time_ratio: float | None
    lines: list[tuple[str, str]]
    bound: bool = False

    @property
    def is_setting(self) -> bool:
        """Whether it is a setting of the allocator that is explained."""
        return any(self.name in words.values() for words in SETTINGS.values())


@dataclass(frozen=True)
class Candidate:
    """alloc: as --alloc takes it; what --list says of it; the allocator that is part of the recorded program, or ""."""

    alloc: str
    words: str
    listed: dict[str, Any]
    linked: str = ""

    @property
    def name(self) -> str:
        """In a comparison."""
        return str(self.listed["name"])


def candidates(replay: str, baseline: Candidate, trace: str | None = None, controls: Collection[str] = ()) -> list[Candidate]:
    """What to try beside this allocator: its settings, but for those that are in force, and the usual others, as far as they are
    built and their versions heed the knobs, and the program does not set them itself. controls: names of its control calls."""
    unnamed = baseline.alloc.removeprefix(f"{baseline.name}=")
    unnamed += "," if ":" in unnamed else ":"
    wanted = {unnamed + knobs: words for knobs, words in to_try(baseline.listed, baseline.name, controls).items()}
    wanted |= {other: f"{other} instead" for other in usual(builds_here(replay)) if other != baseline.name}
    return [Candidate(alloc, words, listed) for alloc, words in wanted.items() if (listed := _listed(replay, alloc, trace))]


def _listed(replay: str, alloc: str, trace: str | None) -> dict[str, Any] | None:
    """None: this version of the allocator does not have the knob."""
    try:
        return list_allocators(replay, alloc, trace)[0]
    except HeaptapeError:
        return None


def try_cures(replay: str, trace: str, baseline: Candidate, figure: FigureWords, budget_s: float, controls: Collection[str]) -> list[Cure]:
    """Largest saving first, where some of them fail of the others. figure: one of RSS."""
    tried = candidates(replay, baseline, trace, controls)
    comparison = attached.replay([replay, "-q", "--alloc", ",".join(one.alloc for one in (baseline, *tried)), "--baseline", baseline.name,
                                  "--budget", f"{max(round(budget_s), 1)}s", "--", trace]).compared()
    found = dict(zip(comparison.names, comparison.allocators, strict=True))
    base = found[baseline.name].estimates[figure.name].median
    cures = [_cure(one, found[one.name], figure, base, baseline.linked) for one in tried if base > 0 and one.name in found]
    return sorted((cure for cure in cures if cure), key=lambda cure: -cure.saves_bytes)


def _cure(one: Candidate, found: AllocatorEstimates, figure: FigureWords, base: float, linked: str) -> Cure | None:
    rss, wide = found.estimates[figure.name].ratio, found.estimates[figure.name].widened
    if math.isnan(rss.estimate):
        return None
    lines = use_lines(str(one.listed.get("kind") or ""), str(one.listed.get("path") or ""), str(one.listed.get("package") or ""),
                      list(one.listed.get("environment") or []), "COMMAND", "glibc", linked)
    return Cure(one.words, one.alloc, base * (1 - rss.estimate), base * (1 - wide.high), base * (1 - wide.low),
                null_unless_known(found.estimates[TIME.name].ratio.estimate), lines)


# ---- what the program itself could do ----

_ROUNDS = 5
_POOL = [("code", "Allocate the long-lived ones from a separate heap (jemalloc: mallocx with MALLOCX_ARENA; mimalloc: mi_heap_malloc)")]


def named(holder: Holder, at_ns: int) -> str:
    """The blocks, live at that time, as slice --without takes them."""
    words = [f"size={holder.size_low}-{holder.size_high}", f"live={at_ns}ns"]
    words += [f"thread={holder.thread}"] if holder.thread is not None else []
    words += [f"born={holder.born_from_ns}ns-{holder.born_to_ns}ns"] if holder.windowed else []
    return ",".join(words)


def _values(rows: list[dict[str, Any]], figure: FigureWords) -> NDArray[np.float64]:
    return np.array([row[figure.key] for row in rows], float)


def _of_two_heaps(one: dict[str, Any], other: dict[str, Any], figure: FigureWords) -> float:
    """Runs two replays at once, each in a heap of its own."""
    if figure == END:
        return float(one[figure.key] + other[figure.key])
    curves = [[np.array(row["timeline"][key], float) for key in ("time_ns", "rss_bytes", "high_bytes")] for row in (one, other)]
    peaks = [0.0]
    for (time_ns, _, high), (other_ns, other_rss, _) in (curves, curves[::-1]):
        # RSS stays what it was at the last sample.
        beside = np.insert(other_rss, 0, 0.0)[np.searchsorted(other_ns, time_ns, side="right")]
        peaks.append(float((high + beside).max(initial=0.0)))
    return max(peaks)


def _changed(name: str, before: NDArray[np.float64], after: NDArray[np.float64], *lines: tuple[str, str]) -> Cure:
    """What a change of the program saves. The rounds are of two runs and no pairs: all but the first draw their addresses."""
    saves = estimate_unpaired(before, after)
    return Cure(name, None, saves.middle, saves.ci_low, saves.ci_high, None, list(lines))


class ProgramCures:
    """Replays of the trace changed as the program might be, beside the trace as it is. figure: as of try_cures."""

    def __init__(self, replay: str, trace: str, allocator: Candidate, figure: FigureWords, scratch: Path) -> None:
        self._replay, self._trace, self._allocator, self._figure, self._scratch = replay, trace, allocator, figure, scratch
        self._before = _values(self._rows(trace), figure)

    def _rows(self, trace: str, *more: str) -> list[dict[str, Any]]:
        """Lines of results with their curves, one a round."""
        comparison = attached.replay([self._replay, "-q", "--alloc", self._allocator.alloc, "--pass", "memory", "--rounds", str(_ROUNDS), *more,
                                      "--", trace], curves=True).whole()
        return [cells[1].memory for cells in comparison.measurements.rounds if cells[1].memory is not None]

    def _slice(self, which: str, blocks: str) -> str | None:
        """None: there is no such block."""
        target = self._scratch / f"{which.strip('-')}.bin"
        try:
            run_tool([find_heaptape(self._replay), "slice", "-q", which, blocks, "-o", str(target), "--", self._trace])
        except ToolFailed as error:
            if "there is no call in this range" in str(error):
                return None
            raise
        return str(target)

    def purges(self, every_ns: int, controls: Collection[str]) -> list[Cure]:
        """Free memory given back so often, where the allocator has a call for that and the program does not make it itself."""
        call = str(self._allocator.listed.get("purge_call") or "")
        if not call or any(name.endswith(_PURGES.get(call, call.partition("(")[0])) for name in controls):
            return []
        after = _values(self._rows(self._trace, "--purge", f"{every_ns}ns"), self._figure)
        words = f"{call} every {nanoseconds(every_ns)} of the trace"
        return [_changed(words, self._before, after, ("code", f"Call {call} at about this interval"))]

    def without(self, holder: Holder, at_ns: int) -> list[Cure]:
        """The blocks that are live at that time never allocated, which is a bound; and in a heap of their own: both heaps are
        replayed, and their RSS is added up along the trace. Not of a slice with its prelude, whose blocks cannot be left out."""
        with read_trace(self._trace) as trace:
            if trace.context.get("prelude") in ("whole", "part"):
                return []
        blocks = named(holder, at_ns)
        rest, pool = self._slice("--without", blocks), self._slice("--only", blocks)
        if not rest or not pool:
            return []  # the program allocates nothing else
        kept, moved = self._rows(rest), self._rows(pool)
        both = np.array([_of_two_heaps(one, other, self._figure) for one, other in zip(kept, moved, strict=False)])
        sizes = f"{holder.size_low:,}" + (f"–{holder.size_high:,}" if holder.size_high > holder.size_low else "")
        return [_changed(f"the worst blocks ({sizes} bytes) in a separate heap", self._before, both, *_POOL),
                replace(_changed(f"the worst blocks ({sizes} bytes) never allocated (upper bound)", self._before, _values(kept, self._figure)), bound=True)]
