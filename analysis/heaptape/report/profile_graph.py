# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of an allocator's own functions, and of the difference between two: what costs more is red, what costs less is green."""

from __future__ import annotations

from collections.abc import Iterator

from ..base.units import count, counted, percent, signed_percent
from ..results.profiles import Function, Profile
from .figures import Figure, Table
from .flame_drawing import SHARE_MIN, Cell, colour_of, flame_drawing, folded

_ROWS = 12
_STEPS = 4
"""Of the colours of differences."""

_NONE = Function("")


def _cells(node: Function, total: float, depth: int = 0, left: float = 0.0) -> Iterator[Cell]:
    width = node.instructions / total
    yield Cell(depth, left, width, node.name, f"{node.name}: {counted(node.instructions, 'instruction')}, {percent(width)}", colour_of(node.name))
    for callee in node.sorted_callees():
        if callee.instructions / total < SHARE_MIN:
            return
        yield from _cells(callee, total, depth + 1, left)
        left += callee.instructions / total


def _change_css(base: float, value: float) -> str:
    """By the change as a share of the larger one."""
    larger = max(base, value)
    step = round(_STEPS * abs(value - base) / larger) if larger else 0
    return f"{'more' if value > base else 'less'} step{step}" if step else "same"


def _change_cells(base: Function, node: Function, total: float, depth: int = 0, left: float = 0.0) -> Iterator[Cell]:
    """As wide as the larger of both, so that what is gone has a place too. total: of the root's larger one."""
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


def _graphs(profiles: dict[str, Profile], baseline: str) -> Iterator[tuple[str, str]]:
    if len(profiles) == 2 and baseline in profiles:
        (other,) = profiles.keys() - {baseline}
        old, new = profiles[baseline].root, profiles[other].root
        larger = max(old.instructions, new.instructions)
        yield (f"{other} against {baseline}: {count(old.instructions)} → {counted(new.instructions, 'instruction')}",
               flame_drawing(_change_cells(old, new, larger), "Call tree of both, coloured by the change; the table has the functions"))
    for name, profile in profiles.items():
        root = profile.root
        yield (f"{name}: {counted(root.instructions, 'instruction')}",
               flame_drawing(_cells(root, root.instructions), f"Call tree of {name}; the table has the functions"))


def _table(profiles: dict[str, Profile], baseline: str) -> Table:
    """Of two allocators by the change, otherwise by the largest."""
    own = {name: profile.own_by_name() for name, profile in profiles.items()}
    names = list(dict.fromkeys(function for functions in own.values() for function in functions))
    others = [name for name in profiles if name != baseline]
    if len(profiles) == 2 and len(others) == 1:
        old, new = own[baseline], own[others[0]]
        names.sort(key=lambda name: -abs(new.get(name, 0) - old.get(name, 0)))
        rows = [[name, *(count(of.get(name, 0)) for of in (old, new)), _change(old.get(name, 0), new.get(name, 0))] for name in names[:_ROWS]]
        return Table(["function", baseline, others[0], "change"], rows)
    names.sort(key=lambda name: -max(functions.get(name, 0) for functions in own.values()))
    rows = [[name, *(count(functions[name]) if name in functions else "" for functions in own.values())] for name in names[:_ROWS]]
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
                  folded(_graphs(profiles, baseline)), _table(profiles, baseline))
