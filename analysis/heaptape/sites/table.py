# SPDX-License-Identifier: Apache-2.0
"""The answer of `sites`: a row for each call site, or a tree of callers, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..base.text import table_lines
from ..base.units import byte_count, count, counted, nanoseconds, null_unless_known, percent
from .frames import Frame, Stacks, factorized, place_text

MEASURES = {"calls": "calls", "bytes": "bytes", "lifetime": "mean_life_ns", "peak": "peak_bytes", "end": "end_bytes"}
"""The columns of the tables by the names that --by has."""

SUMMED = ("calls", "bytes", "peak_bytes", "end_bytes")
"""Figures of which a caller has the sum of its callees'."""

MEANING = {"calls": "calls", "bytes": "bytes requested", "peak_bytes": "bytes live at peak", "end_bytes": "bytes live at end",
           "holes_bytes": "bytes of holes held"}

_SHOWN_SHARE = 0.01
"""What has a smaller share of the tree is left out."""


def by_place(sites: pd.DataFrame, stacks: Stacks, with_arguments: bool = False) -> pd.DataFrame:
    """Sites of one place added up; place, and sites: their numbers. with_arguments: places are told apart by what their text leaves
    out, too."""
    used = sites[(sites["calls"] > 0) | (sites["blocks"] > 0)]
    number, places = factorized([stacks.place(site) for site in used.index], with_arguments)
    added = used.groupby(number).sum()
    added["sites"] = pd.Series(used.index, used.index).groupby(number).agg(list)
    added["mean_life_ns"] = added["life_ns"] / added["blocks"].where(added["blocks"] > 0)
    added["place"] = places
    return added


@dataclass
class Node:
    """A function of the call tree, by what is below it."""

    frame: Frame
    figures: dict[str, int]
    children: dict[tuple[str, str], Node] = field(default_factory=dict)

    def sorted_children(self, measure: str) -> list[Node]:
        """The largest first."""
        return sorted(self.children.values(), key=lambda node: -node.figures[measure])


def call_tree(sites: pd.DataFrame, stacks: Stacks, names: Sequence[str] = SUMMED) -> Node:
    """From the outermost callers in. Calls of one function from several lines are one. sites: columns of these names, by number."""
    root = Node(Frame("[all]"), dict.fromkeys(names, 0))
    for site, *values in sites[list(names)].itertuples():
        if not any(values):
            continue
        node = root
        for frame in [None, *reversed(stacks.of(site))]:
            node = node if frame is None else node.children.setdefault(frame.identity, Node(frame, dict.fromkeys(names, 0)))
            for name, value in zip(names, values, strict=True):
                node.figures[name] += value
    return root


def _figure(name: str, value: float) -> str:
    return count(value) if name == "calls" else byte_count(value)


def _cells(row: dict[str, Any], namesakes: Counter[str]) -> list[str]:
    return [count(row["calls"]), byte_count(row["bytes"]), nanoseconds(row["mean_life_ns"]), byte_count(row["peak_bytes"]),
            byte_count(row["end_bytes"]), place_text(row["place"], namesakes[place_text(row["place"])] > 1)]


def table_text(places: pd.DataFrame, by: str, rows_max: int) -> list[str]:
    """The largest first."""
    ordered = places.sort_values(MEASURES[by], ascending=False, kind="stable")
    shown = ordered.head(rows_max or len(ordered))
    namesakes = Counter(place_text(place) for place in places["place"])
    lines = table_lines([["calls", "bytes", "mean life", "live at peak", "live at end", "call site"],
                         *(_cells(row, namesakes) for row in shown.to_dict("records"))], right=range(5))
    left = len(ordered) - len(shown)
    return lines + [f"{counted(left, 'more call site')}; --rows 0 shows all"] * bool(left)


def _walk(root: Node, measure: str, least: float) -> list[tuple[Node, int]]:
    """Functions with so much, and how deep they are, callers first, the largest callees first; stacks may be deeper than Python's own."""
    found, left = [], [(root, 0)]
    while left:
        node, depth = left.pop()
        found.append((node, depth))
        left += [(child, depth + 1) for child in reversed(node.sorted_children(measure)) if child.figures[measure] >= least]
    return found


def tree_text(root: Node, by: str, rows_max: int | None) -> list[str]:
    """A line for all, and for each function with a hundredth or more, or the rows_max largest (0: all): with each its callers, which
    have no less. Callers come first; callees are indented."""
    measure = MEASURES[by]
    total = root.figures[measure]
    nodes = _walk(root, measure, max(_SHOWN_SHARE * total, 1) if rows_max is None else 0)
    if rows_max:
        largest = sorted(range(1, len(nodes)), key=lambda number: -nodes[number][0].figures[measure])[:rows_max]
        nodes = [nodes[number] for number in [0, *sorted(largest)]]
    rows = [["share", MEANING[measure], "function"]]
    for node, depth in nodes:
        rows.append([percent(node.figures[measure] / max(total, 1)), _figure(measure, node.figures[measure]), "  " * depth + node.frame.text])
    return table_lines(rows, right=(0, 1), columns=0)


def object_of_places(places: pd.DataFrame, by: str, rows_max: int) -> list[dict[str, Any]]:
    """For JSON, the largest first. rows_max: 0: all."""
    ordered = places.sort_values(MEASURES[by], ascending=False, kind="stable").head(rows_max or len(places))
    names = ("calls", "bytes", "blocks", "mean_life_ns", "peak_blocks", "peak_bytes", "end_blocks", "end_bytes")
    return [{name: null_unless_known(row[name]) for name in names} | {"frames": [frame.object() for frame in row["place"]],
            "stacks": row["sites"]} for row in ordered.to_dict("records")]


def json_of_tree(root: Node, by: str) -> str:
    """An object, by hand: the json module goes no deeper than Python's own stack."""
    pieces: list[str] = []
    left: list[Node | str] = [root]
    while left:
        node = left.pop()
        if isinstance(node, str):
            pieces.append(node)
            continue
        pieces.append(json.dumps({"frame": node.frame.object()} | node.figures)[:-1] + ', "children": [')
        children: list[Node | str] = [part for child in node.sorted_children(MEASURES[by]) for part in (", ", child)][1:]
        left += ["]}", *reversed(children)]
    return "".join(pieces)
