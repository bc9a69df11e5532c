# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `validate`."""

from __future__ import annotations

from ..base.arguments import duration, output_name, positive, seed_number, several
from ..base.verb_parser import VerbParser

ROUNDS = 8


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    validate = VerbParser(
        "validate", ["-- COMMAND [ARGUMENT...]", "--start=CMD --load=CMD [--stop=CMD] [--ready=CMD]"],
        "Compare what a replay predicts of the program COMMAND, or of a server under a load, with what the real program does under "
        "each allocator.",
        see_also=["try", "replay"],
        examples=[("heaptape validate -- ./app", "Predicted and real figures of a program"),
                  ("heaptape validate --count -- ./app", "Exact differences of instructions, misses and faults"),
                  ("heaptape validate --start 'redis-server --port 7777' --load 'redis-benchmark -p 7777 -n 100000'", "Of a server")])
    validate.add_argument("command", nargs="*", metavar="COMMAND")
    validate.add_argument("--start", metavar="CMD", help="Start a server by CMD, in the foreground, by sh -c like the other three")
    validate.add_argument("--load", metavar="CMD", help="Put load on the server by CMD; latencies are read from its output")
    validate.add_argument("--stop", metavar="CMD", help="End the server by CMD (default: SIGTERM)")
    validate.add_argument("--ready", metavar="CMD", help="Repeat CMD until it succeeds, then begin the load (default: wait 1 s)")
    validate.add_argument("--alloc", metavar="ALLOCATOR,...",
                          help="Compare these, as heaptape replay --alloc does (default: the newest glibc, jemalloc, tcmalloc and mimalloc that are here)")
    validate.add_argument("--baseline", metavar="ALLOCATOR", help="Compare with this allocator (default: glibc, else the first)")
    validate.add_argument("--count", action="store_true",
                          help="Count instructions, cache misses and page faults exactly, by simulation (valgrind, 100 times slower), of "
                               "program and replays; without --rounds nothing is timed")
    validate.add_argument("-i", "--instructions", action="store_true", help="As --count, but only instructions: up to ten times faster")
    validate.add_argument("--accesses", action="store_true",
                          help="Predict CPU time also with the effect of placement: record the program's accesses, by simulation (valgrind, 20 "
                               "to 60 times slower), and simulate them under each allocator")
    validate.add_argument("--rounds", type=several, metavar="N",
                          help=f"Run the program N times under each allocator (default: {ROUNDS}; with --count: none)")
    validate.add_argument("--replay-rounds", type=positive, metavar="N",
                          help=f"Replay in N rounds (default: {ROUNDS}; with --count: none)")
    validate.add_argument("--process", metavar="NAME",
                          help="Of several processes, take that of the executable NAME (default: that which used most CPU time and memory)")
    validate.add_argument("--stdin", metavar="FILE", help="Use FILE as standard input of each run (default: /dev/null)")
    validate.add_argument("--timeout", type=duration, metavar="TIME",
                          help="Fail a run that takes longer (default: 1h for the recording, then ten times that, under simulation a thousand "
                               "times, and a minute)")
    validate.add_argument("--budget", type=duration, metavar="TIME",
                          help="Begin no round that would end later than TIME from now, such as 5m; 2 rounds always run "
                               "(default: no limit)")
    validate.add_argument("--seed", type=seed_number, metavar="N", help="Repeat an order of runs (default: random, and printed)")
    validate.add_argument("--keep", metavar="DIR", help="Keep the trace and the replay's results in DIR")
    validate.add_argument("-o", "--output", type=output_name, metavar="FILE", help="Write a line of JSON for each curve of memory to FILE")
    validate.add_argument("--json", action="store_true", help="Print JSON")
    talk = validate.add_mutually_exclusive_group()
    talk.add_argument("-q", "--quiet", action="store_true", help="Show no progress")
    talk.add_argument("-v", "--verbose", action="store_true", help="Print each step to standard error, and what each run measured")
    return validate
