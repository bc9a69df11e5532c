# SPDX-License-Identifier: Apache-2.0
"""The answer in words, for the first line of the report and the last of the terminal table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..base.units import interval, listing
from ..judge.intervals import hidden_text, more_rounds_text
from .comparison import MEASURES, SEED, UNRESOLVED
from .standing import Standing, standing_of


def time_sentence(standing: Standing) -> str:
    """The fastest and by how much, or that none clearly differs."""
    if not standing.measured:
        return "Time was not measured."
    if len(standing.measured) == 1:
        return f"Only {standing.measured[0]} was measured, so there is nothing to compare it with."
    if standing.leader is None:
        return f"The time of {standing.baseline}, the baseline, is not known, so there is nothing to compare with."
    if standing.leader == standing.baseline:
        if not standing.tied:
            return f"{standing.baseline} is fastest."
        return f"No allocator is clearly faster than {standing.baseline} ({listing(standing.tied)}: no clear difference)."
    row = standing.row(standing.leader)
    speed = f"{1 / row['ratio']:.2f}× as fast as {standing.baseline}{_inverse(row)}"
    if standing.tied:
        return f"{standing.leader} is {speed}; no clear difference from it: {listing(standing.tied)}."
    return f"{standing.leader} is fastest, {speed}."


def _inverse(row: pd.Series) -> str:
    text = interval(1 / row["ci_high"], 1 / row["ci_low"]) if math.isfinite(row["ci_low"]) else ""
    return f" {text}" if text else ""


def memory_sentence(standing: Standing) -> str:
    """Whose peak is smallest and by how much."""
    if not standing.measured:
        return "Memory was not measured."
    if len(standing.measured) == 1:
        return ""
    if standing.leader is None:
        return f"The peak RSS of {standing.baseline}, the baseline, is not known, so there is nothing to compare with."
    if standing.leader == standing.baseline:
        if not standing.tied:
            return f"{standing.baseline} has the smallest peak RSS."
        return (f"No allocator clearly has a smaller peak RSS than {standing.baseline} "
                f"({listing(standing.tied)}: no clear difference).")
    row = standing.row(standing.leader)
    bounds = interval(row["ci_low"], row["ci_high"])
    ratio = f"{row['ratio']:.2f} of {standing.baseline}'s{' ' + bounds if bounds else ''}"
    if standing.tied:
        return f"{standing.leader} has a peak RSS of {ratio}; no clear difference from it: {listing(standing.tied)}."
    return f"{standing.leader} has the smallest peak RSS, {ratio}."


def ranked_standings(runs: pd.DataFrame, comparison: pd.DataFrame, seed: int = SEED) -> list[Standing]:
    """Time and peak RSS, the one first that gives more reason to choose. `runs` has the control's, too."""
    found = [standing_of(runs, comparison, MEASURES[name], seed) for name in ("time", "rss_peak")]
    return sorted(found, key=_reason_to_choose, reverse=True)


def _reason_to_choose(standing: Standing) -> tuple[float, float]:
    """By resolved verdicts alone: what the leader saves, then how far from the baseline any other is."""
    if not standing.measured or standing.leader is None:
        return -1.0, 0.0
    resolved = standing.rows[standing.rows["verdict"].isin([standing.measure.less, standing.measure.more])]
    furthest = max((abs(math.log(ratio)) for ratio in resolved["ratio"]), default=0.0)
    return 1 - float(standing.row(standing.leader)["ratio"]), furthest


def headline(runs: pd.DataFrame, comparison: pd.DataFrame, seed: int = SEED) -> str:
    """One or two sentences. `runs` has the control's, too."""
    return headline_of(ranked_standings(runs, comparison, seed))


def headline_of(standings: Sequence[Standing]) -> str:
    """The same of standings that are known."""
    sentences = [(time_sentence if standing.measure.name == "time" else memory_sentence)(standing) for standing in standings]
    return " ".join(filter(None, sentences))


def in_words(row: pd.Series) -> str:
    """A verdict with what would resolve it."""
    if row["verdict"] != UNRESOLVED:
        return str(row["verdict"])
    more = row["more_rounds"]
    if math.isfinite(more):
        return f"unresolved ({more_rounds_text(more)})"
    if not row["rounds_in_common"]:
        return "no round in common with the baseline"
    # Several rounds always have an interval to go by but where that is so.
    if not math.isfinite(row["ratio"]) or row["rounds_in_common"] > 1:
        return f"unresolved ({hidden_text(row['unit'] == 'ns')})"
    return "unresolved (one round is not enough)"
