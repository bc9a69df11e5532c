#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds extensions of recordings against longer recordings: RSS and its slope at the end, under several allocators.

    bench/validity/extend.py [--build B] [--only NAME,...] [--seconds 3600] [--alloc LIST] [--begin S,...] [--every]
                             [--keep FOLDER] [--only-record] [--trace NAME=FILE]...

Records each server of extend.toml for so long (or takes the trace of it), and extends a stretch of 170 s to the trace's length: of
those that are accepted, the one with the narrowest range of live bytes at the end. Of the recording only what was there when a
stretch ended is known. --begin: where stretches are tried (s); --every: extends all that are accepted. Both are replayed. Of RSS
the mean of the last tenth of the time is compared, of slopes that of the second half, each with an interval; what `heaptape forecast`
says of RSS by then, too. --keep leaves the traces there; --only-record compares nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import (  # noqa: E402
    SETUP_LIMIT_S,
    Failed,
    Prepared,
    chosen,
    prepare,
    run_all,
    run_tool,
)

from heaptape.forecast.parts import means_over_time  # noqa: E402

READY_S = 30
SAMPLES = 200_000
"""Of RSS. Fewer ones fall upon the same moments of each request, of a server that idles in between."""
STRETCH_S = 170
BEGINS_S = list(range(120, 601, 60))
POINTS = 64


@dataclass(frozen=True)
class Slope:
    """With half of its 95 % interval."""

    step: float
    half: float

    @property
    def resolved(self) -> bool:
        return abs(self.step) > self.half

    def text(self, unit: float) -> str:
        return f"{self.step / unit:+.2f} [{(self.step - self.half) / unit:+.2f}, {(self.step + self.half) / unit:+.2f}]"


def slope_of(values: list[float], step: float, build: Path) -> Slope:
    """Of equally spaced values, this far apart."""
    done = subprocess.run([build / "bench" / "slope_of_values"], input=" ".join(map(str, values)), capture_output=True, text=True, check=True)
    middle, low, high = map(float, done.stdout.split())
    return Slope(middle / step, (high - low) / 2 / step)


def _shell(script: str, prepared: Prepared, limit_s: float) -> None:
    run_tool(["bash", "-eu", "-c", script], prepared.who, limit_s)


def _await_ready(prepared: Prepared) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            _shell(prepared.program.get("ready", "sleep 2"), prepared, READY_S)
            return
        except Failed:
            time.sleep(0.2)
    raise Failed(f"it was not ready after {READY_S} s")


