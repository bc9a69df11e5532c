#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sets the latency percentiles that `replay` samples beside those of a run that times every call.

    bench/figures/latency_check.py BUILD TRACE [RUNS]

The trace must be of one thread. Both run under the C library's malloc, in turns, RUNS times each (10); the
table has the median of the runs' percentiles. Exit status 1 if a p50 or p99 of a function with at least
1,000 sampled calls is off by more than 20 %.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

PERCENTILES = ("p50", "p90", "p99")
Measured = dict[str, dict[str, list[float]]]


def sampled(build: Path, trace: Path, into: Measured, counts: dict[str, int]) -> None:
    done = subprocess.run([build / "replay", "--alloc", "glibc", "--rounds", "1", "--pass", "time",
                           "--json", "--pace", "none", trace], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True)
    for function, found in json.loads(done.stdout)["allocators"][0]["latency_ns"].items():
        counts[function] += found["count"]
        for name in PERCENTILES:
            into[function][name].append(found[name])


def every_call(build: Path, text: Path, into: Measured) -> None:
    done = subprocess.run([build / "bench" / "time_every_call", text], stdout=subprocess.PIPE, text=True,
                          check=True)
    for line in done.stdout.splitlines():
        function, _, *values = line.split()
        for name, value in zip(PERCENTILES, values, strict=True):
            into[function][name].append(float(value))


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    build, trace = Path(sys.argv[1]), Path(sys.argv[2])
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # replay keeps to one processor, too
    samples: Measured = defaultdict(lambda: defaultdict(list))
    whole: Measured = defaultdict(lambda: defaultdict(list))
    counts: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory() as folder:
        text, plain = Path(folder) / "trace.rep", Path(folder) / "plain.bin"
        subprocess.run([build / "heaptape", "convert", "-q", trace, "--to", "rep", "-o", text], check=True)
        # What the text cannot hold must not be in the other either.
        subprocess.run([build / "heaptape", "convert", "-q", text, "-o", plain], check=True)
        for _ in range(int(sys.argv[3]) if len(sys.argv) == 4 else 10):
            sampled(build, plain, samples, counts)
            every_call(build, text, whole)
    off = False
    print("function  percentile  sampled ns  every call ns  difference")
    for function in whole:
        for name in PERCENTILES:
            if not samples[function][name]:
                continue  # too rare to be sampled
            ours = statistics.median(samples[function][name])
            theirs = statistics.median(whole[function][name])
            difference = ours / theirs - 1 if theirs else float("nan")
            bad = name != "p90" and counts[function] >= 1000 and not abs(difference) <= 0.2
            off = off or bad
            print(f"{function:8}  {name:10}  {ours:10.1f}  {theirs:13.1f}  {difference:+10.1%}"
                  f"{'  <' if bad else ''}")
    return int(off)


if __name__ == "__main__":
    sys.exit(main())
