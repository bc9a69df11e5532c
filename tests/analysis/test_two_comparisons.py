# SPDX-License-Identifier: Apache-2.0
"""`replay` compares the rounds that it has run, as it must know when to stop, and `compare` those of results: both make the same of
the same figures."""

from __future__ import annotations

import math

import judged_runs
import numpy as np
import pandas as pd
import pytest
from heaptape.judge import model
from heaptape.judge.comparison import compare as judge
from heaptape.judge.text import standing_of as judged_standing
from heaptape.results.comparison import BASELINE, MEASURES, SAME, UNRESOLVED, compare, control_estimate
from heaptape.results.verdicts import standing_of
from quick_tier import quick

COLUMNS = [measure.column for measure in MEASURES.values()]
NAMES = ["glibc", "jemalloc", "tcmalloc", "mimalloc"]


def _figures(rng: np.random.Generator, rounds: int, noise: float) -> np.ndarray:
    """Shape (rounds, choices and the control, figures): rounds of changing weather, among them some that stand out, passes that
    failed, and times below 0."""
    truth = rng.choice([0.7, 0.97, 0.995, 1.0, 1.004, 1.1], (len(NAMES), len(COLUMNS)))
    truth[0] = 1
    truth = np.vstack([truth, truth[:1]])
    weather = rng.lognormal(0, 0.2, (rounds, 1, 1))
    made = 1e6 * weather * truth * rng.lognormal(0, noise, (rounds, *truth.shape))
    made *= np.where(rng.random(made.shape) < 0.05, 3, 1)
    made[:, :, 0] -= np.where(rng.random((rounds, 1)) < 0.1, 5e6, 0)
    made[rng.random(made.shape[:2]) < 0.05, 0] = math.nan
    made[rng.random(made.shape[:2]) < 0.05, 1:] = math.nan
    return made


def _frame(made: np.ndarray) -> pd.DataFrame:
    """As the results' reader gives them."""
    rows = []
    for number, cells in enumerate(made):
        for name, control, values in zip([*NAMES, NAMES[0]], [False] * len(NAMES) + [True], cells, strict=True):
            shared = {"allocator": name, "control": control, "seed": "1", "round": number, "failures": 0}
            for pass_name, kept in (("time", COLUMNS[:1]), ("memory", COLUMNS[1:])):
                rows.append(shared | {"pass": pass_name} | {
                    column: value if column in kept else math.nan for column, value in zip(COLUMNS, values, strict=True)})
    return pd.DataFrame(rows)


Found = dict[tuple[str, int, int], list[float]]


def _judged(made: np.ndarray) -> Found:
    rounds = [[judged_runs.cell(None if math.isnan(values[0]) else {COLUMNS[0]: values[0]},
                                None if math.isnan(values[1]) else dict(zip(COLUMNS[1:], values[1:].tolist(), strict=True)))
               for values in cells] for cells in made]
    comparison = judge(judged_runs.context(NAMES), judged_runs.measurements(rounds))
    verdicts = [model.NONE, model.LESS, model.MORE, model.SAME, model.UNRESOLVED]
    found: Found = {}
    for i, words in enumerate(model.FIGURES):
        for k, allocator in enumerate(comparison.allocators):
            e = allocator.estimates[words.name]
            found["estimate", i, k] = [e.median, e.minimum, e.ratio.count, e.ratio.estimate, e.ratio.low, e.ratio.high, e.widened.low,
                                       e.widened.high, verdicts.index(e.verdict), e.more_rounds, len(e.outliers)]
        control, standing = comparison.controls[words.name], judged_standing(comparison, words)
        found["control", i, 0] = [control.estimate, control.low, control.high, control.count]
        found["leader", i, 0] = [-1 if standing.leader is None else standing.leader, *standing.tied]
    return found


def _word(code: float, less: str, more: str) -> str:
    return ["", less, more, SAME, UNRESOLVED][int(code)]


@pytest.mark.parametrize("seed", quick([0], range(8)))
@pytest.mark.parametrize(("rounds", "noise"), [(1, 0.05), (2, 0.001), (5, 0.01), (6, 0.02), (13, 0.0), (40, 0.05)])
def test_both_make_the_same_of_the_same_figures(rounds: int, noise: float, seed: int) -> None:
    made = _figures(np.random.default_rng([seed, rounds]), rounds, noise)
    made[0, 0] = 1e6  # a baseline there must be
    frame, theirs = _frame(made), _judged(made)
    comparison = compare(frame)
    rows = comparison.set_index(["measure", "allocator"])
    for i, measure in enumerate(MEASURES.values()):
        control = control_estimate(frame, measure)
        ours = [math.nan] * 3 + [0] if control is None else [control.ratio, control.ci_low, control.ci_high, control.rounds]
        assert theirs["control", i, 0] == pytest.approx(ours, rel=1e-9, nan_ok=True)
        for k, name in enumerate(NAMES):
            median, minimum, count, ratio, low, high, verdict_low, verdict_high, verdict, more, outliers = theirs["estimate", i, k]
            if (measure.name, name) not in rows.index:
                assert math.isnan(median) and math.isnan(ratio)
                continue
            row = rows.loc[(measure.name, name)]
            assert [median, minimum, outliers] == pytest.approx([row["value"], row["minimum"], row["outliers"]], rel=1e-9)
            if name == NAMES[0]:
                assert row["verdict"] == BASELINE
                continue
            assert [count, ratio, low, high, verdict_low, verdict_high, more] == pytest.approx(
                [float(row[key]) for key in ("rounds", "ratio", "ci_low", "ci_high", "verdict_low", "verdict_high", "more_rounds")],
                rel=1e-9, nan_ok=True)
            # Where no round has a ratio, replay has no verdict at all.
            assert (_word(verdict, measure.less, measure.more) if count else UNRESOLVED) == row["verdict"]
        standing = standing_of(frame, comparison, measure)
        leader, *tied = theirs["leader", i, 0]
        assert NAMES[int(leader)] == standing.leader and sorted(NAMES[int(k)] for k in tied) == sorted(standing.tied)
