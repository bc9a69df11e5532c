# SPDX-License-Identifier: Apache-2.0
"""Sentences about an experiment, beside its verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..base.allocators import full_name, is_the_linked, left_out_sentence, shown_name
from ..base.units import byte_count, count, counted, decimal, figure, known, listing, seconds
from .comparison import MEASURES, Experiment, Measure, paired_ratios, round_table
from .reader import NULL_ALLOCATOR

# ---- calls by which the program controls its allocator ----

def control_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each set of allocators that obey the same calls, as `replay` says it."""
    measured = runs[runs["allocator"] != NULL_ALLOCATOR].drop_duplicates("allocator")
    times: dict[str, int] = {}
    obeying: dict[str, list[str]] = {}
    for name, calls in zip(measured["allocator"], measured["control_calls"], strict=True):
        for call, said in calls.items():
            times[call] = int(said["calls"])
            obeying.setdefault(call, []).extend([str(name)] if said["obeyed"] else [])
    said_of: dict[tuple[str, ...], list[str]] = {}
    for call, names in obeying.items():
        if names and len(names) < len(measured):
            said_of.setdefault(tuple(names), []).append(f"{call} {'once' if times[call] == 1 else counted(times[call], 'time')}")
    return [f"The program calls {listing(calls)}: {listing(list(names))} alone {'obeys' if len(names) == 1 else 'obey'}."
            for names, calls in said_of.items()]


# ---- the order of the runs ----

ROUNDS_MIN = 8
CHANCE = 0.05
"""The chance of finding any if the order means nothing: each test has its share of it (Bonferroni)."""


@dataclass(frozen=True)
class Trend:
    """Spearman's rank correlation of an allocator's ratios with the number of their round, and how likely one as strong is
    where the order means nothing."""

    measure: str
    allocator: str
    rounds: int
    correlation: float
    p: float


def find_trends(frame: pd.DataFrame, baseline: str) -> list[Trend]:
    """Those that chance does not explain."""
    tested = []
    for name in ("time", "rss_peak"):
        table = round_table(frame, MEASURES[name])
        others = [allocator for allocator in table if allocator != baseline and baseline in table]
        found = (_trend(name, str(allocator), table[[allocator, baseline]]) for allocator in others)
        tested += [trend for trend in found if trend]
    return [trend for trend in tested if trend.p * len(tested) < CHANCE]


def _trend(measure: str, allocator: str, pairs: pd.DataFrame) -> Trend | None:
    """None where there are too few rounds, or all ratios are equal. Ranks are those within one schedule of rounds. By chance a
    correlation of n ranks has a variance of 1 / (n - 1)."""
    rounds, weight, weighted = 0, 0, 0.0
    for _, schedule in pairs.groupby(level=["seed", "repeat"], sort=False):
        ratios = paired_ratios(schedule.iloc[:, 0], schedule.iloc[:, 1])
        ratios = ratios[~np.isnan(ratios)]
        rounds += ratios.size
        if np.unique(ratios).size < 2:
            continue
        weight += ratios.size - 1
        weighted += (ratios.size - 1) * float(np.corrcoef(pd.Series(ratios).rank(), np.arange(ratios.size))[0, 1])
    if rounds < ROUNDS_MIN or weight == 0:
        return None
    return Trend(measure, allocator, rounds, weighted / weight, math.erfc(abs(weighted) / math.sqrt(2 * weight)))


def order_line(trends: list[Trend]) -> str:
    """One sentence, or ""."""
    moved = [f"the {MEASURES[trend.measure].title} of {trend.allocator} {'rises' if trend.correlation > 0 else 'falls'} "
             f"(rank correlation {trend.correlation:.2f}, p {trend.p:.1g})" for trend in trends]
    return f"Over the rounds {listing(moved)}: intervals are too narrow. Replay again on a quieter machine." if moved else ""


# ---- the allocator that is part of the program ----

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


# ---- settings of the program ----

def _first(runs: pd.DataFrame, column: str) -> dict[str, object]:
    """By allocator."""
    return {str(name): rows[column].iloc[0] for name, rows in runs.groupby("allocator", sort=False)} if column in runs else {}


def shown_names(runs: pd.DataFrame) -> dict[str, str]:
    """What tables call each allocator: its name, with the settings of the program."""
    return {name: shown_name(name, settings if isinstance(settings, dict) else None) for name, settings in _first(runs, "allocator_settings").items()}


def settings_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for those that ran as the program's allocator was set, and one for what is missing of that."""
    names = [shown for name, shown in shown_names(runs).items() if shown != name]
    left = [left for left in _first(runs, "allocator_left_out").values() if isinstance(left, list) and left]
    return [*([f"As the program's allocator was set: {', '.join(names)}."] if names else []), *([left_out_sentence(left[0])] if left else [])]


