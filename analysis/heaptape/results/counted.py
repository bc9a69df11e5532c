# SPDX-License-Identifier: Apache-2.0
"""What the simulation counted under each allocator: exact, so that one run says it (`replay --instructions`, `--pass count`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..judge.against import counted

IN_CALLS = ("instructions", "mapping_calls")
"""Those of the allocator's calls alone; the others are also of what the program touches first."""
COUNTED = (*IN_CALLS, "faults", "l1d_misses", "l2_misses", "l1i_misses", "dtlb_misses", "stlb_misses", "branch_misses")
FUNCTIONS = ("malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "aligned_new", "posix_memalign", "valloc", "other")


@dataclass(frozen=True)
class Part:
    """Calls of one function (\"\": of all) and of the size class that holds so many bytes (None: of all)."""

    function: str = ""
    size_bytes: int | None = None


WHOLE = Part()


def counts_by_allocator(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The last counts of each."""
    if "counts" not in runs:
        return {}
    found = runs[(runs["pass"] == "count") & (runs["failures"] == 0)]
    return {str(name): counts for name, counts in zip(found["allocator"], found["counts"], strict=True)
            if isinstance(counts, dict)}


def calls_by_class(counts: dict[str, Any]) -> dict[tuple[str, int], float] | None:
    """Instructions by function and the least size of the class; None where they were not counted, or not whole."""
    listed = counts.get("calls_by_size")
    if listed is None or any(item.get(name) is None for item in listed for name in ("function", "size_low", "instructions")):
        return None
    return {(item["function"], int(item["size_low"])): float(item["instructions"]) for item in listed}


def counted_figure(counts: dict[str, Any], figure: str, part: Part = WHOLE) -> float:
    """NaN where it was not counted."""
    return counted(counts, figure, part.function, part.size_bytes, of_calls=figure in IN_CALLS)
