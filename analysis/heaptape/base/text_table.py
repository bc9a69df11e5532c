# SPDX-License-Identifier: Apache-2.0
"""A table for people: columns as wide as their widest cells, aligned; the last one is folded where the terminal ends."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from .environment import terminal_columns

_GAP = "  "
_FOLDED_MIN = 12
"""Columns for what is folded; where there are fewer, nothing is."""


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), columns: int | None = None) -> list[str]:
    """The heading first. right numbers the columns that are figures; columns is how wide it may be, 0: any width, None: as
    standard output is."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    if columns is None:
        columns = terminal_columns(sys.stdout)
    last = len(widths) - 1
    room = columns - sum(widths[:last]) - last * len(_GAP)
    lines = []
    for row in rows:
        *cells, end = row
        parts = _folded(end, room) if last not in right and room >= _FOLDED_MIN else [end]
        for number, part in enumerate(parts):
            shown = [*([""] * last if number else cells), part]
            lines.append(_GAP.join(cell.rjust(width) if i in right else cell.ljust(width)
                                   for i, (cell, width) in enumerate(zip(shown, widths, strict=True))).rstrip())
    return lines


def _folded(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
