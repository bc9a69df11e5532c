# SPDX-License-Identifier: Apache-2.0
"""What a search came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..results.comparison import SAME, Estimate
from ..results.program_time import ProgramTime
from ..results.standing import Pairs
from .replay import OBJECTIVES, TunedAllocator
from .study import Trial


@dataclass(frozen=True)
class Tuned:
    """The front is in the order of the first objective. Runs and comparison are those of the last measurement, None where
    it did not come to that; dropped is how many were measured again and left out then. Program times are of the default and the front.
    sharing: the words that go with all advice about one of several processes, or ""; caution: the first sentence, or ""."""

    trace: Path
    trace_sha256: str
    allocator: TunedAllocator
    objectives: list[str]
    study: Path
    seed: int
    knobs: int
    trials: list[Trial]
    front: list[Trial]
    dropped: int = 0
    runs: pd.DataFrame | None = None
    comparison: pd.DataFrame | None = None
    program_times: Sequence[ProgramTime] = ()
    sharing: str = ""
    caution: str = ""


def row_of(comparison: pd.DataFrame, objective: str, name: str) -> pd.Series | None:
    """The row of a comparison for one objective and configuration; None where it was not measured."""
    rows = comparison[(comparison["measure"] == OBJECTIVES[objective].name) & (comparison["allocator"] == name)]
    return None if rows.empty else rows.iloc[0]


def estimate_of(tuned: Tuned, trial: Trial, objective: str) -> Estimate:
    """The ratio to the default, as measured last, or else by the trial alone, which has no interval."""
    if tuned.comparison is not None:
        row = row_of(tuned.comparison, objective, trial.label)
        assert row is not None  # what was not measured is not on the front
        return Estimate(float(row["ratio"]), float(row["ci_low"]), float(row["ci_high"]), int(row["rounds"]))
    assert trial.ratios is not None
    return Estimate(trial.ratios[tuned.objectives.index(objective)], float("nan"), float("nan"), 1)


def still_on_front(front: list[Trial], runs: pd.DataFrame, comparison: pd.DataFrame, objectives: list[str]) -> list[Trial]:
    """Of what was measured again, all that was shown to be better than the default in some objective and that no other was
    shown to beat, in the order of the first objective. What is unresolved is no reason to leave anything out."""
    points: dict[Trial, tuple[float, ...]] = {}
    for trial in front:
        rows = [row_of(comparison, objective, trial.label) for objective in objectives]
        ratios = tuple(float(row["ratio"]) for row in rows if row is not None and row["ratio"] > 0)
        better = any(row is not None and row["verdict"] == OBJECTIVES[objective].less
                     for objective, row in zip(objectives, rows, strict=True))
        if better and len(ratios) == len(objectives):
            points[trial] = ratios
    pairs = [Pairs(runs, OBJECTIVES[objective]) for objective in objectives]
    # One after the other, so that of equal ones one stays; those with most knobs first.
    kept = sorted(points, key=lambda trial: (len(trial.config), points[trial]))
    for trial in reversed(list(kept)):
        if any(_beats(other, trial, pairs) for other in kept if other is not trial):
            kept.remove(trial)
    return sorted(kept, key=lambda trial: points[trial])


def _beats(one: Trial, other: Trial, pairs: list[Pairs]) -> bool:
    """Whether one is shown to be better in some objective and worse in none, or to be the same in all by no more knobs."""
    verdicts = [(measured.measure, measured.compare(one.label, other.label)[1]) for measured in pairs]
    if any(words not in (measure.less, SAME) for measure, words in verdicts):
        return False
    return any(words != SAME for _, words in verdicts) or len(one.config) <= len(other.config)
