# SPDX-License-Identifier: Apache-2.0
"""A table for people: columns as wide as their widest cells, aligned; the last one is folded where the terminal ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence

from .environment import terminal_columns

_GAP = "  "
_FOLDED_MIN = 12
"""Columns for what is folded; where there are fewer, nothing is."""


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), columns: int | None = None,
                size: Callable[[str], int] = len) -> list[str]:
    """The heading first. right numbers the columns that are figures; columns is how wide it may be, 0: any width, None: as
    standard output is; size is how wide a text is."""
    widths = [max(map(size, cells)) for cells in zip(*rows, strict=True)]
    if columns is None:
        columns = terminal_columns(sys.stdout)
    last = len(widths) - 1
    room = columns - sum(widths[:last]) - last * len(_GAP)
    lines = []
    for row in rows:
        *cells, end = row
        parts = _folded(end, room, size) if last not in right and room >= _FOLDED_MIN else [end]
        for number, part in enumerate(parts):
            shown = [*([""] * last if number else cells), part]
            lines.append(_GAP.join(_aligned(cell, width - size(cell), i in right)
                                   for i, (cell, width) in enumerate(zip(shown, widths, strict=True))).rstrip(" "))
    return lines


def _aligned(cell: str, spaces: int, right: bool) -> str:
    return " " * spaces + cell if right else cell + " " * spaces


def _folded(text: str, room: int, size: Callable[[str], int]) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and size(lines[-1]) + 1 + size(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines
