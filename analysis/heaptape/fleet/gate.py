# SPDX-License-Identifier: Apache-2.0
"""Conditions over a fleet: for each trace, and for the geometric mean over the traces (docs/reference/fleet.md)."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..judge.baseline_file import BaselineFileError
from ..results.comparison import MEASURES, Estimate, Floats, compare, geometric_mean, widen
from ..results.conditions import HOLDS, REFUTED, UNDECIDED, Condition, Judged, judge
from ..results.counted import WHOLE
from .baselines import judge_by_file, ratios_to_file, rounds_to_median
from .plan import Configuration, Plan, PlanError, TraceFile
from .summary import paired_by_allocator

ROUNDS_GROW = 1.5
"""By so much rounds grow while a condition is undecided: each look finds a difference by chance once in twenty."""

_PASSES = {"time": ("time", "both"), "memory": ("memory", "both")}


def check_conditions(plan: Plan, conditions: list[Condition]) -> None:
    """Raises UsageError for a condition that the plan's runs cannot decide: before hours of them."""
    for condition in conditions:
        for configuration in plan.configurations:
            expected = _expected(condition, configuration)
            if plan.baseline_files and condition.measure == "time":
                expected = "no baseline files in the plan: times of another run say nothing"
            elif len(plan.allocators) < 2 and not plan.baseline_files:
                expected = "another allocator than the baseline in the plan"
            if expected:
                raise UsageError(f"--fail-if {condition.text}: expected {expected} (configuration {configuration.name})")
    _check_files(plan, conditions)


def _check_files(plan: Plan, conditions: list[Condition]) -> None:
    for trace in plan.traces if plan.baseline_files else []:
        try:
            for condition in conditions:
                for name in plan.names:
                    plan.baseline_files[trace.sha256].check(condition, name)
        except BaselineFileError as error:
            raise PlanError(plan.path, f"baseline-files.{trace.name}", str(error)) from error


def _expected(condition: Condition, configuration: Configuration) -> str:
    options = configuration.options
    chosen, instructions = str(options.get("pass", "both")), options.get("instructions") is True
    if not condition.counted:
        needed = MEASURES[condition.measure].pass_name
        return "" if chosen in _PASSES[needed] else f"the {needed} pass in the plan's options"
    if condition.measure in ("instructions", "mapping_calls"):
        return "" if instructions or chosen == "count" else "instructions = true in the plan's options"
    return "" if chosen == "count" and not instructions else 'pass = "count" in the plan\'s options, without instructions'


