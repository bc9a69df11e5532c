# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `explain`."""

from __future__ import annotations

import argparse

from ..base.arguments import duration, duration_ns, output_name
from ..base.verb_parser import USUAL_STATUSES, VerbParser


def _moment(text: str) -> str:
    if text not in ("peak", "end") and duration_ns(text) is None:
        raise argparse.ArgumentTypeError("expected peak, end or a time such as 90s")
    return text


def _budget(text: str) -> float:
    """Seconds; 0: none."""
    return 0.0 if text == "0" else duration(text)


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    explain = VerbParser(
        "explain", ["TRACE"],
        "Show why RSS exceeds the live bytes when TRACE is replayed: the parts of resident memory, which live blocks hold the "
        "empty parts of its pages, and what other settings and allocators save.",
        notes="Accounts add up to RSS. The empty part of a page is charged in equal shares to the live blocks in it.",
        see_also=["replay", "tune", "stats", "extend"],
        examples=[("heaptape explain app.bin", "Under the recorded allocator, at the peak of RSS"),
                  ("heaptape explain app.bin --alloc jemalloc --at end", "What is still resident at the end"),
                  ("heaptape explain app.bin --alloc glibc,jemalloc --html explain.html", "Two allocators side by side, with pictures"),
                  ("heaptape explain app.bin --extend 24h --at end", "After a day of the same load, if that is steady"),
                  ("heaptape explain app.bin --budget 0", "Without trying cures")],
        statuses=[*USUAL_STATUSES, ("5", "With --extend: the load is not steady, or the recording too short to say")])
    explain.add_argument("trace", metavar="TRACE")
    explain.add_argument("--alloc", metavar="LIST", help="Replay under these, as heaptape replay --alloc takes them; under more than one no cures "
                         "are tried (default: the recorded one if it is built, else glibc)")
    explain.add_argument("--at", type=_moment, default="peak", metavar="peak|end|TIME",
                         help="Explain RSS at its peak, at the end, or at this time from the start, such as 90s (default: peak)")
    explain.add_argument("--extend", type=duration, metavar="TIME", help="Explain TRACE continued up to this time since its start, such as 24h, as "
                         "heaptape extend continues it; it is written to the temporary folder (default: the trace as it is)")
    explain.add_argument("--budget", type=_budget, metavar="TIME",
                         help="Try cures for TIME, such as 5m; 0: try none (default: 30s; of several allocators none are tried)")
    explain.add_argument("--snapshots", metavar="FOLDER", help="Keep the files of snapshots in FOLDER (default: keep none)")
    explain.add_argument("--html", type=output_name, metavar="FILE", help="Write a page with maps of the heap to FILE, too (default: none)")
    explain.add_argument("--json", action="store_true", help="Print JSON: of several allocators a list")
    explain.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return explain
