# SPDX-License-Identifier: Apache-2.0
"""The replays behind a forecast: parts of the steady stretch, each extended, under each allocator on each machine."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import EXIT_FAILED, Undecided
from ..base.files import json_lines
from ..base.programs import ToolFailed, as_ours, run_tool
from ..base.progress import ProgressLine
from .estimates import growth_left_out, rss_and_slope

_POINTS = 100_000
"""Of a curve of RSS. Fewer fall upon the same moments of each request, where a server idles between requests."""

Key = tuple[int | None, str]
"""Number of processors (None: of this machine), name of the allocator."""


@dataclass
class Replayed:
    """What the replays gave."""

    figures: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    """RSS and slope of each part."""

    parts: int = 0
    """Of how many parts."""

    forked: bool = False
    """Whether the recorded process was forked from another one."""

    failures: list[str] = field(default_factory=list)
    """What replays said that failed for some allocators."""

    def whole(self) -> dict[Key, list[tuple[float, float]]]:
        """Without an allocator that failed in a part: its interval would not be comparable."""
        return {key: values for key, values in self.figures.items() if len(values) == self.parts}


def steady_stretch(heaptape: str, options: argparse.Namespace) -> dict[str, Any]:
    """What `heaptape extend --json` says of the longest steady stretch."""
    try:
        said: dict[str, Any] = json.loads(run_tool([heaptape, "extend", "--json", "--to", f"{options.to:.9f}s", "--", options.trace]))
    except ToolFailed as error:
        raise as_ours(error) from error
    return said


def baseline_check(replay: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """What a replay of the recording itself says of it, where the allocator that served it is among those asked for."""
    command = [replay, "-q", "--json", "--pass", "memory", "--rounds", "1", "--alloc", options.alloc, "--", options.trace]
    try:
        said = run_tool(command)
    except ToolFailed as error:
        if not error.printed:
            raise as_ours(error) from error
        said = error.printed  # some of them failed, which the parts' replays say
    found: dict[str, Any] | None = json.loads(said)["baseline_check"]
    return found


def _command(replay: str, options: argparse.Namespace, stretch_ns: tuple[int, int], processors: int | None, results: Path) -> list[str]:
    how = f"{options.to:.9f}s,from={stretch_ns[0]}ns,until={stretch_ns[1]}ns"
    machine = ["--cpus", str(processors)] if processors else []
    return [replay, "-q", "--pass", "memory", "--rounds", "1", "--points", str(_POINTS), "--alloc", options.alloc, "--scale", str(options.scale), *machine, "--extend", how,
            "-o", str(results), "--", options.trace]


def _replay_part(command: list[str], results: Path, found: Replayed) -> list[dict[str, Any]]:
    """Lines of the part's runs. Raises Undecided where the part by itself is not steady."""
    try:
        run_tool(command)
    except ToolFailed as error:
        # A run that fails is one allocator's; the others' are in the file.
        ours = as_ours(error)
        if ours.exit_status != EXIT_FAILED or not results.exists() or not results.stat().st_size:
            raise ours from error
        words = str(ours)
        if words not in found.failures:
            found.failures.append(words)
    return [line for line in json_lines(results) if not line["control"] and line["timeline"] and line["allocator"]["name"] != "null"]


def replay_parts(replay: str, options: argparse.Namespace, said: dict[str, Any], progress: ProgressLine) -> Replayed:
    """Raises Undecided where fewer than two parts are steady by themselves."""
    found, last = Replayed(), None
    machines: list[int | None] = options.cpus or [None]
    length, done = (said["until_ns"] - said["from_ns"]) // options.parts, 0
    with tempfile.TemporaryDirectory() as folder:
        for part in range(options.parts):
            stretch_ns = (said["from_ns"] + part * length, said["from_ns"] + (part + 1) * length)
            try:
                for processors in machines:
                    progress.show(f"part {part + 1} of {options.parts}", progress.left_s(done, options.parts * len(machines)))
                    results = Path(folder) / f"{part}-{processors}.jsonl"
                    for line in _replay_part(_command(replay, options, stretch_ns, processors, results), results, found):
                        more = options.scale * np.array(growth_left_out(said, line["trace"]["extended"]))
                        rss, slope = rss_and_slope(line) + more
                        found.forked |= line["trace"].get("forked") is True
                        found.figures.setdefault((processors, line["allocator"]["name"]), []).append((float(rss), float(slope)))
                    done += 1
            except Undecided as error:
                last = error
                continue
            found.parts += 1
    progress.end()
    if found.parts < 2:
        raise Undecided(f"fewer than two of {options.parts} parts of the steady stretch are steady by themselves, which leaves no interval; the last: {last}")
    return found
