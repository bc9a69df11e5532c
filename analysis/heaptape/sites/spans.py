# SPDX-License-Identifier: Apache-2.0
"""Calls, lives and live blocks of each call site by spans of time: what becomes of it along a trace, and how far its figures vary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPANS_MAX = 128
"""A program that starts for long and then works has enough of them in its work."""

NAMES = ("calls", "bytes", "blocks", "life_ns", "life_events", "live_bytes", "live_blocks")

_PENDING_MIN = 1 << 18
"""Rows: fewer are not worth adding up."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SiteSpans:
    """count: some 64 to 128 spans, each of span_ns, the last one up to end_ns; keys: of what happens, by site and span; sums: a row
    for each key, a column for each of NAMES. calls, bytes: of the span; blocks, life_ns, life_events: of blocks that began in it;
    live_bytes, live_blocks: what it adds to them."""

    span_ns: int
    count: int
    end_ns: int
    keys: Ints
    sums: Floats

    @property
    def at_ns(self) -> Ints:
        """The times at which the spans end."""
        return np.minimum(np.arange(1, self.count + 1) * self.span_ns, self.end_ns)

    def of(self, sites: Sequence[int]) -> dict[str, Floats]:
        """The figures of these sites together, in each span; live_bytes and live_blocks are those at its end."""
        bounds = np.searchsorted(self.keys, np.array([[site, site + 1] for site in sites]).reshape(-1, 2) * SPANS_MAX)
        return self._by_span(np.concatenate([np.arange(first, end) for first, end in bounds] or [np.zeros(0, dtype=np.int64)]))

    def of_all(self) -> dict[str, Floats]:
        """The figures of all sites."""
        return self._by_span(np.arange(self.keys.size))

    def _by_span(self, rows: Ints) -> dict[str, Floats]:
        span = self.keys[rows] % SPANS_MAX
        sums = {name: np.bincount(span, self.sums[rows, column], self.count).astype(np.float64) for column, name in enumerate(NAMES)}
        return sums | {name: sums[name].cumsum() for name in ("live_bytes", "live_blocks")}


class SpanSums:
    """Collects them in one pass over a trace whose length is not known before: spans double. Most sites call in few spans."""

    def __init__(self) -> None:
        self._span_ns = 1
        self._keys: list[Ints] = [np.zeros(0, dtype=np.int64)]
        self._sums: list[Floats] = [np.zeros((0, len(NAMES)))]

    def reach(self, time_ns: int) -> None:
        """Before what happens until then."""
        while time_ns >= SPANS_MAX * self._span_ns:
            self._span_ns *= 2
            self._keys = [keys - keys % SPANS_MAX + keys % SPANS_MAX // 2 for keys in self._keys]

    def add(self, time_ns: Ints, site: Ints, **weights: Ints | None) -> None:
        """Rows of these times; None: counts them."""
        keys, row = np.unique(site * SPANS_MAX + time_ns // self._span_ns, return_inverse=True)
        sums = np.zeros((keys.size, len(NAMES)))
        for name, values in weights.items():
            sums[:, NAMES.index(name)] = np.bincount(row, values, keys.size)
        self._keys.append(keys)
        self._sums.append(sums)
        if sum(keys.size for keys in self._keys[1:]) > max(_PENDING_MIN, self._keys[0].size):
            self._add_up()

    def _add_up(self) -> None:
        keys, row = np.unique(np.concatenate(self._keys), return_inverse=True)
        sums = np.concatenate(self._sums)
        self._keys = [keys]
        self._sums = [np.column_stack([np.bincount(row, sums[:, column], keys.size) for column in range(len(NAMES))])]

    def finish(self, end_ns: int) -> SiteSpans:
        """Without the spans after the end."""
        self._add_up()
        return SiteSpans(self._span_ns, min(end_ns // self._span_ns + 1, SPANS_MAX), end_ns, self._keys[0], self._sums[0])
