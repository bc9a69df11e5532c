# SPDX-License-Identifier: Apache-2.0
"""What the simulation counted under each allocator: exact, so that one run says it (`replay --instructions`, `--pass count`); and time by function."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ..judge.against import counted
from .reader import NULL_ALLOCATOR

IN_CALLS = ("instructions", "mapping_calls")
"""Those of the allocator's calls alone; the others are also of what the program touches first."""
COUNTED = (*IN_CALLS, "faults", "l1d_misses", "l2_misses", "l1i_misses", "dtlb_misses", "stlb_misses", "branch_misses")
FUNCTIONS = ("malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "aligned_new", "posix_memalign", "valloc", "other")


@dataclass(frozen=True)
class Part:
    """Calls of one function (\"\": of all) and of the size class that holds so many bytes (None: of all)."""

    function: str = ""
    size_bytes: int | None = None


WHOLE = Part()


def counts_by_allocator(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The last counts of each."""
    if "counts" not in runs:
        return {}
    found = runs[(runs["pass"] == "count") & (runs["failures"] == 0)]
    return {str(name): counts for name, counts in zip(found["allocator"], found["counts"], strict=True)
            if isinstance(counts, dict)}


def calls_by_class(counts: dict[str, Any]) -> dict[tuple[str, int], float] | None:
    """Instructions by function and the least size of the class; None where they were not counted, or not whole."""
    listed = counts.get("calls_by_size")
    if listed is None or any(item.get(name) is None for item in listed for name in ("function", "size_low", "instructions")):
        return None
    return {(item["function"], int(item["size_low"])): float(item["instructions"]) for item in listed}


def counted_figure(counts: dict[str, Any], figure: str, part: Part = WHOLE) -> float:
    """NaN where it was not counted."""
    return counted(counts, figure, part.function, part.size_bytes, of_calls=figure in IN_CALLS)


# ---- where in an allocator its instructions are: trees of its functions, from sampled stacks (`replay --profile`) ----

_FRAMES_MAX = 256
"""A stack has no more; the simulation writes fewer. What walks the trees of them goes no deeper."""


@dataclass
class Function:
    """A function below its callers, by what it and its callees execute: instructions, as the samples share them out."""

    name: str
    instructions: float = 0
    own: float = 0
    callees: dict[str, Function] = field(default_factory=dict)

    def sorted_callees(self) -> list[Function]:
        """The largest first."""
        return sorted(self.callees.values(), key=lambda one: (-one.instructions, one.name))

    def all(self) -> Iterator[Function]:
        """It and all below it."""
        yield self
        for callee in self.callees.values():
            yield from callee.all()


@dataclass(frozen=True)
class Profile:
    """The tree of one allocator; samples: how many."""

    root: Function
    samples: int

    def own_by_name(self) -> dict[str, float]:
        """Instructions that functions executed themselves, the most first."""
        sums: dict[str, float] = {}
        for function in self.root.all():
            if function.own:
                sums[function.name] = sums.get(function.name, 0) + function.own
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))


def _profile(counts: dict[str, Any]) -> Profile | None:
    """None without any instructions that samples share out. As of all lines of results, what is in them may be missing."""
    found = counts.get("profile") or {}
    samples = found.get("samples") or 0
    instructions = (counts.get("allocator") or {}).get("instructions") or 0
    if samples <= 0 or instructions <= 0:
        return None
    root, each = Function("[all]"), float(instructions) / samples
    for stack in found.get("stacks") or ():
        more, node = (stack.get("samples") or 0) * each, root
        if more <= 0:
            continue
        node.instructions += more
        for name in (stack.get("frames") or ())[:_FRAMES_MAX]:
            node = node.callees.setdefault(name, Function(name))
            node.instructions += more
        node.own += more
    return Profile(root, samples) if root.callees else None


def profiles_of(runs: pd.DataFrame) -> dict[str, Profile]:
    """By allocator, of those that have one."""
    made = {name: _profile(counts) for name, counts in counts_by_allocator(runs).items() if name != NULL_ALLOCATOR}
    return {name: profile for name, profile in made.items() if profile}


# ---- time by function, in the shape of `ltrace -c` ----

COLUMNS = ("share", "time_ns", "touch_ns", "ns_per_call", "calls", "function")


def function_table(runs: pd.DataFrame, allocator: str) -> pd.DataFrame:
    """One row per function, most expensive first: share (of the time in all of them), time_ns, touch_ns (the part of it
    that went into first touches of what the calls returned) and calls, as medians over the rounds, and ns_per_call. NaN
    where a run did not time its functions. Empty without runs of the time pass.

    The first touches count: page faults are a price of the allocator's choices, and the total includes them too."""
    chosen = runs[(runs["allocator"] == allocator) & (runs["pass"] == "time") & (runs["failures"] == 0)]
    rows = [
        {"function": name, "call_ns": _number(entry, "time_ns"), "touch_ns": _number(entry, "touch_ns"),
         "calls": _number(entry, "count")}
        for calls in chosen["calls"]
        for name, entry in calls.items()
    ]
    if not rows:
        return pd.DataFrame(columns=list(COLUMNS))
    table = pd.DataFrame(rows).groupby("function", sort=False, as_index=False).median()
    table = table[table["calls"] > 0]
    table["time_ns"] = table["call_ns"] + table["touch_ns"].fillna(0)
    # The harness is subtracted from each function apart, so a function with few calls may come out a little below 0.
    positive = table["time_ns"].clip(lower=0)
    table["share"] = positive / positive.sum() if positive.sum() > 0 else math.nan
    table["ns_per_call"] = table["time_ns"] / table["calls"]
    table = table.sort_values(["time_ns", "calls"], ascending=False, kind="stable", ignore_index=True)
    return table[list(COLUMNS)]


def _number(entry: Any, key: str) -> float:
    value = entry.get(key) if isinstance(entry, dict) else None
    return float(value) if isinstance(value, (int, float)) else math.nan
