# SPDX-License-Identifier: Apache-2.0
"""One word for why RSS is what it is, and what live bytes and RSS do along the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import percent
from .accounts import Sums

NEEDED_SHARE = 0.85
"""Of RSS: where so much is live, the rest explains nothing."""

CHANGE_SHARE = 0.05
"""Of the highest RSS: a smaller change of a curve is none."""

VERDICTS = {
    "growth": "live blocks, which become more: needed or leaked",
    "live": "live blocks, which do not become more",
    "fragmentation": "holes among live blocks",
    "retention": "free pages that the allocator keeps",
    "headers": "headers of live blocks",
    "rounding": "what live blocks have beyond the requested bytes",
    "tables": "the allocator's own data",
    "untouched": "requested, but never written to",
    "caches": "free blocks in thread caches",
    "none": "nothing",
}
"""What RSS mostly is, as a sentence goes on."""

OF_ACCOUNT = {"holes": "fragmentation", "free_pages": "retention", "headers": "headers", "rounding": "rounding", "tables": "tables", "untouched": "untouched"}


@dataclass(frozen=True)
class Trend:
    """From the second quarter of the trace to the last one, medians; rise: of RSS and live bytes, in bytes."""

    live_rise_bytes: float
    rss_rise_bytes: float
    live_rises: bool
    words: str


def verdict_of(accounts: Sums, live_rises: bool) -> str:
    """A name of VERDICTS: the largest account above the live bytes, unless they are nearly all of RSS, or more was asked for and
    never written to than is anything of RSS. live_rises: along the trace."""
    if accounts.not_resident_bytes + accounts.bytes["untouched"] > max(accounts.bytes.values()):
        return "untouched"
    if not accounts.rss_bytes:
        return "none"
    if accounts.bytes["live"] >= NEEDED_SHARE * accounts.rss_bytes:
        return "growth" if live_rises else "live"
    return OF_ACCOUNT[max(OF_ACCOUNT, key=lambda name: accounts.bytes[name])]


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
