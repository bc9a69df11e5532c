#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the time is the layout of the replay's code?

    heaptape replay --alloc a=glibc,b=glibc,c=glibc,d=glibc,e=glibc,f=glibc,g=glibc,h=glibc \\
                    --pass time --rounds 70 -o same.jsonl TRACE
    bench/figures/layouts.py same.jsonl...

Prints the standard deviation of runs within a round (by the median absolute deviation), that of the layouts' medians, and
what the latter is by chance: the median where layouts are shuffled within rounds. Needs numpy.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy.typing import NDArray

SHUFFLES, SEED = 500, 1
MAD_OF_NORMAL = 0.6745


def read(path: str) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int64]]]:
    """By round: logarithms of times less their median, and layouts."""
    found: dict[int, list[tuple[float, int]]] = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if run["allocator"]["name"] != "null" and run["alloc_time_ns"]:
                found.setdefault(run["round"], []).append((run["alloc_time_ns"], run["layout"]))
    times = [np.log([time for time, _ in runs]) for runs in found.values()]
    return [of_round - np.median(of_round) for of_round in times], [np.array([layout for _, layout in runs]) for runs in found.values()]


def between(times: NDArray[np.float64], layouts: NDArray[np.int64]) -> float:
    return float(np.std([np.median(times[layouts == layout]) for layout in np.unique(layouts)], ddof=1))


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    rng = np.random.default_rng(SEED)
    for path in sys.argv[1:]:
        rounds, drawn = read(path)
        times, layouts = np.concatenate(rounds), np.concatenate(drawn)
        shuffled = [between(times, np.concatenate([rng.permutation(of_round) for of_round in drawn])) for _ in range(SHUFFLES)]
        runs = float(np.median(np.abs(times - np.median(times)))) / MAD_OF_NORMAL
        found = between(times, layouts)
        print(f"{path}: {times.size} runs, sd within a round {runs:.1%}; between {np.unique(layouts).size} layouts {found:.2%}, "
              f"by chance {np.median(shuffled):.2%} (p {np.mean(np.array(shuffled) >= found):.2f})")


if __name__ == "__main__":
    main()
