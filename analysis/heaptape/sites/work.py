# SPDX-License-Identifier: Apache-2.0
"""What says how much a program did: a call site whose calls are equally many in both recordings, such as one for each request."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .recordings import Key, Recording
from .spans import Floats
from .spread import measures_work

_SITES_MAX = 200
"""Of equal sites those with most calls."""


class Work:
    """Of two recordings."""

    def __init__(self, old: Recording, new: Recording) -> None:
        self._recordings = (old, new)
        self._totals = [one.figures.spans.of_all()["calls"] for one in (old, new)]

    def _calls(self, key: Key) -> list[Floats]:
        return [one.figures.spans.of(one.numbers.get(key, []))["calls"] for one in self._recordings]

    @cached_property
    def _equal(self) -> tuple[list[Floats], list[Floats]]:
        """Sites with as many calls in both: their calls along each trace, a row each, and these as shares."""
        keys = [key for key, old in self._recordings[0].sites.items() if old["calls"] == self._recordings[1].of(key)["calls"] >= 1]
        keys.sort(key=lambda key: -self._recordings[0].sites[key]["calls"])
        rows = [calls for key in keys[:_SITES_MAX] if all(map(measures_work, calls := self._calls(key)))]
        sides = [np.array([calls[side] for calls in rows]) for side in (0, 1)]
        return sides, [side / side.sum(axis=-1, keepdims=True) for side in sides]

    def of(self, key: Key) -> list[Floats] | None:
        """What the calls of a site are measured by, along each trace: the equal site that they follow most closely; all others where
        there is none. None where those say nothing either."""
        calls = self._calls(key)
        rows, shares = self._equal
        if len(rows[0]):
            apart = sum((np.diff(of - one / max(one.sum(), 1)) ** 2).sum(axis=1) for of, one in zip(shares, calls, strict=True))
            closest = int(np.argmin(apart))
            return [of[closest] for of in rows]
        others = [total - one for total, one in zip(self._totals, calls, strict=True)]
        return others if all(map(measures_work, others)) else None
