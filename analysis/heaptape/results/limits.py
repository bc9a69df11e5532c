# SPDX-License-Identifier: Apache-2.0
"""What replays under a limit of memory showed (`replay --memory-max`), in sentences."""

from __future__ import annotations

import pandas as pd

from ..base.units import byte_count, count, decimal, seconds

LIMIT = "limit"


def limit_lines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each allocator and limit that was asked for; of a search one with the lowest."""
    lines = []
    rows = runs[(runs["pass"] == LIMIT) & (runs["failures"] == 0)]
    for name, tried in rows.groupby("allocator", sort=False):
        limits = [limit for limit in tried["limit"] if limit.get("memory_max_bytes")]
        if not limits:
            continue
        lines += _found([limit for limit in limits if limit.get("searched")], str(name))
        lines += [_sentence(str(name), limit) for limit in limits if not limit.get("searched")]
    return lines


def _found(steps: list[dict[str, object]], name: str) -> list[str]:
    """What the steps of a search come to."""
    if not steps:
        return []
    lives = [_number(step, "memory_max_bytes") for step in steps if step.get("lives")]
    dies = [_number(step, "memory_max_bytes") for step in steps if not step.get("lives")]
    ends = [f"lives under a limit of {_size(min(lives))}" if lives else "", f"dies under one of {_size(max(dies))}" if dies else ""]
    return [f"{name} {' and '.join(filter(None, ends))} (by {steps[0].get('by')})."]


def _size(limit_bytes: float) -> str:
    """As replay prints it: the two that a search finds are a page apart, or half a per cent, which three digits do not show."""
    return f"{decimal(limit_bytes / 1e3)} kB" if limit_bytes < 1e6 else f"{decimal(limit_bytes / 1e6, 3 if limit_bytes < 1e7 else 2)} MB"


def _sentence(name: str, limit: dict[str, object]) -> str:
    under = f"Under a limit of {byte_count(_number(limit, 'memory_max_bytes'))} {name} "
    if limit.get("lives"):
        return f"{under}lives (by {limit.get('by')})."
    at = f"{seconds(_number(limit, 'died_at_ns'))} s of the trace, at event {count(_number(limit, 'died_at_event'))}"
    return f"{under}dies at {at} (by {limit.get('by')})."


def _number(limit: dict[str, object], key: str) -> float:
    value = limit.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0
