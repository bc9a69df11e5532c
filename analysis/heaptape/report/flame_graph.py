# SPDX-License-Identifier: Apache-2.0
"""Flame graphs: of the heap by call site, of an allocator's own functions, and of the difference between two: what costs more is red, what costs less is green."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from zlib import crc32

import pandas as pd

from ..base.units import byte_count, count, counted, percent, signed_percent
from ..results.counted import Function, Profile
from ..sites.frames import place_text
from ..sites.table import MEANING, Node
from .figures import COLOURS, Figure, Table
from .svg import Drawing

_ROW_PX = 18
SHARE_MIN = 0.001
"""Narrower functions are not drawn."""

_CELLS_MAX = 800
"""If there are more cells, the widest are drawn."""


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


_PROFILE_ROWS = 12
_STEPS = 4
"""Differences have so many colours each way."""

_NONE = Function("")


def _profile_cells(node: Function, total: float, depth: int = 0, left: float = 0.0) -> Iterator[Cell]:
    width = node.instructions / total
    yield Cell(depth, left, width, node.name, f"{node.name}: {counted(node.instructions, 'instruction')}, {percent(width)}", colour_of(node.name))
    for callee in node.sorted_callees():
        if callee.instructions / total < SHARE_MIN:
            return
        yield from _profile_cells(callee, total, depth + 1, left)
        left += callee.instructions / total


def _change_css(base: float, value: float) -> str:
    """By the change as a share of the larger one."""
    larger = max(base, value)
    step = round(_STEPS * abs(value - base) / larger) if larger else 0
    return f"{'more' if value > base else 'less'} step{step}" if step else "same"


def _change_cells(base: Function, node: Function, total: float, depth: int = 0, left: float = 0.0) -> Iterator[Cell]:
    """Cells are as wide as the larger of both, so that what is gone has a place too. total: the root's larger one."""
    width = _width(base, node, total)
    tip = f"{node.name or base.name}: {count(base.instructions)} → {counted(node.instructions, 'instruction')}"
    yield Cell(depth, left, width, node.name or base.name, tip, _change_css(base.instructions, node.instructions))
    names = dict.fromkeys([*base.callees, *node.callees])
    pairs = [(base.callees.get(name, _NONE), node.callees.get(name, _NONE)) for name in names]
    # Callees of two trees may be wider together than their caller: then all of them are narrower.
    wide = sum(_width(one, other, total) for one, other in pairs)
    squeezed = total * max(1.0, wide / width) if width else total
    for one, other in sorted(pairs, key=lambda pair: -_width(pair[0], pair[1], total)):
        if _width(one, other, squeezed) < SHARE_MIN:
            return
        yield from _change_cells(one, other, squeezed, depth + 1, left)
        left += _width(one, other, squeezed)


def _width(base: Function, node: Function, total: float) -> float:
    return max(base.instructions, node.instructions) / total


def _profile_graphs(profiles: dict[str, Profile], baseline: str) -> Iterator[tuple[str, str]]:
    if len(profiles) == 2 and baseline in profiles:
        (other,) = profiles.keys() - {baseline}
        old, new = profiles[baseline].root, profiles[other].root
        larger = max(old.instructions, new.instructions)
        yield (f"{other} against {baseline}: {count(old.instructions)} → {counted(new.instructions, 'instruction')}",
               flame_drawing(_change_cells(old, new, larger), "Call tree of both, coloured by the change; the table has the functions"))
    for name, profile in profiles.items():
        root = profile.root
        yield (f"{name}: {counted(root.instructions, 'instruction')}",
               flame_drawing(_profile_cells(root, root.instructions), f"Call tree of {name}; the table has the functions"))


def _table(profiles: dict[str, Profile], baseline: str) -> Table:
    """The table of two allocators is sorted by the change, others by the largest."""
    own = {name: profile.own_by_name() for name, profile in profiles.items()}
    names = list(dict.fromkeys(function for functions in own.values() for function in functions))
    others = [name for name in profiles if name != baseline]
    if len(profiles) == 2 and len(others) == 1:
        old, new = own[baseline], own[others[0]]
        names.sort(key=lambda name: -abs(new.get(name, 0) - old.get(name, 0)))
        rows = [[name, *(count(of.get(name, 0)) for of in (old, new)), _change(old.get(name, 0), new.get(name, 0))] for name in names[:_PROFILE_ROWS]]
        return Table(["function", baseline, others[0], "change"], rows)
    names.sort(key=lambda name: -max(functions.get(name, 0) for functions in own.values()))
    rows = [[name, *(count(functions[name]) if name in functions else "" for functions in own.values())] for name in names[:_PROFILE_ROWS]]
    return Table(["function", *own], rows)


def _change(base: float, value: float) -> str:
    return signed_percent((value - base) / base) if base else "new"


def profile_figure(profiles: dict[str, Profile], baseline: str) -> Figure | None:
    """None where no allocator has a profile. Of two allocators the difference comes first."""
    if not profiles:
        return None
    fewest = min(profile.samples for profile in profiles.values())
    return Figure("Instructions by the allocator's functions",
                  f"By simulation, from {counted(fewest, 'sample')} of the stack or more for each allocator. Names in brackets are files whose functions have no names.",
                  folded(_profile_graphs(profiles, baseline)), _table(profiles, baseline))