def judge_fleet(plan: Plan, conditions: list[Condition], rows: list[dict[str, Any]], seed: int) -> list[tuple[str, Judged]]:
    """The outcome of each condition, with the name of the trace or of the mean, for each configuration in the plan's order."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    frame["control"] = frame["control"].map(lambda value: value is True)
    found: list[tuple[str, Judged]] = []
    for configuration in plan.configurations:
        mine = frame[frame["configuration"] == configuration.name]
        where = f", configuration {configuration.name}" if len(plan.configurations) > 1 else ""
        of_traces: list[Judged] = []
        for trace in plan.traces:
            judged = _of_trace(plan, trace, conditions, mine[mine["trace_sha256"] == trace.sha256], seed)
            found += [(trace.name + where, item) for item in judged]
            of_traces += judged
        if len(plan.traces) > 1:
            found += [(f"the geometric mean of {traces} trace{'s' * (traces > 1)}{where}", item) for condition in conditions
                      for traces, item in (_mean_of_counts(plan, condition, of_traces) if condition.counted
                                           else _mean_of_rounds(plan, condition, mine, seed))]
    return found


def _of_trace(plan: Plan, trace: TraceFile, conditions: list[Condition], runs: pd.DataFrame, seed: int) -> list[Judged]:
    """An allocator that has nothing to be judged by, as where the trace has no samples of memory, is undecided."""
    if trace.sha256 in plan.baseline_files:
        judged = judge_by_file(plan.baseline_files[trace.sha256], conditions, runs, plan.names, seed)
    else:
        known = _known(plan, conditions, runs, seed)
        judged = [known.get((condition, name)) or Judged(condition, name, plan.baseline, math.nan, math.nan, math.nan, 0)
                  for condition in conditions for name in plan.names if name != plan.baseline]
    return [item for item in judged if not _is_of_nothing(item)]


def _known(plan: Plan, conditions: list[Condition], runs: pd.DataFrame, seed: int) -> dict[tuple[Condition, str], Judged]:
    """The figures that the runs of a trace tell, by condition and allocator."""
    if plan.baseline not in set(runs["allocator"]):
        return {}
    comparison = compare(runs, plan.baseline, seed)
    judged: list[Judged] = []
    for condition in conditions:
        with suppress(UsageError):
            judged += judge(comparison, [condition], runs, plan.baseline)
    return {(item.condition, item.allocator): item for item in judged}


def _is_of_nothing(item: Judged) -> bool:
    """Calls that a trace has not are no reason to leave the others undecided."""
    return item.condition.part != WHOLE and item.value == 0 == item.base_value


def _title_of_baseline(plan: Plan) -> str:
    return "the baseline files" if plan.baseline_files else plan.baseline


def _mean_of_rounds(plan: Plan, condition: Condition, frame: pd.DataFrame, seed: int) -> list[tuple[int, Judged]]:
    """Each with the number of traces that have the figure, as of counts. Files' own rounds widen it, as they do a trace's."""
    measure = MEASURES[condition.measure]
    pairs: list[dict[str, Floats]] = []
    for trace in plan.traces:
        runs, file = frame[frame["trace_sha256"] == trace.sha256], plan.baseline_files.get(trace.sha256)
        pairs.append({name: ratios_to_file(file, measure, runs, name) for name in plan.names} if file
                     else paired_by_allocator(runs, measure, plan.baseline))
    judged = []
    for name in plan.names:
        ratios = [found[name] for found in pairs if len(found.get(name, ()))]
        if ratios and (name != plan.baseline or plan.baseline_files):
            found = Estimate(*geometric_mean(ratios, seed), min(map(len, ratios)))
            if plan.baseline_files:
                thens = [rounds_to_median(plan.baseline_files[trace.sha256], measure, name)
                         for trace, of_trace in zip(plan.traces, pairs, strict=True) if len(of_trace.get(name, ()))]
                found = widen(found, Estimate(*geometric_mean(thens, seed), min(map(len, thens))))
            judged.append((len(ratios), Judged(condition, name, _title_of_baseline(plan), found.ratio, found.ci_low, found.ci_high, found.rounds)))
    return judged


def _mean_of_counts(plan: Plan, condition: Condition, of_traces: list[Judged]) -> list[tuple[int, Judged]]:
    judged = []
    for name in plan.names:
        logs = [math.log(item.ratio) for item in of_traces
                if (item.condition, item.allocator) == (condition, name) and math.isfinite(item.ratio) and item.ratio > 0]
        if logs:
            mean = math.exp(sum(logs) / len(logs))
            judged.append((len(logs), Judged(condition, name, _title_of_baseline(plan), mean, mean, mean, 1)))
    return judged


def outcome_of(judged: list[tuple[str, Judged]]) -> str:
    """HOLDS if anything does, else UNDECIDED if anything is."""
    outcomes = {item.outcome for _, item in judged}
    return HOLDS if HOLDS in outcomes else UNDECIDED if UNDECIDED in outcomes else REFUTED


def more_would_help(judged: list[tuple[str, Judged]]) -> bool:
    """Whether a condition is undecided that rounds may decide: no number of them gives a trace a figure that it has not."""
    return any(item.outcome == UNDECIDED and not item.condition.counted and item.rounds > 0 for _, item in judged)
