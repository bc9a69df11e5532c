# SPDX-License-Identifier: Apache-2.0
"""The calls by which a program controls its allocator, and who obeys them: as in reality, the allocator that has them."""

from __future__ import annotations

import pandas as pd

from ..base.units import counted, listing
from .reader import NULL_ALLOCATOR


def control_lines(runs: pd.DataFrame) -> list[str]:
    """One sentence for each set of allocators that obey the same calls, as `replay` says it."""
    measured = runs[runs["allocator"] != NULL_ALLOCATOR].drop_duplicates("allocator")
    times: dict[str, int] = {}
    obeying: dict[str, list[str]] = {}
    for name, calls in zip(measured["allocator"], measured["control_calls"], strict=True):
        for call, said in calls.items():
            times[call] = int(said["calls"])
            obeying.setdefault(call, []).extend([str(name)] if said["obeyed"] else [])
    said_of: dict[tuple[str, ...], list[str]] = {}
    for call, names in obeying.items():
        if names and len(names) < len(measured):
            said_of.setdefault(tuple(names), []).append(f"{call} {'once' if times[call] == 1 else counted(times[call], 'time')}")
    return [f"The program calls {listing(calls)}: {listing(list(names))} alone {'obeys' if len(names) == 1 else 'obey'}."
            for names, calls in said_of.items()]
