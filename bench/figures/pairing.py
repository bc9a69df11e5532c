#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which way of pairing runs resolves most for the same number of runs?

    heaptape replay --alloc a=glibc,b=glibc,c=glibc,d=glibc,e=glibc,f=glibc,g=glibc,h=glibc \\
                    --pass time --rounds 40 -o same.jsonl TRACE
    bench/figures/pairing.py same.jsonl...

Takes runs of one allocator in the order in which they ran, eight a round, calls them A and B in
turn, and prints for each design the standard deviation of the median log ratio (bootstrap), times
1,000: less is better. All designs use up the same runs. Then how far runs correlate that are 1, 2,
4 and 8 apart. Needs numpy.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RUNS, RESAMPLES, SEED = 8, 4000, 1
# Places of A's and of B's runs, which repeat along a round.
ORDERS = {"AB": ([0], [1]), "ABBA": ([0, 3], [1, 2]), "ABBABAAB": ([0, 3, 5, 6], [1, 2, 4, 7])}
SUMMARIES: dict[str, Callable[..., Floats]] = {"mean": np.mean, "min": np.min, "median": np.median}


def times(path: str) -> Floats:
    """Shape (rounds, RUNS)."""
    rounds: dict[int, list[float]] = defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if run["allocator"]["name"] != "null" and not run.get("control"):
                rounds[run["round"]].append(run["alloc_time_ns"])
    return np.array([found for found in rounds.values() if len(found) == RUNS], dtype=float)


def log_ratios(runs: Floats, order: str, summary: Callable[..., Floats]) -> Floats:
    ours, theirs = ORDERS[order]
    length = len(ours) + len(theirs)
    pieces = runs.reshape(-1, length)
    return np.log(summary(pieces[:, ours], axis=1) / summary(pieces[:, theirs], axis=1))


def main() -> int:
    rng = np.random.default_rng(SEED)
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        runs = times(path)
        print(f"{path}: {runs.size} runs")
        for order in ORDERS:
            for name, summary in SUMMARIES.items():
                if order == "AB" and name != "mean":
                    continue
                ratios = log_ratios(runs, order, summary)
                drawn = ratios[rng.integers(0, ratios.size, (RESAMPLES, ratios.size))]
                print(f"  {order:9} {name if order != 'AB' else '':7} "
                      f"{1000 * np.median(drawn, axis=1).std():6.1f}")
        logs = np.log(runs.ravel()) - np.log(runs).mean()
        apart = {k: float((logs[k:] * logs[:-k]).mean() / logs.var()) for k in (1, 2, 4, 8)}
        print("  correlation: " + ", ".join(f"{k} apart {value:.2f}" for k, value in apart.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
