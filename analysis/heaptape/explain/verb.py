# SPDX-License-Identifier: Apache-2.0
"""The verb `explain`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base.arguments import duration_ns
from ..base.builds import builds_here, nearest
from ..base.errors import HeaptapeError, UsageError
from ..base.files import check_output
from ..base.programs import (
    ToolFailed,
    as_ours,
    find_heaptape,
    find_replay,
    list_allocators,
    run_tool,
)
from ..base.text import ProgressLine, printable
from ..base.units import listing, nanoseconds
from ..judge.model import END, PEAK
from ..trace.reader import read_trace
from .answer import Answer, object_of, text_of, text_of_several
from .answering import answer_of
from .cures import CACHES, Candidate, Cure, ProgramCures, try_cures
from .heap_map import cells_each
from .snapshots import read_snapshots
from .sums import Sums

_CURED_SHARE = 0.5
"""A setting of thread caches that saves this share of what is above the live bytes names the cause."""

_TRIED_SHARE, _PURGES = 0.05, 20
"""No change of the program is tried if the worst blocks hold less of RSS than this, or less is free; how often memory is given back
along the trace."""

_ALLOCATORS_MAX = 8

_BUDGET_S = 30.0

_BLOCKS_MAX = 2_000_000
"""Live at once: of more, only the moment that is asked for is looked at."""


def _allocators(replay: str, asked: str | None, context: dict[str, Any], trace: str) -> list[Candidate]:
    if asked is None:
        recorded = nearest(builds_here(replay), context)
        asked = recorded.name if recorded else "glibc"
    listed = list_allocators(replay, asked, trace) if asked else []
    if not 1 <= len(listed) <= _ALLOCATORS_MAX or any(item["name"] == "null" for item in listed):
        raise UsageError(f"--alloc {asked}: expected 1 to {_ALLOCATORS_MAX} allocators")
    return [Candidate(asked, "", item, str(context.get("linked_allocator") or "")) for item in listed]


def _moments(at: str, totals: dict[str, Any] | None) -> str:
    """The moments that are asked for, and the others that show when RSS came apart from the live bytes."""
    few = int((totals or {}).get("peak_live_objects") or 0) <= _BLOCKS_MAX
    return ",".join(dict.fromkeys([at, "peak", "end", "jumps"])) if few else at


def _take(replay: str, trace: str, alloc: str, at: str, folder: Path) -> list[Path]:
    """Files of snapshots, one for each allocator."""
    command = [replay, "-q", "--alloc", alloc, "--snapshots", str(folder), "--at", at, "--", trace]
    try:
        printed = run_tool(command, "surrogateescape")
    except ToolFailed as error:
        raise as_ours(error) from error
    return [Path(line) for line in printed.removesuffix("\n").split("\n")]


def _extended(replay: str, options: argparse.Namespace, scratch: Path, progress: ProgressLine) -> str:
    """The trace that is explained: a file, because who allocated what is looked up in it."""
    if options.extend is None:
        return str(options.trace)
    progress.show(f"extending {Path(options.trace).name}")
    extended = str(scratch / Path(options.trace).name)
    try:
        run_tool([find_heaptape(replay), "extend", "-q", "--to", f"{options.extend:.9f}s", "-o", extended, "--", options.trace], "surrogateescape")
    except ToolFailed as error:
        raise as_ours(error) from error
    return extended


def _verdict(accounts: Sums, verdict: str, cures: list[Cure]) -> str:
    """Only an experiment shows what thread caches hold. cures: at the moment of the accounts."""
    above = accounts.rss_bytes - accounts.bytes["live"]
    best = max((cure.ci_low for cure in cures if cure.name in CACHES and cure.ci_low > 0), default=0)
    named = verdict in ("fragmentation", "retention", "tables")
    return "caches" if named and above > 0 and best >= _CURED_SHARE * above else verdict


def _cures(replay: str, trace: str, options: argparse.Namespace, allocator: Candidate, answer: Answer, scratch: Path, progress: ProgressLine) -> Answer:
    """The answer with what was tried, where something is to be."""
    accounts, holders = answer.accounts, answer.holders
    if not options.budget or not accounts.rss_bytes:
        return answer
    figure = END if options.at == "end" else PEAK
    progress.show(f"trying settings of {allocator.name} and other allocators")
    try:
        cures = try_cures(replay, trace, allocator, figure, options.budget, answer.controls)
    except ToolFailed as error:  # a budget that holds no round, say: what is known without them stays known
        progress.end()
        print(f"heaptape explain: no cures could be tried: {printable(str(error))}", file=sys.stderr)
        return answer
    held = holders and holders[0].holes_bytes >= _TRIED_SHARE * accounts.rss_bytes
    if held or accounts.bytes["free_pages"] >= _TRIED_SHARE * accounts.rss_bytes:
        progress.show(f"replaying under {allocator.name} as the program might be changed")
        try:
            changed = ProgramCures(replay, trace, allocator, figure, scratch)
            cures += changed.without(holders[0], answer.snapshot.time_ns) if held else []
            cures += changed.purges(max(answer.end_ns // _PURGES, 1_000_000), answer.controls)
        except HeaptapeError as error:  # what is known without them stays known
            progress.end()
            print(f"heaptape explain: not all changes of the program could be tried: {printable(str(error))}", file=sys.stderr)
    # What they save is known of the peak, or of the end: whatever moment is explained, its row has the same verdict.
    tried = {moment.time_ns for moment in answer.moments if moment.why == ("end" if options.at == "end" else "peak")}
    moments = [replace(moment, verdict=_verdict(moment.accounts, moment.verdict, cures)) if moment.time_ns in tried else moment for moment in answer.moments]
    verdict = _verdict(accounts, answer.verdict, cures) if options.at in ("peak", "end") else answer.verdict
    return replace(answer, verdict=verdict, moments=moments, cures=sorted(cures, key=lambda cure: -cure.saves_bytes))


def _check(options: argparse.Namespace) -> None:
    """Raises HeaptapeError, before any work is done."""
    if options.html is not None:
        check_output(options.html, [options.trace])
    if options.extend is not None and (duration_ns(options.at) or 0) > options.extend * 1e9:
        raise UsageError(f"--at {options.at}: expected a time up to that of --extend, {nanoseconds(options.extend * 1e9)}")


def _budget(given: float | None, allocators: int) -> float:
    """Seconds for cures."""
    if given and allocators > 1:
        raise UsageError(f"--budget: expected one allocator, found {allocators}: no cures are tried under several")
    return 0 if allocators > 1 else _BUDGET_S if given is None else given


def explain(options: argparse.Namespace) -> list[Answer]:
    """An answer for each allocator."""
    replay, progress = find_replay(), ProgressLine(not options.quiet)
    _check(options)
    try:
        with tempfile.TemporaryDirectory(prefix="heaptape-explain-") as scratch, \
                read_trace(_extended(replay, options, Path(scratch), progress)) as trace:
            allocators = _allocators(replay, options.alloc, trace.context, str(trace.path))
            options.budget = _budget(options.budget, len(allocators))
            progress.show(f"taking snapshots of {listing([allocator.name for allocator in allocators])}")
            paths = _take(replay, str(trace.path), allocators[0].alloc, _moments(options.at, trace.totals), Path(options.snapshots or scratch))
            cells_max = cells_each(len(allocators)) if options.html is not None else 0
            answers = []
            for allocator, path in zip(allocators, paths, strict=True):
                progress.show(f"taking the heap of {allocator.name} apart")
                answer = replace(answer_of(read_snapshots(path), options.at, trace, cells_max), trace=str(options.trace))
                answers.append(_cures(replay, str(trace.path), options, allocator, answer, Path(scratch), progress))
            return answers
    finally:
        progress.end()


def print_answers(options: argparse.Namespace, answers: list[Answer]) -> None:
    """Prints them as text or as JSON, one as it is and several as a list."""
    if options.json:
        found = [object_of(answer) for answer in answers]
        print(json.dumps(found if len(found) > 1 else found[0], indent=1))
        return
    lines = text_of(answers[0]) if len(answers) == 1 else text_of_several(answers)
    print("\n".join(printable(line) for line in lines))
