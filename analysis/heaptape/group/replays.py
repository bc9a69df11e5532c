# SPDX-License-Identifier: Apache-2.0
"""The replays of a group's trace: which allocators, and the program that runs them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.builds import builds_here, nearest
from ..base.errors import HeaptapeError
from ..base.programs import list_allocators, run_attended
from .runs import GroupRun, read_runs
from .trace import GroupTrace

ARENAS = ("arena_max=1", "arena_max=2")
"""Settings of glibc that decide where threads allocate, and so which inherited pages they copy."""

ARENA_LIMIT = "MALLOC_ARENA_MAX"
ARENAS_EACH = 8
"""Of each processor: glibc's limit where nobody sets one."""


def with_arenas(replay: str, alloc: str, baseline: str, trace: GroupTrace) -> str:
    """An --alloc with settings of the baseline, where that is glibc and the program has threads."""
    if kind_of(replay, baseline) != "glibc" or max(one.threads for one in trace.processes) < 2:
        return alloc
    own = word_of(alloc, baseline).removeprefix(f"{baseline}=")
    return ",".join([alloc, *(found for found in (f"{own}:{knob}" for knob in _arenas(trace)) if _is_possible(replay, found))])


def word_of(alloc: str, baseline: str) -> str:
    """What the baseline is called in an --alloc: its name, or with its path."""
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
