# SPDX-License-Identifier: Apache-2.0
"""What has come of the conditions of --fail-if. One holds where all of the interval that verdicts go by meets it, and is refuted where all
of it is on the other side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TextIO

from ..base.errors import EXIT_HOLDS, EXIT_UNDECIDED
from .against import Against, against, in_class, is_compared
from .intervals import MORE_ROUNDS_MAX, hidden_text, more_rounds_text
from .model import TIME, Comparison, Condition, FigureWords, Interval, Json
from .words import printable

HOLDS, UNDECIDED, REFUTED = "holds", "undecided", "refuted"
EXIT_DONE = 0


def state(condition: Condition, widened: Interval) -> str:
    """HOLDS, REFUTED, or UNDECIDED: the limit lies inside, or there is no interval."""
    if math.isnan(widened.low) or math.isnan(widened.high):
        return UNDECIDED
    low, high = _meets(condition, widened.low), _meets(condition, widened.high)
    if low != high:
        return UNDECIDED
    return HOLDS if low else REFUTED


def _meets(condition: Condition, ratio: float) -> bool:
    if condition.inclusive and ratio == condition.limit:
        return True
    return ratio > condition.limit if condition.above else ratio < condition.limit


_SPARE = 1.2
"""An interval is as often wider as it is narrower than its rounds let expect."""


def more_rounds(limit: float, widened: Interval) -> float:
    """About how many more rounds would decide a condition with that limit, as intervals shrink with the root of the rounds, with some to
    spare. NaN if there is no estimate, infinite where the estimate is the limit itself."""
    if math.isnan(widened.low) or math.isnan(widened.high) or widened.count < 2:
        return math.nan
    half = (math.log(widened.high) - math.log(widened.low)) / 2
    distance = abs(math.log(widened.estimate) - math.log(limit))
    if not distance > 0:
        return math.inf
    return float(max(1, math.ceil(_SPARE * widened.count * half * half / (distance * distance)) - widened.count))


def is_open(conditions: Iterable[Condition], words: FigureWords, widened: Interval) -> bool:
    """Whether a condition of that figure is neither shown to be met nor shown not to be."""
    return any(condition.figure == words.name and state(condition, widened) == UNDECIDED for condition in conditions)


def _open_or_met(comparison: Comparison, condition: Condition) -> Iterator[tuple[str, str, Against]]:
    """Allocators by which it is not refuted: name, state, and by what."""
    for choice, name in enumerate(comparison.names):
        found = against(comparison, condition, choice)
        came_to = state(condition, found.widened)
        if is_compared(comparison, choice) and came_to != REFUTED:
            yield name, came_to, found


def conditions_json(comparison: Comparison) -> list[Json]:
    """The outcome of each condition, and the allocators that decided it."""
    rows = []
    for condition in comparison.context.conditions:
        found = list(_open_or_met(comparison, condition))
        met, undecided = ([name for name, came_to, _ in found if came_to == wanted] for wanted in (HOLDS, UNDECIDED))
        outcome = HOLDS if met else UNDECIDED if undecided else REFUTED
        rows.append({"condition": condition.text, "outcome": outcome, "met_by": met, "undecided": undecided})
    return rows


def say(comparison: Comparison, err: TextIO) -> int:
    """A line for each allocator that meets a condition, or that leaves one undecided. Returns EXIT_HOLDS if any condition holds, else
    EXIT_UNDECIDED if any is undecided, else EXIT_DONE."""
    states = set()
    for condition in comparison.context.conditions:
        for name, came_to, found in _open_or_met(comparison, condition):
            words = _place(comparison, condition, name, found) if came_to == HOLDS else _undecided(comparison, condition, name, found)
            print(printable(f"heaptape replay: --fail-if {condition.text}: {words}"), file=err, flush=True)
            states.add(came_to)
    return EXIT_HOLDS if HOLDS in states else EXIT_UNDECIDED if UNDECIDED in states else EXIT_DONE


def _compared_with(comparison: Comparison) -> str:
    if comparison.earlier is not None:
        return str(comparison.context.plan.baseline_file)
    return comparison.names[comparison.context.baseline]


def _place(comparison: Comparison, condition: Condition, name: str, found: Against) -> str:
    other = _compared_with(comparison)
    if condition.figure is None:
        return f"{name} is at {found.ratio.estimate:.4f} of {other}: {found.now:.0f}, was {found.then:.0f}{in_class(condition.function, condition.size_bytes)}"
    return f"{name} is at {found.ratio.estimate:.3f} [{found.widened.low:.3f}, {found.widened.high:.3f}] of {other}"


def _undecided(comparison: Comparison, condition: Condition, name: str, found: Against) -> str:
    """The words for what would decide it, as far as that is known."""
    other = _compared_with(comparison)
    if condition.figure is None:
        if math.isnan(found.now) or math.isnan(found.then):
            return f"undecided: {name} was not counted"
        return f"undecided: {name}: {other} has none of these instructions, calls or misses"
    if found.widened.is_hidden:
        return f"undecided: {name} has no verdict: {hidden_text(condition.figure == TIME.name)}"
    if found.ratio.count == 0:
        return f"undecided: {name} has no round in which it and the baseline both have that figure"
    if math.isnan(found.widened.low):
        return f"undecided: {name} is at {found.ratio.estimate:.3f} of {other} in one round, which has no interval: --rounds 12"
    more = more_rounds(condition.limit, found.widened)
    rounds = f": --rounds {more + comparison.rounds:.0f}" if more <= MORE_ROUNDS_MAX else ""
    return f"undecided: {_place(comparison, condition, name, found)}; {more_rounds_text(more)}{rounds}"