# ---- what is missing ----

VERIFY = "verify"


def refusal_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each allocator that refuses calls which the program's own served."""
    refused = runs[runs["refused_calls"] > 0]
    return [f"{name} {rows['problem'].iloc[-1]}: no figure of it would be of this program."
            for name, rows in refused.groupby("allocator", sort=False)]


def missing_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each allocator that refuses calls, of which runs failed, and for each that verification found wrong."""
    lines = refusal_lines(runs)
    measured = runs[(runs["pass"] != VERIFY) & (runs["refused_calls"] == 0)]
    for name, rows in measured.groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if failed.empty:
            continue
        who = "the null replayer" if name == NULL_ALLOCATOR else str(name)
        lines.append(f"{len(failed)} of {counted(len(rows), 'run')} of {who} failed and "
                     f"{'are' if len(failed) > 1 else 'is'} left out{_last_problem(failed)}.")
    for name, rows in runs[runs["pass"] == VERIFY].groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if not failed.empty:
            lines.append(f"Verification of {name} failed{_last_problem(failed)}.")
    return lines


def mixed_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each name of several builds or versions, whose figures it mixes."""
    lines = []
    for name, rows in runs[runs["pass"] != VERIFY].groupby("allocator", sort=False):
        builds = list(dict.fromkeys(zip(rows["allocator_version"], rows["allocator_build_id"], strict=True)))
        known = [(version, build) for version, build in builds if version or build]
        if name != NULL_ALLOCATOR and len(known) > 1:
            listed = ", ".join(" ".join(filter(None, [version, build[:12]])) for version, build in known)
            lines.append(f"{name} names {len(known)} builds ({listed}), and its figures mix them. Compare one at a time, or "
                         "give each a name of its own by --alloc NAME=/lib.so.")
    return lines


def _last_problem(failed: pd.DataFrame) -> str:
    problems: list[Any] = list(failed["problem"]) if "problem" in failed else []
    known = [str(problem) for problem in problems if isinstance(problem, str) and problem]
    return f" (the last: {known[-1]})" if known else ""


# ---- other machines ----

_MACHINES = "0"


@dataclass(frozen=True)
class ProcessorTable:
    """Medians of the peak, with the allocator's arenas where it reports them; the numbers of processors ascend, the machine's
    own comes first."""

    trace_path: str
    title: str
    columns: list[str]
    rows: list[list[str]]


def processor_tables(found: Sequence[Experiment]) -> list[ProcessorTable]:
    """A table for each trace that was replayed with several numbers, and otherwise in one way."""
    groups: dict[tuple[object, ...], dict[int, Experiment]] = {}
    for experiment in found:
        others = tuple(sorted((name, text) for name, text in experiment.settings.items() if name != "processors"))
        number = int(experiment.settings.get("processors", _MACHINES))
        groups.setdefault((experiment.trace_sha256, others), {})[number] = experiment
    tables = [_table(dict(sorted(by_number.items()))) for by_number in groups.values() if len(by_number) > 1]
    return [table for table in tables if table.rows]


def _table(by_number: dict[int, Experiment]) -> ProcessorTable:
    process, heap = MEASURES["process_rss_peak"], MEASURES["rss_peak"]
    known = all(experiment.runs[process.column].notna().any() for experiment in by_number.values())
    measure = process if known else heap
    cells = {number: _cells(experiment, measure) for number, experiment in by_number.items()}
    names = dict.fromkeys(name for column in cells.values() for name in column)
    columns = ["allocator", *("as it is" if number == 0 else counted(number, "processor") for number in cells)]
    rows = [[name, *(column.get(name, "") for column in cells.values())] for name in names]
    return ProcessorTable(next(iter(by_number.values())).trace_path, measure.title, columns, rows)


def _cells(experiment: Experiment, measure: Measure) -> dict[str, str]:
    """By allocator the median, and its arenas."""
    medians = round_table(experiment.runs, measure).median().dropna()
    arenas = experiment.runs.groupby("allocator")["arenas"].median() if "arenas" in experiment.runs else pd.Series(dtype=float)
    return {str(name): _cell(float(value), measure, float(arenas.get(name, float("nan")))) for name, value in medians.items()}


def _cell(value: float, measure: Measure, arenas: float) -> str:
    with_arenas = f", {counted(arenas, 'arena')}" if arenas == arenas else ""
    return figure(value, measure.unit) + with_arenas


# ---- used heaps ----

SETTING = "age"


