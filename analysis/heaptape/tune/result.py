# SPDX-License-Identifier: Apache-2.0
"""What a search came to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from ..judge.against import BY_NAME
from ..judge.comparison import compare_pair
from ..judge.model import LESS, SAME, Comparison, Estimate, Interval
from .replay import OBJECTIVES, TunedAllocator
from .study import Trial


@dataclass(frozen=True)
class Tuned:
    """The front is in the order of the first objective. The comparison is that of the last measurement, None where it did not
    come to that; dropped is how many were measured again and left out then. Program times are of the default and the front, by name.
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
    comparison: Comparison | None = None
    program_times: dict[str, Interval] = field(default_factory=dict)
    sharing: str = ""
    caution: str = ""


def measured(comparison: Comparison, objective: str, name: str) -> Estimate:
    """What a comparison says of one objective and configuration."""
    return comparison.allocators[comparison.names.index(name)].estimates[OBJECTIVES[objective].name]


def ratio_of(tuned: Tuned, trial: Trial, objective: str) -> Interval:
    """To the default, as measured last, or else by the trial alone, which has no interval."""
    if tuned.comparison is not None:
        return measured(tuned.comparison, objective, trial.label).ratio
    assert trial.ratios is not None
    return Interval(trial.ratios[tuned.objectives.index(objective)], math.nan, math.nan, 1)


def still_on_front(front: list[Trial], comparison: Comparison, objectives: list[str]) -> list[Trial]:
    """Of what was measured again, all that was shown to be better than the default in some objective and that no other was
    shown to beat, in the order of the first objective. What is unresolved is no reason to leave anything out."""
    points: dict[Trial, tuple[float, ...]] = {}
    for trial in front:
        found = [measured(comparison, objective, trial.label) for objective in objectives]
        ratios = tuple(one.ratio.estimate for one in found)
        if any(one.verdict == LESS for one in found) and all(ratio > 0 for ratio in ratios):
            points[trial] = ratios
    # One after the other, so that of equal ones one stays; those with most knobs first.
    kept = sorted(points, key=lambda trial: (len(trial.config), points[trial]))
    for trial in reversed(list(kept)):
        if any(_beats(other, trial, comparison, objectives) for other in kept if other is not trial):
            kept.remove(trial)
    return sorted(kept, key=lambda trial: points[trial])


def _beats(one: Trial, other: Trial, comparison: Comparison, objectives: list[str]) -> bool:
    """Whether one is shown to be better in some objective and worse in none, or to be the same in all by no more knobs."""
    first, second = (comparison.names.index(trial.label) for trial in (one, other))
    verdicts = {compare_pair(comparison, BY_NAME[OBJECTIVES[objective].name], first, second).verdict for objective in objectives}
    return verdicts <= {LESS, SAME} and (LESS in verdicts or len(one.config) <= len(other.config))
