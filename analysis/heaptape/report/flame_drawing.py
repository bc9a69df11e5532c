# SPDX-License-Identifier: Apache-2.0
"""The drawing of a flame graph: a cell for each function below its caller. The script zooms and searches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from zlib import crc32

from .figures import COLOURS
from .svg import Drawing

_ROW_PX = 18
SHARE_MIN = 0.001
"""Narrower functions are not drawn."""

_CELLS_MAX = 800
"""Of more cells the widest are drawn."""


@dataclass(frozen=True)
class Cell:
    """Left end and width are shares of the whole. tip: a name, then what it has after ": "."""

    depth: int
    left: float
    width: float
    label: str
    tip: str
    css: str


def colour_of(name: str) -> str:
    """The same name has the same colour in every graph."""
    return f"c{crc32(name.encode()) % COLOURS + 1}"


def flame_drawing(cells: Iterable[Cell], label: str) -> str:
    """Markup; label: for those who cannot see it."""
    widest = sorted(cells, key=lambda cell: -cell.width)[:_CELLS_MAX]
    drawing = Drawing(None, _ROW_PX * (1 + max(cell.depth for cell in widest)), label)
    for cell in widest:
        drawing.parts.append(f'<svg class="cell {cell.css}" x="{100 * cell.left:.4f}%" y="{cell.depth * _ROW_PX}" width="{100 * cell.width:.4f}%" height="{_ROW_PX - 1}">'
                             f'<rect width="100%" height="100%"><title>{escape(cell.tip)}</title></rect><text x="3" y="12.5">{escape(cell.label)}</text></svg>')
    return drawing.markup()


def folded(drawn: Iterable[tuple[str, str]]) -> str:
    """Graphs by their headings, the first one open: without a script the others open as any details do."""
    parts = [f'<details class="flame"{"" if number else " open"}><summary>{escape(heading)}</summary><div>{markup}</div></details>'
             for number, (heading, markup) in enumerate(drawn)]
    return f'<div class="flames">{"".join(parts)}</div>'
