# SPDX-License-Identifier: Apache-2.0
"""A recording as `diff` compares it: figures by call sites, which have the same keys in another recording of the program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, log
from pathlib import PurePath
from typing import TypeVar

from ..trace.reader import Trace
from .figures import SiteFigures, site_figures
from .frames import Frame, Stacks
from .spread import Course
from .table import by_place
from .threads import Threads
from .verb import require_sites

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


_NAME_BYTES = 15
"""The kernel keeps no more of a thread's name."""

_PATH_PARTS_MAX = 4
"""Parts of a path, from its end, by which files in different folders are the same."""

SUMS = ("calls", "blocks", "handed", "bytes", "square_bytes", "life_ns", "square_life_ns", "life_events", "square_life_events",
        "peak_blocks", "peak_bytes", "end_blocks", "end_bytes")

Key = tuple[Identity, ...]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Recording:
    """sites: sums by place; numbers: the trace's, of the sites of a place; totals: of all, but of what is live at the end, too, all that is
    live at the peak; threads: calls by place and thread."""

    path: str
    figures: SiteFigures
    sites: dict[Key, dict[str, float]]
    numbers: dict[Key, list[int]]
    totals: dict[str, float]
    frames: dict[Key, tuple[Frame, ...]]
    threads: Threads

    def of(self, key: Key) -> dict[str, float]:
        """The sums of a place; zeros where it is not there."""
        return self.sites.get(key, dict.fromkeys(SUMS, 0.0))

    def course(self, key: Key) -> Course:
        """The course of a place, along the trace."""
        spans = self.figures.spans
        return Course(spans.span_ns, spans.of(self.numbers.get(key, [])), self.of(key)["peak_bytes"])

    def share_of_calls(self, key: Key, roles: dict[int, str]) -> dict[str, float]:
        """By the roles of threads."""
        calls = self.threads.calls.get(key, {})
        total = sum(calls.values())
        shares: dict[str, float] = {}
        for thread, of_thread in calls.items():
            role = roles.get(thread, "")
            shares[role] = shares.get(role, 0) + of_thread / total
        return shares


def recordings(old: Trace, new: Trace) -> tuple[Recording, Recording]:
    """What the call sites of two traces come to, with the same keys for the same call sites. What is a wrapper in one of them is one
    in the other."""
    for trace in (old, new):
        require_sites(trace)
    wrappers = Stacks(old.sites).nameless_wrappers | Stacks(new.sites).nameless_wrappers
    return _aligned(_recording(old, wrappers), _recording(new, wrappers))


def _recording(trace: Trace, wrappers: frozenset[tuple[str, str]]) -> Recording:
    figures = site_figures(trace)
    places = by_place(figures.sites, Stacks(trace.sites, more_wrappers=wrappers), with_arguments=True)
    keys: list[Key] = [tuple(map(identity_of, place)) for place in places["place"]]
    number = {site: key for key, sites in zip(keys, places["sites"], strict=True) for site in sites}
    threads: dict[Key, dict[int, int]] = {}
    for site, thread, calls in figures.threads.itertuples(index=False):
        of_key = threads.setdefault(number[int(site)], {})
        of_key[int(thread)] = of_key.get(int(thread), 0) + int(calls)
    sums: dict[Key, dict[str, float]] = {}
    numbers: dict[Key, list[int]] = {}
    for key, sites, row in zip(keys, places["sites"], places[list(SUMS)].to_dict("records"), strict=True):
        numbers.setdefault(key, []).extend(sites)
        before = sums.get(key, dict.fromkeys(SUMS, 0.0))
        sums[key] = {name: before[name] + float(row[name]) for name in SUMS}
    totals = {name: float(figures.sites[name].sum()) for name in SUMS} | dict.fromkeys(("peak_bytes", "end_bytes"), float(figures.peak_bytes))
    return Recording(str(trace.path), figures, sums, numbers, totals, dict(zip(keys, places["place"], strict=True)), _threads(trace, threads))


def _threads(trace: Trace, calls: dict[Key, dict[int, int]]) -> Threads:
    """A thread that nobody has named has the name of the process."""
    tids, names = list(trace.threads["tid"]), [str(name) for name in trace.threads["name"]]
    pid, program = trace.context.get("pid"), PurePath(str(trace.context.get("executable") or "")).name[:_NAME_BYTES]
    main = tids.index(pid) if pid in tids else None
    unnamed = {"", program} | ({names[main]} if main is not None else set(names[:1]))
    return Threads(main, {number: "" if name in unnamed else name for number, name in enumerate(names)}, calls)


def _closures(recording: Recording) -> list[Closure]:
    found: dict[Identity, Closure] = {}
    for key, sums in recording.sites.items():
        for identity in filter(is_closure, key):
            closure = found.setdefault(identity, Closure(identity))
            closure.calls, closure.bytes = closure.calls + sums["calls"], closure.bytes + sums["bytes"]
    return list(found.values())


def _renamed(recording: Recording, names: dict[Key, Key]) -> Recording:
    """With other keys."""
    def moved(of: Mapping[Key, _Value]) -> dict[Key, _Value]:
        return {names.get(key, key): value for key, value in of.items()}

    threads = replace(recording.threads, calls=moved(recording.threads.calls))
    return replace(recording, sites=moved(recording.sites), numbers=moved(recording.numbers), frames=moved(recording.frames), threads=threads)


def _aligned(old: Recording, new: Recording) -> tuple[Recording, Recording]:
    sides = [_renamed(one, {key: tuple(names.get(identity, identity) for identity in key) for key in one.frames})
             for one, names in zip((old, new), in_order(_closures(old), _closures(new)), strict=True)]
    return sides[0], _renamed(sides[1], _elsewhere(*sides))


def _elsewhere(old: Recording, new: Recording) -> dict[Key, Key]:
    """The old recording's keys of the new one's call sites that differ in their files' folders alone: of another checkout."""
    lost, came = ([key for key in one.frames if key not in other.frames] for one, other in ((old, new), (new, old)))
    renamed: dict[Key, Key] = {}
    for parts in range(_PATH_PARTS_MAX, 0, -1):
        by_end: list[dict[Key, list[Key]]] = [{}, {}]
        for keys, found in zip((lost, came), by_end, strict=True):
            for key in keys:
                found.setdefault(tuple((function, "/".join(PurePath(file).parts[-parts:])) for function, file in key), []).append(key)
        for end, keys in by_end[1].items():
            if len(keys) == len(by_end[0].get(end, [])) == 1:
                renamed[keys[0]] = by_end[0][end][0]
        lost, came = [key for key in lost if key not in renamed.values()], [key for key in came if key not in renamed]
    return renamed
