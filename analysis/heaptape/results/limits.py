"""What replays under a limit of memory showed (`replay --memory-max`), in sentences."""

from __future__ import annotations

import pandas as pd

from ..base.units import byte_count, count, seconds

LIMIT = "limit"


def limit_lines(runs: pd.DataFrame) -> list[str]:
    """A sentence for each allocator and limit that was asked for; of a search one with the lowest."""
    lines = []
    rows = runs[(runs["pass"] == LIMIT) & (runs["failures"] == 0)]
    for name, tried in rows.groupby("allocator", sort=False):
        limits = [limit for limit in tried["limit"] if limit.get("memory_max_bytes")]
        if not limits:
            continue
        lives = [limit["memory_max_bytes"] for limit in limits if limit.get("lives")]
        dies = [limit["memory_max_bytes"] for limit in limits if not limit.get("lives")]
        if len(limits) > 2 and lives and dies and max(dies) < min(lives):
            lines.append(f"{name} lives under a limit of {byte_count(min(lives))} and dies under one of {byte_count(max(dies))} (by {limits[0].get('by')}).")
            continue
        lines += [_sentence(str(name), limit) for limit in limits]
    return lines


def _sentence(name: str, limit: dict[str, object]) -> str:
    under = f"Under a limit of {byte_count(_number(limit, 'memory_max_bytes'))} {name} "
    if limit.get("lives"):
        return f"{under}lives (by {limit.get('by')})."
    at = f"{seconds(_number(limit, 'died_at_ns'))} s of the trace, at event {count(_number(limit, 'died_at_event'))}"
    return f"{under}dies at {at} (by {limit.get('by')})."


def _number(limit: dict[str, object], key: str) -> float:
    value = limit.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0
