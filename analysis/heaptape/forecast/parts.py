# SPDX-License-Identifier: Apache-2.0
"""The replays behind a forecast, and the estimates from them: parts of the steady stretch, each extended, under each allocator on each machine."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import EXIT_FAILED, Undecided
from ..base.programs import ToolFailed, as_ours, run_tool
from ..base.text import ProgressLine
from ..judge import attached
from ..judge.intervals import student_interval
from ..judge.model import Json

LAST_SHARE = 0.1
"""RSS at the end is the mean over this part of the time: at one moment it depends on what is just being done."""


@dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float

    @property
    def resolved(self) -> bool:
        """Whether it is shown not to be 0."""
        return self.low > 0 or self.high < 0


_STEPS = 200
"""The slope's line goes through so many means of RSS, each over a step of time."""


def estimate(values: Sequence[float], more: float = 0.0) -> Estimate:
    """Mean and interval of what several parts gave; more: half width of a doubt that all have in common."""
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return Estimate(mean, -math.inf, math.inf)
    low, high = student_interval(values)
    half = math.hypot((high - low) / 2, more)
    return Estimate(mean, mean - half, mean + half)


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """The difference of what the same parts gave under two allocators, part by part: what the parts differ by, and what the recording leaves open of
    live bytes, both have in common."""
    return estimate([one - other for one, other in zip(values, base, strict=True)])


