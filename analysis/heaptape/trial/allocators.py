# SPDX-License-Identifier: Apache-2.0
"""Which allocators a trial compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..base.own_allocator import is_the_linked
from ..base.programs import list_allocators

USUAL = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "scudo19")
"""Compared where they are built in and nothing else is asked for: with a line of titles a table of seven lines."""


def _found(replay: str, specification: str | None) -> dict[str, str]:
    """Names and versions."""
    return {str(item["name"]): str(item.get("version") or "") for item in list_allocators(replay, specification)
            if item.get("built", True) and not item.get("problem")}


def listed(replay: str, specification: str | None) -> list[str]:
    """Names of those that are built in, or of those of an --alloc."""
    return list(_found(replay, specification))


def choose(replay: str, specification: str | None, context: dict[str, Any]) -> tuple[str, str, str]:
    """What --alloc is for replay, the baseline, and why that is not the allocator of the recording, or "". The allocator that
    served the recorded program takes part even where it is not asked for: it is what all others are compared with."""
    kind, path = str(context.get("allocator_name") or ""), str(context.get("allocator") or "")
    names = _found(replay, None)
    # Only replay knows what stands for several, and which commas are between knobs.
    chosen = listed(replay, specification) if specification else [name for name in USUAL if name in names]
    alloc = specification or ",".join(chosen)
    if context.get("linked_allocator") and not is_the_linked({"name": kind, "version": context.get("allocator_version")}, kind, names.get(kind, "")):
        version = f" ({kind} {names[kind]} is another one, as far as is known)" if kind in names else ""
        return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under its own {kind}, which is part of it: replay cannot load it{version}."
    if kind in chosen:
        return alloc, kind, ""
    if kind in names:
        return f"{kind},{alloc}", kind, ""
    if kind and ".so" in Path(path).name:
        return f"{kind}={path},{alloc}", kind, ""
    own = f"{kind or 'an allocator of its own'}, which is part of the program: replay cannot load it"
    return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {own}."
