# SPDX-License-Identifier: Apache-2.0
"""Wrappers of malloc in modules without names, as stripped ones are: known by their place in the stacks alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

_CALLERS_MANY = 8
_CALLERS_FEW = 2


@dataclass(frozen=True)
class Locations:
    """Return addresses, by location: the module's number (0: none), whether functions there have names, and whether these are all
    wrappers or of runtime libraries."""

    module: list[int]
    named: list[bool]
    skipped: list[bool]


def nameless_wrappers(sites: list[int], parent: list[int], location: list[int], locations: Locations) -> set[int]:
    """A nameless return address is a wrapper's if more than half of its module's stacks lead to it, outside other wrappers, from eight
    callers or more. So are those below it that hardly anybody else calls (one or two callers).

    sites: the innermost caller of each stack, 0: none; parent, location: of callers, from number 1 on. Returns locations. The same as
    inspect/sites/nameless_wrappers.c."""
    columns = zip(locations.module, locations.named, locations.skipped, strict=True)
    # Code of no module has no other in common.
    modules = {module for module, named, skipped in columns if module and not named and not skipped}
    found: set[int] = set()
    for module in sorted(modules):
        found |= _in_module(module, sites, parent, location, locations)
    return found


def _in_module(module: int, sites: list[int], parent: list[int], location: list[int], locations: Locations) -> set[int]:
    def outside(caller: int) -> int:
        while caller and (locations.skipped[at := location[caller - 1]] or at in passed):
            caller = parent[caller - 1]
        return caller

    found: set[int] = set()
    passed: set[int] = set()
    heads = [caller for caller in sites if caller]
    while heads := [caller for caller in map(outside, heads) if caller]:
        stacks = Counter(at for caller in heads if locations.module[at := location[caller - 1]] == module)
        head, count = stacks.most_common(1)[0] if stacks else (0, 0)
        if 2 * count <= stacks.total() or locations.named[head]:
            break
        callers = {location[above - 1] for caller in heads if location[caller - 1] == head and (above := parent[caller - 1])}
        passed.add(head)
        if len(callers) >= _CALLERS_MANY:
            found |= passed
        elif len(callers) > _CALLERS_FEW:
            break
    return found
