# SPDX-License-Identifier: Apache-2.0
"""The accounts along the trace, what calls cost there, and where RSS came apart from the live bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..results.comparison import estimate_ratio, estimate_unpaired
from .accounts import less_own
from .snapshots import SnapshotFile
from .sums import ACCOUNTS, Sums

GREW_SHARE = 0.05
"""RSS did not come apart from the live bytes if what is above them grows by less than this share of the highest RSS."""

PACE = 2
"""Times the growth of a stretch if all grew evenly along the trace: what grows no faster broke nowhere."""

TIMED_LEAST = 30
"""Calls on each side of the break, in each round: the mean of fewer is that of single calls, such as a page fault's."""

COST_LEAST_NS = 1.0
"""Less than any call takes: such a cost is the error of the clock, and none."""


@dataclass(frozen=True)
class Break:
    """When what is above the live bytes grew most, in one stretch or several in a row, and by how much; what a call cost before that and
    after it, medians of the rounds, and the median of their ratios with its 95 % interval: NaN where the cost is not resolved."""

    from_ns: int
    to_ns: int
    grew_bytes: int
    cost_before_ns: float
    cost_after_ns: float
    cost_ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def resolved(self) -> bool:
        """Whether the costs before and after differ."""
        return self.ratio_low > 1 or self.ratio_high < 1


def accounts_along(found: SnapshotFile) -> pd.DataFrame:
    """A row for each stretch of the trace, of up to 200 of equal time or as many calls: what RSS consisted of at its end.

    time_ns, event; rss_bytes, the null replayer's taken off, and a column for each account, whose sum it is;
    not_resident_bytes, of live blocks; cost_ns: of a call in the stretch with the first touch of what it returned, the mean of
    those that were timed, the null replayer's taken off, and of that the median over the rounds; NaN where none was, and where that is
    below COST_LEAST_NS; timed_calls: how many, in all rounds."""
    rows = found.stretches
    amounts = less_own({name: rows[name].to_numpy() for name in ACCOUNTS}, rows["null_rss_bytes"].to_numpy())
    costs = np.array([_cost(found, np.array([number])).median for number in range(len(rows))])
    return pd.DataFrame({"time_ns": rows["time_ns"], "event": rows["event"], "rss_bytes": sum(amounts.values()), **amounts,
                         "not_resident_bytes": rows["not_resident_bytes"], "cost_ns": np.where(costs < COST_LEAST_NS, np.nan, costs),
                         "timed_calls": found.timed.calls.sum(axis=0)})


@dataclass(frozen=True)
class _Cost:
    """The cost of a call and of the null replayer's, which is taken off, by round; both empty where none was timed. calls: the least of a round."""

    ns: NDArray[np.float64]
    null_ns: NDArray[np.float64]
    calls: int

    @property
    def median(self) -> float:
        return float(np.median(self.ns)) if self.ns.size else math.nan

    @property
    def resolved(self) -> bool:
        """Whether it is certainly a call's: the lower end of its 95 % interval, with the null replayer's own spread in it, is."""
        if self.calls < TIMED_LEAST:
            return False
        # The null replayer's median is taken off already; what is uncertain in it is not.
        return estimate_unpaired(self.ns, self.null_ns - np.median(self.null_ns)).ci_low >= COST_LEAST_NS and bool((self.ns > 0).all())


def _cost(found: SnapshotFile, stretches: NDArray[np.int64]) -> _Cost:
    """The cost of a call in these stretches."""
    calls, null_calls = (timed.calls[:, stretches].sum(axis=1) for timed in (found.timed, found.null_timed))
    if not (calls.size and calls.all() and null_calls.size and null_calls.all()):
        return _Cost(np.zeros(0), np.zeros(0), 0)
    null_ns = found.null_timed.ns[:, stretches].sum(axis=1) / null_calls
    ns = found.timed.ns[:, stretches].sum(axis=1) / calls - np.median(null_ns)
    return _Cost(ns, null_ns, int(min(calls.min(), null_calls.min())))


def mean_of(along: pd.DataFrame) -> Sums | None:
    """The mean of the accounts over the time of the trace; each holds until the next one. None without any."""
    if along.empty:
        return None
    steps = np.append(np.diff(along["time_ns"].to_numpy()), 0)
    weights = steps if steps.sum() else np.ones(len(along))
    mean = {name: round(float(np.average(along[name], weights=weights))) for name in (*ACCOUNTS, "not_resident_bytes")}
    not_resident = mean.pop("not_resident_bytes")
    return Sums(mean, sum(mean.values()), not_resident)


def _steepest(grew: NDArray[np.int64]) -> tuple[int, int]:
    """The stretches in a row, first and last, that grow most beyond PACE times the average each: the largest sum of a part."""
    sums = np.concatenate([[0.0], np.cumsum(grew - PACE * max(float(np.cumsum(grew).max()), 0) / grew.size)])
    last = int(np.argmax(sums[1:] - np.minimum.accumulate(sums[:-1])))
    return int(np.argmin(sums[:last + 1])), last


def break_of(found: SnapshotFile, along: pd.DataFrame, until_ns: int, begins_late: bool = False) -> Break | None:
    """Up to this time: a program that frees all at its end leaves much above the live bytes. None where that grows nowhere, or by
    little everywhere. begins_late: what is there at the beginning grew before that."""
    above = (along["rss_bytes"] - along["live"])[along["time_ns"] <= until_ns].to_numpy()
    if not above.size:
        return None
    begun = above[0] if begins_late else 0
    first, last = _steepest(np.diff(above, prepend=begun))
    grew = int(above[last] - (above[first - 1] if first else begun))
    if grew < max(GREW_SHARE * along["rss_bytes"].max(), 1):
        return None
    before, after = _cost(found, np.arange(first)), _cost(found, np.arange(last + 1, len(along)))
    both = before.resolved and after.resolved
    ratio = estimate_ratio(after.ns / before.ns if both else np.zeros(0))
    time = along["time_ns"].to_numpy()
    return Break(int(time[first - 1]) if first else 0, int(time[last]), grew,
                 before.median if before.resolved else math.nan, after.median if after.resolved else math.nan,
                 ratio.ratio, ratio.ci_low, ratio.ci_high)
