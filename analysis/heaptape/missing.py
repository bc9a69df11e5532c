"""What is missing from a comparison: runs that failed, and allocators that did not do what they promise."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .results import NULL_ALLOCATOR

VERIFY = "verify"


def missing_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each allocator of which runs failed, and for each that verification found wrong."""
    lines = []
    measured = runs[runs["pass"] != VERIFY]
    for name, rows in measured.groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if failed.empty:
            continue
        who = "the null replayer" if name == NULL_ALLOCATOR else str(name)
        plural = "s" if len(rows) > 1 else ""
        lines.append(f"{len(failed)} of {len(rows)} run{plural} of {who} failed and "
                     f"{'are' if len(failed) > 1 else 'is'} left out{_last_problem(failed)}.")
    for name, rows in runs[runs["pass"] == VERIFY].groupby("allocator", sort=False):
        failed = rows[rows["failures"] > 0]
        if not failed.empty:
            lines.append(f"Verification of {name} failed{_last_problem(failed)}.")
    return lines


def _last_problem(failed: pd.DataFrame) -> str:
    problems: list[Any] = list(failed["problem"]) if "problem" in failed else []
    known = [str(problem) for problem in problems if isinstance(problem, str) and problem]
    return f" (the last: {known[-1]})" if known else ""
