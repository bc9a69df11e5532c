# SPDX-License-Identifier: Apache-2.0
"""Intervals against SciPy's, and how often they and the verdicts are right on data of known truth."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from heaptape import UsageError, compare, conditions_met, parse_condition
from heaptape.judge.intervals import bootstrap_medians, outside
from heaptape.results.comparison import (
    MEASURES,
    SAME,
    UNRESOLVED,
    estimate_ratio,
    estimate_unpaired,
    verdict,
    widen,
)
from heaptape.results.conditions import HOLDS, REFUTED, UNDECIDED
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def stats() -> ModuleType:
    """SciPy takes a second to load: not while tests are collected."""
    return pytest.importorskip("scipy.stats")


@pytest.mark.thorough
@pytest.mark.parametrize(("rounds", "sigma", "seed"), [(6, 0.05, 1), (9, 0.3, 2), (12, 0.02, 3), (20, 0.1, 4), (41, 0.2, 5)])
def test_the_bootstrap_is_scipys(stats: ModuleType, rounds: int, sigma: float, seed: int) -> None:
    """Both draw 9,999 resamples, each with random numbers of its own. A quantile at p of so many draws is off in p by at most
    four standard errors, 4 √(p (1 − p) / 9,999) = 0.0062: so SciPy's bounds must lie between our quantiles at p ± 0.0125,
    which allows for the error of both."""
    ratios = np.sort(np.random.default_rng(seed).lognormal(-0.2, sigma, rounds))
    theirs = stats.bootstrap((ratios,), np.median, n_resamples=9_999, method="percentile", rng=np.random.default_rng(seed)
                             ).confidence_interval
    medians = bootstrap_medians(ratios, 9_999, 20_817)
    for bound, p in ((theirs.low, 0.025), (theirs.high, 0.975)):
        low, high = np.quantile(medians, [p - 0.0125, p + 0.0125])
        assert low <= bound <= high
    ours, k = estimate_ratio(ratios), outside(rounds, 0.95)
    assert ours.ci_low == min(np.quantile(medians, 0.025), ratios[k])
    assert ours.ci_high == max(np.quantile(medians, 0.975), ratios[-1 - k])


@pytest.mark.parametrize("rounds", [2, 3, 4, 5])
def test_few_rounds_are_scipys_students_t(stats: ModuleType, rounds: int) -> None:
    ratios = np.random.default_rng(rounds).lognormal(0, 0.1, rounds)
    theirs = stats.t.interval(0.95, rounds - 1, np.log(ratios).mean(), stats.sem(np.log(ratios)))
    ours = estimate_ratio(ratios)
    assert (ours.ci_low, ours.ci_high) == pytest.approx(np.exp(theirs), rel=1e-3)


def _coverage(rounds: int, trials: int, seed: int) -> float:
    rng, hits = np.random.default_rng(seed), 0
    for trial in range(trials):
        estimate = estimate_ratio(rng.lognormal(math.log(0.8), 0.05, rounds), trial, 999)
        hits += estimate.ci_low <= 0.8 <= estimate.ci_high
    return hits / trials


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [4, 12, 20, 30])
def test_intervals_cover_the_truth_as_often_as_they_say(rounds: int) -> None:
    """93 to 97 % at 95 %: 3,000 experiments have a standard error of 0.4 %."""
    assert 0.93 <= _coverage(rounds, 3_000, rounds) <= 0.97


@pytest.mark.thorough
def test_intervals_cover_the_truth_in_a_few_experiments() -> None:
    """The same with a fixed seed and 600 experiments, whose standard error is 0.9 %."""
    assert 0.93 <= _coverage(20, 600, 20) <= 0.97


@pytest.mark.parametrize("rounds", [2, 3, 5, 8])
@pytest.mark.parametrize(("noise", "other"), [(0.002, 0.002), (0.01, 0.01), (0.03, 0.03), (0.03, 0.002), (0.0, 0.01), (0.0, 0.0)])
def test_differences_of_rounds_that_are_no_pairs(rounds: int, noise: float, other: float) -> None:
    """RSS of two runs, 400 times: the interval holds the true difference in 93 % or more, less two standard errors of 1.2 %."""
    rng, held = np.random.default_rng(11), 0
    for _ in range(400):
        found = estimate_unpaired(100 * (1 + rng.normal(0, noise, rounds)), 90 * (1 + rng.normal(0, other, rounds)))
        assert found.ci_low <= found.middle <= found.ci_high and found.rounds == rounds
        held += found.ci_low <= 10 + 1e-9 and found.ci_high >= 10 - 1e-9
    assert held >= 0.93 * 400 - 10


def test_one_round_shows_no_difference() -> None:
    found = estimate_unpaired(np.array([10.0, 11.0, 12.0]), np.array([5.0]))
    assert found.middle == 6 and math.isnan(found.ci_low) and math.isnan(found.ci_high) and found.rounds == 1


def _frame(ratio: float, noise: float, rounds: int, rng: np.random.Generator) -> pd.DataFrame:
    """A baseline, its control, and another allocator `ratio` times as slow, in rounds of changing weather."""
    rows = []
    for number, weather in enumerate(rng.lognormal(0, 0.3, rounds)):
        for name, factor, control in (("glibc", 1.0, False), ("glibc", 1.0, True), ("other", ratio, False)):
            value = 1e9 * weather * factor * rng.lognormal(0, noise)
            rows.append({"allocator": name, "control": control, "pass": "time", "seed": "1", "round": number, "failures": 0,
                         "alloc_time_ns": value} | {m.column: math.nan for m in MEASURES.values() if m.name != "time"})
    return pd.DataFrame(rows)


def _verdicts(ratio: float, noise: float, trials: int) -> dict[str, int]:
    """How often each verdict comes out of 15 rounds of a baseline, its control and an allocator `ratio` times as slow."""
    rng, found = np.random.default_rng(7), dict.fromkeys(("faster", "slower", SAME, UNRESOLVED), 0)
    for trial in range(trials):
        base, again, other = rng.lognormal(0, noise, (3, 15))
        control = estimate_ratio(again / base, trial, 499)
        found[verdict(widen(estimate_ratio(ratio * other / base, trial, 499), control), MEASURES["time"])] += 1
    return found


def test_verdicts_on_data_of_known_truth() -> None:
    """Where nothing differs, a difference is shown in less than 5 % of the experiments; a large one is always found; one
    that drowns in noise is left open, and is never called by the wrong name."""
    nothing = _verdicts(1.0, 0.03, 200)
    assert nothing["faster"] + nothing["slower"] <= 10
    assert _verdicts(0.8, 0.02, 30)["faster"] == 30 and _verdicts(1.25, 0.02, 30)["slower"] == 30
    assert _verdicts(1.0, 0.001, 30)[SAME] == 30
    lost = _verdicts(0.99, 0.1, 12)
    assert lost[UNRESOLVED] >= 11 and lost["slower"] == 0 and lost[SAME] == 0


@pytest.mark.parametrize(("text", "measure", "above", "inclusive", "limit"), [
    ("time>1.05", "time", True, False, 1.05), (" rss_peak >= 1.2 ", "rss_peak", True, True, 1.2),
    ("rss_mean<0.9", "rss_mean", False, False, 0.9), ("rss_end<=1e-1", "rss_end", False, True, 0.1),
])
def test_conditions(text: str, measure: str, above: bool, inclusive: bool, limit: float) -> None:
    found = parse_condition(text)
    assert (found.measure, found.above, found.inclusive, found.limit) == (measure, above, inclusive, limit)


@pytest.mark.parametrize(("text", "words"), [
    ("", "expected one of time, rss_peak, rss_mean, rss_end"), ("speed>1", "one of time"), ("time", "expected one of > >= < <="),
    ("time=1", "one of > >= < <="), ("time>", "a ratio above 0"), ("time>fast", "a ratio above 0"), ("time>-1", "a ratio above 0"),
    ("time>1x", "a ratio above 0"), ("time>nan", "a ratio above 0"), ("time>1e999", "a ratio above 0"), ("time>1_0", "a ratio"),
])
def test_bad_conditions(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="--fail-if") as caught:
        parse_condition(text)
    assert words in str(caught.value)


@pytest.mark.thorough
@settings(deadline=None)
@given(low=st.floats(0.01, 10), width=st.floats(0, 2), limit=st.floats(0.01, 10))
def test_a_condition_is_met_by_whole_intervals_only(low: float, width: float, limit: float) -> None:
    high = low + width
    above, below = parse_condition(f"time>{limit!r}"), parse_condition(f"time<{limit!r}")
    assert (above.outcome(low, high) == HOLDS) == (low > limit) and (below.outcome(low, high) == HOLDS) == (high < limit)
    assert (above.outcome(low, high) == REFUTED) == (high <= limit)
    assert above.outcome(math.nan, math.nan) == UNDECIDED
    assert parse_condition(f"time>={low!r}").outcome(low, high) == HOLDS


@pytest.mark.thorough
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 99))
def test_conditions_go_by_the_widened_interval(seed: int) -> None:
    table = compare(_frame(1.2, 0.02, 12, np.random.default_rng(seed)), resamples=299)
    row = table[(table["measure"] == "time") & (table["allocator"] == "other")].iloc[0]
    low = float(row["verdict_low"])
    just_met, not_met = f"time>{low * 0.999!r}", f"time>{low * 1.001!r}"
    met = conditions_met(table, [parse_condition(just_met), parse_condition(not_met)])
    assert [(item.allocator, item.condition.text) for item in met] == [("other", just_met)]


def test_conditions_that_nothing_can_meet() -> None:
    rng = np.random.default_rng(1)
    table = compare(_frame(1.2, 0.02, 6, rng), resamples=99)
    with pytest.raises(UsageError, match="expected runs of the memory pass"):
        conditions_met(table, [parse_condition("rss_peak>1")])
    with pytest.raises(UsageError, match="expected a baseline and another allocator in the results"):
        conditions_met(table[table["allocator"] == "glibc"], [parse_condition("time>1")])
