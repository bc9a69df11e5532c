# SPDX-License-Identifier: Apache-2.0
"""Large live blocks of which the recording does not say how much of them the program wrote to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import byte_count, counted
from ..trace.reader import Trace

_LARGE_BYTES = 64 << 10
"""The recorder looks at each block from this size on, when it ends and when the program does."""

_NAMED_SHARE = 0.01
"""Of RSS: less changes no answer."""


@dataclass(frozen=True)
class Unmeasured:
    """Of the live blocks at a moment."""

    blocks: int
    bytes: int


def unmeasured(trace: Trace, blocks: pd.DataFrame) -> Unmeasured:
    """blocks: requested_bytes, and given_event, the event that gave each its memory."""
    known = np.concatenate([trace.residency["birth_event"].to_numpy(), trace.residency_steps["birth_event"].to_numpy()])
    found = blocks[(blocks["requested_bytes"] >= _LARGE_BYTES) & ~blocks["given_event"].isin(known)]
    return Unmeasured(len(found), int(found["requested_bytes"].sum()))


def unmeasured_sentence(found: Unmeasured | None, rss_bytes: int) -> list[str]:
    """Empty where it is little."""
    if not found or found.bytes < max(_NAMED_SHARE * rss_bytes, 1):
        return []
    return [f"Not recorded: how much of {counted(found.blocks, 'live block')} of {byte_count(found.bytes)} in all the program wrote to. The replay "
            "writes to all of malloc's and to none of calloc's, so RSS and its live bytes may be wrong by as much."]
