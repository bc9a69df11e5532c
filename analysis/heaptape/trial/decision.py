# SPDX-License-Identifier: Apache-2.0
"""What to do: one allocator to use, or to keep the present one, or that this was not decided.

A saving and its price are both shares of what the program uses, one of memory worth one of CPU time. An allocator is worth using
where what it is shown to save is more than what it costs, and than what it may cost as far as that was not resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..base.units import byte_count, listing, nanoseconds, percent
from .changes import CPU, MEMORY, Change, Changes

SURE_WITHIN = 0.02
"""A range that is narrower is one figure."""

VALIDATE = "heaptape validate runs it under both."

USE, KEEP, OPEN = "use", "keep", "not decided"


@dataclass(frozen=True)
class Decision:
    """`answer` is USE, KEEP or OPEN; `allocators` are those worth using, the best one first. `lines`: the sentences, the decision
    first. `advised`: those that a sentence says somebody may use."""

    answer: str
    allocators: list[str]
    lines: list[str] = field(default_factory=list)
    advised: list[str] = field(default_factory=list)


def decide(changes: Changes, baseline: str, shown: Mapping[str, str], more: Mapping[str, str], refused: Mapping[str, str] | None = None) -> Decision:
    """shown: what sentences call each allocator. more: for each figure what would decide it, as a sentence. refused: those that
    the program cannot run under, and what happens then."""
    able = {name: figures for name, figures in changes.items() if name not in (refused or {})}
    found = _decide(able, baseline, shown, more) if able or not refused else Decision(KEEP, [], [f"Keep {shown[baseline]}."])
    ends: dict[str, list[str]] = {}
    for name, what in (refused or {}).items():
        ends.setdefault(what, []).append(shown[name])
    return replace(found, lines=[*found.lines, *(f"Under {listing(names)} the program {what}." for what, names in ends.items())])


def _decide(changes: Changes, baseline: str, shown: Mapping[str, str], more: Mapping[str, str]) -> Decision:
    worth = sorted((name for name, figures in changes.items() if _is_worth_it(figures)), key=lambda name: -_value(changes[name]))
    setting = next((name for name in worth if _is_setting(name, baseline)), None)
    others = {name: f"Or {shown[name]}: {_sentence(changes[name])}." for name in [setting] if name and name != worth[0]}
    others |= _trades(changes, worth[:1], shown)
    trades = list(others.values())
    if worth:
        return Decision(USE, worth, [f"{shown[worth[0]]}: {_sentence(changes[worth[0]])}.", *trades], [worth[0], *others])
    if not any(changes.values()):
        return Decision(OPEN, [], [f"Not decided: what {shown[baseline]} takes of the program's CPU time and memory is not known."])
    may = {name: change for name, figures in changes.items() for change in figures.values() if _may_save(change, figures)}
    if may:
        return Decision(OPEN, [], [f"Not decided: {_of_what_may(may, shown, more)}", *trades], list(others))
    all_run = all(CPU not in figures or figures[CPU].runs for figures in changes.values())
    words = {CPU: CPU if all_run else f"{CPU} (in malloc's calls)", MEMORY: MEMORY}
    known = " or ".join(words[what] for what in words if any(what in figures for figures in changes.values()))
    saves = any(change.saves for figures in changes.values() for change in figures.values())
    none = f"none of {len(changes)} others saves" if len(changes) > 1 else f"{shown[next(iter(changes))]} does not save"
    why = "no saving is worth its price" if saves else f"{none} 1 % of the program's {known}"
    return Decision(KEEP, [], [f"Keep {shown[baseline]}: {why}.", *trades], list(others))


def _of_what_may(may: Mapping[str, Change], shown: Mapping[str, str], more: Mapping[str, str]) -> str:
    """What is shown of malloc's calls comes first: there more rounds tell nothing, but only the program itself."""
    name = min(may, key=lambda one: (not may[one].saves, may[one].share if may[one].saves else may[one].low))
    change = may[name]
    if not change.saves or change.what == MEMORY:
        more = {**more, MEMORY: VALIDATE} if change.saves else more
        others = f" (and {len(may) - 1} more)" if len(may) > 1 else ""
        return f"{shown[name]}{others} may save up to {percent(-change.least)} of {change.what}. {more[change.what]}"
    return (f"in malloc's calls {shown[name]} saves {nanoseconds(-change.share * change.whole)} ({percent(-change.share)}) of CPU; with where blocks lie "
            f"the program takes between {percent(-change.least)} less and {percent(change.most)} more. {VALIDATE}")


