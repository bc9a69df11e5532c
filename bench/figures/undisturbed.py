#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does recording change which memory a program with threads holds? Usage: undisturbed.py [--rounds N] [--build DIR] [SHAPE...]

Runs each shape of bench/figures/thread_shapes.c in triples, in random order: alone, alone again, recorded. Prints the median
ratio of the second run alone to the first and of the recorded one to it, with 95 % intervals, of the highest RssAnon that the
program saw at its marks and of the last one, and how many arenas there were."""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.figures.intervals import median_interval  # noqa: E402
from bench.figures.runs import clean_environment  # noqa: E402

SHAPES = ("short", "pool", "handed", "openmp", "sorts", "requests")
RUNS = ("alone", "again", "recorded")
SEED = 1


def run_once(program: Path, shape: str, shim: Path | None) -> list[int]:
    """Peak and end in bytes, and arenas."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = {"LD_PRELOAD": str(shim), "MALLOC_WRAP_OUT": folder} if shim else {}
        done = subprocess.run([program, shape], env=clean_environment() | recorder, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def ratio(above: Sequence[int], below: Sequence[int]) -> str:
    """Median over the triples, with its interval."""
    found = median_interval([a / b for a, b in zip(above, below, strict=True)])
    return f"{found.median:.3f} [{found.low:.3f}, {found.high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(" Usage")[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"Of {', '.join(SHAPES)} (default: all)")
    parser.add_argument("--rounds", type=int, default=41, help="Triples of each shape (default: 41)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="Build folder (default: build)")
    options = parser.parse_args()
    if unknown := set(options.shapes) - set(SHAPES):
        parser.error(f"{', '.join(sorted(unknown))}: expected of {', '.join(SHAPES)}")
    order = random.Random(SEED)
    shim = (options.build / "libmalloc_wrap.so").resolve(strict=True)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "thread_shapes")
        subprocess.run(["cc", "-O1", "-fno-builtin", "-fopenmp", "-pthread", "-o", program, ROOT / "bench/figures/thread_shapes.c"], check=True)
        for shape in options.shapes or SHAPES:
            found: dict[str, list[list[int]]] = {run: [] for run in RUNS}
            for _ in range(options.rounds):
                for run in order.sample(RUNS, len(RUNS)):
                    found[run].append(run_once(program, shape, shim if run == "recorded" else None))
            columns = {run: list(zip(*rows, strict=True)) for run, rows in found.items()}
            for column, figure in enumerate(("peak", "end")):
                alone, again, recorded = (columns[run][column] for run in RUNS)
                print(f"{shape:9} {figure}: alone {statistics.median(alone) / 1e6:6.1f} MB, again {ratio(again, alone)}, "
                      f"recorded {ratio(recorded, alone)}", flush=True)
            print(f"{shape:9} arenas: " + ", ".join(f"{run} {statistics.fmean(columns[run][2]):.1f}" for run in RUNS), flush=True)


if __name__ == "__main__":
    main()
