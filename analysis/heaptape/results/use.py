"""What to do next: how a program is made to use an allocator that was shown to be better."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .standing import Standing


@dataclass(frozen=True)
class Use:
    """`lines`: for what (shell, systemd, Docker), and the line; none where the allocator can't be preloaded from `path`."""

    allocator: str
    path: str
    lines: list[tuple[str, str]]


def leaders(standings: Sequence[Standing]) -> list[str]:
    """Who is shown to have less than the baseline, in the order of the measures; none where nobody is."""
    return [name for name in dict.fromkeys(standing.leader for standing in standings if standing.leader != standing.baseline)
            if name is not None]


def uses(runs: pd.DataFrame, standings: Sequence[Standing], command: str, recorded_kind: str) -> list[Use]:
    """One for each leader. `command` as one types it; `recorded_kind` is the recorded program's allocator, or ""."""
    found = []
    for name in leaders(standings):
        run = runs[runs["allocator"] == name].iloc[0]
        kind, path, package = (_text(run, f"allocator_{key}") for key in ("kind", "path", "debian"))
        variables = run.get("allocator_environment")
        found.append(Use(name, path, use_lines(kind, path, package, variables if isinstance(variables, list) else [], command, recorded_kind)))
    return found


def _text(run: pd.Series, column: str) -> str:
    value: Any = run.get(column)
    return value if isinstance(value, str) else ""


def use_lines(kind: str, path: str, package: str, variables: Sequence[str], command: str, recorded_kind: str) -> list[tuple[str, str]]:
    """Empty where it can't be preloaded. A program that ran under another gets the C library itself in front of that."""
    preload = [] if kind == "glibc" and recorded_kind in ("glibc", "") else [f"LD_PRELOAD={path}"]
    if preload and ".so" not in Path(path).name:
        return []
    assigned = [*preload, *variables]
    if not assigned:
        return []
    words = " ".join(f"{name}={shlex.quote(value)}" for name, _, value in (item.partition("=") for item in assigned))
    docker = [("Docker", f"RUN apt-get update && apt-get install -y {package}")] if package and preload else []
    return [("shell", f"{words} {command}"), ("systemd", "Environment=" + " ".join(f'"{item}"' for item in assigned)),
            *docker, ("" if docker else "Docker", f"ENV {words}")]


def no_reason(baseline: str) -> str:
    """The sentence where no allocator leads."""
    return f"No allocator was shown to be better than {baseline}: this gives no reason to change."
