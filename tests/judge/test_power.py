# SPDX-License-Identifier: Apache-2.0
"""What is said to be found nine times of ten is, in simulated experiments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from heaptape.judge.comparison_json import comparison_json
from heaptape.judge.intervals import ratio_interval, verdict, widened
from heaptape.judge.model import MORE, Comparison, Interval
from heaptape.judge.power import power_json, power_text, powers_of, resolved_difference, rounds_for, spread
from judged_comparisons import comparison, context, steady
from quick_tier import quick

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def bell(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.lognormal(0, 0.02, shape)


def disturbed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One run in ten takes up to twice as long."""
    return rng.lognormal(0, 0.05, shape) * (1 + rng.random(shape) * (rng.random(shape) < 0.1))


def _experiment(rng: np.random.Generator, rounds: int, noise: Noise, log_difference: float, spare: float = 1.0) -> tuple[Interval, Interval]:
    """The ratio of another allocator, and the control's. spare: how much less the baseline varies."""
    base, again, other = noise(rng, (3, rounds))
    base, again = base**spare, again**spare
    return ratio_interval((other / base * math.exp(log_difference)).tolist()), ratio_interval((again / base).tolist())


def _found(rounds: int, noise: Noise, experiments: int, spare: float = 1.0) -> float:
    """How often a difference is found that an experiment of the same kind said that it would find."""
    rng, found = np.random.default_rng(rounds), 0
    for _ in range(experiments):
        ratio, control = _experiment(rng, rounds, noise, 0, spare)
        said = resolved_difference(rounds, spread([ratio]), spread([control]))
        found += verdict(widened(*_experiment(rng, rounds, noise, said, spare))) == MORE
    return found / experiments


@pytest.mark.parametrize("rounds", quick([6, 12], (6, 7, 8, 9, 10, 12, 15, 18, 27, 40, 60)))
def test_the_difference_is_found_nine_times_of_ten(rounds: int) -> None:
    assert 0.85 <= _found(rounds, bell, 600) <= 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [20, 27, 40])
def test_of_runs_that_are_disturbed_too(rounds: int) -> None:
    assert 0.85 <= _found(rounds, disturbed, 1_500) <= 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [6, 12, 27])
def test_beside_a_baseline_that_hardly_varies(rounds: int) -> None:
    assert 0.85 <= _found(rounds, bell, 1_500, spare=0.1) <= 0.95


@pytest.mark.parametrize("rounds", quick([12], (8, 12, 18)))
def test_so_many_rounds_find_a_difference_nine_times_of_ten(rounds: int) -> None:
    """About: a number of rounds that is known from a few is off by as much as their spread, twice."""
    rng, found, experiments, difference = np.random.default_rng(rounds), 0, 400, 0.05
    for _ in range(experiments):
        ratio, control = _experiment(rng, rounds, bell, 0)
        needed = rounds_for(difference, spread([ratio]), spread([control]), 1_000)
        assert needed is not None and needed < 100
        found += verdict(widened(*_experiment(rng, needed, bell, difference))) == MORE
    assert 0.85 <= found / experiments <= 0.95


def test_more_rounds_find_less() -> None:
    assert resolved_difference(40, 0.02, 0.02) < resolved_difference(20, 0.02, 0.02) < resolved_difference(20, 0.02, 0.04)
    needed = rounds_for(0.01, 0.02, 0.02, 1_000)
    assert needed is not None and resolved_difference(needed, 0.02, 0.02) <= 0.01 < resolved_difference(needed - 12, 0.02, 0.02)
    assert rounds_for(0.01, 0.02, 0.02, needed - 12) is None and rounds_for(0.01, 0.0, 0.0, 1_000) == 6


def _spent(seconds: float, rounds: int = 12, spread_of: float = 0.02) -> Comparison:
    return replace(comparison(context(), steady(0.8, rounds, spread_of)), spent_s=seconds)


def test_a_line_of_it() -> None:
    time = powers_of(found := _spent(24.0))["time"]
    assert 0.05 < time.difference < 0.06 and 600 < time.seconds < 700 and not time.more_than
    assert power_text(found) == (f"differences found 9 times of 10: time {100 * time.difference:.2g} % in 24 s, 1 % in about {time.seconds / 60:.0f} min; "
                                 f"peak RSS {100 * time.difference:.2g} % in 24 s, 1 % in about {time.seconds / 60:.0f} min")
    assert power_text(_spent(24.0, spread_of=0.0)) == "differences found 9 times of 10: time 1 % in about 12 s; peak RSS 1 % in about 12 s"
    assert power_text(_spent(24.0, spread_of=0.9)).count(" %, 1 % in over ") == 0 < power_text(_spent(24.0, spread_of=0.9)).count("1 % in over 34 min")


def test_nothing_is_said_of_what_is_not_known() -> None:
    for unknown in (_spent(math.nan), _spent(24.0, rounds=5), replace(comparison(context("glibc"), [[1.0, 1.0]] * 12), spent_s=24.0),
                    replace(comparison(context(), [[1.0, 1.2, 1.0]] * 8 + [[0.0, 1.0, 0.0]]), spent_s=24.0)):
        assert powers_of(unknown) == {} and power_text(unknown) == "" and power_json(unknown) is None


def test_its_keys() -> None:
    found = comparison_json(_spent(24.0))["power"]
    assert found["probability"] == 0.9 and found["spent_s"] == 24.0 and list(found["time"]) == ["difference", "one_percent_s"]
    assert comparison_json(_spent(24.0, spread_of=0.9))["power"]["time"]["one_percent_s"] is None
