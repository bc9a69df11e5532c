"""The answer in words, for the first line of the report and the last of the terminal table."""

from __future__ import annotations

import math

import pandas as pd

from .comparison import MEASURES, RESAMPLES, SEED, UNRESOLVED, leaders
from .units import interval, listing


def _row(comparison: pd.DataFrame, measure: str, allocator: str) -> pd.Series:
    rows = comparison[(comparison["measure"] == measure) & (comparison["allocator"] == allocator)]
    return rows.iloc[0]


def time_sentence(runs: pd.DataFrame, comparison: pd.DataFrame, baseline: str, seed: int = SEED) -> str:
    """Who is fastest and by how much, or that nobody could be told apart."""
    tied = leaders(runs, MEASURES["time"], seed, RESAMPLES)
    if not tied:
        return "Time was not measured."
    if len(tied) == 1 and len(round_names(comparison, "time")) == 1:
        return f"Only {tied[0]} was measured, so there is nothing to compare it with."
    if baseline in tied:
        others = [name for name in tied if name != baseline]
        if not others:
            return f"{baseline} is fastest."
        return f"No allocator was shown to be faster than {baseline} ({listing(others)}: no clear difference)."
    best = tied[0]
    row = _row(comparison, "time", best)
    speed = f"{1 / row['ratio']:.2f}× as fast as {baseline}{_inverse(row)}"
    if len(tied) == 1:
        return f"{best} is fastest, {speed}."
    return f"{listing(tied)} are fastest ({best} {speed})."


def round_names(comparison: pd.DataFrame, measure: str) -> list[str]:
    """Allocators that have any figure for a measure."""
    return list(comparison.loc[comparison["measure"] == measure, "allocator"])


def _inverse(row: pd.Series) -> str:
    text = interval(1 / row["ci_high"], 1 / row["ci_low"]) if math.isfinite(row["ci_low"]) else ""
    return f" {text}" if text else ""


def memory_sentence(runs: pd.DataFrame, comparison: pd.DataFrame, baseline: str, seed: int = SEED) -> str:
    """Whose peak is smallest and by how much."""
    tied = leaders(runs, MEASURES["rss_peak"], seed, RESAMPLES)
    if not tied:
        return "Memory was not measured."
    if len(round_names(comparison, "rss_peak")) == 1:
        return ""
    best = tied[0]
    if tied == [baseline]:
        return f"{baseline} has the smallest peak RSS."
    if baseline in tied:
        return f"{listing(tied)} share the smallest peak RSS."
    row = _row(comparison, "rss_peak", best)
    bounds = interval(row["ci_low"], row["ci_high"])
    ratio = f"{row['ratio']:.2f} of {baseline}'s{' ' + bounds if bounds else ''}"
    if len(tied) == 1:
        return f"{best} has the smallest peak RSS, {ratio}."
    return f"{listing(tied)} share the smallest peak RSS ({best} {ratio})."


def headline(runs: pd.DataFrame, comparison: pd.DataFrame, baseline: str, seed: int = SEED) -> str:
    """Time, then memory: one or two sentences."""
    parts = [
        time_sentence(runs, comparison, baseline, seed),
        memory_sentence(runs, comparison, baseline, seed),
    ]
    return " ".join(part for part in parts if part)


def in_words(row: pd.Series) -> str:
    """A verdict with what would resolve it."""
    if row["verdict"] != UNRESOLVED:
        return str(row["verdict"])
    more = row["more_rounds"]
    if row["rounds"] == 0:
        return "no round in common with the baseline"
    if not math.isfinite(more):
        return "unresolved (one round is not enough)"
    return f"unresolved (about {more:,.0f} more rounds needed)"