def record(name: str, program: dict[str, Any], options: argparse.Namespace) -> Path:
    """The trace of the process that made most calls."""
    prepared = prepare(name, program, options.scratch, options.build)
    prepared.who["env"]["SECONDS"] = str(options.seconds)
    command = [options.build / "heaptape", "record", "-q", "-o", prepared.folder / "logs", "--", "bash", "-c", program["start"]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **prepared.who)
    try:
        _await_ready(prepared)
        # SECONDS is a variable of bash's own.
        load = program["load"].replace("$SECONDS", str(options.seconds))
        _shell(load, prepared, options.seconds + SETUP_LIMIT_S)
        if "stop" in program:
            _shell(program["stop"], prepared, SETUP_LIMIT_S)
        else:
            server.send_signal(signal.SIGTERM)
        server.wait(SETUP_LIMIT_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    logs = sorted((prepared.folder / "logs").glob("*.mraw"), key=lambda path: path.stat().st_blocks)
    if not logs:
        raise Failed("nothing was recorded")
    trace = (options.keep or options.scratch) / f"{name}.bin"
    _heaptape(options, "convert", "-q", logs[-1], "-o", trace)
    return trace


def _heaptape(options: argparse.Namespace, *words: Any) -> str:
    return run_tool([options.build / "heaptape", *words], {})


def replayed(trace: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    results = options.scratch / f"{trace.stem}.jsonl"
    _heaptape(options, "replay", "-q", "--pass", "memory", "--points", SAMPLES, "--rounds", options.rounds, "--alloc", options.alloc, "-o", results, trace)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {line["allocator"]["name"]: line for line in lines if not line["control"] and line["allocator"]["name"] != "null"}


@dataclass(frozen=True)
class Figures:
    """Of one replay: mean RSS of the last tenth of the time, and the slope of its second half, both in bytes, per hour."""

    rss: float
    slope: Slope


def figures_of(line: dict[str, Any], build: Path) -> Figures:
    at, rss = (np.array(line["timeline"][key], float) for key in ("time_ns", "rss_bytes"))
    end = at[-1]
    level = means_over_time(at, rss, np.linspace(end / 2, end, POINTS + 1))
    return Figures(float(means_over_time(at, rss, np.array([0.9 * end, end]))[0]), slope_of(level.tolist(), end / 2 / POINTS / 3600e9, build))


@dataclass(frozen=True)
class Pair:
    """A prediction and what came, under one allocator. The predicted slope is open by what the stretch leaves open of live bytes."""

    error: float
    predicted: Slope
    real: Slope
    held: bool | None
    """Whether the interval that `forecast` gives holds the RSS. None: it refused."""

    @property
    def sign(self) -> str:
        if not self.real.resolved:
            return "unresolved"
        if not self.predicted.resolved:
            return "left open"
        return "right" if self.predicted.step * self.real.step > 0 else "wrong"


@dataclass(frozen=True)
class Stretch:
    """An accepted one, with what `extend` says of it."""

    begin_s: int
    said: dict[str, Any]

    @property
    def open_share(self) -> float:
        """The range of live bytes at the end over their mean there."""
        low, high = (float(self.said[f"live_to_{which}_bytes"]) for which in ("low", "high"))
        return (high - low) / ((high + low) / 2)


@contextlib.contextmanager
def known_by(trace: Path, end_s: int, options: argparse.Namespace) -> Iterator[Path]:
    """The recording as it was at the end of a stretch. Raises Failed, in few words, where it is refused."""
    cut = options.scratch / f"{trace.stem}-{end_s}-cut.bin"
    _heaptape(options, "slice", "-q", trace, "--to-time", f"{end_s + 1}s", "-o", cut)
    try:
        yield cut
    except Failed as problem:
        raise Failed(str(problem).partition("how it goes on: ")[2] or str(problem)) from problem
    finally:
        cut.unlink(missing_ok=True)


def extend(trace: Path, begin_s: int, to_s: float, options: argparse.Namespace, *more: Any) -> dict[str, Any]:
    """By what is known when the stretch ends."""
    end_s = begin_s + STRETCH_S
    with known_by(trace, end_s, options) as cut:
        found: dict[str, Any] = json.loads(_heaptape(options, "extend", cut, "--json", "--from", f"{begin_s}s", "--until", f"{end_s}s",
                                                     "--to", f"{to_s}s", *more))
        return found


def forecast(name: str, trace: Path, end_s: int, to_s: float, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """RSS under each allocator, `value`, `ci_low` and `ci_high` in bytes, by what is known then. Empty where it is refused."""
    try:
        with known_by(trace, end_s, options) as cut:
            found = json.loads(_heaptape(options, "forecast", "--json", cut, "--to", f"{to_s}s", "--alloc", options.alloc))
        return {item["name"]: item["rss_bytes"] for item in found["allocators"]}
    except Failed as problem:
        print(f"{name}: forecast refused: {problem}", flush=True)
        return {}


def accepted(trace: Path, begin_s: int, to_s: float, options: argparse.Namespace) -> Stretch:
    """Raises Failed where it is refused, or where the growth is open: extend refuses that only if it has chosen the stretch
    itself."""
    stretch = Stretch(begin_s, said := extend(trace, begin_s, to_s, options))
    if said["grows"] and said["live_to_high_bytes"] - said["live_to_low_bytes"] > 0.25 * (said["live_mean_bytes"] + said["live_to_bytes"]):
        raise Failed(f"{begin_s} to {begin_s + STRETCH_S} s, live bytes grow by {said['live_slope_bytes_per_hour'] / 1e6:.1f} MB/hour, and then are between "
                     f"{said['live_to_low_bytes'] / 1e6:.1f} and {said['live_to_high_bytes'] / 1e6:.1f} MB")
    return stretch


def stretches_of(name: str, trace: Path, to_s: float, options: argparse.Namespace) -> list[Stretch]:
    """Those that are to be compared."""
    found = []
    for begin_s in options.begin:
        try:
            found.append(stretch := accepted(trace, begin_s, to_s, options))
            print(f"{name}: {begin_s} to {begin_s + STRETCH_S} s: live bytes then between {stretch.said['live_to_low_bytes'] / 1e6:.1f} and "
                  f"{stretch.said['live_to_high_bytes'] / 1e6:.1f} MB", flush=True)
        except Failed as problem:
            print(f"{name}: refused: {problem}", flush=True)
    return found if options.every else sorted(found, key=lambda stretch: stretch.open_share)[:1]


def compare(name: str, trace: Path, options: argparse.Namespace) -> list[Pair]:
    """Prints a line for each allocator, and returns these."""
    info = json.loads(_heaptape(options, "info", "--json", trace))
    to_s = min(float(options.seconds), info["duration_ns"] / 1e9 * 0.99)
    stretches = stretches_of(name, trace, to_s, options)
    if not stretches:
        return []
    full = options.scratch / f"{name}-full.bin"
    _heaptape(options, "slice", "-q", trace, "--to-time", f"{to_s}s", "-o", full)
    real = {allocator: figures_of(line, options.build) for allocator, line in replayed(full, options).items()}
    full.unlink()
    pairs = []
    for stretch in stretches:
        said, long = stretch.said, options.scratch / f"{name}-{stretch.begin_s}-long.bin"
        print(f"{name}: {said['from_ns'] / 1e9:.0f} to {said['until_ns'] / 1e9:.0f} s, {said['loops']} times, to {to_s:.0f} s; "
              f"{said['freed_objects']:,} freed, {said['made_objects']:,} made, "
              f"{said['unmatched_freed'] + said['unmatched_made']:,} without a partner", flush=True)
        extend(trace, stretch.begin_s, to_s, options, "-o", long)
        foreseen = forecast(name, trace, stretch.begin_s + STRETCH_S, to_s, options)
        for allocator, line in replayed(long, options).items():
            if allocator not in real:
                continue
            figures, then = figures_of(line, options.build), real[allocator]
            interval = foreseen.get(allocator)
            held = interval["ci_low"] <= then.rss <= interval["ci_high"] if interval else None
            pair = Pair(figures.rss / then.rss - 1, Slope(figures.slope.step, math.hypot(figures.slope.half, said["live_to_slope_doubt"])), then.slope, held)
            print(f"  {allocator:10} RSS {figures.rss / 1e6:7.2f} MB, of the recording {then.rss / 1e6:7.2f} ({pair.error:+.1%}); slope "
                  f"{pair.predicted.text(1e6)} MB/hour, of the recording {pair.real.text(1e6)}: {pair.sign}", flush=True)
            if interval:
                low, value, high = (interval[key] / 1e6 for key in ("ci_low", "value", "ci_high"))
                print(f"             forecast {value:7.2f} MB [{low:.2f}, {high:.2f}]: {'holds' if held else 'does not hold'}", flush=True)
            pairs.append(pair)
        long.unlink()
    return pairs


def main() -> int:
    programs = tomllib.loads((ROOT / "bench" / "validity" / "extend.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only-record", action="store_true")
    parser.add_argument("--begin", type=lambda text: [int(word) for word in text.split(",")], default=BEGINS_S)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=FILE")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.keep:  # before an hour is recorded that could not be kept
        try:
            options.keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"--keep: {error}")
    traces = dict(word.split("=", 1) for word in options.trace)
    names = list(traces) or chosen(parser, options.only, programs)
    pairs: list[Pair] = []

    def measure(name: str, program: dict[str, Any], scratch: Path) -> list[str]:
        options.scratch = scratch
        trace = Path(traces[name]) if name in traces else record(name, program, options)
        if not options.only_record:
            pairs.extend(compare(name, trace, options))
        return []

    run_all(names, {name: programs.get(name, {}) for name in names}, (), measure)
    if pairs:
        sizes = [abs(pair.error) for pair in pairs]
        print(f"RSS of {len(pairs)} pairs: {statistics.median(sizes):.1%} off in the median, {max(sizes):.1%} at worst")
        resolved = [pair.sign for pair in pairs if pair.real.resolved]
        print(f"slopes that are resolved in the recording: {len(resolved)}; sign right {resolved.count('right')}, left open "
              f"{resolved.count('left open')}, wrong {resolved.count('wrong')}")
        held = [pair.held for pair in pairs if pair.held is not None]
        print(f"intervals of forecast: {sum(held)} of {len(held)} hold the recording's RSS")
    return 0 if pairs or options.only_record else 1


if __name__ == "__main__":
    sys.exit(main())
