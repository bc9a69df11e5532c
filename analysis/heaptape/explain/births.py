# SPDX-License-Identifier: Apache-2.0
"""Where live blocks come from: the event of the trace that made each of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..trace import ops
from ..trace.reader import Trace

_COLUMNS = ("event", "op", "thread", "time_ns", "slot", "site")


class _Births:
    """By slot, the latest event that made an object there; and the latest one that gave it memory, with its call site."""

    def __init__(self) -> None:
        self.made = np.full(1024, -1, dtype=np.int64)
        self.thread = np.zeros(1024, dtype=np.int64)
        self.time_ns = np.zeros(1024, dtype=np.int64)
        self.given = np.full(1024, -1, dtype=np.int64)
        self.site = np.zeros(1024, dtype=np.int64)

    def _grow(self, slots: int) -> None:
        more = max(slots, 2 * self.made.size) - self.made.size
        self.made = np.concatenate([self.made, np.full(more, -1, dtype=np.int64)])
        self.thread = np.concatenate([self.thread, np.zeros(more, dtype=np.int64)])
        self.time_ns = np.concatenate([self.time_ns, np.zeros(more, dtype=np.int64)])
        self.given = np.concatenate([self.given, np.full(more, -1, dtype=np.int64)])
        self.site = np.concatenate([self.site, np.zeros(more, dtype=np.int64)])

    def advance(self, chunk: dict[str, NDArray[np.int64]], until: int) -> None:
        """Takes the events up to this one. Of several of a slot the last stays, as numpy assigns in order."""
        rows = np.flatnonzero(ops.OP_MAKES[chunk["op"]] & (chunk["event"] <= until))
        slot, latest = chunk["slot"][rows].astype(np.int64), int(chunk["slot"].max(initial=0))
        if latest >= self.made.size:
            self._grow(latest + 1)
        self.made[slot], self.thread[slot] = chunk["event"][rows], chunk["thread"][rows]
        self.time_ns[slot] = chunk["time_ns"][rows]
        given = np.flatnonzero(ops.OP_LEAVES_OBJECT[chunk["op"]] & (chunk["event"] <= until))
        self.given[chunk["slot"][given]], self.site[chunk["slot"][given]] = chunk["event"][given], chunk["site"][given]

    def of(self, slots: NDArray[np.int64]) -> pd.DataFrame:
        if slots.size and int(slots.max()) >= self.made.size:
            self._grow(int(slots.max()) + 1)
        return pd.DataFrame({"born_event": self.made[slots], "thread": self.thread[slots], "born_ns": self.time_ns[slots],
                             "given_event": self.given[slots], "site": self.site[slots]})


def births_of(trace: Trace, event: int, slots: NDArray[np.int64]) -> pd.DataFrame:
    """A row for each slot with born_event (-1: none), thread, born_ns, given_event and call site of the block that is live there after this event."""
    births = _Births()
    for chunk in trace.event_arrays(_COLUMNS, slots_due=True):
        births.advance(chunk, event)
        if chunk["event"].size and int(chunk["event"][-1]) >= event:
            break
    return births.of(slots)
