# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `explain`."""

from __future__ import annotations

import argparse

from ..base.arguments import duration, duration_ns, output_name, whole
from ..base.verb_parser import USUAL_STATUSES, VerbParser


def _moment(text: str) -> str:
    if text not in ("peak", "end") and duration_ns(text) is None:
        raise argparse.ArgumentTypeError("expected peak, end or a time such as 90s")
    return text


def _process(text: str) -> int:
    """Its number: Linux gives out none above."""
    return whole(text, 1, 1 << 22)


def _budget(text: str) -> float:
    """Seconds; 0: none."""
    return 0.0 if text == "0" else duration(text)


def is_of_trace(options: argparse.Namespace) -> bool:
    """Whether a trace is explained, not a process or a core."""
    return options.pid is None and options.core is None


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    explain = VerbParser(
        "explain", ["TRACE", "--pid N", "--core FILE"],
        "Show why RSS exceeds the live bytes when TRACE is replayed: the parts of resident memory, which live blocks hold the "
        "empty parts of its pages, and what other settings and allocators save. With --pid or --core, show the parts of a process "
        "that nobody recorded, without changing it. Of the trace of a group of processes (heaptape convert --group), show which of their "
        "pages are shared, and who copies them.",
        notes="Accounts add up to RSS. The empty part of a page is charged in equal shares to the live blocks in it.",
        see_also=["replay", "tune", "stats", "extend"],
        examples=[("heaptape explain app.bin", "Under the recorded allocator, at the peak of RSS"),
                  ("heaptape explain app.bin --alloc jemalloc --at end", "What is still resident at the end"),
                  ("heaptape explain app.bin --alloc glibc,jemalloc --html explain.html", "Two allocators side by side, with pictures"),
                  ("heaptape explain app.bin --extend 24h --at end", "After a day of the same load, if that is steady"),
                  ("heaptape explain service.bin", "A service of several processes: who breaks the sharing of their pages"),
                  ("heaptape explain app.bin --budget 0", "Without trying cures"),
                  ("heaptape explain --pid 4711", "A process that runs: what its heap consists of now"),
                  ("heaptape explain --pid 4711 --every 60s --for 10m", "What grows in it"),
                  ("heaptape explain --core core.4711", "A process that ended, or that gcore made a copy of")],
        statuses=[*USUAL_STATUSES, ("5", "With --extend: the load is not steady, or the recording too short to say; with "
                                          "--pid or --core: the heap is of no known kind")])
    explain.add_argument("trace", metavar="TRACE", nargs="?")
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
    explain.add_argument("--pid", type=_process, metavar="N", help="Explain the process of this number, which goes on meanwhile")
    explain.add_argument("--core", metavar="FILE", help="Explain the process whose core FILE is; what of it was in RAM is not known")
    explain.add_argument("--stop", action="store_true", help="With --pid: stop the process meanwhile, for about 1 s a GB; its calls of epoll_wait and "
                         "some others then end with EINTR")
    explain.add_argument("--every", type=duration, metavar="TIME", help="With --pid: look again each TIME, such as 60s (default: look once)")
    explain.add_argument("--for", dest="for_", type=duration, metavar="TIME", help="With --every: for this time, such as 10m (required)")
    explain.add_argument("--blocks", type=output_name, metavar="FILE", help="With --pid or --core: write all blocks to FILE as CSV (default: none)")
    explain.add_argument("--json", action="store_true", help="Print JSON: of several allocators a list")
    explain.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return explain
