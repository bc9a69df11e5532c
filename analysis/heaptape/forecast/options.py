"""The option table of the verb `forecast`."""

from __future__ import annotations

from ..base.arguments import duration, several
from ..base.verb_parser import USUAL_STATUSES, VerbParser


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    forecast = VerbParser(
        "forecast", ["TRACE"],
        "Predict RSS at a later time, and how it grows, under each allocator: extend parts of the steady stretch of TRACE, and replay each.",
        notes="An extrapolation: the load is taken to go on as in the recording. Intervals are of 95 %, from the differences between the parts and "
        "from what the recording leaves open of the growth of live bytes.",
        see_also=["extend", "replay", "explain"],
        examples=[("heaptape forecast app.bin --to 24h", "RSS after a day under every allocator"),
                  ("heaptape forecast app.bin --to 24h --alloc glibc,jemalloc --json", "Two of them, as JSON")],
        statuses=[*USUAL_STATUSES, ("5", "The load is not steady, or too short to say")])
    forecast.add_argument("trace", metavar="TRACE")
    forecast.add_argument("--to", type=duration, required=True, metavar="TIME", help="Predict for TIME since the trace's start, such as 24h (required)")
    forecast.add_argument("--alloc", metavar="LIST", default="all", help="Replay under these, as heaptape replay --alloc takes them (default: all)")
    forecast.add_argument("--parts", type=several, default=3, metavar="N", help="Extend N parts of the steady stretch (default: 3)")
    forecast.add_argument("--json", action="store_true", help="Print JSON")
    forecast.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return forecast
