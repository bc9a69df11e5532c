# SPDX-License-Identifier: Apache-2.0
"""The allocators that take part in a validation, and how the real program is made to use them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.arguments import did_you_mean
from ..base.builds import builds_here, usual
from ..base.errors import UsageError
from ..base.programs import list_allocators

_TUNABLES = "GLIBC_TUNABLES"


@dataclass(frozen=True)
class RealAllocator:
    """One that can be replayed and preloaded. `name` is what replay calls it, `environment` what sets its knobs."""

    name: str
    kind: str
    version: str
    path: str
    environment: tuple[str, ...] = ()


def find_allocators(replay: str, alloc: str | None, trace: Path | None = None) -> tuple[str, list[RealAllocator]]:
    """What --alloc is for replay, and who that is; trace: as they are replayed with it. Raises UsageError where one of them is not there or cannot be preloaded."""
    if alloc is None:
        alloc = ",".join(usual(builds_here(replay)))
    found = list_allocators(replay, alloc, str(trace) if trace else None)
    for item in found:
        _check(item)
    if len(found) < 2:
        raise UsageError(f"--alloc {alloc}: expected two allocators or more")
    return alloc, [RealAllocator(str(item["name"]), str(item["kind"] or ""), str(item["version"] or ""), str(item["path"]),
                                 tuple(map(str, item.get("environment") or ()))) for item in found]


def _check(item: dict[str, Any]) -> None:
    name, path = item["name"], str(item.get("path") or "")
    if not item.get("built", True) or item.get("problem"):
        raise UsageError(f"--alloc {name}: {item.get('problem') or 'is not built here'}")
    if item.get("kind") == "null":
        raise UsageError(f"--alloc {name}: expected an allocator that a program can use")
    if "@" in name and ("/" in name or item.get("kind") == "glibc"):
        raise UsageError(f"--alloc {name}: another C library cannot be preloaded into the real program")
    if any(mark in path for mark in " :"):
        raise UsageError(f"--alloc {name}: LD_PRELOAD cannot hold a path with a space or colon: {path}")
    if ".so" not in Path(path).name:
        raise UsageError(f"--alloc {name}: is linked into the replayer and has no shared library to preload ({path})")


def choose_baseline(allocators: list[RealAllocator], wanted: str | None) -> str:
    """The one asked for, else glibc, else the first."""
    names = [item.name for item in allocators]
    if wanted is not None and wanted not in names:
        raise UsageError(f"--baseline {wanted}: expected one of {', '.join(names)}{did_you_mean(wanted, names)}")
    return wanted or next((item.name for item in allocators if item.name == "glibc"), names[0])


def preload_path(allocator: RealAllocator, recorded_kind: str) -> str | None:
    """What has to be preloaded. A program whose own allocator is glibc's needs nothing for that; one that is linked with
    another gets the C library itself in front of it."""
    return None if allocator.kind == "glibc" and recorded_kind == "glibc" else allocator.path


def setting_variables(replay: str) -> tuple[str, ...]:
    """How the variables begin, as NAME=, that any allocator reads."""
    listed = list_allocators(replay, None)
    return tuple(sorted({pattern.removesuffix("*") for item in listed for pattern in item.get("variables") or []}))


def without_settings(base: dict[str, str], variables: tuple[str, ...]) -> dict[str, str]:
    """The environment without what sets an allocator; of the C library's tunables those that are not malloc's stay."""
    kept = {name: value for name, value in base.items() if not f"{name}={value}".startswith(variables)}
    others = [item for item in base.get(_TUNABLES, "").split(":") if item and not item.startswith("glibc.malloc.")]
    return kept | ({_TUNABLES: ":".join(others)} if others else {})


def of_equal_size(environments: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Environments with the same number of variables for each allocator, and the same number of bytes in all: the environment lies above the stack and moves it, and some
    programs hash addresses of the stack. LD_PRELOAD may end in colons."""
    variables = max(map(len, environments.values())) + 1
    padded = {}
    for name, environment in environments.items():
        made = {"LD_PRELOAD": "", **environment}
        padded[name] = made | {f"HEAPTAPE_PADDING_{i}": "" for i in range(variables - len(made))}
    sizes = {name: sum(len(os.fsencode(key + value)) for key, value in made.items()) for name, made in padded.items()}
    for name, made in padded.items():
        made["LD_PRELOAD"] += ":" * (max(sizes.values()) - sizes[name])
    return padded