def age_flips(compared: Iterable[tuple[Experiment, pd.DataFrame]]) -> list[str]:
    """A sentence for each allocator and measure whose verdict is the opposite on another heap, all else being the same. Each
    experiment comes with its comparison, as `compare` gives it."""
    groups: dict[tuple[object, ...], list[tuple[str, pd.DataFrame]]] = {}
    for experiment, comparison in compared:
        others = tuple(sorted((name, text) for name, text in experiment.settings.items() if name != SETTING))
        key = (experiment.trace_sha256 or experiment.trace_path, others)
        groups.setdefault(key, []).append((experiment.settings.get(SETTING, ""), comparison))
    return [sentence for heaps in groups.values() if len(heaps) > 1 for sentence in _flips(heaps)]


def _flips(heaps: list[tuple[str, pd.DataFrame]]) -> list[str]:
    rows = pd.concat([comparison.assign(heap=age) for age, comparison in heaps])
    found = []
    for (measure_name, allocator, baseline), group in rows.groupby(["measure", "allocator", "baseline"], sort=False):
        measure = MEASURES[str(measure_name)]
        opposite = group[group["verdict"].isin([measure.less, measure.more])]
        if opposite["verdict"].nunique() < 2:
            continue
        of_heaps = _by_heap(opposite)
        found.append(f"{measure.title} of {allocator} against {baseline}: {of_heaps}. The verdict depends on how used the heap is.")
    return found


def _by_heap(rows: pd.DataFrame) -> str:
    """Each heap's verdict and ratio."""
    return "; ".join(f"{row.verdict} ({row.ratio:.2f}) on a {'heap of --age ' + row.heap if row.heap else 'fresh heap'}"
                     for row in rows.itertuples())


# ---- limits of memory ----

LIMIT = "limit"


def limit_lines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each allocator and limit that was asked for; of a search one with the lowest."""
    lines = []
    rows = runs[(runs["pass"] == LIMIT) & (runs["failures"] == 0)]
    for name, tried in rows.groupby("allocator", sort=False):
        limits = [limit for limit in tried["limit"] if limit.get("memory_max_bytes")]
        if not limits:
            continue
        lines += _found([limit for limit in limits if limit.get("searched")], str(name))
        lines += [_sentence(str(name), limit) for limit in limits if not limit.get("searched")]
    return lines


def _found(steps: list[dict[str, object]], name: str) -> list[str]:
    """What the steps of a search come to."""
    if not steps:
        return []
    lives = [_number(step, "memory_max_bytes") for step in steps if step.get("lives")]
    dies = [_number(step, "memory_max_bytes") for step in steps if not step.get("lives")]
    ends = [f"lives under a limit of {_size(min(lives))}" if lives else "", f"dies under one of {_size(max(dies))}" if dies else ""]
    return [f"{name} {' and '.join(filter(None, ends))} (by {steps[0].get('by')})."]


def _size(limit_bytes: float) -> str:
    """The size as replay prints it: the two that a search finds are a page apart, or half a per cent, which three digits do not show."""
    return f"{decimal(limit_bytes / 1e3)} kB" if limit_bytes < 1e6 else f"{decimal(limit_bytes / 1e6, 3 if limit_bytes < 1e7 else 2)} MB"


def _sentence(name: str, limit: dict[str, object]) -> str:
    under = f"Under a limit of {byte_count(_number(limit, 'memory_max_bytes'))} {name} "
    if limit.get("lives"):
        return f"{under}lives (by {limit.get('by')})."
    at = f"{seconds(_number(limit, 'died_at_ns'))} s of the trace, at event {count(_number(limit, 'died_at_event'))}"
    return f"{under}dies at {at} (by {limit.get('by')})."


def _number(limit: dict[str, object], key: str) -> float:
    value = limit.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


# ---- what the figures rest on ----

def grounds(experiment: Experiment, placement_known: bool) -> list[str]:
    """A sentence for each of the three. placement_known: the program's accesses were replayed, too."""
    extrapolated = _extrapolated(experiment)
    return [
        "Measured: each allocator's time and memory for the calls of this trace, on this machine.",
        f"Extrapolated: {'; '.join(extrapolated)}." if extrapolated else "Extrapolated: nothing.",
        "Not known: other inputs and machines" + ("." if placement_known else
                                                  "; what the program gains by where its blocks lie (record with --accesses)."),
    ]


def _extrapolated(experiment: Experiment) -> list[str]:
    """What was replayed but not recorded, by its assumption."""
    settings, found = experiment.settings, []
    if "extended" in settings:
        found.append(f"time after the recording, {settings['extended']}, as if the load stayed as in that stretch (heaptape forecast has intervals)")
    if "scale" in settings:
        found.append(f"a greater load, as {settings['scale']} copies of the program side by side")
    if "age" in settings:
        found.append("a used heap, of blocks of the trace's sizes freed in random order")
    if "processors" in settings:
        found.append(f"a machine with {counted(int(settings['processors']), 'processor')}, by what allocators do when they are shown so many")
    return found
