"""Conditions over a fleet: for each trace, and for the geometric mean over the traces (docs/reference/fleet.md)."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..results.comparison import MEASURES, compare
from ..results.conditions import HOLDS, REFUTED, UNDECIDED, Condition, Judged, judge
from ..results.counted import WHOLE, counted_figure, counts_by_allocator
from ..results.geometric_mean import geometric_mean
from .plan import Configuration, Plan
from .summary import paired_by_allocator

ROUNDS_GROW = 1.5
"""By so much rounds grow while a condition is undecided: each look finds a difference by chance once in twenty."""

_PASSES = {"time": ("time", "both"), "memory": ("memory", "both")}


def check_conditions(plan: Plan, conditions: list[Condition]) -> None:
    """Raises UsageError for a condition that the plan's runs can't decide: before hours of them."""
    for condition in conditions:
        for configuration in plan.configurations:
            expected = _expected(condition, configuration)
            if len(plan.allocators) < 2:
                expected = "another allocator than the baseline in the plan"
            if expected:
                raise UsageError(f"--fail-if {condition.text}: expected {expected} (configuration {configuration.name})")


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
    """What each condition comes to, with the name of the trace or of the mean; of each configuration in the plan's order."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    frame["control"] = frame["control"].map(lambda value: value is True)
    found: list[tuple[str, Judged]] = []
    for configuration in plan.configurations:
        mine = frame[frame["configuration"] == configuration.name]
        where = f", configuration {configuration.name}" if len(plan.configurations) > 1 else ""
        counts = {}
        for trace in plan.traces:
            runs = mine[mine["trace_sha256"] == trace.sha256]
            counts[trace.name] = counts_by_allocator(runs)
            found += [(trace.name + where, item) for item in _of_trace(plan, conditions, runs, seed)]
        if len(plan.traces) > 1:
            title = f"the geometric mean of {len(plan.traces)} traces{where}"
            found += [(title, item) for condition in conditions
                      for item in (_mean_of_counts(plan, condition, counts) if condition.counted
                                   else _mean_of_rounds(plan, condition, mine, seed))]
    return found


def _of_trace(plan: Plan, conditions: list[Condition], runs: pd.DataFrame, seed: int) -> list[Judged]:
    """Failed runs, which leave nothing to judge, are reported anyway."""
    judged: list[Judged] = []
    comparison = compare(runs, plan.baseline, seed) if plan.baseline in set(runs["allocator"]) else None
    for condition in conditions if comparison is not None else []:
        try:
            judged += judge(comparison, [condition], runs, plan.baseline)
        except UsageError:
            continue
    return [item for item in judged if not _is_of_nothing(item)]


def _is_of_nothing(item: Judged) -> bool:
    """Calls that a trace has not are no reason to leave the others undecided."""
    return item.condition.part != WHOLE and item.value == 0 == item.base_value


def _mean_of_rounds(plan: Plan, condition: Condition, frame: pd.DataFrame, seed: int) -> list[Judged]:
    measure = MEASURES[condition.measure]
    pairs = [paired_by_allocator(frame[frame["trace_sha256"] == trace.sha256], measure, plan.baseline) for trace in plan.traces]
    judged = []
    for name in plan.names:
        ratios = [found[name] for found in pairs if len(found.get(name, ()))]
        if name == plan.baseline or not ratios:
            continue
        mean, low, high = geometric_mean(ratios, seed)
        judged.append(Judged(condition, name, plan.baseline, mean, low, high, min(map(len, ratios))))
    return judged


def _mean_of_counts(plan: Plan, condition: Condition, counts: dict[str, dict[str, dict[str, Any]]]) -> list[Judged]:
    judged = []
    for name in plan.names:
        logs = []
        for of_trace in counts.values():
            now, then = (counted_figure(of_trace.get(who, {}), condition.measure, condition.part) for who in (name, plan.baseline))
            if now > 0 and then > 0:
                logs.append(math.log(now / then))
        if name == plan.baseline or not logs:
            continue
        mean = math.exp(sum(logs) / len(logs))
        judged.append(Judged(condition, name, plan.baseline, mean, mean, mean, 1))
    return judged


def outcome_of(judged: list[tuple[str, Judged]]) -> str:
    """HOLDS if anything does, else UNDECIDED if anything is."""
    outcomes = {item.outcome for _, item in judged}
    return HOLDS if HOLDS in outcomes else UNDECIDED if UNDECIDED in outcomes else REFUTED


def more_would_help(judged: list[tuple[str, Judged]]) -> bool:
    """Whether a condition is undecided that rounds may decide."""
    return any(item.outcome == UNDECIDED and not item.condition.counted for _, item in judged)
