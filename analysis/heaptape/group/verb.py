# SPDX-License-Identifier: Apache-2.0
"""The verbs `try` and `explain` of processes that share pages: what all of them take under each allocator, and who breaks the sharing."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_FAILED, HeaptapeError, Undecided, UsageError
from ..base.programs import find_heaptape, find_replay, run_tool
from ..base.text import outlined, printable, table_lines
from ..base.units import byte_count, counted, nanoseconds, percent
from .answer import PROCESSES_SHOWN, ServiceTrial, answer, answer_object, whole_words
from .estimate import estimates
from .runs import (
    GroupRun,
    first_seed,
    kind_of,
    mean,
    recorded_allocator,
    replay_group,
    with_arenas,
    word_of,
)
from .trace import MASTER, WORKER, GroupTrace, Pages, read_group

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
    print(outlined(answer_object(trial)) if options.json else answer(trial))
    return EXIT_FAILED if found.failed else 0


@dataclass(frozen=True)
class OfProcess:
    """shared_bytes: what others have too, each page in full; alone_bytes: of malloc's pages those that are its own: copied since the fork, or
    fresh; own_bytes: not malloc's."""

    pid: int
    role: str
    name: str
    is_forked: bool
    rss_bytes: float
    shared_bytes: float
    alone_bytes: float
    own_bytes: float


@dataclass(frozen=True)
class Sharing:
    """Parts of the whole, which add up: of malloc's pages those that several processes have; those that a process alone has which was
    not forked; of forked ones alone what the program's own writes have copied, at most, and the rest: copied by the allocator, or
    fresh; and what is not malloc's. All are means over the draws."""

    allocator: str
    version: str
    recorded_bytes: float
    whole_bytes: float
    shared_bytes: float
    first_alone_bytes: float
    copied_by_program_bytes: float
    copied_by_allocator_or_fresh_bytes: float
    own_bytes: float
    processes: list[OfProcess]

    def alone_of(self, role: str) -> float:
        """What all processes of a role have alone, copies by the program included."""
        return sum(one.alone_bytes for one in self.processes if one.role == role)


def sharing(trace: GroupTrace, runs: Sequence[GroupRun]) -> Sharing:
    """runs: of one allocator, at least one, none of which failed; the trace has a moment."""
    assert trace.moment
    number = trace.moment.number
    of_runs = [run.pages(trace) for run in runs]
    processes = [_of_process(trace, one, [pages[one] for pages in of_runs if one in pages]) for one in range(len(trace.processes)) if all(one in pages for pages in of_runs)]
    whole = mean([run.line["moments"][number]["bytes"] for run in runs])
    own = mean([run.line["moments"][number]["own_bytes"] for run in runs])
    alone = sum(one.alone_bytes for one in processes)
    forked = sum(one.alone_bytes for one in processes if one.is_forked)
    copied = min(mean([run.copied_bytes(number) for run in runs]), forked)
    return Sharing(runs[0].name, str(runs[0].allocator.get("version") or ""), trace.moment.anonymous_bytes, whole, max(whole - own - alone, 0.0),
                   alone - forked, copied, forked - copied, own, processes)


def _of_process(trace: GroupTrace, number: int, found: Sequence[Pages]) -> OfProcess:
    process, sharers = trace.processes[number], len(trace.family) if number in trace.family else 1
    rss, own = mean([pages.rss_bytes for pages in found]), found[0].own_bytes
    exclusive = mean([pages.exclusive_bytes(sharers) for pages in found])
    return OfProcess(process.pid, process.role, process.name, process.parent is not None, rss, rss - exclusive, max(exclusive - own, 0.0), own)


_UNKNOWN = "Not known: which blocks; and of what malloc has in forked processes alone, how much it copied, and how much was allocated since the fork."


