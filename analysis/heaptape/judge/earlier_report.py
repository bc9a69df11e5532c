# SPDX-License-Identifier: Apache-2.0
"""Each allocator next to the earlier run of --baseline-file."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TextIO

from .against import against, with_bounds
from .json_text import figure, whole
from .model import FIGURES, TIME, Comparison, Condition, Interval, Json
from .words import Table, grouped, printable

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
