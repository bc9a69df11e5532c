"""Which allocators a trial compares, and how a program is made to use one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.programs import list_allocators

USUAL = ("glibc", "jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "scudo19")
"""Compared where they are built in and nothing else is asked for: with a line of titles a table of seven lines."""


@dataclass(frozen=True)
class Found:
    """An allocator of `replay --list --json`."""

    name: str
    kind: str
    path: str
    package: str


def listed(replay: str, specification: str | None) -> list[Found]:
    """Those that are built in, or those of an --alloc."""
    return [Found(str(item["name"]), str(item["kind"] or ""), str(item["path"] or ""), str(item["debian"] or ""))
            for item in list_allocators(replay, specification) if item.get("built", True) and not item.get("problem")]


def choose(replay: str, specification: str | None, context: dict[str, Any]) -> tuple[str, str, str]:
    """What --alloc is for replay, the baseline, and why that is not the allocator of the recording, or "". The allocator that
    served the recorded program takes part even where it is not asked for: it is what all others are compared with."""
    kind, path = str(context.get("allocator_name") or ""), str(context.get("allocator") or "")
    names = [item.name for item in listed(replay, None)]
    chosen = specification.split(",") if specification else [name for name in USUAL if name in names]
    if kind in chosen:
        return ",".join(chosen), kind, ""
    if kind in names:
        return ",".join([kind, *chosen]), kind, ""
    if kind and ".so" in Path(path).name:
        return ",".join([f"{kind}={path}", *chosen]), kind, ""
    own = f"{kind or 'an allocator of its own'}, which is part of the program and can't be replayed"
    return ",".join(chosen), "glibc" if "glibc" in chosen else chosen[0], f"The program was recorded under {own}."


def use_lines(found: Found, variables: Iterable[str], command: list[str], recorded_kind: str) -> list[str]:
    """How to run the command under an allocator: for a shell, for systemd and for Docker. Empty where it can't be preloaded. A
    program that ran under another gets the C library itself in front of that."""
    preload = [] if found.kind == recorded_kind == "glibc" else [f"LD_PRELOAD={found.path}"]
    if preload and ".so" not in Path(found.path).name:
        return []
    assigned = [*preload, *variables]
    if not assigned:
        return []
    words = " ".join(f"{name}={shlex.quote(value)}" for name, _, value in (item.partition("=") for item in assigned))
    docker = [f"RUN apt-get update && apt-get install -y {found.package}"] if found.package and preload else []
    shown = [f"  shell    {words} {shlex.join(command)}", "  systemd  Environment=" + " ".join(f'"{item}"' for item in assigned)]
    return shown + [f"  {'' if number else 'Docker':7}  {line}" for number, line in enumerate([*docker, f"ENV {words}"])]
