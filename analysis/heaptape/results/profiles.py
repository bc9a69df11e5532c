# SPDX-License-Identifier: Apache-2.0
"""Where in an allocator its instructions are: trees of its functions, from sampled stacks (`replay --profile`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from .counted import counts_by_allocator
from .reader import NULL_ALLOCATOR

_FRAMES_MAX = 256
"""Of a stack; the simulation writes fewer. What trees of them are walked by goes no deeper."""


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
    """Of one allocator; samples: how many."""

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
