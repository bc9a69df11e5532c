# SPDX-License-Identifier: Apache-2.0
"""Which threads of two recordings of a program are the same: by their names, and by what they call, since numbers follow the order
in which they began to allocate, which differs from run to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import log1p

Site = tuple[tuple[str, str], ...]
"""A call site as `diff` knows it in both recordings."""

MAIN = "main"
"""The role of the first thread."""

_ALIKE = 0.5
"""Threads of such a similarity are a pool: each takes what work there is."""

_CALLS_MIN = 10
"""A site of fewer calls hardly says whose it is."""

_SAME_NAME, _SAME_NUMBER = 0.5, 0.01
"""An equal name or number of threads counts as much as so many call sites."""


@dataclass(frozen=True)
class Threads:
    """The threads of a recording. names: without a number at their end, "" if a thread has the process's. calls: those of each call site, by thread."""

    main: int | None
    names: Mapping[int, str]
    calls: Mapping[Site, Mapping[int, int]]


@dataclass
class _Pool:
    """Threads that do the same. names: whole ones; shares: of the calls of each site."""

    kind: str
    threads: list[int]
    names: set[str]
    logs: dict[Site, float]
    shares: dict[Site, float] = field(default_factory=dict)


def _similarity(one: Mapping[Site, float], other: Mapping[Site, float]) -> float:
    """How similar is what two threads call, by the logarithms of how often: a rare site counts almost as much as a frequent one."""
    both = one.keys() | other.keys()
    least, most = (sum(of(one.get(site, 0.0), other.get(site, 0.0)) for site in both) for of in (min, max))
    return least / most if most else 1.0


def _pools(threads: Threads) -> list[_Pool]:
    """The pools of all but the main thread, in the order of their numbers."""
    called: dict[int, dict[Site, int]] = {}
    for site, calls in threads.calls.items():
        for thread, number in calls.items():
            called.setdefault(thread, {})[site] = number
    pools: list[_Pool] = []
    for thread in sorted(called.keys() - {threads.main}):
        name = threads.names.get(thread, "")
        kind, logs = re.sub(r"\d+", "#", name), {site: log1p(number) for site, number in called[thread].items()}
        pool = next((pool for pool in pools if pool.kind == kind and _similarity(pool.logs, logs) >= _ALIKE), None)
        if pool is None:
            pool = _Pool(kind, [], set(), logs)
            pools.append(pool)
        pool.threads.append(thread)
        pool.names |= {name} - {""}
        for site, number in called[thread].items():
            total = sum(threads.calls[site].values())
            weight = 1.0 if total >= _CALLS_MIN else 0.1
            pool.shares[site] = pool.shares.get(site, 0.0) + weight * number / total
    return pools


def _agreement(old: _Pool, new: _Pool) -> float:
    sites = sum(min(share, new.shares.get(site, 0.0)) for site, share in old.shares.items())
    return sites + _SAME_NAME * bool(old.names & new.names) + _SAME_NUMBER * bool(set(old.threads) & set(new.threads))


def _pairs(old: list[_Pool], new: list[_Pool]) -> list[tuple[int, int]]:
    """Pairs threads of one kind so that they agree most: the best pair first, then exchanges as long as they help."""
    size = max(len(old), len(new))  # who has no partner is paired with nobody
    value = {(i, k): _agreement(old[i], new[k]) if i < len(old) and k < len(new) else 0.0 for i in range(size) for k in range(size)}
    partner: dict[int, int] = {}
    for i, k in sorted(value, key=lambda pair: -value[pair]):
        if i not in partner and k not in partner.values():
            partner[i] = k
    improved = True
    while improved:
        improved = False
        for i, j in combinations(range(size), 2):
            k, m = partner[i], partner[j]
            if value[i, m] + value[j, k] > value[i, k] + value[j, m] + 1e-9:
                partner[i], partner[j], improved = m, k, True
    return [pair for pair in partner.items() if value[pair] > 0]


def roles(old: Threads, new: Threads) -> tuple[dict[int, str], dict[int, str]]:
    """The roles of the threads of both recordings, by number. Threads of one role do the same work."""
    pools = _pools(old), _pools(new)
    found: tuple[dict[int, str], dict[int, str]] = {}, {}
    for threads, named in zip((old, new), found, strict=True):
        if threads.main is not None:
            named[threads.main] = MAIN
    for kind in dict.fromkeys(pool.kind for side in pools for pool in side):
        sides = tuple([pool for pool in side if pool.kind == kind] for side in pools)
        pairs = _pairs(*sides)
        for number, (i, k) in enumerate(pairs):
            for pool, named in ((sides[0][i], found[0]), (sides[1][k], found[1])):
                named.update(dict.fromkeys(pool.threads, f"{kind}:{number}"))
        for which, side in enumerate(sides):
            known = {pair[which] for pair in pairs}
            for number, pool in enumerate(side):
                if number not in known:
                    found[which].update(dict.fromkeys(pool.threads, f"{kind}:{'old' if which == 0 else 'new'} {number}"))
    return found
