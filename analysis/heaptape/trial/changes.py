# SPDX-License-Identifier: Apache-2.0
"""By how much each allocator would change what the program uses: CPU time and memory, with what is left uncertain.

The replay's intervals are of one recording's calls. Four things widen them here, as a program is more than that: a replay leaves out some
of what a program does, its own runs differ from one another, the recorder changes it, and where blocks lie changes the time of its own
accesses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from ..base.units import known
from ..judge.intervals import student_interval
from ..judge.model import Interim
from ..results.malloc_share import ProgramUse
from ..results.program_time import MODEL_RESIDUAL
from ..results.reader import NULL_ALLOCATOR
from ..results.summary import Summary
from ..results.use import SMALL_SHARE

CPU, MEMORY = "CPU", "memory"
MEASURED_BY = {CPU: "time", MEMORY: "rss_peak"}

OWN_RUNS = 0.10
"""By what share the peak of a program with threads may differ in another run (docs/method/method.md, Threats)."""

REPLAY_ERROR = 0.04
"""By what share the ratio of two peaks of a program may be off: a replay does not know all that a program does, and no round shows it.
Chosen on 117 pairs, 33 of them of the set others, of which it held 111; docs/method/validity.md has how many it holds."""

RECORDER_BYTES = 512 << 10
"""So much more or less with the recorder is its own memory."""

SMALL_BYTES = 1 << 20
"""A process that holds so much more or less is no reason for anything."""

PLACEMENT_LESS, PLACEMENT_MORE = 0.17, 0.15
"""By what share of the program's CPU time its own accesses took less or more than the replay's calls explain, where blocks lay
elsewhere: 34 of 39 differences of 5 % and more (docs/method/validity/placement.csv). Lists that are walked gain up to 37 %."""

IN_CACHE_BYTES = 256 << 10
"""Live blocks of so many bytes are in a cache wherever they lie."""


@dataclass(frozen=True)
class Change:
    """The change of what the program uses, `whole` in bytes or ns, as shares of it; negative: less than under the baseline. [low, high] is the
    replay's interval, of memory with how runs differ; [least, most] also holds what placement may do, or what a replay leaves out. counted: modelled from counts of the first
    recording, as the time was not resolved. runs: of the program itself in each of so many, no replay; 0: it is the replay's."""

    what: str
    whole: float
    share: float
    low: float
    high: float
    least: float
    most: float
    counted: bool = False
    runs: int = 0

    @property
    def small(self) -> float:
        """A share that is no reason for anything."""
        return max(SMALL_SHARE, SMALL_BYTES / self.whole) if self.what == MEMORY else SMALL_SHARE

    @property
    def is_small(self) -> bool:
        """Shown to be no reason for anything."""
        return (self.low >= -self.small and self.high <= self.small) or (self.low * self.high > 0 and abs(self.share) < self.small)

    @property
    def may_save(self) -> bool:
        """It is not shown, and not excluded."""
        return (self.is_open or (self.saves and self.most >= 0)) and self.least < -self.small

    @property
    def saves(self) -> bool:
        """The replay shows it."""
        return self.high < 0 and not self.is_small

    @property
    def costs(self) -> bool:
        return self.low > 0 and not self.is_small

    @property
    def is_open(self) -> bool:
        return not (self.is_small or self.saves or self.costs)


Changes = dict[str, dict[str, Change]]
"""By allocator and figure; without the baseline, and without a figure that is not known."""


def changes_of(summaries: Sequence[Summary], contexts: Sequence[Mapping[str, Any]], threads: int) -> Changes:
    """summaries: one for each recording of the program; contexts: theirs. threads: the most that one has."""
    names = dict.fromkeys(str(name) for summary in summaries for name in summary.comparison["allocator"] if name != summary.baseline)
    found: Changes = {name: {} for name in names}
    for what, parts in ((CPU, [_cpu_part(summary) for summary in summaries]), (MEMORY, [_memory_part(summary) for summary in summaries])):
        if any(part is None for part in parts):
            continue
        error = _own_error(contexts, threads, len(summaries)) if what == MEMORY else 0.0
        for name in names:
            change = _change(what, name, summaries, [part for part in parts if part], error)
            if change:
                found[name][what] = change
    return found


def interim_changes(interim: Interim, use: ProgramUse) -> Changes:
    """The changes from one recording while its replay goes on, by the judge's stricter intervals."""
    parts = {CPU: _Part(use.cpu_ns, interim.base_ns / use.cpu_ns) if use.cpu_ns else None,
             MEMORY: _Part(use.whole_bytes, use.heap_bytes / use.whole_bytes) if use.whole_bytes else None}
    found: Changes = {}
    for what, part in parts.items():
        for name, estimate in interim.estimates[MEASURED_BY[what]].items():
            ratio = estimate.ratio.estimate, estimate.widened.low, estimate.widened.high
            change = _of_ratio(what, part, ratio, 0.0, what == CPU and use.live_bytes > IN_CACHE_BYTES) if part else None
            found.setdefault(name, {}).update({what: change} if change else {})
    return found


@dataclass(frozen=True)
class _Part:
    """What the program uses, and malloc's share of it."""

    whole: float
    share: float


def _cpu_part(summary: Summary) -> _Part | None:
    share = summary.malloc_share
    return _Part(share.cpu_ns, share.share) if share and share.reference == summary.baseline else None


def _memory_part(summary: Summary) -> _Part | None:
    share = summary.memory_share
    return _Part(share.whole_bytes, share.share) if share and not summary.differs and share.reference == summary.baseline else None


