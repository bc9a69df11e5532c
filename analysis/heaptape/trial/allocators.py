# SPDX-License-Identifier: Apache-2.0
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
    # Only replay knows what stands for several, and which commas are between knobs.
    chosen = listed(replay, specification) if specification else [name for name in USUAL if name in names]
    alloc = specification or ",".join(chosen)
    if kind in chosen:
        return alloc, kind, ""
    if kind in names:
        return f"{kind},{alloc}", kind, ""
    if kind and ".so" in Path(path).name:
        return f"{kind}={path},{alloc}", kind, ""
    own = f"{kind or 'an allocator of its own'}, which is part of the program: replay cannot load it"
    return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {own}."
