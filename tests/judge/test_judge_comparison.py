# SPDX-License-Identifier: Apache-2.0
"""What is made of cells: medians of what is known, checks and parts of one run, who leads. Ratios and verdicts of made-up rounds:
tests/analysis/test_two_comparisons.py."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, cast

import judged_runs
import pytest
from heaptape.judge.beside import beside_medians
from heaptape.judge.comparison import compare, compare_figure, compare_pair, compared_values, is_of_own, of_recorded, recorded
from heaptape.judge.intervals import CONFIDENCE, INTERIM_CONFIDENCE, Random
from heaptape.judge.model import LESS, MORE, NONE, PEAK, SAME, TIME, UNRESOLVED, Cell, Choice, Comparison, FunctionFigures, Interim, Program
from heaptape.judge.rounds import Rounds
from heaptape.judge.model import Talk
from heaptape.judge.text import lead, standing_of
from judged_runs import blank, cell, context, measurements

NAN = math.nan


def _one(cells: Sequence[Cell], **given: Any) -> Comparison:
    """Of one allocator in some rounds."""
    return compare(context(["glibc"], **given), measurements([[one, Cell()] for one in cells]))


def _of_times(rounds: int, *factors: float) -> Comparison:
    """The first is the baseline, whose control differs by little; a time of 0 is a run that failed."""
    rows, random = [], Random(1)
    for number in range(rounds):
        weather = 1e6 * (1 + number % 5)
        rows.append([cell({"alloc_time_ns": weather * factor * (1 + random.below(1_000) / 1e5)}) if factor else Cell()
                     for factor in (*factors, factors[0])])
    return compare(context([f"a{k}" for k in range(len(factors))]), measurements(rows))


def test_nothing_measured_is_nothing_known() -> None:
    found = _one([])
    estimate = found.allocators[0].estimates["time"]
    assert math.isnan(estimate.median) and math.isnan(estimate.minimum) and estimate.verdict == NONE and estimate.outliers == []
    assert (found.rounds, found.timed_calls, found.check, found.allocators[0].functions) == (0, 0, None, {})
    assert standing_of(found, TIME).leader is None
    failed = _one([Cell(), Cell()])
    assert failed.allocators[0].time_runs == 0 and math.isnan(failed.allocators[0].faults) and failed.allocators[0].unwatched is None


def test_the_baseline_is_not_compared_with_itself() -> None:
    found = _of_times(6, 1.0, 0.5).allocators[0].estimates["time"]
    assert found.verdict == NONE and math.isnan(found.more_rounds) and (found.ratio.low, found.ratio.high) == (1, 1)


def test_exact_figures_stand_before_rounded_ones() -> None:
    rounded = cell({"alloc_time_ns": 3, "harness_time_ns": 1}, {"rss_peak_bytes": 7})
    rounded.exact_time, rounded.exact_memory = {"alloc_time_ns": 2.5}, {"rss_peak_bytes": 6.75, "rss_end_bytes": None}
    found = _one([rounded]).allocators[0].estimates
    assert (found["time"].median, found["rss_peak"].minimum, found["rss_mean"].median) == (2.5, 6.75, 1e6)
    assert math.isnan(found["rss_end"].median)


def test_faults_are_of_the_time_pass_where_there_is_one() -> None:
    cells = [cell({"minor_faults": 5, "major_faults": 1}, {"minor_faults": 90}), cell(None, {"minor_faults": 70})]
    assert _one(cells).allocators[0].faults == 6
    assert _one(cells, plan={"time_pass": False}).allocators[0].faults == 80


def test_the_null_replayers_figures_are_medians() -> None:
    runs = measurements([[cell({}), Cell()] for _ in range(3)])
    for number, row in enumerate(runs.rounds):
        row[0] = cell({"alloc_time_ns": None, "harness_time_ns": 10 + number, "clock_cost_ns": 20.5 if number == 0 else None,
                       "timed_calls": 7 if number == 0 else None}, {"rss_peak_bytes": 1_000 * number})
    found = compare(context(["glibc"]), runs)
    assert (found.harness_ns, found.clock_cost_ns, found.null_rss_bytes, found.timed_calls) == (11, 20.5, 1_000, 7)
    runs.rounds[0][0] = Cell()
    assert compare(context(["glibc"]), runs).timed_calls == 0


def test_functions_are_medians_of_the_rounds_that_were_timed() -> None:
    times = [{"count": 4, "time_ns": 10, "touch_ns": 2}, {"count": 4, "time_ns": 30, "touch_ns": 4}, {"count": 4, "time_ns": None, "touch_ns": None}]
    cells = [cell({"calls": {"malloc": call}}) for call in times]
    cells[1].exact_time = {"functions": {"malloc": {"time_ns": 30.5, "touch_ns": 4.25}}}
    assert _one(cells).allocators[0].functions == {"malloc": FunctionFigures(4, 20.25, 3.125)}


def test_fragmentation_and_what_was_not_watched() -> None:
    cells = [cell({}, {"fragmentation": {"f1": value, "f2": 2.0, "f3": None, "f4": 4.0}}) for value in (1.0, 3.0, None)]
    cells[0].exact_memory, cells[1].exact_memory = {"unwatched": "the first"}, {"unwatched": "the last"}
    found = _one(cells).allocators[0]
    assert found.fragmentation[:2] == [2.0, 2.0] and math.isnan(found.fragmentation[2]) and found.fragmentation[3] == 4.0
    assert found.unwatched == "the last" and found.memory_runs == 3


def test_a_check_is_of_one_round() -> None:
    served = [blank(Choice, name="glibc", serves=True)]
    cells = [cell({}, {"baseline_check": error and {"peak_error": error, "round": number}})
             for number, error in enumerate((0.5, None, 0.125, -0.25, 0.25))]
    found = _one([*cells, Cell()], choices=served)
    assert recorded(found) == 0 and found.check == {"peak_error": 0.125, "round": 2}  # of 0.125 and 0.25 the earlier
    assert _one(cells).check is None and _one([Cell()], choices=served).check is None


def test_memory_of_the_recorded_program() -> None:
    cells = [cell({}, {"process_rss_peak_bytes": 3e6})]
    own = blank(Program, linked=True, rss_peak_bytes=2e6)
    assert is_of_own(_one(cells, program=own)) and of_recorded(_one(cells, program=own), 0) == 1.5
    assert math.isnan(of_recorded(_one(cells), 0))
    assert not is_of_own(_one(cells, program=own, choices=[blank(Choice, name="glibc", serves=True)]))


def test_interim_verdicts_are_stricter() -> None:
    runs = _of_times(18, 1.0, 0.9).measurements
    shown, strict = (compare_figure(runs, TIME, 1, 0, confidence) for confidence in (CONFIDENCE, INTERIM_CONFIDENCE))
    assert shown.verdict == strict.verdict == LESS and strict.widened.low < shown.widened.low < shown.widened.high < strict.widened.high
    assert compare_figure(runs, PEAK, 1, 0, CONFIDENCE).ratio.count == 0


def test_who_asked_says_what_more_rounds_are_for() -> None:
    """It is told of what is open by the stricter intervals, and of nothing where all is clear."""
    asked: list[Interim] = []
    turning: set[str] = {"time"}

    def matters(interim: Interim) -> set[str]:
        asked.append(interim)
        return turning

    def interim(rounds: int, *factors: float) -> tuple[bool, bool]:
        found = _of_times(rounds, *factors)
        executor = Rounds(found.context, cast(Talk, None), Random(1), [], io.StringIO(), matters=matters)
        executor.measurements = found.measurements
        return executor.interim(rounds)

    assert interim(8, 1.0, 0.99, 0.5) == (True, False)
    [told] = asked
    assert set(told.estimates["time"]) == {"a1", "a2"} and told.estimates["time"]["a2"].widened.high < 0.6 and told.base_ns == pytest.approx(2.5e6, rel=0.3)
    turning.clear()
    assert interim(8, 1.0, 0.99, 0.5) == (False, False) and len(asked) == 2
    assert interim(8, 1.0, 0.5) == (False, False) and len(asked) == 2


def test_pairs_are_compared_by_their_rounds() -> None:
    found = _of_times(12, 1.0, 0.5, 0.55, 0)
    pair = compare_pair(found, TIME, 1, 2)
    assert pair.verdict == LESS and pair.ratio.estimate == pytest.approx(0.5 / 0.55, rel=0.01)
    assert compare_pair(found, TIME, 2, 1).verdict == MORE and compare_pair(found, TIME, 1, 3).verdict == NONE
    assert len(compared_values(found.measurements, TIME, 1)) == 12 and compared_values(found.measurements, TIME, 3) == []


def test_the_leader_and_who_is_not_shown_to_be_behind() -> None:
    found = _of_times(12, 1.0, 0.5, 0.8, 0.503, 1.4, 0)
    standing = standing_of(found, TIME)
    assert standing.leader == 1 and standing.tied == [3]
    assert [lead(found, TIME, standing, over).verdict for over in range(6)] == [LESS, NONE, LESS, NONE, LESS, NONE]
    assert lead(found, TIME, standing, 0) == found.allocators[1].estimates["time"]
    assert lead(found, TIME, standing, 1).ratio.estimate == 1


def test_the_baseline_leads_where_nobody_is_shown_to_be_better() -> None:
    found = _of_times(12, 1.0, 1.3, 1.001)
    standing = standing_of(found, TIME)
    assert (standing.leader, standing.tied) == (0, [2])
    assert found.allocators[2].estimates["time"].verdict in (SAME, UNRESOLVED)
    assert standing_of(found, PEAK).leader is None
    ahead = lead(found, TIME, standing, 1)
    assert ahead.verdict == LESS and ahead.ratio.estimate == pytest.approx(1 / 1.3, rel=0.01)


def test_of_equal_leaders_the_first_by_name() -> None:
    runs = [[cell({"alloc_time_ns": ns}) for ns in (100, 50, 50, 100)] for _ in range(8)]
    found = compare(context(["glibc", "tcmalloc", "jemalloc"]), measurements(runs))
    assert standing_of(found, TIME).leader == 2


PERF = dict.fromkeys(("instructions", "cycles", "cache_misses", "llc_load_misses", "dtlb_load_misses", "branch_misses",
                      "context_switches", "cpu_migrations"))


def test_medians_beside() -> None:
    cells = [cell({"alloc_time_ns": 300, "harness_time_ns": 100, "voluntary_switches": 1, "perf": PERF | {
                "instructions": 10, "context_switches": 2, "scope": "user", "missing": None}},
                  {"arenas": 4, "arenas_max": None, "processors_asked": False, "swap_bytes": 8, "rss_after_free_bytes": 6}),
             cell({"alloc_time_ns": None, "voluntary_switches": 4, "perf": PERF | {
                 "instructions": 30, "context_switches": None, "scope": "user and kernel", "missing": "not permitted"}},
                  {"arenas": 7, "processors_asked": True, "rss_after_free_bytes": 9}),
             Cell()]
    cells[1].exact_time = {"voluntary_switches": 4.5, "perf": {"instructions": 30.5}}
    found = beside_medians(_one(cells), 0)
    assert (found.perf["instructions"], found.perf["context_switches"]) == (20.25, 2) and math.isnan(found.perf["cycles"])
    assert found.user_only and found.perf_missing == "not permitted" and found.processors_asked
    assert (found.voluntary_switches, found.harness_share, found.arenas) == (2.75, 0.25, 5.5) and math.isnan(found.arenas_max)
    assert (found.leftovers["swap_bytes"], found.leftovers["rss_after_free_bytes"]) == (8, 7.5)
    assert math.isnan(found.leftovers["lazyfree_bytes"]) and found.decomposition is None


def test_nothing_beside() -> None:
    found = beside_medians(_one([Cell()]), 0)
    assert all(math.isnan(value) for value in (*found.perf.values(), *found.leftovers.values(), found.harness_share, found.arenas))
    assert not found.user_only and found.perf_missing is None and not found.processors_asked


def test_what_memory_is_made_of_is_one_runs() -> None:
    """The run whose RSS is the median, the lower of two in the middle, by each moment; of equal ones the last."""
    rss = [(40, 1), (10, 2), (20, 2), (30, 9)]
    cells = [cell({}, {"decomposition": {"peak": {"rss_bytes": peak, "run": k}, "end": {"rss_bytes": end, "run": k}, "after_free_bytes": 0}})
             for k, (peak, end) in enumerate(rss)]
    assert beside_medians(_one([cell({}, {}), *cells]), 0).decomposition == {
        "peak": {"rss_bytes": 20, "run": 2}, "end": {"rss_bytes": 2, "run": 2}}


def test_blanks_know_their_fields() -> None:
    with pytest.raises(AssertionError, match="no fields of Choice: {'nmae'}"):
        judged_runs.blank(Choice, nmae="glibc")
