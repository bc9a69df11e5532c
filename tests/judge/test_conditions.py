# SPDX-License-Identifier: Apache-2.0
"""What conditions come to, by whole intervals, by counts and by an earlier run."""

from __future__ import annotations

import io
import math
import re

import pytest
from heaptape.base.errors import EXIT_HOLDS, EXIT_UNDECIDED
from heaptape.judge.against import earlier_json, print_earlier, size_class
from heaptape.judge.comparison import of_counts
from heaptape.judge.conditions import HOLDS, REFUTED, UNDECIDED, conditions_json, is_open, more_rounds, say, state
from heaptape.judge.model import END, PEAK, TIME, Comparison, Interval
from judged_comparisons import MB, comparison, condition, context, counted, steady

NOT_KNOWN = Interval(1.2, math.nan, math.nan, 1)


def said(found: Comparison) -> tuple[int, list[str]]:
    err = io.StringIO()
    status = say(found, err)
    return status, err.getvalue().splitlines()


@pytest.mark.parametrize(("text", "low", "high", "came_to"), [
    ("time>1.05", 1.1, 1.3, HOLDS), ("time>1.05", 1.0, 1.2, UNDECIDED), ("time>1.05", 0.9, 1.0, REFUTED), ("rss_end<1", 1.1, 1.3, REFUTED),
    ("time>1.05", 1.05, 1.2, UNDECIDED),  # one end is the limit itself, which is not beyond it
    ("time>=1.05", 1.05, 1.2, HOLDS), ("time<=1.05", 0.9, 1.05, HOLDS), ("time>1.05", math.nan, math.nan, UNDECIDED)])
def test_whole_intervals_meet_a_condition(text: str, low: float, high: float, came_to: str) -> None:
    assert state(condition(text), Interval((low + high) / 2, low, high, 9)) == came_to


def test_what_keeps_rounds_coming() -> None:
    conditions = [condition("time>1.05"), condition("instructions>1")]
    across = Interval(1.1, 1.0, 1.2, 9)
    assert is_open(conditions, TIME, across) and is_open(conditions, TIME, NOT_KNOWN)
    assert not is_open(conditions, PEAK, across) and not is_open(conditions, TIME, Interval(1.2, 1.1, 1.3, 9))


def test_rounds_that_would_decide() -> None:
    # Half the width is 0.0378, the distance 0.00948: four times as narrow takes sixteen times the rounds.
    assert 170 <= more_rounds(1.05, Interval(1.06, 1.02, 1.10, 10)) <= 190
    assert math.isinf(more_rounds(1.05, Interval(1.05, 1.02, 1.08, 10)))
    assert math.isnan(more_rounds(1.05, NOT_KNOWN))


def test_what_is_said_of_rounds() -> None:
    given = context(conditions=("time>1.05", "rss_peak<0.5"))
    status, lines = said(comparison(given, steady(1.2)))
    assert status == EXIT_HOLDS and len(lines) == 1
    assert lines[0].startswith("heaptape replay: --fail-if time>1.05: jemalloc is at 1.199 [") and lines[0].endswith("] of glibc")
    assert said(comparison(given, steady(1.0))) == (0, [])
    status, lines = said(comparison(given, steady(1.06, rounds=4, spread=0.02)))
    hint = re.search(r"; needs about (\d+) more rounds?: --rounds (\d+)$", lines[0])
    assert status == EXIT_UNDECIDED and hint and int(hint[2]) == int(hint[1]) + 4


def test_what_is_said_where_there_is_no_interval() -> None:
    status, (line,) = said(comparison(context(conditions=("time>1.05",)), steady(1.2, rounds=1)))
    assert status == EXIT_UNDECIDED
    assert line == "heaptape replay: --fail-if time>1.05: undecided: jemalloc is at 1.202 of glibc in one round, which has no interval: --rounds 12"
    nothing = comparison(context(conditions=("time>1.05",)), [[math.nan, 1.0, math.nan]])
    assert said(nothing) == (EXIT_UNDECIDED, ["heaptape replay: --fail-if time>1.05: undecided: jemalloc has no round in which it and the baseline both "
                                              "have that figure"])
    hidden = comparison(context(conditions=("time>1.05", "rss_end<0.9")), [[1.0, 1.2, 1.0]] * 8 + [[0.0, 1.0, 0.0]])
    assert said(hidden) == (EXIT_UNDECIDED, ["heaptape replay: --fail-if time>1.05: undecided: jemalloc has no verdict: the harness hides the time",
                                             "heaptape replay: --fail-if rss_end<0.9: undecided: jemalloc has no verdict: the harness hides the memory"])


def test_what_comes_from_outside_begins_no_line() -> None:
    given = context("glibc", "je\nmalloc", conditions=("time>1.05",))
    _, (line,) = said(comparison(given, steady(1.2)))
    assert "je\\x0amalloc is at " in line


COUNTS = {"glibc": counted(1000), "jemalloc": counted(1100)}


