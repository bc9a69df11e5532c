"""Live bytes and blocks of each call site along the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPANS_MAX = 128

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LiveAlong:
    """At the ends of some 64 to 128 spans of equal time: ns of the trace, and a row of all sites for each, 0 (unknown) first;
    allocations: of all sites in each span."""

    at_ns: Ints
    bytes: Ints
    blocks: Ints
    allocations: Ints


class AlongSums:
    """Collects them in one pass over a trace whose length is not known before: spans double."""

    def __init__(self, rows: int) -> None:
        self._span_ns = 1
        self._bytes, self._blocks, self._allocations = (np.zeros((SPANS_MAX, width), dtype=np.int64) for width in (rows, rows, 1))

    def spans(self, time_ns: Ints) -> list[tuple[int, slice]]:
        """Those that rows of these times, which never fall, are in, with the rows."""
        if not time_ns.size:
            return []
        while time_ns[-1] >= SPANS_MAX * self._span_ns:
            self._span_ns *= 2
            for changes in (self._bytes, self._blocks, self._allocations):
                changes[: SPANS_MAX // 2] = changes[::2] + changes[1::2]
                changes[SPANS_MAX // 2 :] = 0
        number, first = np.unique(time_ns // self._span_ns, return_index=True)
        return [(int(span), slice(one, end)) for span, one, end in zip(number, first, [*first[1:], time_ns.size], strict=True)]

    def add(self, span: int, bytes_: Ints, blocks: Ints, allocations: int) -> None:
        """What a span's rows add to each site, and how many blocks they make."""
        self._bytes[span] += bytes_
        self._blocks[span] += blocks
        self._allocations[span] += allocations

    def finish(self, end_ns: int) -> LiveAlong:
        count = min(end_ns // self._span_ns + 1, SPANS_MAX)
        at_ns = np.minimum(np.arange(1, count + 1) * self._span_ns, end_ns)
        return LiveAlong(at_ns, self._bytes[:count].cumsum(axis=0), self._blocks[:count].cumsum(axis=0), self._allocations[:count, 0])
