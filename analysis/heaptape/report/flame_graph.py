"""Flame graphs of call sites: callers above their callees, as wide as what is allocated below them. The script zooms and searches."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from zlib import crc32

import pandas as pd

from ..base.units import byte_count, count, percent
from ..sites.frames import place_text
from ..sites.table import MEANING, Node
from .figures import COLOURS, Figure, Table
from .svg import Drawing

_ROW_PX = 18
_SHARE_MIN, _CELLS_MAX = 0.001, 800
"""Narrower functions are not drawn; of more cells the widest are."""

_ROWS = 10

_Cell = tuple[Node, int, float, float]
"""With its depth, its left end and its width, as shares."""


def _shown(name: str, value: float) -> str:
    return count(value) if name == "calls" else byte_count(value)


def _cells(node: Node, name: str, total: int, depth: int = 0, left: float = 0.0) -> Iterator[_Cell]:
    yield node, depth, left, node.figures[name] / total
    for child in node.sorted_children(name):
        width = child.figures[name] / total
        if width < _SHARE_MIN:
            return
        yield from _cells(child, name, total, depth + 1, left)
        left += width


def _drawing(root: Node, name: str) -> str:
    """One graph; "" where there is nothing of the kind."""
    total = root.figures[name]
    if not total:
        return ""
    cells = sorted(_cells(root, name, total), key=lambda cell: -cell[3])[:_CELLS_MAX]
    drawing = Drawing(None, _ROW_PX * (1 + max(depth for _, depth, *_ in cells)), f"Call tree by {MEANING[name]}; the largest call sites are in the table")
    for node, depth, left, width in cells:
        frame = node.frame
        tip = f"{frame.text}: {_shown(name, node.figures[name])}, {percent(width)}"
        css = f"c{crc32((frame.module or frame.label).encode()) % COLOURS + 1}"
        drawing.parts.append(f'<svg class="cell {css}" x="{100 * left:.4f}%" y="{depth * _ROW_PX}" width="{100 * width:.4f}%" height="{_ROW_PX - 1}">'
                             f'<rect width="100%" height="100%"><title>{escape(tip)}</title></rect><text x="3" y="12.5">{escape(frame.label)}</text></svg>')
    return drawing.markup()


def _body(root: Node, names: list[str]) -> str:
    """The first one open: without a script the others open as any details do."""
    drawn = [(name, _drawing(root, name)) for name in names]
    return "".join(f'<details class="flame"{"" if number else " open"}><summary>{MEANING[name].capitalize()}: {_shown(name, root.figures[name])}</summary>'
                   f'<div>{markup}</div></details>' for number, (name, markup) in enumerate(pair for pair in drawn if pair[1]))


def flame_figure(root: Node, places: pd.DataFrame) -> Figure:
    """root: the call tree; a graph for each of its figures. places: as by_place makes them, a column for each."""
    names = sorted((name for name in MEANING if name in root.figures), key=lambda name: name != "bytes")
    ordered = places.sort_values("bytes", ascending=False, kind="stable").head(_ROWS)
    rows = [[place_text(row["place"]), *(_shown(name, row[name]) for name in names)] for row in ordered.to_dict("records")]
    return Figure("Call sites", "Callers are above the functions that they call; colours are modules. Functions with less than a thousandth, or narrower than the widest 800, are not drawn.",
                  f'<div class="flames">{_body(root, names)}</div>', Table(["call site", *(MEANING[name] for name in names)], rows))
