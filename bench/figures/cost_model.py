#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far is the modelled time in malloc from the measured one?

    bench/figures/cost_model.py [--build BUILD] [--rounds N] [--keep FILE] TRACE...

Counts what four allocators do by `replay --pass count`. Then, in rounds, measures the machine by `heaptape calibrate` and
the time by `replay --pass time`, so that both see the same neighbours. Prints modelled and measured time (lower quartiles: what
others do only adds time), the residual, and the factors of instructions, far misses and faults that would fit best. Traces of one thread: waiting takes
instructions too. --keep: what was measured, which is read instead if it is there. Needs numpy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
FARS = ("l2_miss", "far_4mib_miss", "far_8mib_miss", "far_16mib_miss", "far_32mib_miss")
"""Far misses by the largest cache that lacks the line too."""
KINDS = ("instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", *FARS, "dtlb_miss", "stlb_miss", "fault", "mapping_call")
GROUPS = {"instructions": ("instruction",), "near misses": ("l1d_miss", "l1i_miss", "l2_sequential_miss"), "far misses": FARS,
          "TLB misses": ("dtlb_miss", "stlb_miss"), "faults": ("fault",), "mapping calls": ("mapping_call",)}
FITTED = ("instructions", "far misses", "faults")


def count(replay: Path, trace: Path) -> dict[str, list[float]]:
    """Per allocator, by kind: what it does more than the null replayer, as simulate/cost_model.c has it."""
    done = subprocess.run([replay, "--pass", "count", "--json", "--alloc", ",".join(ALLOCATORS), trace], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def kinds(total: dict[str, int]) -> list[float]:
        beyond = [total["l2_misses"] - total["l2_sequential_misses"] + total["l2_code_misses"],
                  *(total[f"{kind}es"] for kind in FARS[1:]), 0]
        return [total["instructions"], total["l1d_misses"] - total["l2_misses"], total["l1i_misses"],
                total["l2_sequential_misses"], *(one - next_one for one, next_one in itertools.pairwise(beyond)),
                total["dtlb_misses"], total["stlb_misses"], total["faults"], total["mapping_calls"]]
    counts = json.loads(done.stdout)["counts"]
    return {name: kinds(counts[name]["time"]) for name in ALLOCATORS}


def calibrate(heaptape: Path) -> dict[str, Any]:
    done = subprocess.run([heaptape, "calibrate", "-o", "-"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["costs"]


def measure(replay: Path, trace: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        subprocess.run([replay, "-q", "--pass", "time", "--rounds", "1", "--alloc", ",".join(ALLOCATORS), "-o", results,
                        trace], check=True, stdout=subprocess.DEVNULL)
        runs = [json.loads(line) for line in results.read_text().splitlines()]
    return {run["allocator"]["name"]: run["alloc_time_ns"] for run in runs if not run["control"]}


def gather(build: Path, traces: list[Path], rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"counts": {trace.stem: count(build / "replay", trace) for trace in traces},
                             "costs": [], "times": []}
    for _ in range(rounds):
        found["costs"].append(calibrate(build / "heaptape"))
        found["times"].append({trace.stem: measure(build / "replay", trace) for trace in traces})
    return found


def fit(groups: Floats, measured: Floats) -> Floats:
    """The factors of groups, those of FITTED chosen for the least relative squares; the others stay."""
    fitted = [list(GROUPS).index(name) for name in FITTED]
    found = np.ones(len(GROUPS))
    rest = (measured - np.delete(groups, fitted, axis=1).sum(axis=1)) / measured
    found[fitted], *_ = np.linalg.lstsq(groups[:, fitted] / measured[:, None], rest, rcond=None)
    return found


def residuals(modelled: Floats, measured: Floats) -> str:
    off = abs(modelled / measured - 1)
    return f"median residual {np.median(off):.1%}, 90th percentile {np.quantile(off, 0.9):.1%}"


def report(found: dict[str, Any]) -> None:
    names = [(trace, allocator) for trace in found["counts"] for allocator in ALLOCATORS]
    cost = np.array([np.quantile([cost[kind]["cost_ns"] for cost in found["costs"]], 0.25) for kind in KINDS])
    parts = np.array([found["counts"][trace][allocator] for trace, allocator in names]) * cost / 1e6
    groups = np.array([[part[[KINDS.index(kind) for kind in kinds]].sum() for kinds in GROUPS.values()] for part in parts])
    measured = np.array([np.quantile([times[trace][allocator] for times in found["times"]], 0.25)
                         for trace, allocator in names]) / 1e6
    modelled = groups.sum(axis=1)
    print("costs [ns]: " + ", ".join(f"{kind} {value:.3g}" for kind, value in zip(KINDS, cost, strict=True)))
    print(f"\n| trace | allocator | measured [ms] | modelled [ms] | residual | {' | '.join(GROUPS)} |\n"
          f"| --- | --- | {' | '.join(['---:'] * (3 + len(GROUPS)))} |")
    for (trace, allocator), ms, model, group in zip(names, measured, modelled, groups, strict=True):
        print(f"| {trace} | {allocator} | {ms:.2f} | {model:.2f} | {model / ms - 1:+.0%} | "
              + " | ".join(f"{value:.2f}" for value in group) + " |")
    print(f"\n{len(names)} pairs, {len(found['times'])} rounds: {residuals(modelled, measured)}")
    best = dict(zip(GROUPS, fit(groups, measured), strict=True))
    print("factors that fit best: " + ", ".join(f"{name} {best[name]:.2f}" for name in FITTED)
          + f": {residuals(groups @ np.array(list(best.values())), measured)}")
    predicted = np.zeros(len(names))
    for left_out in found["counts"]:
        others = np.array([trace != left_out for trace, _ in names])
        predicted[~others] = groups[~others] @ fit(groups[others], measured[others])
    print(f"each trace by factors fitted to the others: {residuals(predicted, measured)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("traces", type=Path, nargs="+")
    options = parser.parse_args()
    if options.keep and options.keep.exists():
        found = json.loads(options.keep.read_text())
    else:
        found = gather(options.build, options.traces, options.rounds)
        if options.keep:
            options.keep.write_text(json.dumps(found))
    report(found)


if __name__ == "__main__":
    main()
