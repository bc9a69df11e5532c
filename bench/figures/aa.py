#!/usr/bin/env python3
"""Does `replay` find a difference where there is none, and one where there is one?

    bench/figures/aa.py TRACE [--comparisons 20] [--budget 1m] [--build BUILD]

Compares glibc with glibc, and glibc behind a library that only forwards with one that spins for
10 ns in each malloc before it forwards (bench/programs/preloaded_malloc.c), each as often as asked for, and
counts the verdicts. Exit status 1 where more than one comparison in twenty of the first kind says
anything but "same" or "unresolved", or fewer than eighteen in twenty of the second say "slower".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

FALSE_SHARE_MAX, FOUND_SHARE_MIN = 1 / 20, 18 / 20
NO_DIFFERENCE = ("same", "unresolved")


@dataclass(frozen=True)
class Outcome:
    """One comparison: its verdicts, its ratio of times, what its control showed, how long it took."""

    time: str
    rss_peak: str
    ratio: str
    control: str
    rounds: int
    seconds: float


def interval(figures: dict[str, float | None]) -> str:
    low, high = figures["ci_low"], figures["ci_high"]
    bounds = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{figures['ratio']:.3f}{bounds}"


def compare(replay: Path, trace: str, allocators: str, baseline: str, budget: str) -> Outcome:
    command = [str(replay), "--alloc", allocators, "--baseline", baseline, "--budget", budget,
               "--json", "-q", trace]
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr.decode()}")
    said = json.loads(done.stdout)
    (other,) = (item for item in said["allocators"] if not item["baseline"])
    figures = other["alloc_time_ns"]
    return Outcome(figures["verdict"], other["rss_peak_bytes"]["verdict"], interval(figures),
                   interval(said["control"]["alloc_time_ns"]), said["rounds"],
                   time.monotonic() - begun)


def run_all(title: str, count: int, *arguments: object) -> list[Outcome]:
    print(f"\n{title}")
    print(f"{'':>3}  {'time':10}  {'ratio':22}  {'A/A control':22}  {'peak RSS':10}  rounds  seconds")
    outcomes = []
    for number in range(1, count + 1):
        one = compare(*arguments)  # type: ignore[arg-type]
        outcomes.append(one)
        print(f"{number:3}  {one.time:10}  {one.ratio:22}  {one.control:22}  {one.rss_peak:10}  "
              f"{one.rounds:6}  {one.seconds:7.1f}", flush=True)
    for name in ("time", "rss_peak"):
        counted = Counter(getattr(one, name) for one in outcomes)
        print(f"{name}: " + ", ".join(f"{number} {word}" for word, number in counted.most_common()))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--comparisons", type=int, default=20, metavar="N")
    parser.add_argument("--budget", default="1m", help="of each comparison (that of replay: 1m)")
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    options = parser.parse_args()
    replay, libraries = options.build / "replay", options.build / "bench"
    plain, spinning = libraries / "libnull_preload.so", libraries / "libspin_malloc.so"
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.trace}: {options.comparisons} comparisons of each kind, {options.budget} each "
          f"at most; load {load} on {os.cpu_count()} processors")
    same = run_all("glibc against glibc", options.comparisons, replay, options.trace,
                   "a=glibc,b=glibc", "a", options.budget)
    spun = run_all("10 ns of spin in malloc against none", options.comparisons, replay,
                   options.trace, f"plain={plain},spin={spinning}", "plain", options.budget)
    wrong = sum(one.time not in NO_DIFFERENCE or one.rss_peak not in NO_DIFFERENCE for one in same)
    found = sum(one.time == "slower" for one in spun)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nfalse differences: {wrong} of {len(same)}; the spin found: {found} of {len(spun)}; "
          f"load at the end {load}")
    return int(wrong > FALSE_SHARE_MAX * len(same) or found < FOUND_SHARE_MIN * len(spun))


if __name__ == "__main__":
    sys.exit(main())
