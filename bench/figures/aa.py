#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `replay` find a difference where there is none, and one where there is one?

    bench/figures/aa.py TRACE [--comparisons 20] [--budget 1m] [--build BUILD] [--builds 5]
    bench/figures/aa.py --simulate 1000

With --builds, compares glibc in BUILD with glibc in so many other builds, in turn, which are made here and whose code
lies at other places. Without, compares glibc with glibc, and glibc behind a library that only forwards with one that spins for
10 ns in each malloc before it forwards (bench/programs/preloaded_malloc.c), each as often as asked for, and
counts the verdicts. Exit status 1 where more than one comparison in twenty of the first kind says
anything but "same" or "unresolved", or fewer than eighteen in twenty of the second say "slower".

With --simulate, of so many tables of eight allocators that are all the same, 28 verdicts each (four figures): for several kinds of noise
and numbers of rounds, which share of verdicts is faster, slower, smaller or larger, and which share of tables has any such, with the
widening by the A/A control and without; then what Bonferroni's correction would cost an allocator that really differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "analysis"))

from heaptape.judge.intervals import CONFIDENCE, ratio_interval, verdict, widened  # noqa: E402
from heaptape.judge.model import LESS, MORE, Interval  # noqa: E402

# Of two names of one allocator, the second's child is that of another build.
OTHER_CHILD = """#!/bin/sh
child=$1
shift
[ "$HEAPTAPE_ALLOCATOR" != b ] || child={build}/$(basename "$child")
exec "$child" "$@"
"""
FALSE_SHARE_MAX, FOUND_SHARE_MIN = 1 / 20, 18 / 20
NO_DIFFERENCE = ("same", "unresolved")
FIGURES, ALLOCATORS = 4, 8
ROUNDS = (3, 5, 8, 12, 20)
Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]


# --- simulated

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


