# SPDX-License-Identifier: Apache-2.0
"""What conditions are judged by: an allocator's figure as a ratio to the baseline's, or to that of an earlier run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TextIO

from .comparison import compared_values
from .intervals import median, paired_ratios, ratio_interval, widened
from .json_text import figure, whole
from .model import FIGURES, TIME, Comparison, Condition, FigureWords, Interval, Json
from .words import Table, grouped, printable

BY_NAME = {words.name: words for words in FIGURES}


@dataclass(frozen=True)
class Against:
    """now, then: medians, or counts; NaN: not known. ratio: a count's is exact, its ends are the ratio. widened: by the control, or by
    the earlier run's own rounds."""

    now: float
    then: float
    ratio: Interval
    widened: Interval


def is_compared(comparison: Comparison, choice: int) -> bool:
    """Whether this allocator is compared with anything."""
    return comparison.earlier is not None or choice != comparison.context.baseline


def against(comparison: Comparison, condition: Condition, choice: int) -> Against:
    if condition.figure is None:
        return _counted(comparison, condition, choice)
    if comparison.earlier is not None:
        return _of_runs(comparison, comparison.earlier, BY_NAME[condition.figure], choice)
    mine = comparison.allocators[choice].estimates[condition.figure]
    base = comparison.allocators[comparison.context.baseline].estimates[condition.figure]
    return Against(mine.median, base.median, mine.ratio, mine.widened)


def _counted(comparison: Comparison, condition: Condition, choice: int) -> Against:
    counts, names = comparison.measurements.counts, comparison.names
    if comparison.earlier is not None:
        then = part_of(earlier_of(comparison.earlier, names[choice]), "counts")
    else:
        then = part_of(counts, names[comparison.context.baseline])
    return _of_counts(counted_figure(part_of(counts, names[choice]), condition), counted_figure(then, condition))


def _of_counts(now: float, then: float) -> Against:
    ratio = now / then if then > 0 else math.nan
    exact = Interval(ratio, ratio, ratio, 0 if math.isnan(ratio) else 1)
    return Against(now, then, exact, exact)


def _of_runs(comparison: Comparison, earlier: Json, words: FigureWords, choice: int) -> Against:
    """Rounds of two runs are not pairs: each run's own rounds say how far its median may be off."""
    now = compared_values(comparison.measurements, words, choice)
    then = earlier_values(earlier_of(earlier, comparison.names[choice]), words.key)
    middle = median(then)
    if not middle > 0:
        return _of_counts(median(now), middle)
    ratio = _over(now, middle)
    return Against(median(now), middle, ratio, widened(ratio, _over(then, middle)))


def _over(values: Iterable[float], by: float) -> Interval:
    found = list(values)
    return ratio_interval(paired_ratios(found, [by] * len(found)))


# --- an earlier run, of --baseline-file: by the allocator's name lists of values and "counts"

def earlier_of(earlier: Json, name: str) -> Any:
    """The entry of that name; of a file with one allocator, that one. None: neither."""
    if name in earlier or len(earlier) != 1:
        return earlier.get(name)
    return next(iter(earlier.values()))


def earlier_values(entry: Any, key: str) -> list[float]:
    return [float(value) for value in part_of(entry, key) or []]


# --- counts of the simulation

def part_of(found: Any, key: str) -> Any:
    """None where there is no such part, or where it would be in is no object."""
    return found.get(key) if isinstance(found, dict) else None


def counted_figure(counts: Any, condition: Condition) -> float:
    """NaN: not counted."""
    assert condition.counted is not None
    return counted(counts, condition.counted, condition.function, condition.size_bytes, of_calls=condition.of_calls)


def counted(counts: Any, figure: str, function: str = "", size_bytes: int | None = None, *, of_calls: bool) -> float:
    """The same, of calls of one function and of a size class, or of all."""
    if function or size_bytes is not None:
        return _instructions_of_part(counts, function, size_bytes)
    return _count(part_of(counts, "allocator"), figure) if of_calls else _with_touches(counts, figure)


def _count(part: Any, key: str) -> float:
    value = part_of(part, key)
    return float(value) if type(value) is int else math.nan


