# SPDX-License-Identifier: Apache-2.0
"""The answer in words, for the first line of the report and the last of the terminal table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from ..base.units import count, figure, interval, listing, signed_percent
from ..judge.intervals import hidden_text, more_rounds_text
from .comparison import (
    MEASURES,
    RESAMPLES,
    SEED,
    UNRESOLVED,
    Estimate,
    Measure,
    control_estimate,
    estimate_ratio,
    paired_ratios,
    round_table,
    verdict,
    widen,
)
from .differences import ALIKE, BETTER, GROUPS, MAIN_FIGURES, OPEN, WORSE, Shift


@dataclass(frozen=True)
class Standing:
    """`leader` is None where the baseline was not measured; `tied` are those that are not shown to be behind the leader, the
    leader itself not among them; `measured` all that have the figure, the baseline among them."""

    measure: Measure
    baseline: str
    leader: str | None
    tied: list[str]
    measured: list[str]
    rows: pd.DataFrame

    def row(self, allocator: str) -> pd.Series:
        """An allocator's row of the comparison with the baseline."""
        return self.rows.loc[allocator]


@dataclass(frozen=True)
class Lead:
    """What the leader has of what another one has, as a ratio; `shown` where it is shown to have less."""

    estimate: Estimate
    shown: bool


class Pairs:
    """Allocators against each other, round by round: two whose intervals to the baseline overlap may still clearly differ,
    as the baseline's own noise is in both."""

    def __init__(self, frame: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES) -> None:
        self._table = round_table(frame, measure)
        self._control = control_estimate(frame, measure, seed, resamples)
        self.measure, self._seed, self._resamples = measure, seed, resamples

    def compare(self, one: str, other: str) -> tuple[Estimate, str]:
        """The ratio, and the verdict by what it is widened to."""
        ratios = paired_ratios(self._table[one], self._table[other])
        estimate = estimate_ratio(ratios, self._seed, self._resamples)
        return estimate, verdict(widen(estimate, self._control), self.measure)


def standing_of(
    frame: pd.DataFrame, comparison: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES
) -> Standing:
    """Where some allocator's verdict is that it has less than the baseline, the leader is the one of these with the least
    ratio, by name where two have it; else it is the baseline. `frame` has all runs, the control's too; `comparison` is that of `compare`."""
    rows = comparison[comparison["measure"] == measure.name].set_index("allocator")
    baseline = str(comparison["baseline"].iloc[0]) if len(comparison) else ""
    measured = [str(name) for name in rows.index]
    if baseline not in measured:
        return Standing(measure, baseline, None, [], measured, rows)
    less = rows[rows["verdict"] == measure.less]
    leader = str(less["ratio"].sort_index().idxmin()) if len(less) else baseline
    tied = []
    pairs = None if leader == baseline else Pairs(frame, measure, seed, resamples)
    for name in measured:
        if name in (leader, baseline) or rows.loc[name, "verdict"] == measure.more:
            continue
        if pairs is None or pairs.compare(name, leader)[1] != measure.more:
            tied.append(name)
    return Standing(measure, baseline, leader, tied, measured, rows)


def lead_over(
    frame: pd.DataFrame, standing: Standing, other: str, seed: int = SEED, resamples: int = RESAMPLES
) -> Lead:
    """How far the leader is ahead of another allocator: not at all where that is not shown."""
    nothing = Lead(Estimate(1.0, math.nan, math.nan, 0), False)
    if standing.leader in (None, other) or other in standing.tied or other not in standing.measured:
        return nothing
    if other == standing.baseline:
        row = standing.row(str(standing.leader))
        estimate = Estimate(float(row["ratio"]), float(row["ci_low"]), float(row["ci_high"]), int(row["rounds"]))
        return Lead(estimate, row["verdict"] == standing.measure.less)
    estimate, words = Pairs(frame, standing.measure, seed, resamples).compare(str(standing.leader), other)
    return Lead(estimate, words == standing.measure.less) if words != UNRESOLVED else nothing


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
    """The headline of standings that are known."""
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


def amount(value: float, unit: str) -> str:
    """The amount of a figure, which may be a count."""
    return figure(value, unit) if unit else count(value)


def signed_amount(value: float, unit: str) -> str:
    """A difference: +8.70 MB."""
    return ("+" if value > 0 else "−" if value < 0 else "") + amount(abs(value), unit)


