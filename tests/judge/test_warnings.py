# SPDX-License-Identifier: Apache-2.0
"""Which warnings a comparison deserves, and what each says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from heaptape.judge.model import Comparison, Json, Warning
from heaptape.judge.schedule import End
from heaptape.judge.warnings import THREAD_BLOCKS, warnings_after
from judged_comparisons import MB, cell, comparison, context, steady

QUIET: Json = {"wall_s": 10.0, "busy_s": 10.5, "own_s": 10.0, "stolen_s": 0.0, "throttled_s": 0.0, "swapped_bytes": 0.0}


def warned(found: Comparison, end: End = End.ROUNDS, spent_s: float = 60.0, **activity: float | None) -> dict[str, Warning]:
    warnings = warnings_after(found, QUIET | activity, end, spent_s)
    assert len({warning.kind for warning in warnings}) == len(warnings)
    return {warning.kind: warning for warning in warnings}


def test_nothing_to_warn_of() -> None:
    assert warned(comparison(context(), steady(0.8))) == {}


@pytest.mark.parametrize(("more", "kind", "message"), [
    ({"calls": 525}, "few_events", "the trace has only 525 calls: startup dominates"),
    ({"lost_calls": 1, "anomalies": 2, "repairs": 1200}, "lossy_trace",
     "the recording is incomplete: 1 call lost, 2 anomalies, 0 foreign frees, 1,200 repairs"),
    ({"repairs": 51}, "lossy_trace", "the recording is incomplete: 0 calls lost, 0 anomalies, 0 foreign frees, 51 repairs"),
    ({"sliced": True, "fresh_objects": 1}, "fresh_heap",
     "1 block from before the slice lies in a fresh heap, without the holes and arenas that they had"),
    ({"zeroed_peak_bytes": 2 * MB}, "zeroed_by_calloc", "10 % of the memory at the peak (2.0 MB) is what calloc wrote while recording;"),
    ({"unmeasured_peak_bytes": 2 * MB}, "unmeasured", "10 % of the memory at the peak (2.0 MB) is in large blocks"),
    ({"governor": "powersave"}, "governor", "the processors' frequency governor is powersave"),
    ({"turbo": True}, "turbo", "turbo is on: the clock rate depends on other processes"),
    ({"thp": "always"}, "thp", 'transparent huge pages are "always" here'),
])
def test_of_what_is_known_before(more: dict[str, Any], kind: str, message: str) -> None:
    found = warned(comparison(context(**more), steady(0.8)))
    assert list(found) == [kind] and found[kind].message.startswith(message)


@pytest.mark.parametrize("more", [
    {"repairs": 50}, {"fresh_objects": 1}, {"zeroed_peak_bytes": MB}, {"zeroed_peak_bytes": 9 * MB, "touch": "none"},
    {"unmeasured_peak_bytes": 9 * MB, "memory_pass": False}, {"governor": "performance"}, {"turbo": False}, {"thp": "madvise"},
    {"thp": "always", "memory_pass": False}])
def test_of_these_is_no_warning(more: dict[str, Any]) -> None:
    assert warned(comparison(context(**more), steady(0.8))) == {}


def test_huge_pages_where_recorded() -> None:
    """With an option where that does, else what only root can do. Who chose a mode knows it."""
    found = comparison(context(thp="madvise"), steady(0.8))
    of = replace(found.context, program=replace(found.context.program, thp="always"))
    (warning,) = warned(replace(found, context=of)).values()
    assert warning.message == 'transparent huge pages are "madvise" here, and were "always" where recorded'
    assert warning.remedy == "echo always > /sys/kernel/mm/transparent_hugepage/enabled"
    of = replace(found.context, program=replace(found.context.program, thp="never"))
    assert warned(replace(found, context=of))["thp"].remedy == "--thp never"
    assert warned(replace(found, context=replace(of, plan=replace(of.plan, thp="madvise")))) == {}


@pytest.mark.parametrize(("activity", "kind", "message"), [
    ({"busy_s": 14.1}, "busy", "other processes kept 0.4 of the machine's 4 processors busy"),
    ({"stolen_s": 2.0}, "steal", "the hypervisor gave 5 % of the processors' time to other machines"),
    ({"throttled_s": 0.5}, "throttled", "the control group's quota stopped the replays for 0.50 s in all"),
    ({"swapped_bytes": 2e6}, "swap", "the machine swapped 2.0 MB")])
def test_of_the_machine(activity: dict[str, float], kind: str, message: str) -> None:
    found = comparison(context(), steady(0.8))
    assert {key: warning.message for key, warning in warned(found, **activity).items()} == {kind: message}
    assert warned(found, **dict.fromkeys(activity)) == {}, "it is not known"


def test_of_allocators() -> None:
    found = comparison(context(usable_size_calls=1), steady(0.8))
    base, other = found.context.choices
    of = replace(found.context, choices=[base, replace(other, skips_queries=True, lacks_operators=True, purges_soon=True)])
    peaks = [found.allocators[0], replace(found.allocators[1], rss_between_calls_peak=10.0 * MB)]
    told = warned(replace(found, context=of, allocators=peaks))
    assert list(told) == ["skipped_queries", "no_cxx_library", "copying"]
    assert told["skipped_queries"].message == "jemalloc has no malloc_usable_size: 1 call of it was skipped"
    # The floor has no such function on purpose; where a copy takes time, it is as in the program.
    of = replace(of, choices=[base, replace(of.choices[1], is_floor=True)], plan=replace(of.plan, memory_real=1.0))
    assert list(warned(replace(found, context=of, allocators=peaks))) == ["no_cxx_library"]


@pytest.mark.parametrize(("why", "remedy"), [(THREAD_BLOCKS, "nothing: their peaks may be higher than shown"), ("Invalid argument", "permit seccomp filters here")])
def test_of_peaks_that_nobody_watched(why: str, remedy: str) -> None:
    found = comparison(context(), steady(0.8))
    (warning,) = warned(replace(found, allocators=[replace(each, unwatched=why) for each in found.allocators])).values()
    assert (warning.message, warning.remedy) == (
        f"RSS was not read within calls, so that of a realloc that copies is missed: glibc, jemalloc ({why})", remedy)


def test_of_time() -> None:
    found = comparison(context(), steady(0.8))
    assert list(warned(replace(found, harness_ns=18e6))) == ["harness"]
    short = [replace(each, estimates=each.estimates | {"time": replace(each.estimates["time"], median=0.1e6)}) for each in found.allocators]
    (warning,) = warned(replace(found, allocators=short, harness_ns=0.05e6)).values()
    assert (warning.kind, warning.message) == ("short_run", "a run takes only 0.15 ms of CPU time, much of it startup")
    found.measurements.repeats = 10
    assert warned(replace(found, allocators=short, harness_ns=0.05e6)) == {}
    found.measurements.rounds[0][1] = cell(20e6, 24.0 * MB, readings_taken=900, readings_dropped=5)
    found.measurements.rounds[1][0] = cell(0.0, 0.0, readings_taken=90, readings_dropped=5)
    assert warned(found) == {}
    found.measurements.rounds[2][3] = cell(20e6, 24.0 * MB, readings_taken=0, readings_dropped=10)
    assert warned(found)["dropped"].message == "2.0 % of the timed calls were dropped because their thread was switched out"


def test_of_the_control() -> None:
    rows = [[base, other, 1.05 * control] for base, other, control in steady(0.8)]
    found = [warning for warning in warnings_after(comparison(context(), rows), QUIET, End.ROUNDS, 60.0) if warning.kind == "control"]
    assert [warning.message.split(" [")[0] for warning in found] == [
        f"the A/A control of {name} is 1.049" for name in ("time", "rss_peak", "rss_mean", "rss_end")]


def test_of_few_rounds() -> None:
    found = comparison(context(), steady(0.8, rounds=1))
    (warning,) = warned(found).values()
    assert (warning.message, warning.remedy) == ("1 round is too few to resample: intervals assume log-normal ratios", "use --rounds auto, or 12 and more")
    (warning,) = warned(comparison(context(rounds=0), steady(0.8, rounds=3))).values()
    assert warning.message.startswith("3 rounds are too few") and warning.remedy == "use a larger --budget"
    assert warned(comparison(context("glibc"), [row[:2] for row in steady(0.8, rounds=1)])) == {}, "nothing is compared"


def test_of_a_budget_that_is_spent() -> None:
    open_yet = comparison(context(rounds=0), steady(1.03, rounds=12, spread=0.05))
    needed = max(each.estimates[name].more_rounds for each in open_yet.allocators for name in ("time", "rss_peak") if each.estimates[name].more_rounds > 0)
    told = warned(open_yet, End.BUDGET, spent_s=120.0)
    assert told["budget"].message == "the budget ended before all verdicts were clear"
    assert told["budget"].remedy == f"use --budget {-(-int(10 * (12 + needed)) // 60)}m" and "budget" not in warned(open_yet, End.RESOLVED)
    assert warned(open_yet, End.BUDGET, spent_s=2e6)["budget"].remedy == "none: the difference is too small for this trace and machine"
    assert "budget" not in warned(comparison(context(rounds=0), steady(0.8)), End.BUDGET)


def test_their_order() -> None:
    found = comparison(context(calls=5, zeroed_peak_bytes=9 * MB, governor="x"), steady(0.8, rounds=2))
    assert list(warned(replace(found, harness_ns=18e6), busy_s=99.0)) == ["few_events", "zeroed_by_calloc", "busy", "governor", "harness", "few_rounds"]