def means_over_time(time_ns: NDArray[np.float64], rss_bytes: NDArray[np.float64], edges_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of RSS between each edge and the next. RSS is what it was last, until it is read again."""
    until_then = np.concatenate(([0.0], np.cumsum(rss_bytes[:-1] * np.diff(time_ns))))
    return np.asarray(np.diff(np.interp(edges_ns, time_ns, until_then)) / np.diff(edges_ns))


def _begin_ns(extended: dict[str, Any]) -> float:
    """The first repetition is left out, in which the heap still settles."""
    end_ns, until_ns = extended["to_ns"], extended["until_ns"]
    return float(max(until_ns, min(2 * until_ns - extended["from_ns"], (until_ns + end_ns) / 2)))


def rss_and_slope(line: dict[str, Any]) -> tuple[float, float]:
    """RSS at the end of one run of the memory pass, and its slope over what is extrapolated, in bytes per hour."""
    extended = line["trace"]["extended"]
    time_ns, rss = (np.array(line["timeline"][key], float) for key in ("time_ns", "rss_bytes"))
    begin_ns, end_ns = _begin_ns(extended), extended["to_ns"]
    edges_ns = np.linspace(begin_ns, end_ns, _STEPS + 1)
    slope = np.polyfit((edges_ns[:-1] + edges_ns[1:]) / 2 / 3600e9, means_over_time(time_ns, rss, edges_ns), 1)[0]
    last_ns = np.array([end_ns - LAST_SHARE * (end_ns - begin_ns), end_ns])
    return float(means_over_time(time_ns, rss, last_ns)[0]), float(slope)


def growth_left_out(whole: dict[str, Any], part: dict[str, Any]) -> tuple[float, float]:
    """By how much live bytes of the whole stretch exceed the part's, at the end and per hour, if one of them grows: a part is
    too short to show a slow growth, or takes a wander for one."""
    if not (whole["grows"] or part["grows"]):
        return 0.0, 0.0
    slopes = [said["live_slope_bytes_per_hour"] if said["grows"] else 0.0 for said in (whole, part)]
    slope = float(slopes[0] - slopes[1])
    # RSS at the end is a mean over some time before it.
    before_h = LAST_SHARE / 2 * (part["to_ns"] - _begin_ns(part)) / 3600e9
    return float(whole["live_to_bytes"] - part["live_to_bytes"]) - slope * before_h, slope


_POINTS = 100_000
"""A curve of RSS has so many points. Fewer fall upon the same moments of each request, where a server idles between requests."""

Key = tuple[int | None, str]
"""Number of processors (None: of this machine), name of the allocator."""


@dataclass
class Replayed:
    """The results of the replays."""

    figures: dict[Key, list[tuple[float, float]]] = field(default_factory=dict)
    """RSS and slope of each part."""

    baseline: str = ""
    """The allocator that the others are compared with: the control's."""

    parts: int = 0
    """How many parts were replayed."""

    forked: bool = False
    """Whether the recorded process was forked from another one."""

    failures: list[str] = field(default_factory=list)
    """The words of replays about allocators that failed in them."""

    def whole(self) -> dict[Key, list[tuple[float, float]]]:
        """Without an allocator that failed in a part: its interval would not be comparable."""
        return {key: values for key, values in self.figures.items() if len(values) == self.parts}


def steady_stretch(heaptape: str, options: argparse.Namespace) -> dict[str, Any]:
    """The longest steady stretch, as `heaptape extend --json` has it."""
    try:
        said: dict[str, Any] = json.loads(run_tool([heaptape, "extend", "--json", "--to", f"{options.to:.9f}s", "--", options.trace]))
    except ToolFailed as error:
        raise as_ours(error) from error
    return said


def baseline_check(replay: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """The check by a replay of the recording itself, if the allocator that served it is among those asked for."""
    replayed = attached.replay([replay, "-q", "--pass", "memory", "--rounds", "1", "--alloc", options.alloc, "--", options.trace])
    try:
        return replayed.compared().check  # where some of them fail, the parts' replays say so
    except ToolFailed as error:
        raise as_ours(error) from error


def _command(replay: str, options: argparse.Namespace, stretch_ns: tuple[int, int], processors: int | None) -> list[str]:
    how = f"{options.to:.9f}s,from={stretch_ns[0]}ns,until={stretch_ns[1]}ns"
    machine = ["--cpus", str(processors)] if processors else []
    return [replay, "-q", "--pass", "memory", "--rounds", "1", "--points", str(_POINTS), "--alloc", options.alloc, "--scale", str(options.scale), *machine, "--extend", how,
            "--", options.trace]


def _replay_part(command: list[str], found: Replayed) -> dict[str, Json]:
    """By allocator the line of its run. Raises Undecided where the part by itself is not steady."""
    replayed = attached.replay(command, curves=True)
    if replayed.failure:
        ours = as_ours(replayed.failure)
        # A run that fails is one allocator's.
        if ours.exit_status != EXIT_FAILED or replayed.comparison is None:
            raise ours from replayed.failure
        if str(ours) not in found.failures:
            found.failures.append(str(ours))
    comparison = replayed.compared()
    found.forked |= comparison.context.program.forked
    if comparison.controlled:
        found.baseline = comparison.names[comparison.context.baseline]
    lines = [cell.memory for cell in comparison.measurements.rounds[0][1:]]
    return {name: line for name, line in zip(comparison.names, lines, strict=False) if line is not None and name != "null"}


def replay_parts(replay: str, options: argparse.Namespace, said: dict[str, Any], progress: ProgressLine) -> Replayed:
    """Raises Undecided where fewer than two parts are steady by themselves."""
    found, unsteady = Replayed(), []
    machines: list[int | None] = options.cpus or [None]
    length, done = (said["until_ns"] - said["from_ns"]) // options.parts, 0
    for part in range(options.parts):
        stretch_ns = (said["from_ns"] + part * length, said["from_ns"] + (part + 1) * length)
        try:
            for processors in machines:
                progress.show(f"part {part + 1} of {options.parts}", progress.left_s(done, options.parts * len(machines)))
                for name, line in _replay_part(_command(replay, options, stretch_ns, processors), found).items():
                    more = options.scale * np.array(growth_left_out(said, line["trace"]["extended"]))
                    rss, slope = rss_and_slope(line) + more
                    found.figures.setdefault((processors, name), []).append((float(rss), float(slope)))
                done += 1
        except Undecided as error:
            unsteady.append(f"part {part + 1}: {error}")
            continue
        found.parts += 1
    progress.end()
    if found.parts < 2:
        raise Undecided(f"fewer than two of {options.parts} parts of the steady stretch are steady by themselves, which leaves no interval; {'; '.join(unsteady)}")
    return found
