# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of call sites: callers above their callees, as wide as what is allocated below them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from ..base.units import byte_count, count, percent
from ..sites.frames import place_text
from ..sites.table import MEANING, Node
from .figures import Figure, Table
from .flame_drawing import SHARE_MIN, Cell, colour_of, flame_drawing, folded

_ROWS = 10


def _shown(name: str, value: float) -> str:
    return count(value) if name == "calls" else byte_count(value)


def _cells(root: Node, name: str, total: int) -> Iterator[Cell]:
    """From the left, callers before their callees. Stacks may be deeper than Python's own."""
    left: list[tuple[Node, int, float]] = [(root, 0, 0.0)]
    while left:
        node, depth, at = left.pop()
        frame, width = node.frame, node.figures[name] / total
        yield Cell(depth, at, width, frame.label, f"{frame.text}: {_shown(name, node.figures[name])}, {percent(width)}", colour_of(frame.module or frame.label))
        children = []
        for child in node.sorted_children(name):
            if child.figures[name] / total < SHARE_MIN:
                break
            children.append((child, depth + 1, at))
            at += child.figures[name] / total
        left += reversed(children)


def _graphs(root: Node, names: list[str]) -> Iterator[tuple[str, str]]:
    """With their headings, of what there is."""
    for name in names:
        if total := root.figures[name]:
            yield (f"{MEANING[name].capitalize()}: {_shown(name, total)}",
                   flame_drawing(_cells(root, name, total), f"Call tree by {MEANING[name]}; the largest call sites are in the table"))


def flame_figure(root: Node, places: pd.DataFrame) -> Figure:
    """root: the call tree; a graph for each of its figures. places: as by_place makes them, a column for each."""
    names = sorted((name for name in MEANING if name in root.figures), key=lambda name: name != "bytes")
    ordered = places.sort_values("bytes", ascending=False, kind="stable").head(_ROWS)
    rows = [[place_text(row["place"]), *(_shown(name, row[name]) for name in names)] for row in ordered.to_dict("records")]
    return Figure("Call sites", "Callers are above the functions that they call; colours are modules. Functions with less than a thousandth, or narrower than the widest 800, are not drawn.",
                  folded(_graphs(root, names)), Table(["call site", *(MEANING[name] for name in names)], rows))
