# SPDX-License-Identifier: Apache-2.0
"""Replays of a group, and the lines of results that they write (docs/reference/results.md)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.builds import builds_here, nearest
from ..base.errors import HeaptapeError, ResultsError
from ..base.programs import list_allocators, run_attended
from ..results.reader import GROUP_PASS
from ..results.schema import SchemaError, parse_line
from .trace import GroupTrace, Pages, mean_exclusive


@dataclass(frozen=True)
class GroupRun:
    """One replay of the whole group. draw: what it has in common with one run of every other allocator; trimmed: free memory was given
    back before each fork."""

    allocator: dict[str, Any]
    trimmed: bool
    draw: tuple[str, int]
    line: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the allocator, as it was asked for."""
        return str(self.allocator["name"])

    @property
    def total_bytes(self) -> float | None:
        """At the moment that was recorded, or else the most in the replay; None: it failed."""
        found = self.line.get("group_moment_bytes")
        return found if found is not None else self.line.get("group_peak_bytes")

    def copied_bytes(self, moment: int) -> float:
        """What the program's own writes into inherited blocks have copied up to that moment: at most, as processes end."""
        return float(sum(one["copied_by_program_bytes"] for one in (self.line.get("moments") or [])[:moment + 1]))

    def pages(self, trace: GroupTrace) -> dict[int, Pages]:
        """The pages of each process that was there at the highest moment, by its number in the trace."""
        moments = self.line.get("moments") or []
        if not trace.moment or trace.moment.number >= len(moments):
            return {}
        by_pid = {one["pid"]: one for one in moments[trace.moment.number]["processes"]}
        return {number: Pages(by_pid[one.pid]["rss_anon_bytes"], by_pid[one.pid]["pss_anon_bytes"], one.pages.own_bytes)
                for number, one in enumerate(trace.processes) if one.pages and one.pid in by_pid}

    def worker_bytes(self, trace: GroupTrace) -> float | None:
        """The mean of what a worker has for itself; None if it is not known."""
        found = self.pages(trace)
        return mean_exclusive([found.get(number) for number in trace.workers], len(trace.family))


def read_runs(path: str | Path) -> list[GroupRun]:
    """In the order of the file. Raises ResultsError."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise ResultsError(path, 0, f"cannot read: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = parse_line(line)
            except SchemaError as error:
                raise ResultsError(path, number, str(error)) from error
            if value["pass"] == GROUP_PASS:
                found.append(_run(value))
    return found


def _run(line: dict[str, Any]) -> GroupRun:
    return GroupRun(line["allocator"], bool(line.get("purged_at_fork")), (line.get("drawn") or "none", line.get("seed") or 0), line)


def mean(values: Sequence[float]) -> float:
    """The mean of at least one."""
    return sum(values) / len(values)


ARENAS = ("arena_max=1", "arena_max=2")
"""Settings of glibc that decide where threads allocate, and so which inherited pages they copy."""

ARENA_LIMIT = "MALLOC_ARENA_MAX"
ARENAS_EACH = 8
"""glibc's limit for each processor if nobody sets another."""


def with_arenas(replay: str, alloc: str, baseline: str, trace: GroupTrace) -> str:
    """An --alloc with settings of the baseline, where that is glibc and the program has threads."""
    if kind_of(replay, baseline) != "glibc" or max(one.threads for one in trace.processes) < 2:
        return alloc
    own = word_of(alloc, baseline).removeprefix(f"{baseline}=")
    return ",".join([alloc, *(found for found in (f"{own}:{knob}" for knob in _arenas(trace)) if _is_possible(replay, found))])


def word_of(alloc: str, baseline: str) -> str:
    """The word for the baseline in an --alloc: its name, or with its path."""
    return next((word for word in alloc.split(",") if word.startswith(f"{baseline}=")), baseline)


def _arenas(trace: GroupTrace) -> list[str]:
    """But what the program had; where it had a limit, none is one of them."""
    limit = str(trace.context.get(f"env.{ARENA_LIMIT}") or "")
    return [*(knob for knob in ARENAS if knob != f"arena_max={limit}"), *([f"arena_max={ARENAS_EACH * (os.cpu_count() or 1)}"] if limit else [])]


def recorded_allocator(replay: str, trace: GroupTrace) -> str:
    """The nearest to it that is here, else glibc."""
    found = nearest(builds_here(replay), trace.context)
    return found.name if found else "glibc"


def kind_of(replay: str, baseline: str) -> str:
    """Such as glibc; "" where it is a library that a path names."""
    return next((str(one.get("kind") or "") for one in list_allocators(replay, None) if one["name"] == baseline), "")


def _is_possible(replay: str, alloc: str) -> bool:
    """A program's glibc may know no arenas."""
    try:
        return bool(list_allocators(replay, alloc))
    except HeaptapeError:
        return False


def replay_group(command: Sequence[str], trace: GroupTrace, results: Path, is_quiet: bool) -> list[GroupRun]:
    """Appends to the results, and returns all that are in them. command: the program and its options. Some of the runs may have
    failed. Raises HeaptapeError where there is none."""
    def attend(process: subprocess.Popen[Any]) -> int:
        return process.wait()

    whole = [*command, *(["-q"] if is_quiet else []), "-o", str(results), "--", str(trace.path)]
    status = run_attended(whole, attend, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if not results.exists() or not results.stat().st_size:
        raise HeaptapeError(f"the replay failed with status {status}")
    return read_runs(results)


def first_seed(runs: Sequence[GroupRun]) -> int:
    """With it another call of replay draws the same."""
    return min(int(run.line.get("seed") or 0) - int(run.line["round"]) for run in runs)
