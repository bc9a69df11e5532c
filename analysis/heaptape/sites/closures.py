# SPDX-License-Identifier: Apache-2.0
"""Closures, which the debug information gives one name in a file: they are told apart by their lines, and known in another recording,
where lines have moved, by their order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf, log
from pathlib import PurePath

from .frames import Frame

Identity = tuple[str, str]
"""A function and its file, of which a call site consists."""

_CLOSURE = re.compile(r"operator\(\)|(?:.*::)?\{\{closure\}\}")
"""C++ has the first for all, Rust the second for those of a function."""


@dataclass
class Closure:
    """A line that allocates in one. identity: until it is known by its order."""

    identity: Identity
    calls: float = 0.0
    bytes: float = 0.0

    @property
    def line(self) -> int:
        """The one that the identity names."""
        return int(self.identity[0].rpartition(":")[2])

    def unlike(self, other: Closure) -> float:
        """How far two are from each other by what they allocate."""
        size = [(one.bytes + 1) / (one.calls + 1) for one in (self, other)]
        return abs(log((self.calls + 1) / (other.calls + 1))) + abs(log(size[0] / size[1]))


def identity_of(frame: Frame) -> Identity:
    """That of the frame; of a closure with its line."""
    function, file = frame.identity
    return (f"{function}:{frame.line}", file) if frame.line and _CLOSURE.fullmatch(function) else (function, file)


def is_closure(identity: Identity) -> bool:
    """Whether identity_of has put a line there."""
    function, _, line = identity[0].rpartition(":")
    return line.isdecimal() and bool(_CLOSURE.fullmatch(function))


def _by_file(closures: list[Closure], of_file: dict[str, str]) -> dict[Identity, list[Closure]]:
    """In the order of their lines."""
    found: dict[Identity, list[Closure]] = {}
    for closure in sorted(closures, key=lambda one: one.line):
        function, file = closure.identity
        found.setdefault((function.rpartition(":")[0], of_file[file]), []).append(closure)
    return found


def _common_files(sides: list[list[Closure]]) -> list[dict[str, str]]:
    """For each file its name, where one file of each recording has it: folders may differ; else its path."""
    files = [{closure.identity[1] for closure in side} for side in sides]
    names = [[PurePath(file).name for file in side] for side in files]
    return [{file: name if all(side.count(name) == 1 for side in names) else file for file in side for name in [PurePath(file).name]} for side in files]


def _pairs(old: list[Closure], new: list[Closure]) -> list[tuple[int, int]]:
    """All of those that are fewer, in order; where some came or went, so that the pairs are most alike."""
    if len(old) > len(new):
        return [(i, k) for k, i in _pairs(new, old)]
    cost = [[0.0] * (len(new) + 1)] + [[inf] * (len(new) + 1) for _ in old]
    for i, one in enumerate(old):
        for k, other in enumerate(new):
            cost[i + 1][k + 1] = min(cost[i + 1][k], cost[i][k] + one.unlike(other))
    pairs, i, k = [], len(old), len(new)
    while i:
        if cost[i][k] != cost[i][k - 1]:
            i -= 1
            pairs.append((i, k - 1))
        k -= 1
    return pairs[::-1]


def in_order(old: list[Closure], new: list[Closure]) -> tuple[dict[Identity, Identity], dict[Identity, Identity]]:
    """New identities for those of both recordings, alike for those that are the same."""
    of_files = _common_files([old, new])
    sides = [_by_file(side, of_file) for side, of_file in zip((old, new), of_files, strict=True)]
    found: tuple[dict[Identity, Identity], dict[Identity, Identity]] = ({}, {})
    for function, file in {**sides[0], **sides[1]}:
        lists = [side.get((function, file), []) for side in sides]
        pairs = _pairs(*lists)
        for which, (closures, named) in enumerate(zip(lists, found, strict=True)):
            numbers = {pair[which]: f"#{number}" for number, pair in enumerate(pairs)}
            for number, closure in enumerate(closures):
                named[closure.identity] = (function + numbers.get(number, f"#{('old', 'new')[which]} {number}"), file)
    return found
