#!/usr/bin/env python3
"""What recording costs a program: CPU time added per call, from pairs of runs with and without the shim in ABBA order.

    bench/record_cost.py [--build BUILD] [--pairs N] -- PROGRAM [ARGUMENT...]

Prints the median over the pairs with a 95 % interval (order statistics of the median: no assumption on the distribution),
and the ratio of CPU times.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """User and system time of one run, its children included."""
    devnull = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawnp(command[0], command, environment, file_actions=devnull)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"record_cost: {command[0]} ended with status {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def count_calls(build: Path, logs: Path) -> int:
    """Calls of all processes of one run; the logs are removed."""
    total = 0
    for log in logs.glob("*.mraw"):
        trace = logs / "t.bin"
        subprocess.run([build / "heaptape", "convert", "-q", log, "-o", trace], check=True)
        text = subprocess.run([build / "heaptape", "info", "--json", trace], check=True, capture_output=True).stdout
        total += json.loads(text)["events"]
        log.unlink()
    return total


def median_interval(values: list[float]) -> tuple[float, float]:
    """The order statistics that bracket the median with at least 95 % (binomial; Conover 1999, 3.2)."""
    ordered, n = sorted(values), len(values)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    return ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time that recording adds per call.")
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parent.parent / "build")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain = dict(os.environ)
        shimmed = plain | {"LD_PRELOAD": str(options.build / "libmalloc_wrap.so"), "MALLOC_WRAP_OUT": folder}
        added, ratios, calls = [], [], 0
        for pair in range(options.pairs):
            order = [plain, shimmed] if pair % 2 else [shimmed, plain]
            first, second = (cpu_seconds(options.command, environment) for environment in order)
            without, under = (first, second) if pair % 2 else (second, first)
            if not calls:
                calls = count_calls(options.build, Path(folder))
            for log in Path(folder).glob("*.mraw"):
                log.unlink()
            added.append((under - without) / calls * 1e9)
            ratios.append(under / without)
        low, high = median_interval(added)
        print(f"{calls:,} calls, {options.pairs} pairs: {statistics.median(added):.1f} ns added per call "
              f"[{low:.1f}, {high:.1f}]; {statistics.median(ratios):.2f} times the CPU time")


main()
