# SPDX-License-Identifier: Apache-2.0
"""What live bytes and RSS do along the trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import percent

CHANGE_SHARE = 0.05
"""Of the highest RSS: a smaller change of a curve is none."""


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