def explain_group(options: argparse.Namespace) -> None:
    """Prints an answer for each allocator. Raises HeaptapeError."""
    _check(options)
    replay = find_replay()
    trace = read_group(find_heaptape(replay), Path(options.trace))
    if not trace.moment:
        raise Undecided(f"{options.trace}: no snapshot of the pages was recorded (heaptape record --group): what is shared is not known")
    found = _sharings(replay, options, trace)
    if options.json:
        objects = [object_of(one) for one in found]
        print(json.dumps(objects if len(objects) > 1 else objects[0], indent=1))
        return
    print("\n\n".join("\n".join(printable(line) for line in text_of(trace, one)) for one in found))


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError: these are of one heap."""
    given = {"--at": options.at != "peak", "--extend": options.extend is not None, "--budget": options.budget is not None,
             "--snapshots": options.snapshots is not None, "--html": options.html is not None}
    for option in (name for name, is_given in given.items() if is_given):
        raise UsageError(f"{option}: expected the trace of one process, found that of a group")


def _sharings(replay: str, options: argparse.Namespace, trace: GroupTrace) -> list[Sharing]:
    """In the order in which they were asked for."""
    alloc = options.alloc or recorded_allocator(replay, trace)
    with tempfile.TemporaryDirectory(prefix="heaptape-explain-") as scratch:
        runs = replay_group([replay, "--alloc", alloc], trace, Path(scratch) / "results.jsonl", options.quiet)
    done = [run for run in runs if run.total_bytes is not None]
    if not done:
        raise HeaptapeError(f"{alloc}: no replay succeeded: {runs[0].line.get('problem')}")
    return [sharing(trace, [run for run in done if run.name == name]) for name in dict.fromkeys(run.name for run in done)]


# ---- as text ----


def text_of(trace: GroupTrace, found: Sharing) -> list[str]:
    """Who breaks the sharing comes first."""
    assert trace.moment
    of = f"under {found.allocator} {found.version}".rstrip()
    rows = [["part", "bytes", "share"], *([words, byte_count(size), percent(size / found.whole_bytes)] for words, size in _parts(found)),
            ["all, each page once", byte_count(found.whole_bytes), ""]]
    return [*_first_lines(found), "", f"{whole_words(trace, found.recorded_bytes)}, {nanoseconds(trace.moment.time_ns)} after the start. Replayed {of}:",
            *table_lines(rows, right=(1, 2), columns=0), "", *_process_lines(found), _UNKNOWN]


def _parts(found: Sharing) -> list[tuple[str, float]]:
    return [("malloc's, shared since a fork", found.shared_bytes), ("malloc's, of the first process alone", found.first_alone_bytes),
            ("of forked ones alone: copied by the program's writes", found.copied_by_program_bytes),
            ("of forked ones alone: copied by malloc, or allocated there", found.copied_by_allocator_or_fresh_bytes), ("not malloc's", found.own_bytes)]


def _first_lines(found: Sharing) -> list[str]:
    """The largest part of what forked processes have alone in words, and then by role."""
    reasons = {"the program's own writes into inherited blocks": found.copied_by_program_bytes,
               "malloc, which writes into inherited pages or takes fresh ones": found.copied_by_allocator_or_fresh_bytes}
    words, size = max(reasons.items(), key=lambda item: item[1])
    forked = sum(reasons.values())
    if found.own_bytes > found.whole_bytes / 2:
        return [f"Most of the memory is not malloc's; {percent(forked / found.whole_bytes)} of it is malloc's in forked processes alone, most by {words}.", *_by_role(found)]
    return [f"What breaks the sharing: {words} ({byte_count(size)}, {percent(size / found.whole_bytes)} of the memory).", *_by_role(found)]


def _by_role(found: Sharing) -> list[str]:
    numbers = {role: sum(one.role == role for one in found.processes) for role in (MASTER, WORKER)}
    words = [f"{counted(number, role)} {'has' if number == 1 else 'have'} {byte_count(found.alone_of(role))}" for role, number in numbers.items() if number]
    return [f"Of malloc's pages alone, copies included: {', '.join(words)}."] if words else []


def _process_lines(found: Sharing) -> list[str]:
    shown = sorted(found.processes, key=lambda one: -one.alone_bytes)[:PROCESSES_SHOWN]
    left = len(found.processes) - len(shown)
    rows = [["process", "role", "RSS", "shared", "alone", "not malloc's", "program"],
            *([str(one.pid), one.role, *map(byte_count, (one.rss_bytes, one.shared_bytes, one.alone_bytes, one.own_bytes)), one.name] for one in shown)]
    return [*table_lines(rows, right=(2, 3, 4, 5), columns=0), *([f"and {left} more"] if left > 0 else [])]


# ---- as JSON ----


def object_of(found: Sharing) -> dict[str, Any]:
    """Bytes; parts add up to group_bytes."""
    return {"kind": "group", "allocator": found.allocator, "version": found.version or None, "recorded_bytes": round(found.recorded_bytes),
            "group_bytes": round(found.whole_bytes), "shared_bytes": round(found.shared_bytes), "first_alone_bytes": round(found.first_alone_bytes), "copied_by_program_bytes": round(found.copied_by_program_bytes),
            "copied_by_allocator_or_fresh_bytes": round(found.copied_by_allocator_or_fresh_bytes), "own_bytes": round(found.own_bytes), "processes": _objects(found.processes),
            "unknown": [_UNKNOWN]}


def _objects(processes: Sequence[OfProcess]) -> list[dict[str, Any]]:
    return [{"pid": one.pid, "role": one.role, "name": one.name, "rss_anon_bytes": round(one.rss_bytes), "shared_bytes": round(one.shared_bytes),
             "alone_bytes": round(one.alone_bytes), "own_bytes": round(one.own_bytes)} for one in processes]
