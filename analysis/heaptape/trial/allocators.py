"""Which allocators a trial compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..base.programs import list_allocators

USUAL = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "scudo19")
"""Compared where they are built in and nothing else is asked for: with a line of titles a table of seven lines."""


def listed(replay: str, specification: str | None) -> list[str]:
    """Names of those that are built in, or of those of an --alloc."""
    return [str(item["name"]) for item in list_allocators(replay, specification) if item.get("built", True) and not item.get("problem")]


def choose(replay: str, specification: str | None, context: dict[str, Any]) -> tuple[str, str, str]:
    """What --alloc is for replay, the baseline, and why that is not the allocator of the recording, or "". The allocator that
    served the recorded program takes part even where it is not asked for: it is what all others are compared with."""
    kind, path = str(context.get("allocator_name") or ""), str(context.get("allocator") or "")
    names = listed(replay, None)
    chosen = specification.split(",") if specification else [name for name in USUAL if name in names]
    if kind in chosen:
        return ",".join(chosen), kind, ""
    if kind in names:
        return ",".join([kind, *chosen]), kind, ""
    if kind and ".so" in Path(path).name:
        return ",".join([f"{kind}={path}", *chosen]), kind, ""
    own = f"{kind or 'an allocator of its own'}, which is part of the program: replay can't load it"
    return ",".join(chosen), "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {own}."
