# SPDX-License-Identifier: Apache-2.0
"""What a service's memory consists of under an allocator, each page counted once, and whose pages are shared no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .runs import GroupRun, mean
from .trace import GroupTrace, Pages


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
        """Of all processes of a role, copies by the program included."""
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