@pytest.mark.parametrize(("text", "outcome", "words"), [
    ("instructions>1.05", HOLDS, "jemalloc is at 1.1000 of glibc: 1100, was 1000"), ("instructions>1.2", REFUTED, ""),
    ("instructions[malloc:70]>=1.1", HOLDS, "jemalloc is at 1.1000 of glibc: 550, was 500, in malloc of 64 to 79 bytes"),  # 64 to 79 are one class
    ("instructions[:80]>1", UNDECIDED, "undecided: jemalloc: glibc has none of these instructions, calls or misses"),
    ("instructions[calloc]>1", UNDECIDED, "undecided: jemalloc: glibc has none of these instructions, calls or misses"),
    ("faults<=1", HOLDS, "jemalloc is at 1.0000 of glibc: 100, was 100"),  # the program's first touches are part of it
    ("l2_misses>1", UNDECIDED, "undecided: jemalloc was not counted"),
])
def test_counts_are_exact(text: str, outcome: str, words: str) -> None:
    """Where nothing was measured in rounds."""
    found = of_counts(context(conditions=(text,), count_pass=True), COUNTS, None)
    (told,) = conditions_json(found)
    assert told["outcome"] == outcome and told["met_by"] == (["jemalloc"] if outcome == HOLDS else [])
    assert said(found)[1] == ([f"heaptape replay: --fail-if {text}: {words}"] if words else [])


def test_touches_are_less_the_null_replayers() -> None:
    counts = {"glibc": counted(1000, time={"faults": 50}), "jemalloc": counted(1100, time={"faults": 100})}
    assert said(of_counts(context(conditions=("faults>1.9",)), counts, None))[1][0].endswith("jemalloc is at 2.0000 of glibc: 100, was 50")


EARLIER = {"old": {"rss_peak_bytes": [24.0 * MB] * 8, "rss_end_bytes": [5.0 * MB, 7.0 * MB] * 4, "counts": counted(500)}}


def test_an_earlier_run_takes_the_baselines_place() -> None:
    """Of a file with one allocator, whatever its name; the baseline itself is compared, too."""
    given = context(conditions=("rss_peak>1.1", "rss_end>1.05", "instructions>1.5"), baseline_file="b.json")
    found = comparison(given, steady(1.2), COUNTS, EARLIER)
    status, lines = said(found)
    assert status == EXIT_HOLDS
    peak, *of_end, first, second = [line.removeprefix("heaptape replay: --fail-if ") for line in lines]
    assert peak.startswith("rss_peak>1.1: jemalloc is at 1.20") and peak.endswith(" of b.json")
    assert of_end[-1].startswith("rss_end>1.05: undecided: jemalloc is at 1.2")  # the file's own rounds are that far apart
    assert first == "instructions>1.5: glibc is at 2.0000 of b.json: 1000, was 500" and "jemalloc is at 2.2000" in second


def test_the_table_of_an_earlier_run() -> None:
    given = context(conditions=(" instructions[malloc] > 1 ",), baseline_file="b.json")
    found = comparison(given, steady(1.2), COUNTS, EARLIER)
    out = io.StringIO()
    print_earlier(found, out)
    blank, title, heading, *rows = out.getvalue().splitlines()
    assert (blank, title) == ("", "against b.json:") and heading.split() == ["allocator", "figure", "then", "now", "now/then"]
    # Figures that the file does not have are left out, of time nothing is said.
    assert [row.split()[1] for row in rows] == ["instructions", "rss_peak", "rss_end", "instructions[malloc]"] * 2
    assert rows[0].split() == ["glibc", "instructions", "500", "1,000", "2.0000"]
    told = earlier_json(found)
    assert told["file"] == "b.json" and len(told["figures"]) == 12
    by_figure = {row["figure"]: row for row in told["figures"] if row["allocator"] == "jemalloc"}
    assert by_figure["instructions"]["verdict_low"] == 2.2 and by_figure["rss_mean"]["then"] is None
    assert by_figure[END.name]["verdict_low"] < 1.05 < by_figure[END.name]["verdict_high"]


def test_a_size_class_says_its_bounds_and_nothing_before_is_no_ratio() -> None:
    assert [(size_class(size).low, size_class(size).high) for size in (0, 1, 2, 3, 4, 5, 8, 70, 64_000)] == [
        (0, 1), (0, 1), (2, 2), (3, 4), (3, 4), (5, 5), (8, 9), (64, 79), (57_344, 65_535)]
    earlier = {"old": {"rss_peak_bytes": [0.0] * 8, "counts": counted(500)}}
    given = context(conditions=("instructions[malloc:70]>1",), baseline_file="b.json")
    out = io.StringIO()
    print_earlier(comparison(given, steady(1.2), COUNTS, earlier), out)
    rows = [row.split() for row in out.getvalue().splitlines()[3:] if row.startswith("jemalloc")]
    assert ["jemalloc", "instructions[malloc:64-79]", "250", "550", "2.2000"] in rows
    (peak,) = [row for row in rows if row[1] == "rss_peak"]
    assert peak[2] == "0" and peak[4] == f"+{peak[3]}"


def test_the_table_of_counts_alone() -> None:
    out = io.StringIO()
    print_earlier(of_counts(context(baseline_file="b.json"), COUNTS, EARLIER), out)
    assert [row.split()[:2] for row in out.getvalue().splitlines()[3:]] == [["glibc", "instructions"], ["jemalloc", "instructions"]]
