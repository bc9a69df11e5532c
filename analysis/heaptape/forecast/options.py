# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `forecast`."""

from __future__ import annotations

from functools import partial

from ..base.arguments import duration, processors, whole
from ..base.verb_parser import USUAL_STATUSES, VerbParser

PARTS_MAX = 20
"""More are shorter than what a load needs to show that it is steady."""

SCALE_MAX = 1000
"""heaptape replay takes no more either."""


def _processors(text: str) -> list[int]:
    """Numbers of processors, each once."""
    return list(dict.fromkeys(processors(word) for word in text.split(",")))


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    forecast = VerbParser(
        "forecast", ["TRACE"],
        "Predict RSS at a later time, and how it grows, under each allocator: extend parts of the steady stretch of TRACE, and replay each.",
        notes="An extrapolation: the load is taken to go on as in the recording. Intervals are of 95 %, from the differences between the parts and "
        "from what the recording leaves open of the growth of live bytes.",
        see_also=["extend", "replay", "explain"],
        examples=[("heaptape forecast app.bin --to 24h", "RSS after a day under every allocator"),
                  ("heaptape forecast app.bin --to 24h --cpus 4,64 --scale 4", "Four times the load, on 4 and on 64 processors"),
                  ("heaptape forecast app.bin --to 24h --alloc glibc,jemalloc --json", "Two of them, as JSON")],
        statuses=[*USUAL_STATUSES, ("5", "The load is not steady, or the recording too short to say")])
    forecast.add_argument("trace", metavar="TRACE")
    forecast.add_argument("--to", type=duration, required=True, metavar="TIME", help="Predict for TIME since the trace's start, such as 24h (required)")
    forecast.add_argument("--alloc", metavar="LIST", default="all", help="Replay under these, as heaptape replay --alloc takes them (default: all)")
    forecast.add_argument("--parts", type=partial(whole, least=2, most=PARTS_MAX), default=3, metavar="N",
                          help=f"Extend N parts of the steady stretch, 2 to {PARTS_MAX} (default: 3)")
    forecast.add_argument("--cpus", type=_processors, metavar="N,...", help="Show allocators machines with so many processors, such as 4,16,64, and "
                          "predict for each, as heaptape replay --cpus does (default: the machine as it is)")
    forecast.add_argument("--scale", type=partial(whole, least=1, most=SCALE_MAX), default=1, metavar="N",
                          help="Replay N copies of the trace side by side, as if the load grew (default: 1)")
    forecast.add_argument("--json", action="store_true", help="Print JSON")
    forecast.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return forecast