def _with_touches(counts: Any, key: str) -> float:
    """With the program's first touches, less the null replayer's; where accesses were simulated, all of the program."""
    if isinstance(counts, dict) and "time" in counts:
        return _count(counts["time"], key)
    return _count(part_of(counts, "allocator"), key) + _count(part_of(counts, "program"), key)


def _instructions_of_part(counts: Any, function: str, size_bytes: int | None) -> float:
    rows = part_of(counts, "calls_by_size")
    if not isinstance(rows, list):
        return math.nan
    size_low = None if size_bytes is None else size_class(size_bytes).key
    return float(sum(_count(row, "instructions") for row in rows
                     if function in ("", part_of(row, "function"))
                     and (size_low is None or part_of(row, "size_low") == size_low)))


class SizeClass(NamedTuple):
    """A class of the simulation: the number by which it is known, and the sizes that are in it."""

    key: int
    low: int
    high: int


def size_class(size_bytes: int) -> SizeClass:
    """The one that holds a size: four of each doubling."""
    if size_bytes < 4:
        return (SizeClass(0, 0, 1), SizeClass(0, 0, 1), SizeClass(2, 2, 2), SizeClass(4, 3, 4))[size_bytes]
    shift = size_bytes.bit_length() - 3
    low = size_bytes >> shift << shift
    return SizeClass(low, 3 if low == 4 else low, low + (1 << shift) - 1)


def in_class(function: str, size_bytes: int | None) -> str:
    """, in malloc of 64 to 79 bytes: whose instructions a condition's are, which names one size; nothing where it names none."""
    if size_bytes is None:
        return ""
    of = size_class(size_bytes)
    return f", in {function or 'calls'} of {of.low} to {of.high} bytes" if of.low < of.high else f", in {function or 'calls'} of {of.low} bytes"


def with_bounds(text: str) -> str:
    """The name of a count with the bounds of its size class: instructions[malloc:64-79] for instructions[malloc:70]."""
    return re.sub(r":(\d+)\]", lambda found: ":{1}-{2}]".format(*size_class(int(found[1]))), text)


# ---- an earlier report ----

_ANY = Condition("", None, None, False, "", None, True, False, 1.0)


def _rows(comparison: Comparison) -> list[Condition]:
    """Instructions and memory, and what else there are conditions of. Time is never compared with another run's."""
    rows = {}
    if comparison.measurements.counts is not None:
        rows["instructions"] = replace(_ANY, text="instructions", counted="instructions", of_calls=True)
    if comparison.rounds:
        rows |= {words.name: replace(_ANY, text=words.name, figure=words.name) for words in FIGURES if words != TIME}
    for condition in comparison.context.conditions:
        text = re.split("[ <>=]", condition.text.lstrip(" "), maxsplit=1)[0]
        rows.setdefault(text, replace(condition, text=text))
    return list(rows.values())


def _ratio_text(ratio: Interval, now: int, then: int) -> str:
    """A difference where there was nothing then."""
    if math.isnan(ratio.estimate):
        return f"{now - then:+,}"
    if math.isnan(ratio.low) or ratio.count == 1:
        return f"{ratio.estimate:.4f}"
    return f"{ratio.estimate:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]"


def print_earlier(comparison: Comparison, out: TextIO) -> None:
    table = Table("llrrl", ["allocator", "figure", "then", "now", "now/then"])
    for choice, name in enumerate(comparison.names):
        for row in _rows(comparison):
            found = against(comparison, row, choice)
            then, now = whole(found.then), whole(found.now)
            if then is not None and now is not None:
                table.add([name, with_bounds(row.text), grouped(then), grouped(now), _ratio_text(found.widened, now, then)])
    print("\n" + printable(f"against {comparison.context.plan.baseline_file}:"), file=out)
    table.print(out)


def earlier_json(comparison: Comparison) -> Json:
    figures = []
    for choice, name in enumerate(comparison.names):
        for row in _rows(comparison):
            found = against(comparison, row, choice)
            figures.append({"allocator": name, "figure": row.text, "then": figure(found.then), "now": figure(found.now),
                            "ratio": figure(found.ratio.estimate), "verdict_low": figure(found.widened.low),
                            "verdict_high": figure(found.widened.high)})
    return {"file": comparison.context.plan.baseline_file, "figures": figures}
