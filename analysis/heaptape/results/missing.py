# SPDX-License-Identifier: Apache-2.0
"""What is missing from a comparison: runs that failed, allocators that did not do what they promise, and names under which
several builds were measured."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ..base.units import counted
from .reader import NULL_ALLOCATOR

VERIFY = "verify"


def refusal_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each allocator that refuses calls which the program's own served."""
    refused = runs[runs["refused_calls"] > 0]
    return [f"{name} {rows['problem'].iloc[-1]}: no figure of it would be of this program."
            for name, rows in refused.groupby("allocator", sort=False)]


def missing_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each allocator that refuses calls, of which runs failed, and for each that verification found wrong."""
    lines = refusal_lines(runs)
    measured = runs[(runs["pass"] != VERIFY) & (runs["refused_calls"] == 0)]
    for name, rows in measured.groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if failed.empty:
            continue
        who = "the null replayer" if name == NULL_ALLOCATOR else str(name)
        lines.append(f"{len(failed)} of {counted(len(rows), 'run')} of {who} failed and "
                     f"{'are' if len(failed) > 1 else 'is'} left out{_last_problem(failed)}.")
    for name, rows in runs[runs["pass"] == VERIFY].groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if not failed.empty:
            lines.append(f"Verification of {name} failed{_last_problem(failed)}.")
    return lines


def mixed_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each name of several builds or versions, whose figures it mixes."""
    lines = []
    for name, rows in runs[runs["pass"] != VERIFY].groupby("allocator", sort=False):
        builds = list(dict.fromkeys(zip(rows["allocator_version"], rows["allocator_build_id"], strict=True)))
        known = [(version, build) for version, build in builds if version or build]
        if name != NULL_ALLOCATOR and len(known) > 1:
            listed = ", ".join(" ".join(filter(None, [version, build[:12]])) for version, build in known)
            lines.append(f"{name} names {len(known)} builds ({listed}), and its figures mix them. Compare one at a time, or "
                         "give each a name of its own by --alloc NAME=/lib.so.")
    return lines


def _last_problem(failed: pd.DataFrame) -> str:
    problems: list[Any] = list(failed["problem"]) if "problem" in failed else []
    known = [str(problem) for problem in problems if isinstance(problem, str) and problem]
    return f" (the last: {known[-1]})" if known else ""
