# SPDX-License-Identifier: Apache-2.0
"""All runs of one replay set against each other: medians, paired ratios to the baseline, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from .intervals import (
    CONFIDENCE,
    median,
    more_rounds,
    outliers,
    paired_ratios,
    ratio_interval,
    verdict,
    widened,
)
from .model import (
    CHOICE_NULL,
    FIGURES,
    NONE,
    PEAK,
    UNRESOLVED,
    AllocatorEstimates,
    Cell,
    Comparison,
    Context,
    Estimate,
    FigureWords,
    FunctionFigures,
    Interval,
    Json,
    Measurements,
    known,
)


def compare(context: Context, measurements: Measurements) -> Comparison:
    """Warnings, and an earlier run to compare with, are added by those who know them."""
    rounds, baseline = measurements.rounds, context.baseline
    last = len(context.choices) + 1
    controls = {words.name: _ratio_to(measurements, words, last, 1 + baseline, CONFIDENCE) for words in FIGURES}
    nulls = [cells[CHOICE_NULL] for cells in rounds]
    return Comparison(
        context, measurements,
        [_estimate_allocator(context, measurements, choice, controls) for choice in range(len(context.choices))],
        controls,
        _middle_check(measurements, _served(context)),
        _median(cell.value("harness_time_ns", of_time=True) for cell in nulls),
        _median(cell.value(PEAK.key, of_time=False) for cell in nulls),
        _median(cell.value("clock_cost_ns", of_time=True) for cell in nulls),
        _count(nulls[0].value("timed_calls", of_time=True)) if nulls else 0)


def of_counts(context: Context, counts: Json, earlier: Json | None) -> Comparison:
    """The comparison if nothing is measured in rounds."""
    return replace(compare(context, Measurements(counts=counts)), earlier=earlier)


def compare_figure(measurements: Measurements, words: FigureWords, choice: int, baseline: int, confidence: float) -> Estimate:
    """The ratios of one figure, choice to baseline; confidence is that of both intervals, the control's too. Medians and outliers
    are not taken."""
    control = _ratio_to(measurements, words, len(measurements.rounds[0]) - 1 if measurements.rounds else 0, 1 + baseline, confidence)
    return _judged(_ratio_to(measurements, words, 1 + choice, 1 + baseline, confidence), control)


def compare_pair(comparison: Comparison, words: FigureWords, choice: int, other: int) -> Estimate:
    """The ratios of one allocator to another, neither of which need be the baseline, widened by the comparison's control. Medians
    and outliers are not taken."""
    ratio = _ratio_to(comparison.measurements, words, 1 + choice, 1 + other, CONFIDENCE)
    return _judged(ratio, comparison.controls[words.name])


def compared_values(measurements: Measurements, words: FigureWords, choice: int) -> list[float]:
    """What the rounds showed of one figure, without those that did not."""
    return [value for value in measurements.values(1 + choice, words) if not math.isnan(value)]


def recorded(comparison: Comparison) -> int | None:
    """The allocator of the recorded program, if it was replayed."""
    return _served(comparison.context)


def is_of_own(comparison: Comparison) -> bool:
    """Whether the program's allocator is part of it, and none of these: then its recorded memory is what theirs is held against."""
    program = comparison.context.program
    return program.linked and not math.isnan(program.rss_peak_bytes) and recorded(comparison) is None


def of_recorded(comparison: Comparison, choice: int) -> float:
    """What the process would hold at its peak under an allocator, of what it held when recorded; NaN where that is not known."""
    if not is_of_own(comparison):
        return math.nan
    return comparison.allocators[choice].estimates["process_rss_peak"].median / comparison.context.program.rss_peak_bytes


def _served(context: Context) -> int | None:
    return next((number for number, choice in enumerate(context.choices) if choice.serves), None)


def _count(value: float) -> int:
    return 0 if math.isnan(value) else int(value)


def _median(values: Iterable[float]) -> float:
    """The median of those that are known."""
    return median(value for value in values if not math.isnan(value))


def _ratio_to(measurements: Measurements, words: FigureWords, who: int, base: int, confidence: float) -> Interval:
    """Each round gives one ratio, so that what slowed the machine in that round slowed both."""
    return ratio_interval(paired_ratios(measurements.values(who, words), measurements.values(base, words)), confidence)


def _judged(ratio: Interval, control: Interval) -> Estimate:
    wide = widened(ratio, control)
    found = verdict(wide)
    return Estimate(math.nan, math.nan, ratio, wide, found, more_rounds(wide) if found == UNRESOLVED else math.nan, [])


def _estimate(measurements: Measurements, words: FigureWords, choice: int, baseline: int, control: Interval) -> Estimate:
    judged = _judged(_ratio_to(measurements, words, 1 + choice, 1 + baseline, CONFIDENCE), control)
    values = measurements.values(1 + choice, words)
    measured = [value for value in values if not math.isnan(value)]
    is_baseline = choice == baseline
    return Estimate(median(measured), min(measured, default=math.nan), judged.ratio, judged.widened,
                    NONE if is_baseline else judged.verdict, math.nan if is_baseline else judged.more_rounds, outliers(values))


def _estimate_allocator(
    context: Context, measurements: Measurements, choice: int, controls: dict[str, Interval]
) -> AllocatorEstimates:
    cells = [row[1 + choice] for row in measurements.rounds]
    memory = [cell for cell in cells if cell.memory is not None]
    unwatched = [str(why) for cell in memory if (why := cell.exact_memory.get("unwatched")) is not None]
    return AllocatorEstimates(
        time_runs=sum(cell.time is not None for cell in cells),
        memory_runs=len(memory),
        estimates={words.name: _estimate(measurements, words, choice, context.baseline, controls[words.name]) for words in FIGURES},
        rss_between_calls_peak=_median(cell.value("rss_between_calls_peak_bytes", of_time=False) for cell in cells),
        unwatched=unwatched[-1] if unwatched else None,
        ns_per_call=_median(cell.value("ns_per_call", of_time=True) for cell in cells),
        faults=_median(cell.faults(of_time=context.plan.time_pass) for cell in cells),
        wait_ns=_median(cell.value("wait_time_ns", of_time=True) for cell in cells),
        fragmentation=[_median(known(cell.figure("fragmentation", of_time=False)[name]) for cell in memory)
                       for name in ("f1", "f2", "f3", "f4")],
        functions=_estimate_functions(cells))


def _estimate_functions(cells: Iterable[Cell]) -> dict[str, FunctionFigures]:
    """Not every round has a timed pass."""
    counts: dict[str, int] = {}
    taken: dict[str, list[Json]] = {}
    for cell in cells:
        if cell.time is None:
            continue
        exact = cell.exact_time.get("functions", {})
        for name, call in cell.time["calls"].items():
            counts[name] = call["count"]
            taken.setdefault(name, []).append(exact.get(name, call))
    return {name: FunctionFigures(count, _median(known(one["time_ns"]) for one in taken[name]),
                                  _median(known(one["touch_ns"]) for one in taken[name]))
            for name, count in counts.items()}


def _middle_check(measurements: Measurements, choice: int | None) -> Json | None:
    """The whole check of one round, so that its figures belong together: of two middle rounds the earlier."""
    if choice is None:
        return None
    cells = [row[1 + choice] for row in measurements.rounds]
    found = [cell.figure("baseline_check", of_time=False) for cell in cells if cell.memory is not None]
    checks: list[Json] = [check for check in found if check is not None]
    middle = _median(check["peak_error"] for check in checks)
    return min(checks, key=lambda check: abs(float(check["peak_error"]) - middle), default=None)