def _own_error(contexts: Sequence[Mapping[str, Any]], threads: int, recordings: int) -> float:
    """By what share the program's peak differs in runs that are not these recordings, as far as that is known."""
    errors = [OWN_RUNS if threads > 1 and recordings == 1 else 0.0]
    for context in contexts:
        check = context.get("check")
        recorded, alone = (check.get(f"{run}_rss_peak_bytes") if isinstance(check, Mapping) else None for run in ("recorded", "alone"))
        if recorded and alone and abs(recorded - alone) > RECORDER_BYTES:
            errors.append(abs(math.log(alone / recorded)))
    return max(errors)


def _change(what: str, name: str, summaries: Sequence[Summary], parts: Sequence[_Part], error: float) -> Change | None:
    rows = [rows.loc[name] for summary in summaries if name in (rows := _rows(summary, what)).index]
    if len(rows) < len(summaries):
        return None
    part = _Part(*(sum(getattr(one, key) for one in parts) / len(parts) for key in ("whole", "share")))
    apart = what == CPU and any(_is_spread(summary) for summary in summaries)
    ratio = _ratio(rows)
    if what == MEMORY:
        ratio, error = of_one_round(ratio, error)
    found = _of_ratio(what, part, ratio, error, apart)
    if what == CPU and (found is None or found.is_open):
        modelled = modelled_ratio(modelled_times(summaries[0].experiment.runs), name, summaries[0].baseline)
        counted = _of_ratio(what, part, modelled, error, apart)
        return replace(counted, counted=True) if counted else found
    return found


def _of_ratio(what: str, part: _Part, ratio: tuple[float, float, float], error: float, apart: bool) -> Change | None:
    """None where there is no ratio. apart: it matters where blocks lie."""
    if not known(ratio[0]):
        return None
    left_out = math.hypot(error, REPLAY_ERROR) if what == MEMORY else error
    ends = [_wider(ratio[0], ratio[1 + (side > 0)], off, side) for off in (error, left_out) for side in (-1, 1)]
    share, low, high, least, most = ((value - 1) * part.share for value in (ratio[0], *ends))
    # Nothing saves more than there is; malloc's share is the replay's, the whole the program's.
    share, low, least = max(share, -1.0), max(low, -1.0), max(least - apart * PLACEMENT_LESS, -1.0)
    return Change(what, part.whole, share, low, high, least, most + apart * PLACEMENT_MORE)


def _rows(summary: Summary, what: str) -> pd.DataFrame:
    return summary.comparison[summary.comparison["measure"] == MEASURED_BY[what]].set_index("allocator")


def _ratio(rows: Sequence[pd.Series]) -> tuple[float, float, float]:
    """The judge's ratio for one recording; for several the mean over the program's own runs, with Student's t and the replays' own
    interval in quadrature. NaN: no interval."""
    logs = [[math.log(row[key]) if known(row[key]) and row[key] > 0 else math.nan for key in ("ratio", "verdict_low", "verdict_high")] for row in rows]
    middle, low, high = (math.fsum(values) / len(rows) for values in zip(*logs, strict=True))
    apart = middle - student_interval([values[0] for values in logs])[0] if len(rows) > 1 else 0.0
    return math.exp(middle), math.exp(middle - math.hypot(middle - low, apart)), math.exp(middle + math.hypot(high - middle, apart))


def of_one_round(ratio: tuple[float, float, float], error: float) -> tuple[tuple[float, float, float], float]:
    """Of memory in one round, all that a budget holds of a long trace, no interval is known, but its addresses are always the same: other
    ones are allowed for as other runs of the program are."""
    middle, low, _ = ratio
    return ((middle, middle, middle), max(error, OWN_RUNS)) if known(middle) and not known(low) else (ratio, error)


def _wider(ratio: float, end: float, error: float, side: int) -> float:
    """An end of the interval with an error that adds in quadrature, in logarithms; beyond all where there is no end."""
    if not (known(end) and end > 0):
        return math.inf if side > 0 else 0.0
    return ratio * math.exp(side * math.hypot(math.log(end / ratio), error))


def modelled_times(runs: pd.DataFrame) -> dict[str, float]:
    """By allocator the modelled time of its calls, in ns, where they were counted by simulation. It repeats exactly."""
    counted = runs[(runs["pass"] == "count") & (runs["allocator"] != NULL_ALLOCATOR)] if "counts" in runs else runs[:0]
    found = {}
    for name, counts in zip(counted["allocator"], counted["counts"], strict=True):
        total = ((counts.get("time") or {}).get("modelled_ns") or {}).get("total") if isinstance(counts, dict) else None
        if total is not None and known(total) and total > 0:
            found[str(name)] = float(total)
    return found


def modelled_ratio(times: Mapping[str, float], name: str, baseline: str) -> tuple[float, float, float]:
    """To the baseline's, with its interval: the model is off in each, but of one allocator with two settings in what differs alone.
    NaN where one was not counted."""
    if name not in times or baseline not in times:
        return math.nan, math.nan, math.nan
    ratio = times[name] / times[baseline]
    same = name.partition(":")[0] == baseline.partition(":")[0]
    off = MODEL_RESIDUAL * (abs(ratio - 1) if same else math.hypot(ratio, 1))
    return ratio, max(ratio - off, 0.0), ratio + off


def _is_spread(summary: Summary) -> bool:
    """Whether the program's blocks do not all fit into a cache, so that it matters where they lie."""
    return summary.memory_share is None or summary.memory_share.live_bytes > IN_CACHE_BYTES
