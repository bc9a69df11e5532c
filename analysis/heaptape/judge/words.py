# SPDX-License-Identifier: Apache-2.0
"""Numbers and texts as `replay` prints them. The verbs in C write the same (base/talk.c, base/print.c)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TextIO

from ..base import text as base_text
from ..base.environment import terminal_columns
from ..base.text import table_lines
from ..base.units import counted

number_of = counted
"""1 call, 6,364,276 calls, 2 anomalies."""


def grouped(number: int) -> str:
    """6,364,276."""
    return f"{number:,}"


def rounded(value: float) -> int:
    """To the nearest whole number; a half goes away from 0."""
    whole = int(value)
    return whole + (1 if value > 0 else -1) * (abs(value - whole) >= 0.5)


def divided(value: float, by: float) -> float:
    """By nothing, too: then it is infinite, or NaN."""
    if by:
        return value / by
    return value * math.inf


def number(value: float, unit: float, decimals: int, after: str = "", missing: str = "-") -> str:
    """A figure in a unit, with what follows it."""
    return missing if math.isnan(value) else f"{divided(value, unit):.{decimals}f}{after}"


def cut(text: str, size_bytes: int) -> str:
    """What is no whole character at its end is bytes that are no UTF-8."""
    return text.encode(errors="surrogateescape")[:size_bytes].decode(errors="surrogateescape")


def printable(text: str) -> str:
    """Fit to be read by people. Who asks for the C locale by name gets ASCII."""
    shown = base_text.printable(text)
    return shown.encode("ascii", "backslashreplace").decode() if os.environ.get("LC_ALL") in ("C", "POSIX") else shown


def put(out: TextIO, line: str) -> None:
    """Prints a line. None of what is in it begins another one."""
    out.write(f"{printable(line)}\n")


# ---- a table of `replay`, as the verbs in C print it (base/text_table.c): its widths are bytes ----

ROWS_MAX = 128
"""With the heading."""

_CELL_BYTES = 279


class Table:
    """alignments: "l" or "r", a letter for each column."""

    def __init__(self, alignments: str, heading: Sequence[str]) -> None:
        self._right = [number for number, letter in enumerate(alignments) if letter == "r"]
        self.rows: list[list[str]] = []
        self.add(heading)

    def add(self, cells: Sequence[str]) -> None:
        self.rows.append([cut(cell, _CELL_BYTES) for cell in cells])

    def print(self, out: TextIO) -> None:
        for line in table_lines(self.rows, self._right, terminal_columns(out), _bytes_of):
            put(out, line)


def _bytes_of(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))
