# SPDX-License-Identifier: Apache-2.0
"""What live bytes and RSS do along the trace, and what of the memory is not measured or is shared with other processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import byte_count, counted, percent
from ..trace.reader import Trace

CHANGE_SHARE = 0.05
"""A change of a curve by a smaller share of the highest RSS is none."""


@dataclass(frozen=True)
class Trend:
    """From the second quarter of the trace to the last one, medians; rise: of RSS and live bytes, in bytes."""

    live_rise_bytes: float
    rss_rise_bytes: float
    live_rises: bool
    words: str


def _words(live_rise: float, rss_rise: float, least: float, live: str) -> str:
    """least: a smaller change is none; live: what the live bytes are called where they do not change."""
    if rss_rise >= least:
        if live_rise >= rss_rise / 2:
            return "RSS rises with the live bytes: growth"
        return ("RSS rises more than twice as much as the live bytes: fragmentation or retention grows, too" if live_rise >= least else
                f"RSS rises, {live} do not: fragmentation or retention grows")
    if rss_rise > -least:
        if abs(live_rise) >= least:
            return ("the live bytes rise, RSS does not: they fill holes and free pages" if live_rise > 0 else
                    "the live bytes fall, RSS does not: fragmentation or retention")
        return f"neither RSS nor {live} rise by {percent(CHANGE_SHARE)} of it"
    if live_rise > -least:
        return f"RSS falls, {live} do not: memory is given back"
    return ("the live bytes fall, RSS falls less than half as much: fragmentation or retention" if rss_rise > live_rise / 2 else
            "RSS falls with the live bytes")


def trend_of(curve: pd.DataFrame, a_site_grows: bool = False) -> Trend:
    """curve: time_ns, live_bytes, rss_bytes."""
    time, end = curve["time_ns"].to_numpy(), float(curve["time_ns"].max())
    # The same weight for each moment, however often RSS was read then.
    at = np.clip(np.searchsorted(time, np.linspace(0, end, 400), side="right") - 1, 0, None)
    live, rss = curve["live_bytes"].to_numpy()[at], curve["rss_bytes"].to_numpy()[at]
    live_rise, rss_rise = (float(np.median(values[300:]) - np.median(values[100:200])) for values in (live, rss))
    least = max(CHANGE_SHARE * float(rss.max(initial=0)), 1)
    words = _words(live_rise, rss_rise, least, "the live bytes as a whole" if a_site_grows else "the live bytes")
    return Trend(live_rise, rss_rise, live_rise >= least, words)


_LARGE_BYTES = 64 << 10
"""The recorder looks at each block from this size on, when it ends and when the program does."""

_NAMED_SHARE = 0.01
"""A smaller share of RSS changes no answer."""


@dataclass(frozen=True)
class Unmeasured:
    """The live blocks at a moment whose memory was not measured."""

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


LINE_BYTES = 64


@dataclass(frozen=True)
class SharedLines:
    """lines: of 64 bytes, with requested bytes of live blocks; shared: those of them with blocks that different threads
    allocated; threads: that allocated any."""

    lines: int
    shared: int
    threads: int


def shared_lines(blocks: pd.DataFrame) -> SharedLines:
    """blocks: address, requested_bytes, thread. Only the first and the last line of a block can have another block too."""
    address, size = blocks["address"].to_numpy(), np.maximum(blocks["requested_bytes"].to_numpy(), 1)
    first, last = address // LINE_BYTES, (address + size - 1) // LINE_BYTES
    ends = pd.DataFrame({"line": np.concatenate([first, last]), "thread": np.tile(blocks["thread"].to_numpy(), 2)}).drop_duplicates()
    threads = ends.groupby("line").size()
    return SharedLines(len(threads) + int(np.maximum(last - first - 1, 0).sum()), int((threads > 1).sum()), int(blocks["thread"].nunique()))


def sentences(found: SharedLines | None) -> list[str]:
    """None of a program whose live blocks are of one thread; None: of whom they are is not known."""
    return [f"{counted(found.shared, 'cache line')} {'holds' if found.shared == 1 else 'hold'} blocks of two or more threads: {percent(found.shared / found.lines)} of the cache lines with blocks."] \
        if found and found.threads > 1 else []
