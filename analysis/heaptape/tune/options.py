# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `tune`."""

from __future__ import annotations

import argparse

from ..base.arguments import (
    did_you_mean,
    duration,
    output_name,
    positive,
    processors,
    seed_number,
    several,
)
from ..base.verb_parser import VerbParser

MEASURES_BY_OBJECTIVE = {"time": "time", "rss": "rss_mean", "rss_peak": "rss_peak", "rss_end": "rss_end"}
_TRIALS, _ROUNDS = 60, 12


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _objectives(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in MEASURES_BY_OBJECTIVE:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(MEASURES_BY_OBJECTIVE)}{did_you_mean(name, MEASURES_BY_OBJECTIVE)}")
    if len(set(names)) != len(names):
        raise argparse.ArgumentTypeError("expected each objective once")
    return names


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    tune = VerbParser(
        "tune", ["--alloc=ALLOCATOR TRACE"],
        "Search the knobs of an allocator for a trace, measure the best configurations again, and print them as lines to paste.",
        notes="The search is kept in a study: the same command continues it. Needs the Python packages optuna and sqlalchemy (in a "
              "checkout: ./setup.sh --extras).",
        files=[("TRACE.NAME.OBJECTIVES.study", "The search")],
        see_also=["replay", "compare"],
        examples=[("heaptape tune app.bin --alloc jemalloc", "Settings for this program"),
                  ("heaptape tune app.bin --alloc glibc --objective rss_peak --budget 5m", "For a small peak, within five minutes")])
    tune.add_argument("trace", metavar="TRACE")
    tune.add_argument("--alloc", required=True, metavar="ALLOCATOR",
                      help="Tune this allocator, as heaptape replay --list names it, or by its path (required)")
    tune.add_argument("--trials", type=positive, default=_TRIALS, metavar="N",
                      help=f"Try N configurations in all, counting those of earlier runs of the study (default: {_TRIALS})")
    tune.add_argument("--objective", type=_objectives, default=["time", "rss"], metavar="time|rss|rss_peak|rss_end,...",
                      help="Minimize these; rss is the mean RSS (default: time,rss)")
    tune.add_argument("--knobs", type=_names, metavar="KNOB,...", help="Search only these (default: all that can be searched)")
    tune.add_argument("--splice", metavar="FILE",
                      help="Also print the program's modelled time under the best, by its accesses in FILE, as heaptape replay --splice (default: none)")
    tune.add_argument("--cpus", type=processors, metavar="N", help="Show the allocator a machine with N processors, as heaptape replay --cpus (default: the machine as it is)")
    tune.add_argument("--study", metavar="FILE",
                      help="Keep the search in FILE (default: TRACE.NAME.OBJECTIVES.study beside the trace)")
    tune.add_argument("--rounds", type=several, default=_ROUNDS, metavar="N",
                      help=f"Measure the best against the default in N rounds at the end (default: {_ROUNDS})")
    tune.add_argument("--budget", type=duration, metavar="TIME",
                      help="Spend at most TIME, including the last measurement of the best, such as 90s, 5m, 1h (default: no limit)")
    tune.add_argument("--seed", type=seed_number, metavar="N", help="Repeat an earlier search (default: random, and printed)")
    tune.add_argument("--json", action="store_true", help="Print JSON")
    tune.add_argument("-o", "--output", type=output_name, metavar="FILE", help="Append a line of JSON for each run of the replayer to FILE")
    tune.add_argument("-q", "--quiet", action="store_true", help="Show no progress")
    return tune
