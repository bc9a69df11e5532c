# SPDX-License-Identifier: Apache-2.0
"""Baseline files of a plan: the figures of an earlier run of each trace, by which conditions are judged (docs/reference/results.md).

`replay` itself checks in each round that a file is of the same trace, settings and machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.files import sha256_of
from ..judge.against import earlier_of
from ..judge.baseline_file import BaselineFileError, read
from ..results.comparison import MEASURES, Floats, Measure, estimate_ratio, widen
from ..results.conditions import Condition, Judged
from ..results.counted import counted_figure, counts_by_allocator


@dataclass(frozen=True)
class BaselineFile:
    """One trace's. `name` is the path as in the plan."""

    name: str
    path: str
    sha256: str
    allocators: dict[str, Any]

    def entry(self, allocator: str) -> dict[str, Any]:
        """The allocator's own, or the only one."""
        found: dict[str, Any] = earlier_of(self.allocators, allocator)
        return found

    def rounds(self, allocator: str, measure: Measure) -> Floats:
        """The rounds of the earlier run."""
        return np.array(self.entry(allocator).get(measure.column) or [], dtype=float)

    def check(self, condition: Condition, allocator: str) -> None:
        """Raises BaselineFileError where it has no figures for the condition."""
        if condition.counted:
            known = math.isfinite(counted_figure(self.entry(allocator).get("counts") or {}, condition.measure, condition.part))
        else:
            known = self.rounds(allocator, MEASURES[condition.measure]).size > 0
        if not known:
            raise BaselineFileError(f"{self.name}: allocators.{allocator}: --fail-if {condition.text}: expected figures for it, found none")


def read_baseline(name: str, path: Path, trace_sha256: str, allocators: list[str]) -> BaselineFile:
    """Raises BaselineFileError for what no round could be compared with; what else is wrong replay says."""
    try:
        return BaselineFile(name, str(path), sha256_of(path), read(str(path), {"trace": {"sha256": trace_sha256}}, allocators))
    except OSError as error:
        raise BaselineFileError(f"{name}: cannot be read: {error.strerror}") from error
    except BaselineFileError as error:
        raise BaselineFileError(str(error).replace(str(path), name, 1)) from error


def judge_by_file(file: BaselineFile, conditions: list[Condition], runs: pd.DataFrame, names: list[str], seed: int) -> list[Judged]:
    """Each condition for each allocator of one trace. Counts are exact; of memory, rounds of two runs are no pairs: the interval is
    that of this run's rounds, widened by that of the file's."""
    counts = counts_by_allocator(runs)
    judged = []
    for condition in conditions:
        for name in names:
            if condition.counted:
                judged.append(_of_counts(file, condition, name, counts.get(name, {})))
                continue
            measure = MEASURES[condition.measure]
            found = widen(estimate_ratio(ratios_to_file(file, measure, runs, name), seed), estimate_ratio(rounds_to_median(file, measure, name), seed))
            judged.append(Judged(condition, name, file.name, found.ratio, found.ci_low, found.ci_high, found.rounds))
    return judged


def _of_counts(file: BaselineFile, condition: Condition, name: str, counts: dict[str, Any]) -> Judged:
    now, then = (counted_figure(found or {}, condition.measure, condition.part) for found in (counts, file.entry(name).get("counts")))
    ratio = now / then if then > 0 else math.nan
    return Judged(condition, name, file.name, ratio, ratio, ratio, int(math.isfinite(ratio)), now, then)


def rounds_to_median(file: BaselineFile, measure: Measure, name: str) -> Floats:
    """Each round of the file to their median: how far that may be off."""
    then = file.rounds(name, measure)
    return then / float(np.median(then)) if then.size and np.median(then) > 0 else np.array([])


def ratios_to_file(file: BaselineFile, measure: Measure, runs: pd.DataFrame, name: str) -> Floats:
    """Each round of this run to the median of the file's rounds."""
    then = file.rounds(name, measure)
    if not then.size or not np.median(then) > 0 or measure.column not in runs:
        return np.array([])
    mine = runs[(runs["pass"] == measure.pass_name) & ~runs["control"] & (runs["failures"] == 0) & (runs["allocator"] == name)]
    now: Floats = pd.to_numeric(mine[measure.column]).dropna().to_numpy(dtype=float)
    return now / float(np.median(then))
