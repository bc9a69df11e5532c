# SPDX-License-Identifier: Apache-2.0
"""`heaptape try` of a program whose processes share pages: the answer is about all of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from ..base.errors import EXIT_FAILED, HeaptapeError
from ..base.programs import run_tool
from ..base.units import counted
from .answer import ServiceTrial, answer, answer_object
from .estimate import estimates
from .runs import first_seed, kind_of, replay_group, with_arenas, word_of
from .trace import GroupTrace, read_group

Say = Callable[[str], None]


def recorded_service(heaptape: str, logs: Path, trace: Path, say: Say) -> GroupTrace | None:
    """The trace of all processes, where a look at their pages was recorded and at least two share some; else None."""
    if not any(logs.glob("malloc-footprint.*.group")):
        return None
    try:
        run_tool([heaptape, "convert", "-q", "--group", "-o", str(trace), "--", str(logs)])
        found = read_group(heaptape, trace)
    except HeaptapeError as error:
        say(f"the processes cannot be taken together, so the answer is of one of them: {error}")
        trace.unlink(missing_ok=True)
        return None
    if found.is_shared and found.moment:
        return found
    if found.is_shared:
        say("no snapshot of the processes' pages was recorded, so the answer is of one of them")
    trace.unlink()
    return None


def try_service(replay: str, options: argparse.Namespace, chosen: tuple[str, str, str], folder: Path, logs: Path, trace: GroupTrace, say: Say) -> int:
    """Replays, and prints the answer. chosen: what --alloc is, the baseline, and why that is not the allocator of the recording, or "".
    Raises HeaptapeError."""
    alloc, baseline, why_baseline = chosen
    has_cures = not options.alloc and not why_baseline
    alloc = with_arenas(replay, alloc, baseline, trace) if has_cures else alloc
    say(f"replaying {counted(len(trace.processes), 'process')} under {alloc.replace(',', ', ')}")
    results = folder / "results.jsonl"
    more = ["--cpus", str(options.cpus)] if options.cpus else []
    runs = replay_group([replay, *more, "--alloc", alloc], trace, results, options.quiet)
    if not any(run.name == baseline and run.total_bytes is not None for run in runs):
        raise HeaptapeError(f"no replay under {baseline} succeeded, with which the others are compared")
    if has_cures and kind_of(replay, baseline) == "glibc":
        say(f"and under {baseline} with free memory given back before each fork")
        purge = ["--purge", "fork", "--seed", str(first_seed(runs))]
        runs = replay_group([replay, *more, *purge, "--alloc", word_of(alloc, baseline)], trace, results, options.quiet)
    found = estimates(trace, runs, baseline, why_baseline)
    command = options.command or [word.replace("\\x20", " ") for word in str(trace.context.get("command") or "").split(" ")]
    trial = ServiceTrial(command, folder, options.logs or str(logs), trace, runs, found, [])
    print(json.dumps(answer_object(trial), indent=1) if options.json else answer(trial))
    return EXIT_FAILED if found.failed else 0
