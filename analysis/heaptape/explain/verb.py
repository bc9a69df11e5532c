"""The verb `explain`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.arguments import duration_ns
from ..base.errors import EXIT_BAD_INPUT, HeaptapeError, UsageError
from ..base.printable import printable
from ..base.programs import ToolFailed, find_replay, list_allocators, run_tool
from ..base.progress import ProgressLine
from ..trace.reader import Trace, read_trace
from .accounts import Accounts, account
from .answer import Answer, Moment, object_of, text_of
from .births import births_of
from .cures import CACHES, Candidate, Cure, ProgramCures, try_cures
from .holders import Holder, find_holders
from .snapshots import Snapshot, SnapshotFile, read_snapshots
from .verdict import trend_of, verdict_of

_CURED_SHARE = 0.5
"""Of what is above the live bytes: a setting of caches and arenas that saves so much names the cause."""

_TRIED_SHARE, _PURGES = 0.05, 20
"""Of RSS: where the worst blocks hold less, or less is free, no change of the program is tried; how often memory is given back
along the trace."""

_BLOCKS_MAX = 2_000_000
"""Live at once: of more, only the moment that is asked for is looked at."""


class BadTrace(HeaptapeError):
    """The replayer refuses it."""

    exit_status = EXIT_BAD_INPUT


def _allocator(replay: str, asked: str | None, context: dict[str, Any]) -> Candidate:
    if asked is None:
        built = {item["name"]: item for item in list_allocators(replay, None) if item.get("built")}
        recorded = str(context.get("allocator_name") or "")
        asked = recorded if recorded in built else "glibc"
    listed = list_allocators(replay, asked)
    if len(listed) != 1 or listed[0]["name"] == "null":
        raise UsageError(f"--alloc {asked}: expected one allocator")
    return Candidate(asked, "", listed[0])


def _moments(at: str, totals: dict[str, Any] | None) -> str:
    """What is asked for, and what else shows when RSS came apart from the live bytes."""
    few = int((totals or {}).get("peak_live_objects") or 0) <= _BLOCKS_MAX
    return ",".join(dict.fromkeys([at, "peak", "end", "jumps"])) if few else at


def _asked(found: SnapshotFile, at: str) -> Snapshot:
    """Of several reasons for a snapshot it has the first alone."""
    latest = max(found.snapshots, key=lambda snapshot: snapshot.time_ns)
    if at == "peak":
        return next(snapshot for snapshot in found.snapshots if snapshot.why == "peak")
    if at == "end":
        return replace(latest, why="end")
    until_ns = duration_ns(at) or 0
    before = [snapshot for snapshot in found.snapshots if snapshot.time_ns <= until_ns] or found.snapshots[:1]
    return replace(before[-1], why="time")


def _take(replay: str, trace: str, name: str, at: str, folder: Path) -> SnapshotFile:
    command = [replay, "-q", "--alloc", name, "--snapshots", str(folder), "--at", at, "--", trace]
    try:
        printed = run_tool(command, "surrogateescape")
    except ToolFailed as error:
        raise (BadTrace if error.exit_status == EXIT_BAD_INPUT else UsageError if error.exit_status == 2 else HeaptapeError)(
            str(error)) from error
    return read_snapshots(printed.removesuffix("\n"))


def _names(trace: Trace) -> dict[int, str]:
    return {int(number): str(name) for number, name in trace.threads["name"].items()}


def _verdict(verdict: str, cures: list[Cure] | None, above: float) -> str:
    """What caches and arenas hold is known by an experiment alone. cures: at the moment at which RSS is above the live bytes."""
    best = max((cure.ci_low for cure in cures or [] if cure.name in CACHES), default=0)
    return "caches" if verdict in ("fragmentation", "retention", "tables") and above > 0 and best >= _CURED_SHARE * above else verdict


def _cures(replay: str, options: argparse.Namespace, allocator: Candidate, holders: list[Holder], accounts: Accounts, at_ns: int, end_ns: int, scratch: Path,
           progress: ProgressLine) -> list[Cure] | None:
    """None: none are to be tried."""
    if not options.budget:
        return None
    figure = "rss_end_bytes" if options.at == "end" else "rss_peak_bytes"
    progress.show(f"trying settings of {allocator.name} and other allocators")
    cures = try_cures(replay, options.trace, allocator, figure, options.budget)
    held = holders and holders[0].holes_bytes >= _TRIED_SHARE * accounts.rss_bytes
    if held or accounts.bytes["free_pages"] >= _TRIED_SHARE * accounts.rss_bytes:
        progress.show(f"replaying under {allocator.name} as the program might be changed")
        try:
            changed = ProgramCures(replay, options.trace, allocator, figure, scratch)
            cures += changed.without(holders[0], at_ns) if held else []
            cures += changed.purges(max(end_ns // _PURGES, 1_000_000))
        except HeaptapeError as error:  # what is known without them stays known
            progress.end()
            print(f"heaptape explain: not all changes of the program could be tried: {printable(str(error))}", file=sys.stderr)
    return sorted(cures, key=lambda cure: -cure.saves_bytes)


def _moment(snapshot: Snapshot) -> Moment:
    accounts = account(snapshot)
    return Moment(snapshot.why, snapshot.time_ns, accounts, verdict_of(accounts))


def run_explain(options: argparse.Namespace) -> None:
    """heaptape explain"""
    replay, progress = find_replay(), ProgressLine(not options.quiet)
    with read_trace(options.trace) as trace, tempfile.TemporaryDirectory(prefix="heaptape-explain-") as scratch:
        allocator = _allocator(replay, options.alloc, trace.context)
        progress.show(f"taking snapshots of {allocator.name}")
        at = _moments(options.at, trace.totals)
        found = _take(replay, options.trace, allocator.alloc, at, Path(options.snapshots or scratch))
        if not found.snapshots:
            raise HeaptapeError(f"{options.trace}: no call to take a snapshot at")
        snapshot = _asked(found, options.at)
        accounts = account(snapshot)
        births = births_of(trace, snapshot.event, accounts.blocks["slot"].to_numpy())
        names = _names(trace)
        holders = find_holders(pd.concat([accounts.blocks, births], axis=1), snapshot.time_ns)
        end_ns = int(found.curve["time_ns"].max())
        cures = _cures(replay, options, allocator, holders, accounts, snapshot.time_ns, end_ns, Path(scratch), progress)
    progress.end()
    above = accounts.rss_bytes - accounts.bytes["live"]
    verdict = _verdict(verdict_of(accounts), cures if options.at in ("peak", "end") else None, above)
    moments = [Moment(one.why, one.time_ns, accounts, verdict) if one.blocks is snapshot.blocks else _moment(one) for one in found.snapshots]
    answer = Answer(options.trace, snapshot, end_ns, accounts, verdict, trend_of(found.curve), holders, names, cures, moments)
    if options.json:
        print(json.dumps(object_of(answer), indent=1))
    else:
        print("\n".join(printable(line) for line in text_of(answer)))
