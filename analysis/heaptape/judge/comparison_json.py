# SPDX-License-Identifier: Apache-2.0
"""The comparison as JSON for machines."""

from __future__ import annotations

import math
from typing import Any

from .against import earlier_json
from .beside import LEFTOVERS, PROCESSOR_EVENTS, Beside, beside_medians
from .comparison import of_recorded, recorded
from .conditions import conditions_json
from .json_text import figure, known_text, whole
from .model import (
    FIGURES,
    LESS,
    MORE,
    NONE,
    TIME,
    AllocatorEstimates,
    Comparison,
    Estimate,
    FigureWords,
    Interval,
    Json,
)
from .power import power_json
from .rounds import given_up


def comparison_json(comparison: Comparison) -> Json:
    context, plan = comparison.context, comparison.context.plan
    made: Json = {
        "trace": plan.trace_path, "calls": context.trace.calls, "inherited_objects": context.trace.inherited_objects,
        "rounds": comparison.rounds, "seed": plan.seed, "failed_runs": comparison.measurements.failed_runs, "scale": plan.scale,
        "processors": plan.processors or None, "baseline": comparison.names[context.baseline] if comparison.names else None,
        "thp": known_text(context.machine.thp), "repeats": comparison.measurements.repeats, "control": _control(comparison), "power": power_json(comparison),
        "warnings": [{"kind": warning.kind, "message": warning.message, "remedy": warning.remedy} for warning in comparison.warnings],
        "fail_if": conditions_json(comparison)}
    if comparison.earlier is not None:
        made["against_file"] = earlier_json(comparison)
    return made | {
        "harness": {"time_ns": figure(comparison.harness_ns), "rss_bytes": figure(comparison.null_rss_bytes),
                    "clock_cost_ns": figure(comparison.clock_cost_ns)},
        "recorded": _recorded(comparison),
        "control_calls": [{"name": call.name, "calls": call.calls, "obeyed_by": call.obeyed_by} for call in context.control_calls],
        "extrapolated": known_text(context.program.extended_words), "baseline_check": comparison.check,
        "allocators": [_allocator(comparison, choice) for choice in range(len(comparison.names))]}


def _interval(ratio: Interval) -> Json:
    return {"ratio": figure(ratio.estimate), "ci_low": figure(ratio.low), "ci_high": figure(ratio.high), "pairs": ratio.count}


def _control(comparison: Comparison) -> Json | None:
    if not comparison.controlled:
        return None
    return {"allocator": comparison.names[comparison.context.baseline]} | {
        words.key: _interval(comparison.controls[words.name]) for words in FIGURES}


def _recorded(comparison: Comparison) -> Json:
    program, served = comparison.context.program, recorded(comparison)
    malloc_ns = math.nan if served is None else comparison.allocators[served].estimates[TIME.name].median
    return {
        "command": program.command, "forked": program.forked, "linked": program.linked, "allocator": program.allocator,
        "allocator_version": program.allocator_version, "rss_peak_bytes": figure(program.rss_peak_bytes),
        "heap_peak_bytes": figure(program.heap_peak_bytes), "heap_low_bytes": figure(program.heap_low_bytes),
        "heap_high_bytes": figure(program.heap_high_bytes),
        "explained_bytes": program.share_explained_bytes if program.share_anon_bytes else None, "cpu_ns": figure(program.cpu_ns),
        "malloc_share": figure(malloc_ns / program.cpu_ns) if program.cpu_ns else None}


# --- an allocator

def _estimate(estimate: Estimate, words: FigureWords) -> Json:
    verdicts = {LESS: words.less, MORE: words.more, NONE: None}
    return {"median": figure(estimate.median), "minimum": figure(estimate.minimum), **_interval(estimate.ratio),
            "verdict_low": figure(estimate.widened.low), "verdict_high": figure(estimate.widened.high),
            "verdict": verdicts.get(estimate.verdict, estimate.verdict), "more_rounds": whole(estimate.more_rounds),
            "outliers": estimate.outliers}


def _allocator(comparison: Comparison, number: int) -> Json:
    measurements, plan = comparison.measurements, comparison.context.plan
    choice, found, failing = comparison.context.choices[number], comparison.allocators[number], measurements.failing[number]
    time, peak, *others = (_estimate(found.estimates[words.name], words) for words in FIGURES)
    beside, figures = beside_medians(comparison, number), measurements.figures[number]
    return {
        "name": choice.name, "version": choice.version, "path": choice.path, "build_id": choice.build_id,
        "baseline": number == comparison.context.baseline, "settings": choice.settings, "time_runs": found.time_runs,
        "memory_runs": found.memory_runs, "failed_runs": failing.failed, "given_up": given_up(failing),
        "problem": failing.problem if failing.failed else None, "limit": measurements.limits[number] if measurements.limits else None,
        "alloc_time_ns": time, "rss_peak_bytes": peak, "rss_between_calls_peak_bytes": figure(found.rss_between_calls_peak),
        "watched": found.unwatched is None if found.memory_runs else None,
        **{words.key: made for words, made in zip(FIGURES[2:], others, strict=True)},
        "of_recorded_peak": figure(of_recorded(comparison, number)), **_medians(found, comparison.instructions(number)),
        "harness_share": figure(beside.harness_share),
        "processors_asked": beside.processors_asked if plan.processors and plan.memory_pass else None,
        "by_processors": known_text(choice.by_processors), "arenas": whole(beside.arenas), "arenas_max": whole(beside.arenas_max),
        **_of_choice(figures, beside)}


def _medians(found: AllocatorEstimates, instructions: float) -> Json:
    fragmentation = [figure(value) for value in found.fragmentation]
    return {
        "ns_per_call": figure(found.ns_per_call), "instructions": figure(instructions), "faults": figure(found.faults),
        "wait_time_ns": figure(found.wait_ns), "fragmentation": dict(zip(("f1", "f2", "f3", "f4"), fragmentation, strict=True)),
        "calls": {name: {"count": of.count, "time_ns": figure(of.time_ns), "touch_ns": figure(of.touch_ns)}
                  for name, of in found.functions.items() if of.count}}


def _perf(beside: Beside) -> Json:
    """A counter that was not permitted is null."""
    counted = any(not math.isnan(beside.perf[name]) for name in PROCESSOR_EVENTS)
    scope = "user" if beside.user_only else "user and kernel"
    return {name: whole(value) for name, value in beside.perf.items()} | {"scope": scope if counted else None, "missing": beside.perf_missing}


def _decomposition(beside: Beside) -> Json | None:
    if beside.decomposition is None:
        return None
    after_free, after_purge = (whole(beside.leftovers[key]) for key in LEFTOVERS[:2])
    return beside.decomposition | {"after_free_bytes": after_free, "after_purge_bytes": after_purge}


def _of_choice(figures: Json, beside: Beside) -> Json:
    """figures: what is known of a choice over all rounds, as the runner has it. Medians stand between latencies and system calls."""
    latencies = {key: value for key, value in figures.items() if key.startswith("latenc")}
    medians: dict[str, Any] = {
        "perf": _perf(beside), "voluntary_switches": whole(beside.voluntary_switches),
        "involuntary_switches": whole(beside.involuntary_switches),
        **{key: whole(value) for key, value in beside.leftovers.items()}, "decomposition": _decomposition(beside)}
    return latencies | medians | {key: value for key, value in figures.items() if key not in latencies}
