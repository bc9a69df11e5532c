"""What a search came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .comparison import SAME_WITHIN, Estimate
from .tuning_front import simplest_front
from .tuning_replay import OBJECTIVES, TunedAllocator
from .tuning_study import Trial


@dataclass(frozen=True)
class Tuned:
    """The front is in the order of the first objective. Runs and comparison are those of the last measurement, None where
    it did not come to that; dropped is how many were measured again and then beaten."""

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


def still_on_front(front: list[Trial], comparison: pd.DataFrame, objectives: list[str]) -> list[Trial]:
    """Those that no other, nor the default, turned out to beat (or to equal with fewer knobs) when measured again, in the
    order of the first objective;
    of them only what was shown to be better than the default in some objective."""
    points: dict[Trial, tuple[float, ...]] = {}
    for trial in front:
        rows = [row_of(comparison, objective, trial.label) for objective in objectives]
        ratios = tuple(float(row["ratio"]) for row in rows if row is not None and row["ratio"] > 0)
        better = any(row is not None and row["verdict"] == OBJECTIVES[objective].less
                     for objective, row in zip(objectives, rows, strict=True))
        if better and len(ratios) == len(objectives):
            points[trial] = ratios
    measured = list(points)
    sizes = [0, *(len(trial.config) for trial in measured)]
    kept = simplest_front([(1.0,) * len(objectives), *points.values()], sizes, SAME_WITHIN)
    return sorted((measured[i - 1] for i in kept if i > 0), key=lambda trial: points[trial])
