# SPDX-License-Identifier: Apache-2.0
"""What to do next: how a program is made to use an allocator that was shown to be better."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.sharing import in_brackets
from .summary import Summary
from .verdicts import Standing

SMALL_SHARE = 0.01
"""A saving of a smaller share of the program's CPU time or memory is no reason to change."""


COMMAND_SHOWN = 60
"""Characters of a command line; a longer one would fold."""

KEPT_IN = "/usr/local/lib/"
"""A library that would go with our programs is copied to this folder."""


@dataclass(frozen=True)
class Use:
    """`lines`: for what (shell, systemd, Docker), and the line; none where the allocator cannot be preloaded from `path`."""

    allocator: str
    path: str
    lines: list[tuple[str, str]]


def use_heading(use: Use, shared: str) -> str:
    """Stands before the lines; shared: Summary.sharing."""
    if use.lines:
        return f"To use {use.allocator}{in_brackets(shared)}:"
    return f"{use.allocator} is not a library and cannot be preloaded ({use.path})."


def leaders(standings: Sequence[Standing]) -> list[str]:
    """Who is shown to have less than the baseline, in the order of the measures; none where nobody is."""
    return [name for name in dict.fromkeys(standing.leader for standing in standings if standing.leader != standing.baseline)
            if name is not None]


def _saves_little(summary: Summary) -> bool:
    """Whether the leaders' shares of what the program uses are known, and all small."""
    shares = {"time": summary.malloc_share, "rss_peak": summary.memory_share}
    found = [shares.get(standing.measure.name) for standing in summary.standings if standing.leader not in (None, standing.baseline)]
    return bool(found) and all(share is not None and share.saving.share < SMALL_SHARE for share in found)


def uses(summary: Summary, command: str, recorded_kind: str, linked: str = "", names: Sequence[str] | None = None) -> list[Use]:
    """One for each leader; none where that would save little. Where none is the program's own allocator: for the one under which the
    process would hold least, if that is less than it did. `command` as one types it; `recorded_kind` is the recorded program's
    allocator, or ""; `linked` the one that is part of the program, or "". names: for these,
    whatever the results say."""
    found: list[Use] = []
    runs = summary.experiment.runs
    if names is None and summary.own is None and _saves_little(summary):
        return found
    for name in names if names is not None else leaders(summary.standings) if summary.own is None else filter(None, [summary.own.best]):
        run = runs[runs["allocator"] == name].iloc[0]
        kind, path, package = (_text(run, f"allocator_{key}") for key in ("kind", "path", "debian"))
        variables = run.get("allocator_environment")
        found.append(Use(name, path, use_lines(kind, path, package, variables if isinstance(variables, list) else [], command, recorded_kind, linked)))
    return found


def _text(run: pd.Series, column: str) -> str:
    value: Any = run.get(column)
    return value if isinstance(value, str) else ""


def use_in_one_line(name: str, kind: str, path: str, package: str, variables: Sequence[str], words: Sequence[str], context: Mapping[str, Any]) -> str:
    """For the shell that runs a command of these words; context: of the recording."""
    command = shlex.join(words)
    lines = use_lines(kind, path, package, variables, command, *(str(context.get(key) or "") for key in ("allocator_name", "linked_allocator")))
    if not lines:
        return f"{name} is not a library and cannot be preloaded ({path})."
    what, line = lines[0]
    if what != "shell" or len(command) <= COMMAND_SHOWN:
        return line
    copied, also, assigned = line.removesuffix(f" {command}").rpartition(" && ")
    return f"{copied}{also}export {assigned}"


def use_lines(kind: str, path: str, package: str, variables: Sequence[str], command: str, recorded_kind: str,
              linked: str = "") -> list[tuple[str, str]]:
    """Empty where it cannot be preloaded. A program that ran under another gets the C library itself in front of that. One that
    an allocator is linked into goes past all that is preloaded. A library among our programs goes when they do: it is copied first."""
    if linked == kind and variables:
        prefix = "_RJEM_" if kind == "jemalloc" else ""  # what Rust's crates compile it with
        return [("program", f"the linked {kind} reads " + " ".join(prefix + item for item in variables))]
    if linked:
        return [("program", f"link {kind} in place of {linked}: LD_PRELOAD does not reach an allocator that is part of the program")]
    library = Path(path).name
    ours = Path(path).with_name("replay-glibc").exists() if path else False
    assigned = use_variables(kind, f"{KEPT_IN}{library}" if ours else path, variables, recorded_kind)
    if not assigned:
        return []
    preload = assigned[0].startswith("LD_PRELOAD=")
    words = " ".join(f"{name}={shlex.quote(value)}" for name, _, value in (item.partition("=") for item in assigned))
    docker = [("Docker", f"RUN apt-get update && apt-get install -y {package}")] if package and preload else []
    docker = [("Docker", f"COPY {library} {KEPT_IN}")] if ours and preload else docker
    copied = f"sudo cp {shlex.quote(path)} {KEPT_IN} && " if ours and preload else ""
    return [("shell", f"{copied}{words} {command}"), ("systemd", "Environment=" + " ".join(f'"{item}"' for item in assigned)),
            *docker, ("" if docker else "Docker", f"ENV {words}")]


def use_variables(kind: str, path: str, variables: Sequence[str], recorded_kind: str) -> list[str]:
    """What the environment of a program that no allocator is linked into has to hold, as NAME=VALUE; a library to preload first."""
    if kind == "glibc" and recorded_kind in ("glibc", ""):
        return list(variables)
    return [f"LD_PRELOAD={path}", *variables] if ".so" in Path(path).name else []


def python_malloc(context: Mapping[str, Any]) -> str | None:
    """From the circumstances of a recording, PYTHONMALLOC's value where a CPython took every object from malloc by it, "" where it
    served small ones itself, so that malloc saw few of its calls; None of other programs."""
    if not os.path.basename(str(context.get("executable") or "")).startswith("python"):
        return None
    value = str(context.get("env.PYTHONMALLOC") or "")
    return value if value.startswith("malloc") else ""


def also_set(context: Mapping[str, Any]) -> str:
    """The sentence beside the lines that use an allocator, where these alone would not give it the calls that were recorded; or ""."""
    value = python_malloc(context)
    return f"Set PYTHONMALLOC={value} too, as in the recording: without it Python allocates objects of up to 512 bytes itself." if value else ""


def no_reason(summary: Summary) -> str:
    """The sentence where there is nothing to use; none where the question is what became worse."""
    if summary.newer:
        return ""
    if summary.own:
        return f"Under no allocator measured here would the process hold less than it did under its own {summary.own.name}: this gives no reason to change."
    on_memory = "; on memory see the caution" if summary.differs else ""
    if leaders(summary.standings):
        saves = "saves 1 % of the program's CPU time, in malloc's calls" + (on_memory or ", or memory")
        return f"No allocator measured here {saves}: this gives no reason to change."
    return f"No allocator is clearly {'faster' if on_memory else 'better'} than {summary.baseline}{on_memory}: this gives no reason to change."
