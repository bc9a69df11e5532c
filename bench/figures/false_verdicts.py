#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often does a table of allocators that are all the same say that one differs? By simulation.

    bench/figures/false_verdicts.py [--tables 2000] [--allocators 8]

A table has four figures, each of which compares all allocators but the baseline with it: 28 verdicts of eight allocators. Prints, for
several kinds of noise and numbers of rounds, which share of verdicts is faster, slower, smaller or larger, and which share of tables
has any such, with the widening by the A/A control and without; then what Bonferroni's correction would cost an allocator that
really differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))

from heaptape.judge.intervals import CONFIDENCE, ratio_interval, verdict, widened
from heaptape.judge.model import LESS, MORE, Interval

FIGURES = 4
ROUNDS = (3, 5, 8, 12, 20)
Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def bell(share: float) -> Noise:
    return lambda rng, shape: rng.lognormal(0, share, shape)


def disturbed(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One run in ten takes up to twice as long."""
    slower = 1 + rng.random(shape) * (rng.random(shape) < 0.1)
    return rng.lognormal(0, 0.05, shape) * slower


def modes(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One of two values, as the memory of some allocators has."""
    return np.where(rng.random(shape) < 0.5, 1.0, 1.03)


NOISES: dict[str, Noise] = {"0.8 %": bell(0.008), "4 %": bell(0.04), "20 %": bell(0.2), "5 %, one in ten disturbed": disturbed, "two values, 3 % apart": modes}


def differs(interval: Interval) -> bool:
    return verdict(interval) in (LESS, MORE)


def verdicts_of(runs: Floats) -> tuple[list[bool], list[bool]]:
    """Of one figure, with the widening and without. runs: (the baseline, its control and the others, rounds)."""
    base, again, *others = runs
    control = ratio_interval((again / base).tolist())
    ratios = [ratio_interval((one / base).tolist()) for one in others]
    return [differs(widened(ratio, control)) for ratio in ratios], [differs(ratio) for ratio in ratios]


def rates(noise: Noise, rounds: int, tables: int, allocators: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Of verdicts and of tables that are wrong, in per cent, with the widening, and the same without."""
    wide, plain = (np.zeros((tables, FIGURES, allocators - 1), dtype=bool) for _ in range(2))
    for table in range(tables):
        for figure in range(FIGURES):
            wide[table, figure], plain[table, figure] = verdicts_of(noise(rng, (allocators + 1, rounds)))
    return tuple(100 * float(share) for found in (wide, plain) for share in (found.mean(), found.any(axis=(1, 2)).mean()))


def found(rounds: int, confidence: float, experiments: int, rng: np.random.Generator) -> float:
    """How often an allocator that is 3 % slower is found, in per cent, at a noise of 2 %."""
    hits = 0
    for _ in range(experiments):
        base, again, other = rng.lognormal(0, 0.02, (3, rounds))
        ratio, control = (ratio_interval((values / base).tolist(), confidence) for values in (1.03 * other, again))
        hits += differs(widened(ratio, control))
    return 100 * hits / experiments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--allocators", type=int, default=8)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    print("| noise of a run | rounds | false verdicts | tables with any | without the widening |\n| --- | ---: | ---: | ---: | ---: |")
    for title, noise in NOISES.items():
        for rounds in ROUNDS:
            one, any_, plain, any_plain = rates(noise, rounds, given.tables, given.allocators, rng)
            print(f"| {title} | {rounds} | {one:.2f} % | {any_:.1f} % | {plain:.1f} %, {any_plain:.0f} % |", flush=True)
    bonferroni = 1 - (1 - CONFIDENCE) / (given.allocators - 1)
    print("\nan allocator that is 3 % slower is found, at a noise of 2 %, by 95 % intervals and by Bonferroni's for one figure:")
    for rounds in (12, 20, 40):
        print(f"{rounds} rounds: {found(rounds, CONFIDENCE, given.tables, rng):.0f} %, {found(rounds, bonferroni, given.tables, rng):.0f} %", flush=True)


if __name__ == "__main__":
    main()
