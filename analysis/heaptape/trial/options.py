# SPDX-License-Identifier: Apache-2.0
"""The option table of the verb `try`."""

from __future__ import annotations

from ..base.arguments import duration, output_name, processors, whole
from ..base.verb_parser import VerbParser

RECORDINGS_MAX = 100


def recordings(text: str) -> int:
    """The value of --recordings."""
    return whole(text, 1, RECORDINGS_MAX)


def parser() -> VerbParser:
    """Needs no package but ours, as --help does."""
    trial = VerbParser(
        "try", ["-- COMMAND [ARGUMENT...]", "--logs DIR"],
        "Record the program COMMAND, replay its calls under other allocators, and print what to do: which allocator or setting to use, "
        "what that saves and costs, or to keep the present one.",
        notes="The answer goes to standard output, after what the program prints. The baseline is the allocator that the program "
              "was recorded under.",
        files=[("DIR/trace.bin", "The trace; trace-2.bin and so on of further recordings"), ("DIR/results.jsonl", "The results of the replays"), ("DIR/report.html", "The report"),
               ("DIR/service.bin", "Of a service the trace of all its processes, in place of trace.bin and report.html"), ("DIR/logs", "Where several processes were recorded: the raw logs")],
        see_also=["record", "replay", "report"],
        examples=[("heaptape try -- ./app --its options", "A program that ends by itself"),
                  ("heaptape try --seconds 60 -- ./server", "A server, for a minute"),
                  ("heaptape try --alloc glibc,/opt/lib/libfoo.so -- ./app", "Under chosen allocators"),
                  ("heaptape try --seconds 60 -- gunicorn --preload -w 4 app:app", "A service: what all its processes take together"),
                  ("heaptape try --recordings 5 -- ./app", "A program whose runs differ"),
                  ("heaptape try --logs heaptape-app --process 4711", "Another process of a run that was recorded")],
        statuses=[("0", "There is an answer"), ("1", "The recording or a replay failed"), ("2", "Wrong usage"),
                  ("3", "The logs of --logs cannot be read")])
    trial.add_argument("command", nargs="*", metavar="COMMAND")
    trial.add_argument("--alloc", metavar="ALLOCATOR,...",
                       help="Compare these, as heaptape replay --alloc does (default: the newest glibc, jemalloc, tcmalloc and "
                            "mimalloc that are here, and up to three settings of the program's own)")
    trial.add_argument("--budget", type=duration, metavar="TIME", help="Replay for at most TIME, such as 5m: it ends where the answer is clear (default: 1m)")
    trial.add_argument("--cpus", type=processors, metavar="N", help="Show the allocators a machine with N processors, as heaptape replay --cpus (default: the machine as it is)")
    trial.add_argument("--seconds", type=duration, metavar="TIME",
                       help="End the program by SIGTERM after TIME, for servers (default: it ends by itself, or by Ctrl-C)")
    trial.add_argument("--no-check", action="store_true",
                       help="Do not run COMMAND again: without the recorder, and for at most a quarter of --budget under those that may be worth using (default: it is, if it ended within 10 s and its input can be read twice)")
    trial.add_argument("--recordings", type=recordings, metavar="N", default=1,
                       help="Record COMMAND N times: intervals are then over the program's own runs (default: once)")
    trial.add_argument("--process", metavar="PID|NAME",
                       help="Of several processes, take that one, or one of the executable NAME (default: all of a service, whose processes share pages "
                            "and are compared by memory; else that which used most CPU time and memory; the one that was started, unless another clearly used more)")
    trial.add_argument("--logs", metavar="DIR", help="Record nothing: take the raw logs in DIR, of heaptape record or of an earlier trial (default: record COMMAND)")
    trial.add_argument("-o", "--output", type=output_name, metavar="DIR",
                       help="Make the folder DIR for trace, results and report (default: heaptape-COMMAND, numbered if it exists)")
    trial.add_argument("--json", action="store_true", help="Print the answer as JSON; what the program prints goes to standard error")
    trial.add_argument("-q", "--quiet", action="store_true", help="Print only the answer, and what went wrong")
    return trial
