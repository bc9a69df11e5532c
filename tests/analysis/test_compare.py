# SPDX-License-Identifier: Apache-2.0
"""Pairing, intervals and verdicts, on data of known truth."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import results_factory
from heaptape import UsageError, compare, read_results
from heaptape.judge.intervals import bootstrap_medians, outside, random_numbers
from heaptape.results.comparison import (
    MEASURES,
    SAME,
    UNRESOLVED,
    Estimate,
    control_estimate,
    estimate_ratio,
    experiments,
    find_outliers,
    identical_pairs,
    more_rounds,
    round_table,
    verdict,
    widen,
)
from heaptape.results.verdicts import headline, in_words, standing_of
from hypothesis import given, settings
from hypothesis import strategies as st

TIME = MEASURES["time"]
_ratios = st.lists(st.floats(0.01, 100), min_size=2, max_size=30).map(np.array)


def _frame(tmp_path: Path, rows: list) -> pd.DataFrame:
    return read_results(results_factory.write(tmp_path / "r.jsonl", rows))


@pytest.mark.thorough
@settings(deadline=None, max_examples=200)
@given(ratios=_ratios, seed=st.integers(0, 99))
def test_an_interval_holds_its_median(ratios: np.ndarray, seed: int) -> None:
    estimate = estimate_ratio(ratios, seed, 500)
    assert estimate.ci_low <= estimate.ratio * (1 + 1e-9) and estimate.ratio <= estimate.ci_high * (1 + 1e-9)
    if ratios.size >= 6:
        assert ratios.min() <= estimate.ci_low and estimate.ci_high <= ratios.max()


@pytest.mark.thorough
@settings(deadline=None, max_examples=100)
@given(ratios=_ratios, factor=st.sampled_from([0.25, 2.0, 1024.0]))
def test_intervals_scale_with_their_data(ratios: np.ndarray, factor: float) -> None:
    one, other = estimate_ratio(ratios, 1, 300), estimate_ratio(ratios * factor, 1, 300)
    assert np.allclose([one.ratio * factor, one.ci_low * factor, one.ci_high * factor],
                       [other.ratio, other.ci_low, other.ci_high])


@settings(deadline=None, max_examples=50)
@given(value=st.floats(0.1, 10), count=st.integers(2, 20))
def test_equal_ratios_have_no_width(value: float, count: int) -> None:
    estimate = estimate_ratio(np.full(count, value), 1, 100)
    assert np.allclose([estimate.ratio, estimate.ci_low, estimate.ci_high], value)


def test_a_seed_repeats_its_interval_and_another_differs_little() -> None:
    ratios = np.random.default_rng(1).lognormal(0, 0.1, 15)
    assert estimate_ratio(ratios, 5) == estimate_ratio(ratios, 5)
    one, other = estimate_ratio(ratios, 5), estimate_ratio(ratios, 6)
    assert abs(one.ci_low - other.ci_low) < 0.02 and abs(one.ci_high - other.ci_high) < 0.02


def test_blocks_of_resamples_make_one_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heaptape.judge.intervals._BLOCK_VALUES", 64)
    medians = bootstrap_medians(np.arange(10.0), 100, 0)
    assert medians.shape == (100,) and 0 <= medians.min() and medians.max() <= 9


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [4, 12, 20])
def test_intervals_cover_the_truth_as_often_as_they_say(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    trials = 600
    hits = 0
    for trial in range(trials):
        estimate = estimate_ratio(rng.lognormal(math.log(0.8), 0.05, rounds), trial, 999)
        hits += estimate.ci_low <= 0.8 <= estimate.ci_high
    assert 0.92 <= hits / trials <= 0.98


@pytest.mark.parametrize(("low", "high", "words"), [
    (0.50, 0.60, "faster"), (0.95, 0.999, "faster"), (1.001, 1.2, "slower"), (0.992, 1.008, SAME), (0.991, 0.998, SAME),
    (0.98, 1.005, UNRESOLVED), (0.9, 1.1, UNRESOLVED), (1.0, 1.05, UNRESOLVED), (math.nan, math.nan, UNRESOLVED),
])
def test_verdicts(low: float, high: float, words: str) -> None:
    assert verdict(Estimate((low + high) / 2, low, high, 12), TIME) == words


def test_more_rounds_shrink_with_the_distance() -> None:
    near, far = Estimate(0.97, 0.93, 1.01, 10), Estimate(0.95, 0.90, 1.01, 10)
    assert more_rounds(near) > more_rounds(far) >= 1
    assert more_rounds(Estimate(1.0, math.nan, math.nan, 1)) is None
    centred = Estimate(1.0, 0.98, 1.02, 10)
    assert 25 <= more_rounds(centred) <= 35


def test_known_truth_is_found(tmp_path: Path) -> None:
    frame = _frame(tmp_path, results_factory.schedule(rounds=15))
    table = compare(frame).set_index(["measure", "allocator"])
    assert set(table["baseline"]) == {"glibc"}
    assert ("time", "null") not in table.index
    for name, (_, time_ratio, peak_ratio) in results_factory.TRUTH.items():
        if name in ("null", "glibc"):
            continue
        assert table.loc[("time", name), "verdict"] == "faster"
        assert table.loc[("time", name), "ratio"] == pytest.approx(time_ratio, rel=0.03)
        assert table.loc[("rss_peak", name), "ratio"] == pytest.approx(peak_ratio, rel=0.01)
    assert table.loc[("rss_peak", "tcmalloc"), "verdict"] == SAME
    assert table.loc[("rss_peak", "jemalloc"), "verdict"] == "larger"
    assert table.loc[("time", "glibc"), "verdict"] == "baseline"


def test_pairing_takes_out_what_a_round_shares() -> None:
    """A round that is three times slower for everybody changes no ratio."""
    rows = []
    rng = np.random.default_rng(2)
    for number, weather in enumerate(rng.lognormal(0, 1, 12)):
        for name, ratio in (("glibc", 1.0), ("other", 0.9)):
            rows.append({"allocator": name, "pass": "time", "seed": "1", "round": number, "failures": 0,
                         "alloc_time_ns": 1e9 * weather * ratio})
    frame = pd.DataFrame(rows)
    table = round_table(frame, TIME)
    estimate = estimate_ratio((table["other"] / table["glibc"]).to_numpy())
    assert estimate.ci_low == pytest.approx(0.9) and estimate.ci_high == pytest.approx(0.9)


def test_rounds_of_a_second_schedule_are_kept_apart(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=4) + results_factory.schedule(rounds=4, seed=9)
    assert round_table(_frame(tmp_path, rows), TIME).shape == (8, 4)


def test_who_is_in_the_second_schedule_only_has_no_partner_in_the_first(tmp_path: Path) -> None:
    """Of one seed, on a machine that became twice as slow in between."""
    first = results_factory.schedule(rounds=6, names=("glibc", "jemalloc"))
    second = results_factory.schedule(rounds=6, names=("glibc", "tcmalloc"))
    for row in second:
        if row["pass"] == "time":
            row["alloc_time_ns"] *= 2
    table = round_table(_frame(tmp_path, first + second), TIME)
    assert table.shape == (12, 3) and table["glibc"].notna().all()
    assert table["tcmalloc"].notna().tolist() == [False, True] * 6 == table["jemalloc"].isna().tolist()


def test_rounds_without_a_partner_and_failed_runs_are_left_out(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=8)
    rows = [r for r in rows if not (r["allocator"]["name"] == "jemalloc" and r["round"] == 0)]
    for row in rows:
        if row["allocator"]["name"] == "mimalloc" and row["round"] in (1, 2):
            row["failures"] = 1
    table = compare(_frame(tmp_path, rows)).set_index(["measure", "allocator"])
    assert table.loc[("time", "jemalloc"), "rounds"] == 7
    assert table.loc[("time", "mimalloc"), "rounds"] == 6


def test_a_round_whose_figures_are_hidden_has_no_ratio(tmp_path: Path) -> None:
    """Where the null replayer's run was slowed, both allocators' times may be below 0, and their ratio above it."""
    rows = results_factory.schedule(rounds=8)
    for row in rows:
        if row["round"] == 3 and row["pass"] == "time":
            row["alloc_time_ns"] = -1000
    table = compare(_frame(tmp_path, rows)).set_index(["measure", "allocator"])
    assert table.loc[("time", "jemalloc"), "rounds"] == 7 and table.loc[("rss_peak", "jemalloc"), "rounds"] == 8
    # Of so few rounds that is too many.
    assert in_words(table.loc[("time", "jemalloc")]) == "unresolved (the harness hides the time)"
    assert math.isnan(table.loc[("time", "jemalloc"), "verdict_low"]) and math.isfinite(table.loc[("time", "jemalloc"), "ci_low"])


@pytest.mark.thorough
def test_why_there_is_no_ratio(tmp_path: Path) -> None:
    """A baseline without RSS, of a trace of few calls, has its rounds in common with the others all the same."""
    rows = results_factory.schedule(rounds=3)
    for row in rows:
        if row["allocator"]["name"] == "glibc" and row["pass"] == "memory":
            row["rss_peak_bytes"] = 0
    rows = [row for row in rows if row["allocator"]["name"] != "mimalloc" or row["pass"] != "time" or row["round"] == 2]
    rows = [row for row in rows if row["allocator"]["name"] != "glibc" or row["pass"] != "time" or row["round"] != 2]
    table = compare(_frame(tmp_path, rows), "glibc").set_index(["measure", "allocator"])
    assert in_words(table.loc[("rss_peak", "mimalloc")]) == "unresolved (the harness hides the memory)"
    assert in_words(table.loc[("time", "mimalloc")]) == "no round in common with the baseline"


@pytest.mark.thorough
def test_one_round_resolves_nothing(tmp_path: Path) -> None:
    table = compare(_frame(tmp_path, results_factory.schedule(rounds=1)))
    others = table[table["allocator"] != "glibc"]
    assert set(others["verdict"]) == {UNRESOLVED} and others["ci_low"].isna().all()


@pytest.mark.thorough
def test_baselines(tmp_path: Path) -> None:
    frame = _frame(tmp_path, results_factory.schedule(rounds=6, names=("null", "jemalloc", "mimalloc")))
    assert set(compare(frame)["baseline"]) <= {"jemalloc", "mimalloc"}
    assert set(compare(frame, "mimalloc")["baseline"]) == {"mimalloc"}
    with pytest.raises(UsageError, match="--baseline glibc: expected one of .*, of which there are runs"):
        compare(frame, "glibc")
    with pytest.raises(UsageError, match="null allocator only"):
        experiments(_frame(tmp_path, results_factory.schedule(rounds=1, names=("null",))))


def test_experiments_are_never_mixed(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=2)
    other = results_factory.schedule(rounds=2, touch="none")
    third = results_factory.schedule(rounds=2)
    for row in third:
        row["trace"] = {"path": "other.bin", "sha256": "ff", "events": 1}
    found = experiments(_frame(tmp_path, rows + other + third))
    assert [(e.trace_path, e.settings["touch"], len(e.runs)) for e in found] == [
        ("job.bin", "recorded", 20), ("job.bin", "none", 20), ("other.bin", "recorded", 20)]


def test_copies_are_an_experiment_of_their_own(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=2)
    found = experiments(_frame(tmp_path, rows + results_factory.schedule(rounds=3, scale=4)))
    assert [(len(one.runs), one.settings.get("scale")) for one in found] == [(len(rows), None), (len(rows) // 2 * 3, "4")]


def test_huge_pages_are_an_experiment_of_their_own(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=2)
    as_here = results_factory.schedule(rounds=3, thp="madvise")  # as the machine has it
    other = results_factory.schedule(rounds=4, thp="never")
    found = experiments(_frame(tmp_path, rows + as_here + other))
    assert [(len(one.runs), one.settings.get("thp")) for one in found] == [
        (len(rows + as_here), None), (len(other), "never")]


def test_passes_may_differ_in_pace_but_runs_of_a_pass_may_not(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=2)
    for row in rows:
        row["pace"] = "virtual" if row["pass"] == "time" else "real"
    assert len(experiments(_frame(tmp_path, rows))) == 1
    assert len(experiments(_frame(tmp_path, rows + results_factory.schedule(rounds=2, pace="none")))) >= 2


def test_leaders_and_headline(tmp_path: Path) -> None:
    frame = _frame(tmp_path, results_factory.schedule(rounds=12))
    comparison = compare(frame)
    time, peak = (standing_of(frame, comparison, MEASURES[name]) for name in ("time", "rss_peak"))
    assert (time.leader, time.tied) == ("mimalloc", []) and (peak.leader, peak.tied) == ("glibc", ["tcmalloc"])
    words = headline(frame, comparison)
    assert words.startswith("mimalloc is fastest, 2.2")
    assert "No allocator clearly has a smaller peak RSS than glibc (tcmalloc: no clear difference)." in words


def test_headline_where_nothing_differs(tmp_path: Path) -> None:
    names = ("glibc", "other")
    frame = _frame(tmp_path, results_factory.schedule(rounds=12, names=names, noise=0.002))
    words = headline(frame, compare(frame))
    assert "No allocator is clearly faster than glibc" in words


def test_headline_of_a_single_allocator(tmp_path: Path) -> None:
    frame = _frame(tmp_path, results_factory.schedule(rounds=3, names=("null", "glibc")))
    assert headline(frame, compare(frame)) == "Only glibc was measured, so there is nothing to compare it with."


def test_the_control_is_recognised(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=6, names=("glibc", "again", "jemalloc"))
    for row in rows:
        if row["allocator"]["name"] == "again":
            row["allocator"] |= {"path": "/usr/lib/libglibc.so", "version": "2.36"}
        row["allocator"]["build_id"] = row["allocator"]["path"]
    pairs = identical_pairs(_frame(tmp_path, rows))
    assert [set(pair) for pair in pairs] == [{"glibc", "again"}]


def _with_control(rows: list, factor: float = 1.0) -> list:
    """The baseline again in every round, `factor` times as slow."""
    again = []
    for row in rows:
        if row["allocator"]["name"] == "glibc":
            copy = row | {"control": True}
            if copy["pass"] == "time":
                copy["alloc_time_ns"] = int(copy["alloc_time_ns"] * factor)
            again.append(copy)
    return rows + again


def test_random_numbers_are_those_of_replay() -> None:
    """The first of splitmix64 from seed 0, as its authors list them; a later start continues the sequence."""
    assert [hex(number) for number in random_numbers(0, 0, 3)] == [
        "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]
    assert random_numbers(7, 5, 4).tolist() == random_numbers(7, 0, 9)[5:].tolist()


def test_order_statistics_hold_the_median_often_enough() -> None:
    for count in range(6, 200):
        k = outside(count, 0.95)
        below = sum(math.comb(count, i) for i in range(k + 1)) / 2**count
        assert 2 * below <= 0.05
        wider = below + math.comb(count, k + 1) / 2**count
        assert 2 * wider > 0.05


@pytest.mark.thorough
def test_the_control_is_kept_apart(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=12)
    alone, beside = _frame(tmp_path, rows), _frame(tmp_path, _with_control(rows))
    assert round_table(beside, TIME).equals(round_table(alone, TIME))
    assert control_estimate(alone, TIME) is None
    exact = control_estimate(beside, TIME)
    assert exact == Estimate(1.0, 1.0, 1.0, 12)
    pd.testing.assert_frame_equal(compare(beside), compare(alone))
    (experiment,) = experiments(beside)
    assert len(experiment.all_runs) == len(experiment.runs) + 24 == len(rows) + 24


@pytest.mark.thorough
def test_a_control_that_is_off_leaves_small_differences_unresolved(tmp_path: Path) -> None:
    """The baseline is 20 % slower than itself: nothing smaller means anything, and what is larger still does."""
    rows = [row for row in results_factory.schedule(rounds=12) if row["allocator"]["name"] != "other"]
    near = [results_factory.run("other", p, r, np.random.default_rng(r), time_ratio=1.1, peak_ratio=1.0)
            for r in range(12) for p in ("time", "memory")]
    plain = compare(_frame(tmp_path, rows + near)).set_index(["measure", "allocator"])
    doubted = compare(_frame(tmp_path, _with_control(rows + near, 1.2))).set_index(["measure", "allocator"])
    assert plain.loc[("time", "other"), "verdict"] == "slower"
    assert doubted.loc[("time", "other"), "verdict"] == UNRESOLVED
    assert doubted.loc[("time", "other"), "more_rounds"] > 1
    assert doubted.loc[("time", "mimalloc"), "verdict"] == "faster"
    for key in ("ratio", "ci_low", "ci_high"):
        assert doubted.loc[("time", "other"), key] == plain.loc[("time", "other"), key]
    assert doubted.loc[("rss_peak", "other"), "verdict_high"] == plain.loc[("rss_peak", "other"), "verdict_high"]


def test_widening_adds_in_quadrature() -> None:
    ratio = Estimate(0.9, 0.9 * math.exp(-0.03), 0.9 * math.exp(0.03), 20)
    wide = widen(ratio, Estimate(1.0, math.exp(-0.04), math.exp(0.01), 20))
    assert math.log(wide.ci_high / 0.9) == pytest.approx(0.05) == pytest.approx(math.log(0.9 / wide.ci_low))
    assert widen(ratio, None) == ratio
    assert widen(ratio, Estimate(1.0, math.nan, math.nan, 1)) == ratio


def test_outliers() -> None:
    """The same values as in the C test of it."""
    values = np.array([10, 9, math.nan, 11, 10, 12, 100])
    assert find_outliers(values).tolist() == [False] * 6 + [True]
    assert find_outliers(np.array([5.0, 5, 5, 5, 6])).tolist() == [False] * 4 + [True]
    assert not find_outliers(np.array([5.0, 5, 5])).any() and not find_outliers(np.array([math.nan])).any()


def test_outliers_are_counted_and_kept(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=12)
    for row in rows:
        if row["allocator"]["name"] == "jemalloc" and row["pass"] == "time" and row["round"] == 3:
            row["alloc_time_ns"] *= 5
    table = compare(_frame(tmp_path, rows)).set_index(["measure", "allocator"])
    assert table.loc[("time", "jemalloc"), "outliers"] >= 1 and table.loc[("time", "jemalloc"), "rounds"] == 12
