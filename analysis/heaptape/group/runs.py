# SPDX-License-Identifier: Apache-2.0
"""Lines of results of a group's replays (docs/reference/results.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import ResultsError
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
        """Of the allocator, as it was asked for."""
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
        """Of each process that was there at the highest moment, by its number in the trace."""
        moments = self.line.get("moments") or []
        if not trace.moment or trace.moment.number >= len(moments):
            return {}
        by_pid = {one["pid"]: one for one in moments[trace.moment.number]["processes"]}
        return {number: Pages(by_pid[one.pid]["rss_anon_bytes"], by_pid[one.pid]["pss_anon_bytes"], one.pages.own_bytes)
                for number, one in enumerate(trace.processes) if one.pages and one.pid in by_pid}

    def worker_bytes(self, trace: GroupTrace) -> float | None:
        """What a worker has for itself, the mean; None: not known."""
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
    """Of at least one."""
    return sum(values) / len(values)
