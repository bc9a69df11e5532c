# SPDX-License-Identifier: Apache-2.0
"""A table of `replay`, as the verbs in C print it (base/text_table.c): its widths are bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ..base.environment import terminal_columns
from ..base.text_table import table_lines
from .words import cut, put

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