def rates(noise: Noise, rounds: int, tables: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Of verdicts and of tables that are wrong, in per cent, with the widening, and the same without."""
    wide, plain = (np.zeros((tables, FIGURES, ALLOCATORS - 1), dtype=bool) for _ in range(2))
    for table in range(tables):
        for figure in range(FIGURES):
            wide[table, figure], plain[table, figure] = verdicts_of(noise(rng, (ALLOCATORS + 1, rounds)))
    return tuple(100 * float(share) for found in (wide, plain) for share in (found.mean(), found.any(axis=(1, 2)).mean()))


def share_found(rounds: int, confidence: float, experiments: int, rng: np.random.Generator) -> float:
    """How often an allocator that is 3 % slower is found, in per cent, at a noise of 2 %."""
    hits = 0
    for _ in range(experiments):
        base, again, other = rng.lognormal(0, 0.02, (3, rounds))
        ratio, control = (ratio_interval((values / base).tolist(), confidence) for values in (1.03 * other, again))
        hits += differs(widened(ratio, control))
    return 100 * hits / experiments


def simulate(tables: int) -> None:
    rng = np.random.default_rng(1)
    print("| noise of a run | rounds | false verdicts | tables with any | without the widening |\n| --- | ---: | ---: | ---: | ---: |")
    for title, noise in NOISES.items():
        for rounds in ROUNDS:
            one, table, plain, plain_table = rates(noise, rounds, tables, rng)
            print(f"| {title} | {rounds} | {one:.2f} % | {table:.1f} % | {plain:.1f} %, {plain_table:.0f} % |", flush=True)
    bonferroni = 1 - (1 - CONFIDENCE) / (ALLOCATORS - 1)
    print("\nan allocator that is 3 % slower is found, at a noise of 2 %, by 95 % intervals and by Bonferroni's for one figure:")
    for rounds in (12, 20, 40):
        print(f"{rounds} rounds: {share_found(rounds, CONFIDENCE, tables, rng):.0f} %, {share_found(rounds, bonferroni, tables, rng):.0f} %", flush=True)


# --- measured


@dataclass(frozen=True)
class Outcome:
    """One comparison: its verdicts, its ratio of times, what its control showed, how long it took."""

    time: str
    rss_peak: str
    ratio: str
    control: str
    rounds: int
    seconds: float


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def interval(figures: dict[str, float | None]) -> str:
    low, high = figures["ci_low"], figures["ci_high"]
    bounds = f" [{low:.3f}, {high:.3f}]" if low is not None and high is not None else ""
    return f"{figures['ratio']:.3f}{bounds}"


def compare(replay: Path, trace: str, allocators: str, baseline: str, budget: str, *more: str) -> Outcome:
    command = [str(replay), "--alloc", allocators, "--baseline", baseline, "--budget", budget,
               "--json", "-q", *more, trace]
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


def other_builds(folder: Path, count: int) -> list[Path]:
    """Programs that replay under the other builds' children, and otherwise are as they are."""
    wrappers = []
    for seed in range(2, 2 + count):
        build, wrapper = folder / str(seed), folder / f"{seed}.sh"
        print(f"building, layout seed {seed}", flush=True)
        for command in (["cmake", "-G", "Ninja", "-S", REPOSITORY, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                         f"-DHEAPTAPE_LAYOUT_SEED={seed}"],
                        ["cmake", "--build", build, "--target", "replay-glibc", "--parallel", "2"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wrapper.write_text(OTHER_CHILD.format(build=build))
        wrapper.chmod(0o755)
        wrappers.append(wrapper)
    return wrappers


def run_all(title: str, count: int, *arguments: object, wrappers: Sequence[Path] = ()) -> list[Outcome]:
    print(f"\n{title}")
    print(f"{'':>3}  {'time':10}  {'ratio':22}  {'A/A control':22}  {'peak RSS':10}  rounds  seconds")
    outcomes = []
    for number in range(1, count + 1):
        more = ["--wrap", str(wrappers[number % len(wrappers)])] if wrappers else []
        one = compare(*arguments, *more)  # type: ignore[arg-type]
        outcomes.append(one)
        print(f"{number:3}  {one.time:10}  {one.ratio:22}  {one.control:22}  {one.rss_peak:10}  "
              f"{one.rounds:6}  {one.seconds:7.1f}", flush=True)
    for name in ("time", "rss_peak"):
        counted = Counter(getattr(one, name) for one in outcomes)
        print(f"{name}: " + ", ".join(f"{number} {word}" for word, number in counted.most_common()))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--simulate", type=int, default=0, metavar="TABLES")
    parser.add_argument("--comparisons", type=int, default=20, metavar="N")
    parser.add_argument("--budget", default="1m", help="of each comparison (that of replay: 1m)")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    parser.add_argument("--builds", type=int, default=0, metavar="N", help="compare with N other builds")
    options = parser.parse_args()
    if options.simulate:
        simulate(options.simulate)
        return 0
    if not options.trace:
        parser.error("expected a trace, or --simulate")
    replay, libraries = options.build / "replay", options.build / "bench"
    plain, spinning = libraries / "libnull_preload.so", libraries / "libspin_malloc.so"
    print(f"{options.trace}: {options.comparisons} comparisons of each kind, {options.budget} each "
          f"at most; load {load()} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        title = f"glibc against glibc{' of another build' if options.builds else ''}"
        same = run_all(title, options.comparisons, replay, options.trace, "a=glibc,b=glibc", "a", options.budget,
                       wrappers=other_builds(Path(folder), options.builds))
    wrong = sum(one.time not in NO_DIFFERENCE or one.rss_peak not in NO_DIFFERENCE for one in same)
    if options.builds:
        print(f"\nfalse differences: {wrong} of {len(same)}; load at the end {load()}")
        return int(wrong > FALSE_SHARE_MAX * len(same))
    spun = run_all("10 ns of spin in malloc against none", options.comparisons, replay,
                   options.trace, f"plain={plain},spin={spinning}", "plain", options.budget)
    found = sum(one.time == "slower" for one in spun)
    print(f"\nfalse differences: {wrong} of {len(same)}; the spin found: {found} of {len(spun)}; "
          f"load at the end {load()}")
    return int(wrong > FALSE_SHARE_MAX * len(same) or found < FOUND_SHARE_MIN * len(spun))


if __name__ == "__main__":
    sys.exit(main())
