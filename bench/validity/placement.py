#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of programs under other allocators: that of the program itself, in rounds of random order, and what `heaptape try` says
where it does not run the program again (docs/method/validity/placement.csv).

    placement.py [--rounds 20] [--budget 30s] JOBS.json > placement.csv

JOBS.json: {"name": ["program", "argument", ...], ...}. Printed are the differences of 5 % and more that the real runs resolve, with
the median of the ratios, its interval of 95 %, and the share that `try` gives malloc's calls, with its interval; at the end, on
standard error, how many the range of `try` holds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("HEAPTAPE_BUILD", Path(__file__).resolve().parents[2] / "build"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))
from heaptape.judge.intervals import paired_ratios, ratio_interval  # noqa: E402
from heaptape.trial.real_runs import run_once  # noqa: E402
from heaptape.validate.allocators import find_allocators  # noqa: E402

DIFFERENCE_MIN = 0.05


def cpu_s(command: list[str], preload: str) -> float:
    """The CPU time of one run that ends with status 0."""
    ended = run_once(command, [f"LD_PRELOAD={preload}"] if preload else [], 0, None)
    if ended.why:
        raise SystemExit(f"placement.py: {command[0]} under {preload or 'its own allocator'} {ended.why}")
    return ended.cpu_s


def real_times(command: list[str], preloads: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """By allocator, a value for each round."""
    times: dict[str, list[float]] = {name: [] for name in preloads}
    for _ in range(rounds):
        for name in random.sample(list(preloads), len(preloads)):
            times[name].append(cpu_s(command, preloads[name]))
    return times


def predicted(command: list[str], budget: str) -> dict[str, dict[str, float]]:
    """By allocator what `try --json` has of CPU, from one recording and a run without the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([BUILD / "heaptape", "record", "-q", "--check=60s", "-o", f"{folder}/first", "--", *command], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True)
        done = subprocess.run([BUILD / "heaptape", "try", "-q", "--json", "--budget", budget, "--logs", f"{folder}/first", "-o", f"{folder}/answer"],
                              stdout=subprocess.PIPE, check=True)
    return {name: figures["cpu"] for name, figures in json.loads(done.stdout)["changes"].items() if "cpu" in figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", default="30s")
    options = parser.parse_args()
    _, found = find_allocators(str(BUILD / "replay"), None)
    preloads = {item.name: "" if item.kind == "glibc" else item.path for item in found}
    table, held = csv.writer(sys.stdout, lineterminator="\n"), []
    table.writerow(["program", "allocator", *(f"{what}{end}_percent" for what in ("real", "replayed") for end in ("", "_low", "_high"))])
    for job, command in json.loads(options.jobs.read_text()).items():
        times, said = real_times(command, preloads, options.rounds), predicted(command, options.budget)
        for name in preloads.keys() & said.keys():
            real = ratio_interval(paired_ratios(times[name], times["glibc"]))
            if abs(real.estimate - 1) < DIFFERENCE_MIN or real.low <= 1 <= real.high:
                continue
            change = said[name]
            table.writerow([job, name, *(f"{100 * (value - 1):.1f}" for value in (real.estimate, real.low, real.high)),
                            *(f"{100 * change[key]:.1f}" for key in ("share", "low", "high"))])
            held.append(change["least"] <= real.estimate - 1 <= change["most"])
            sys.stdout.flush()
    print(f"{sum(held)} of {len(held)} are within the range that try gives", file=sys.stderr)


if __name__ == "__main__":
    main()