def promising(changes: Changes) -> list[str]:
    """Those that may be worth using for all that a replay can tell, the likeliest first."""
    hoped = {name: sum(change.least if change.what == CPU else change.share for change in figures.values() if change.what == CPU or not change.is_small)
             for name, figures in changes.items()}
    return sorted((name for name, share in hoped.items() if share < 0), key=lambda name: sum(change.share for change in changes[name].values()))


def may_turn(changes: Changes) -> set[tuple[str, str]]:
    """Allocators and figures of theirs that are open, and may change which is best: it may save more than the best is sure to save,
    or, where none is worth using, may be so."""
    sure = max((-sum(change.high for change in figures.values()) for figures in changes.values() if _is_worth_it(figures)), default=None)
    return {(name, change.what) for name, figures in changes.items() for change in figures.values() if change.is_open
            and (_may_save(change, figures) if sure is None else -sum(other.low for other in figures.values()) > sure)}


def _value(figures: Mapping[str, Change]) -> float:
    """What it saves, less what it costs, or may cost."""
    return sum(-change.share if change.saves else change.share * -1 if change.costs else -max(change.high, 0.0) if change.is_open else 0.0
               for change in figures.values())


def _is_worth_it(figures: Mapping[str, Change]) -> bool:
    """A saving is a reason only where what a replay does not know cannot turn it."""
    saves = [change for change in figures.values() if change.saves and change.most < 0]
    return bool(saves) and _value(figures) > 0


def _trades(changes: Changes, best: list[str], shown: Mapping[str, str]) -> dict[str, str]:
    """A sentence each of who saves most of either figure, where that is another one and its price no more than twice what it saves."""
    lines: dict[str, str] = {}
    for what in (CPU, MEMORY):
        saving = {name: figures for name, figures in changes.items() if what in figures and figures[what].saves and figures[what].most < 0 and _value(figures) > figures[what].share}
        name = min(saving, key=lambda one: saving[one][what].share, default="")
        if name and name not in [*best, *lines]:
            lines[name] = f"For {what} alone, {shown[name]}: {_sentence(saving[name])}."
    return lines


def _is_setting(name: str, baseline: str) -> bool:
    return name.partition(":")[0] == baseline.partition(":")[0]


def _sentence(figures: Mapping[str, Change]) -> str:
    """What it saves, then the price."""
    ordered = sorted(figures.values(), key=lambda change: change.share)
    gains = [change for change in ordered if change.saves and change.most < 0]
    costs = [change for change in ordered if change.costs and change.least > 0]
    words = " and ".join(in_words(change) for change in gains)
    words += f", for {' and '.join(in_words(change) for change in costs)}" if costs else ""
    return "".join([words, *(f"; {in_words(change)}" for change in ordered if change not in gains + costs)])


def in_words(change: Change) -> str:
    """Such as "8.7 MB (7 %) less memory" or "CPU between 2.0 % less and 9.0 % more"."""
    if change.is_small:
        return f"the same {change.what}" + (" in malloc" if change.what == CPU and not change.runs else "")
    if change.least < 0 < change.most:
        if not math.isfinite(change.most):
            return f"{change.what} not resolved"
        return f"{change.what} between {percent(-change.least)} less and {percent(change.most)} more"
    direction = "less" if change.share < 0 else "more"
    amount = byte_count(abs(change.share) * change.whole) if change.what == MEMORY else nanoseconds(abs(change.share) * change.whole)
    counted = ", modelled" if change.counted else ""
    ends = sorted(abs(end) for end in (change.least, change.most))
    sure = ends[1] - ends[0] < SURE_WITHIN
    share = percent(abs(change.share)) if sure else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"
    return f"{amount} ({share}{counted}) {direction} {change.what}"


def _may_save(change: Change, figures: Mapping[str, Change]) -> bool:
    """Whether what was not resolved may be a reason: it may save more than the rest costs."""
    rest = sum(other.share for other in figures.values() if other is not change and (other.costs or other.saves))
    return change.may_save and change.low + rest < -change.small
