#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster than malloc_wrap's way of converting is ours, on the same programs?

    bench/figures/origin_speed.py [--build BUILD] [--rounds N] [--only CPython,cc1plus]

Records two programs of one thread, CPython at JSON work and gcc's C++ compiler at std::regex, and
writes each log also as the text that malloc_wrap would have written (bench/programs/raw_to_text.c). Then, in
interleaved rounds, `heaptape convert` makes a trace of the log, and bench/figures/origin_converter.rb makes
malloc_wrap's converted text of the text: its converter's work, by a plain script of ours, under the
Ruby that is installed. First, both are held to each other: the same calls with the same sizes.

Printed, per program: calls per second of both, on one core by CPU time, and by the clock on the cores
there are; and the ratio, with a bootstrap interval over rounds. The Ruby of 2009, whose collector
marked every live object each time, was slower than today's; what was not measured is not printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from intervals import Estimate, median_interval, ratio_of_medians

ROOT = Path(__file__).resolve().parents[2]
SEED = 20817


@dataclass
class Times:
    """Seconds of each round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def programs(folder: Path) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Variables and command of each; a compiler's largest log is the compiler proper's."""
    source = folder / "match.cpp"
    source.write_text("#include <regex>\nbool match(const char *text) {\n"
                      "    return std::regex_match(text, std::regex(\"[a-z]+\"));\n}\n")
    return {
        "CPython": ({"PYTHONMALLOC": "malloc"},
                    ["/usr/bin/python3", str(ROOT / "bench/programs/json_work.py")]),
        "cc1plus": ({}, ["g++", "-O2", "-c", str(source), "-o", str(folder / "match.o")]),
    }


def record(build: Path, folder: Path, name: str) -> Path:
    variables, command = programs(folder)[name]
    logs = folder / name
    logs.mkdir()
    subprocess.run([build / "heaptape", "record", "-q", "-o", logs, "--", *command], check=True,
                   env=os.environ | variables, stdout=subprocess.DEVNULL)
    return max(logs.glob("*.mraw"), key=lambda log: log.stat().st_blocks)


def run(build: Path, command: Sequence[str | Path], pinned: bool, into: Times) -> None:
    before = ["taskset", "-c", "0"] if pinned else []
    done = subprocess.run([build / "bench/measure_run", *before, *command], check=True,
                          capture_output=True, text=True)
    used = json.loads(done.stdout)
    if used["status"]:
        sys.exit(f"status {used['status']} of {' '.join(map(str, command))}")
    into.cpu.append(used["cpu_us"] / 1e6)
    into.wall.append(used["wall_ns"] / 1e9)


def calls_in(converted: Path) -> Iterator[tuple[str, ...]]:
    """Letter and sizes of each call, not the ids: theirs are one per address, ours one per slot."""
    with converted.open() as lines:
        next(lines)
        for line in lines:
            words = line.split()
            if words:  # the origin's own output may have an empty line behind the first
                yield words[0], *words[{"m": 2, "c": 2, "r": 3, "f": 2}[words[0]]:]


def hold_to_each_other(build: Path, log: Path, text: Path, folder: Path) -> int:
    """The number of calls, which must be the same ones in both outputs."""
    ours, theirs = folder / "ours", folder / "theirs"
    subprocess.run([build / "heaptape", "convert", "-q", log, "--to", "malloc_wrap", "-o", ours],
                   check=True)
    subprocess.run(["ruby", ROOT / "bench/figures/origin_converter.rb", text, theirs], check=True)
    count = 0
    for left, right in zip_longest(calls_in(ours), calls_in(theirs)):
        if left != right:
            sys.exit(f"call {count} differs: {left} here, {right} there")
        count += 1
    return count


def measure(build: Path, name: str, rounds: int, folder: Path) -> None:
    log = record(build, folder, name)
    text = folder / f"{name}.txt"
    with text.open("wb") as out:
        subprocess.run([build / "bench/raw_to_text", log], check=True, stdout=out,
                       stderr=subprocess.DEVNULL)
    calls = hold_to_each_other(build, log, text, folder)
    commands: dict[str, list[str | Path]] = {
        "heaptape": [build / "heaptape", "convert", "-q", log, "-o", folder / "trace.bin"],
        "script": ["ruby", ROOT / "bench/figures/origin_converter.rb", text, folder / "converted"]}
    one = {key: Times() for key in commands}
    free = {key: Times() for key in commands}
    order = random.Random(SEED)
    for _ in range(rounds):
        runs = [(key, pinned) for key in commands for pinned in (True, False)]
        order.shuffle(runs)
        for key, pinned in runs:
            run(build, commands[key], pinned, (one if pinned else free)[key])
    raw_bytes = log.stat().st_blocks * 512
    print(f"{name}: {calls:,} calls, {rounds} rounds; raw log {raw_bytes / 1e6:.1f} MB, "
          f"malloc_wrap's text {text.stat().st_size / 1e6:.1f} MB")
    report("one core, CPU time", calls, one["heaptape"].cpu, one["script"].cpu)
    report(f"{os.cpu_count()} cores, wall time", calls, free["heaptape"].wall, free["script"].wall)


def report(what: str, calls: int, ours: list[float], theirs: list[float]) -> None:
    ratio = ratio_of_medians(theirs, ours, SEED)
    assert ratio
    print(f"  {what}: heaptape convert {rate(calls, ours)}, the script {rate(calls, theirs)}; "
          f"{interval(ratio)} times as fast")


def rate(calls: int, seconds: list[float]) -> str:
    return interval(median_interval([calls / one / 1e6 for one in seconds])) + " M calls/s"


def interval(estimate: Estimate) -> str:
    return f"{estimate.median:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description="Conversion beside malloc_wrap's way of it.")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="CPython,cc1plus", help="some of the programs")
    options = parser.parse_args()
    for needed in ("ruby", "taskset", "g++"):
        if not shutil.which(needed):
            sys.exit(f"origin_speed.py: {needed} is needed (Debian packages ruby, util-linux, g++)")
    version = subprocess.run(["ruby", "--version"], check=True, capture_output=True, text=True)
    print(f"the script runs under {version.stdout.strip()}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            measure(options.build.resolve(), name, options.rounds, Path(folder))


if __name__ == "__main__":
    main()
