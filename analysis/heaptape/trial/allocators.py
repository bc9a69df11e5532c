# SPDX-License-Identifier: Apache-2.0
"""Which allocators a trial compares."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..base.allocators import is_the_linked, to_try
from ..base.builds import MUSL, builds_here, nearest, usual
from ..base.errors import HeaptapeError
from ..base.programs import list_allocators
from ..base.text import printable

SETTINGS_MAX = 3
"""So many settings of the recorded allocator are compared."""

OF_THREADS = ("arena_max=1", "arena_max=2", "narenas=1", "tcache=false", "max_total_thread_cache_bytes=524288")
OTHERS = ("trim_threshold=131072,mmap_threshold=131072", "dirty_decay_ms=0,muzzy_decay_ms=0", "purge_delay=0", "decommit_delay=0", "aggressive_decommit=1")
"""Those of heaptape.base.allocators that cost little: with threads all of these, else the latter."""


def settings(replay: str, alloc: str, baseline: str, trace: Path, controls: Collection[str], threads: int) -> list[str]:
    """Settings of the baseline to compare it with, as --alloc takes them. alloc: of the baseline; controls: names of the program's
    control calls; threads: of the program."""
    [listed] = list_allocators(replay, alloc, str(trace))
    wanted = [*(OF_THREADS if threads > 1 else ()), *OTHERS]
    unnamed = alloc.removeprefix(f"{baseline}=")
    found = [f"{unnamed}{',' if ':' in unnamed else ':'}{knobs}" for knobs in to_try(listed, baseline, controls) if knobs in wanted]
    return [one for one in found if _is_possible(replay, one)][:SETTINGS_MAX]


def _is_possible(replay: str, alloc: str) -> bool:
    """Not every version of an allocator has every knob."""
    try:
        return bool(list_allocators(replay, alloc))
    except HeaptapeError:
        return False


def countable(replay: str, alloc: str, names: Collection[str]) -> list[str]:
    """Those of these names of an --alloc that a simulation can run, as --alloc takes them."""
    return [str(item["name"]) if item["name"] not in _labels(alloc) else _labels(alloc)[item["name"]] for item in list_allocators(replay, alloc)
            if item["name"] in names and not any(fault.get("not_counted") for fault in item.get("faults") or [])]


def _labels(alloc: str) -> dict[str, str]:
    """Words such as name=/path in an --alloc, whole, by name."""
    return {word.partition("=")[0]: word for word in alloc.split(",") if "/" in word.partition("=")[2]}


def choose(replay: str, specification: str | None, context: dict[str, Any]) -> tuple[str, str, str]:
    """What --alloc is for replay, the baseline, and why that is not the allocator of the recording, or "". The allocator that
    served the recorded program takes part even where it is not asked for: it is what all others are compared with."""
    kind, path = str(context.get("allocator_name") or ""), str(context.get("allocator") or "")
    builds = builds_here(replay)
    # Only replay knows what stands for several, and which commas are between knobs.
    chosen = [build.name for build in builds_here(replay, specification)] if specification else usual(builds)
    alloc = specification or ",".join(chosen)
    recorded, own = {"name": kind, "version": context.get("allocator_version")}, nearest(builds, context, chosen)
    if context.get("linked_allocator") and not (own and is_the_linked(recorded, kind, own.version)):
        version = f" ({own.name} {own.version} is another one, as far as is known)" if own else ""
        return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under its own {kind}, which is part of it: replay cannot load it{version}."
    if kind in chosen and (not own or own.name not in chosen):
        return alloc, kind, ""
    loadable = ".so" in Path(path).name and kind not in ("", "glibc", MUSL, *chosen)
    if own and not (loadable and recorded["version"] and not is_the_linked(recorded, kind, own.version) and Path(path).exists()):
        return alloc if own.name in chosen else f"{own.name},{alloc}", own.name, ""
    if loadable and Path(path).exists():
        return f"{kind}={path},{alloc}", kind, ""
    if loadable or kind == MUSL:
        return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {kind}, which is not here: {printable(path)}."
    what = f"{kind or 'an allocator of its own'}, which is part of the program: replay cannot load it"
    return alloc, "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {what}."
