# SPDX-License-Identifier: Apache-2.0
"""The trace of a group of processes: who they are, and what was seen of their pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import HeaptapeError
from ..base.programs import ToolFailed, as_ours, run_tool
from ..trace.sections import GROUP_FEATURE, HEADER, HEADER_MAGIC

MASTER, WORKER, ALONE = "master", "worker", "alone"


@dataclass(frozen=True)
class Pages:
    """RssAnon and Pss_Anon of a process, and what of the latter is not malloc's."""

    rss_bytes: float
    pss_bytes: float
    own_bytes: float

    def exclusive_bytes(self, sharers: int) -> float:
        """What it shares with nobody, if what it shares is shared by all of so many processes."""
        if sharers < 2:
            return self.rss_bytes
        return min(max((sharers * self.pss_bytes - self.rss_bytes) / (sharers - 1), 0.0), self.rss_bytes)


@dataclass(frozen=True)
class Process:
    """parent: its number among all; None: it has nothing of another. pages: at the highest moment; None: it was not there."""

    pid: int
    parent: int | None
    name: str
    role: str
    threads: int
    pages: Pages | None


@dataclass(frozen=True)
class Moment:
    """A snapshot of the whole group. number: among all. anonymous_bytes: each page once."""

    number: int
    time_ns: float
    anonymous_bytes: float
    own_bytes: float
    rss_sum_bytes: float
    swap_bytes: float
    ksm_bytes: float
    huge_bytes: float


@dataclass(frozen=True)
class GroupTrace:
    """moment: the one with most memory; None: no snapshot was recorded. family: numbers of those that share pages since forks and were
    there then, the first one first; of several families the largest."""

    path: Path
    context: dict[str, Any]
    processes: list[Process]
    moment: Moment | None
    family: list[int]

    @property
    def present(self) -> list[Process]:
        """At the moment; without one all."""
        return [one for one in self.processes if one.pages or not self.moment]

    @property
    def nameless_bytes(self) -> float:
        """At the moment of processes that made no call, and so have no log."""
        return max(self.moment.anonymous_bytes - sum(one.pages.pss_bytes for one in self.present if one.pages), 0.0) if self.moment else 0.0

    @property
    def is_shared(self) -> bool:
        """Whether at least two processes share pages."""
        return len(self.family) > 1

    @property
    def workers(self) -> list[int]:
        """Those of the family that were forked."""
        return [number for number in self.family if self.processes[number].parent is not None]

    def worker_bytes(self) -> float | None:
        """The mean of what a worker has for itself, as recorded; None if it is not known."""
        return mean_exclusive([self.processes[number].pages for number in self.workers], len(self.family))


def mean_exclusive(workers: Sequence[Pages | None], sharers: int) -> float | None:
    """The mean of those that are known; None if none is."""
    found = [pages.exclusive_bytes(sharers) for pages in workers if pages]
    return sum(found) / len(found) if found and sharers > 1 else None


def is_group(path: str | Path) -> bool:
    """Whether a file is the trace of a group; what cannot be read is not."""
    try:
        with open(path, "rb") as file:
            raw = file.read(HEADER.size)
    except OSError:
        return False
    return len(raw) == HEADER.size and raw.startswith(HEADER_MAGIC) and bool(HEADER.unpack(raw)[3] & GROUP_FEATURE)


def read_group(heaptape: str, path: Path) -> GroupTrace:
    """Raises HeaptapeError."""
    try:
        info = json.loads(run_tool([heaptape, "info", "--json", "--", str(path)], "surrogateescape"))
    except ToolFailed as error:
        raise as_ours(error) from error
    if not isinstance(info, dict) or info.get("kind") != "group":
        raise HeaptapeError(f"{path}: expected the trace of a group of processes")
    return of_info(path, info)


def of_info(path: Path, info: dict[str, Any]) -> GroupTrace:
    """From what `heaptape info --json` says."""
    moments = [Moment(number, one["time_ns"], one["anonymous_bytes"], one["own_bytes"], one["rss_anon_sum_bytes"], one["swap_bytes"], one["ksm_bytes"],
                      one["huge_bytes"]) for number, one in enumerate(info["moments"])]
    moment = max(moments, key=lambda one: one.anonymous_bytes, default=None)
    parents = {one["parent"] for one in info["processes"]}
    processes = [Process(one["pid"], one["parent"], one["name"] or "", _role(one["parent"], number in parents), one["threads"], _pages(one, moment))
                 for number, one in enumerate(info["processes"])]
    context = info.get("context")
    return GroupTrace(path, context if isinstance(context, dict) else {}, processes, moment, _family(processes, moment is not None))


def _role(parent: int | None, has_children: bool) -> str:
    return MASTER if has_children else ALONE if parent is None else WORKER


def _pages(one: dict[str, Any], moment: Moment | None) -> Pages | None:
    found = one["presence"][moment.number] if moment else None
    return Pages(found["rss_anon_bytes"], found["pss_anon_bytes"], found["own_bytes"]) if found else None


def _family(processes: Sequence[Process], is_known: bool) -> list[int]:
    """A parent has a lower number than its children."""
    roots: list[int] = []
    families: dict[int, list[int]] = {}
    for number, one in enumerate(processes):
        roots.append(number if one.parent is None else roots[one.parent])
        if one.pages or not is_known:
            families.setdefault(roots[number], []).append(number)
    return max(families.values(), key=len, default=[])
