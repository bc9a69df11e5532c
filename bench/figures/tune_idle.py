#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `heaptape tune` finds for a program that frees 100 MB and then idles for 30 seconds.

    bench/figures/tune_idle.py [--build BUILD] [--alloc jemalloc] [--trials 60] [--seed 1] [--study FILE]

The trace is that of virtual_time.py: 100 MB freed, then small bursts ten times a second. The search tries so
many configurations, and of those on its front that take at most a tenth more time than the default the
one with the least mean RSS is taken. Then the line that it printed for that one is checked: replay runs once with that
environment and once without, both with plain --alloc NAME, turn and turn about. Exit status 1 unless both, the figures of
the search and those of the line, show at most half of the default's mean RSS at no more than 1.1 times its time.
Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from virtual_time import environment, make_burst

ROOT = Path(__file__).resolve().parents[2]
TIME_MAX, MEAN_MAX = 1.10, 0.50
CHECK_ROUNDS = 9


def tune(build: Path, trace: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [build / "heaptape", "tune", trace, "--alloc", options.alloc, "--trials", str(options.trials),
               "--objective", "time,rss", "--seed", str(options.seed), "--json", "--study",
               options.study or trace.with_suffix(".study")]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=environment())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures(build: Path, trace: Path, allocator: str, folder: Path, line: str) -> tuple[float, float]:
    """Time and mean RSS of one run in an environment that has the variables of the line."""
    rows = folder / "rows.jsonl"
    rows.unlink(missing_ok=True)
    more = tuple((name, value) for name, _, value in (item.partition("=") for item in shlex.split(line)))
    subprocess.run([build / "replay", "-q", "--alloc", allocator, "--rounds", "1", "-o", rows, trace], check=True,
                   stdout=subprocess.DEVNULL, env=environment(more))
    runs = [json.loads(text) for text in rows.read_text().splitlines()]
    runs = [run for run in runs if run["allocator"]["name"] == allocator]
    return (statistics.median(run["alloc_time_ns"] for run in runs if run["pass"] == "time"),
            statistics.median(run["rss_mean_bytes"] for run in runs if run["pass"] == "memory"))


def check_line(build: Path, trace: Path, allocator: str, line: str) -> tuple[float, float]:
    """Medians over the rounds of the ratios to a run without the line."""
    times, means = [], []
    with tempfile.TemporaryDirectory() as name:
        for number in range(CHECK_ROUNDS):
            order = ("", line) if number % 2 else (line, "")
            found = {which: figures(build, trace, allocator, Path(name), which) for which in order}
            times.append(found[line][0] / found[""][0])
            means.append(found[line][1] / found[""][1])
    return statistics.median(times), statistics.median(means)


def chosen(found: dict[str, Any]) -> dict[str, Any] | None:
    """Of the front, what takes least memory at a time that may be."""
    fine = [member for member in found["front"] if member["objectives"]["time"]["ratio"] <= TIME_MAX]
    return min(fine, key=lambda member: member["objectives"]["rss"]["ratio"], default=None)


def show(title: str, time_ratio: float, mean_ratio: float) -> bool:
    fine = time_ratio <= TIME_MAX and mean_ratio <= MEAN_MAX
    print(f"{title:34} time x {time_ratio:.2f}, mean RSS x {mean_ratio:.2f} of the default's"
          f"{'' if fine else '  NOT AS IT SHOULD BE'}", flush=True)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--alloc", default="jemalloc")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--study", type=Path, help="keep the search here (not kept)")
    options = parser.parse_args()
    build = options.build.resolve()
    os.environ.setdefault("HEAPTAPE_REPLAY", str(build / "replay"))
    with tempfile.TemporaryDirectory() as name:
        trace = make_burst(build, Path(name))
        found = tune(build, trace, options)
        member = chosen(found)
        if member is None:
            print(f"nothing on the front takes at most {TIME_MAX} times the default's time")
            return 1
        tried = sum(trial["trial"] <= member["trial"] for trial in found["trials"])
        print(f"{options.alloc}, {len(found['trials'])} trials, seed {options.seed}; found in the {tried}th\n{member['line']}")
        of = member["objectives"]
        good = show(f"searched, {found['rounds']} rounds:", of["time"]["ratio"], of["rss"]["ratio"])
        line = check_line(build, trace, options.alloc, member["line"])
        good = show(f"the line pasted, {CHECK_ROUNDS} rounds:", *line) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
