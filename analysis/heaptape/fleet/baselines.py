# SPDX-License-Identifier: Apache-2.0
"""Baseline files of a plan: the figures of an earlier run of each trace, by which conditions are judged (docs/reference/baseline-format.md).

`replay` itself checks in each round that a file is of the same trace, settings and machine.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import HeaptapeError
from ..base.files import sha256_of
from ..results.comparison import MEASURES, Floats, Measure, estimate_ratio, widen
from ..results.conditions import Condition, Judged
from ..results.counted import counted_figure, counts_by_allocator

_LISTS = ("rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "process_rss_peak_bytes")


_APART_MAX = 4
"""Rounds of one run are within percents of each other: one that is far off was not measured."""


class BaselineError(HeaptapeError):
    """A file that is no baseline for the plan."""


@dataclass(frozen=True)
class BaselineFile:
    """One trace's. `name` is the path as in the plan."""

    name: str
    path: str
    sha256: str
    allocators: dict[str, Any]

    def entry(self, allocator: str) -> dict[str, Any]:
        """The allocator's own, or the only one. Raises BaselineError where there is neither."""
        found = self.allocators.get(allocator, next(iter(self.allocators.values())) if len(self.allocators) == 1 else None)
        if not isinstance(found, dict):
            raise BaselineError(f"{self.name}: allocators: expected an entry {allocator}, or a single one, found neither")
        return found

    def rounds(self, allocator: str, measure: Measure) -> Floats:
        """Of the earlier run."""
        return np.array(self.entry(allocator).get(measure.column) or [], dtype=float)

    def check(self, condition: Condition, allocator: str) -> None:
        """Raises BaselineError where it has no figures for the condition."""
        if condition.counted:
            known = math.isfinite(counted_figure(self.entry(allocator).get("counts") or {}, condition.measure, condition.part))
        else:
            known = self.rounds(allocator, MEASURES[condition.measure]).size > 0
        if not known:
            raise BaselineError(f"{self.name}: allocators.{allocator}: --fail-if {condition.text}: expected figures for it, found none")


def read_baseline(name: str, path: Path, trace_sha256: str, allocators: list[str]) -> BaselineFile:
    """Raises BaselineError for what no round could be compared with; what else is wrong replay says."""
    try:
        root = json.loads(path.read_bytes())
        digest = sha256_of(path)
    except OSError as error:
        raise BaselineError(f"{name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BaselineError(f"{name}: expected JSON, found: {error}") from error
    if not isinstance(root, dict) or root.get("format") != "heaptape-baseline" or not isinstance(root.get("allocators"), dict):
        raise BaselineError(f'{name}: expected a file of heaptape replay --write-baseline, with "format" and "allocators"')
    trace = root.get("trace")
    found = trace.get("sha256") if isinstance(trace, dict) else None
    if found != trace_sha256:
        raise BaselineError(f'{name}: trace.sha256: expected "{trace_sha256}", as the trace has, found {json.dumps(found)}')
    baseline = BaselineFile(name, str(path), digest, root["allocators"])
    for allocator in allocators:
        for key in _LISTS:
            _check_list(f"{name}: allocators.{allocator}.{key}", baseline.entry(allocator).get(key))
        _check_counts(f"{name}: allocators.{allocator}.counts", baseline.entry(allocator).get("counts"))
    return baseline


def _check_list(what: str, values: Any) -> None:
    for value in values if isinstance(values, list) else [values] * (values is not None):
        if not isinstance(values, list) or isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise BaselineError(f"{what}: expected a list of numbers of bytes, found {json.dumps(value)}")
    median = float(np.median(values)) if values else 0.0
    for value in values or []:
        if value > _APART_MAX * median or _APART_MAX * value < median:
            raise BaselineError(f"{what}: expected rounds within {_APART_MAX} times of their median, {median:.0f}, found {json.dumps(value)}")


def _check_counts(what: str, value: Any) -> None:
    """All numbers in there are counts, but of what is less the null replayer's."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, item in inner:
        if isinstance(item, int | float) and not 0 <= item < math.inf:
            raise BaselineError(f"{what}.{key}: expected a count, found {json.dumps(item)}")
        if key != "time":
            _check_counts(f"{what}.{key}", item)


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