def change_sentence(old: str, new: str, of_traces: Sequence[tuple[str, Sequence[Shift]]], failing: int = 0, noun: str = "trace") -> str:
    """What became worse from an old build to a new one, then what became better, what is the same, and what is not known. Of each
    trace its name and its shifts; failing: in how many of them the new build alone fails; noun: what they are called."""
    every = [(shift, name) for name, found in of_traces for shift in found]

    def on(some: int) -> str:
        return _on(some, len(of_traces), noun)

    worse = [*([f"it fails{on(failing)}"] if failing else []), *_in_groups(every, WORSE, on)]
    better = _in_groups(every, BETTER, on)
    by_title = {title: [shift for shift, _ in every if shift.figure == title] for title in MAIN_FIGURES}
    same = [title for title, found in by_title.items() if len(found) == len(of_traces) and all(shift.outcome == ALIKE for shift in found)]
    is_open = [_open_words(title, found, on) for title, found in by_title.items() if any(shift.outcome == OPEN for shift in found)]
    missing = [f"{title}{on(len(of_traces) - len(found)) if found else ''}" for title, found in by_title.items() if len(found) < len(of_traces)]
    lead = f"{new} is worse than {old}: {'; '.join(worse)}." if worse else f"{new} is better than {old}: {'; '.join(better)}." if better else ""
    if not lead and not every:
        return f"{new} was not compared with {old}."
    nothing = "is shown to be" if any(shift.outcome == OPEN for shift, _ in every) else "measured is"
    return " ".join(filter(None, [
        lead or f"{new} is not shown to differ from {old}.",
        f"Better: {'; '.join(better)}." if worse and better else "",
        f"Nothing {nothing} worse." if better and not worse else "",
        f"Same within 1 %: {listing(same)}." if same else "",
        f"Not resolved: {'; '.join(is_open)}." if is_open else "",
        f"Not measured: {listing(missing)}." if missing else ""]))


def _on(some: int, all_of_them: int, noun: str) -> str:
    """ " on 2 of 5 traces", where there are several."""
    if all_of_them == 1:
        return ""
    if some == all_of_them:
        return f" on both {noun}s" if some == 2 else f" on all {some} {noun}s"
    return f" on {some} of {all_of_them} {noun}s"


def _in_groups(every: Sequence[tuple[Shift, str]], outcome: str, on: Callable[[int], str]) -> list[str]:
    """The first figure of each group that has this outcome, and the one that differs most where that is another and differs twice as
    much: on how many traces, and by how much at most."""
    said = []
    for group in GROUPS:
        by_title = ([item for item in every if item[0].figure == title and item[0].outcome == outcome] for title in group)
        figures = [(max(found, key=lambda item: item[0].extent), len(found)) for found in by_title if found]
        if figures:
            first, most = figures[0], max(figures, key=lambda item: item[0][0].extent)
            named = [first, *([most] if most is not first and most[0][0].extent >= 2 * first[0][0].extent else [])]
            said += [_extreme_words(shift, name, some, on(some)) for (shift, name), some in named]
    return said


def _extreme_words(shift: Shift, name: str, some: int, on: str) -> str:
    size = signed_amount(shift.size, shift.unit)
    share = signed_percent(shift.ratio - 1) if math.isfinite(shift.ratio) else ""
    huge = f"in huge pages {signed_amount(shift.huge_pages, shift.unit)}" if shift.huge_pages else ""
    if not on:
        inside = ", ".join(filter(None, [share, huge]))
        return f"{shift.figure} {size}{f' ({inside})' if inside else ''}"
    inside = ", ".join(filter(None, [size if share else "", name, huge]))
    return f"{shift.figure}{on}, {'at most ' if some > 1 else ''}{share or size} ({inside})"


def open_words(shift: Shift) -> str:
    """What would resolve it."""
    if math.isfinite(shift.more_rounds):
        return more_rounds_text(shift.more_rounds).removeprefix("needs ")
    return "more than one round" if not math.isfinite(shift.low) and math.isfinite(shift.ratio) else hidden_text(shift.unit == "ns")


def _open_words(title: str, found: Sequence[Shift], on: Callable[[int], str]) -> str:
    """With how much worse it may be."""
    left = [shift for shift in found if shift.outcome == OPEN]
    known = [shift for shift in left if math.isfinite(shift.low + shift.high)]
    bounds = ""
    if known and not on(1):
        bounds = f" ({signed_percent(known[0].low - 1)} to {signed_percent(known[0].high - 1)})"
    elif known:
        bounds = f" (at most {signed_percent(max(shift.high for shift in known) - 1)})"
    return f"{title}{on(len(left))}{bounds}"
