#!/usr/bin/env python3
"""How far is the modelled time in malloc from the measured one?

    bench/figures/cost_model.py [--build BUILD] [--rounds N] [--keep FILE] TRACE...

Counts what four allocators do by `replay --pass count`. Then, in rounds, measures the machine by `heaptape calibrate` and
the time by `replay --pass time`, so that both see the same neighbours. Prints modelled and measured time (lower quartiles: what
others do only adds time), the residual, and the shares of instructions and far misses that would fit best. Traces of one thread: waiting takes
instructions too. --keep: what was measured, which is read instead if it is there. Needs numpy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ALLOCATORS = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
KINDS = ("instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", "l2_miss", "dtlb_miss", "stlb_miss", "fault",
         "mapping_call")
FITTED = [KINDS.index("instruction"), KINDS.index("l2_miss")]


def count(replay: Path, trace: Path) -> dict[str, list[float]]:
    """Per allocator, by kind: what it does more than the null replayer, as simulate/cost_model.c has it."""
    done = subprocess.run([replay, "--pass", "count", "--json", "--alloc", ",".join(ALLOCATORS), trace], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def kinds(total: dict[str, int]) -> list[float]:
        far = total["l2_misses"] - total["l2_sequential_misses"] + total["l2_code_misses"]
        return [total["instructions"], total["l1d_misses"] - total["l2_misses"], total["l1i_misses"],
                total["l2_sequential_misses"], far, total["dtlb_misses"], total["stlb_misses"], total["faults"],
                total["mapping_calls"]]
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


def fit(full: Floats, share: Floats, measured: Floats) -> Floats:
    """The shares with those of FITTED chosen for the least relative squares; the others stay."""
    found = share.copy()
    rest = (measured - np.delete(full, FITTED, axis=1) @ np.delete(share, FITTED)) / measured
    found[FITTED], *_ = np.linalg.lstsq(full[:, FITTED] / measured[:, None], rest, rcond=None)
    return found


def report(found: dict[str, Any]) -> None:
    names = [(trace, allocator) for trace in found["counts"] for allocator in ALLOCATORS]
    latency = np.array([np.quantile([cost[kind]["latency_ns"] for cost in found["costs"]], 0.25) for kind in KINDS])
    share = np.array([found["costs"][0][kind]["share"] for kind in KINDS])
    full = np.array([found["counts"][trace][allocator] for trace, allocator in names]) * latency / 1e6
    measured = np.array([np.quantile([times[trace][allocator] for times in found["times"]], 0.25)
                         for trace, allocator in names]) / 1e6
    parts = full * share
    modelled = parts.sum(axis=1)
    print("latencies [ns]: " + ", ".join(f"{kind} {value:.3g}" for kind, value in zip(KINDS, latency, strict=True)))
    print("\n| trace | allocator | measured [ms] | modelled [ms] | residual | instructions | far misses | TLB | faults | rest |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for (trace, allocator), ms, model, part in zip(names, measured, modelled, parts, strict=True):
        split = (part[0], part[4], part[5] + part[6], part[7], part[1] + part[2] + part[3] + part[8])
        print(f"| {trace} | {allocator} | {ms:.2f} | {model:.2f} | {model / ms - 1:+.0%} | "
              + " | ".join(f"{value:.2f}" for value in split) + " |")
    print(f"\nmedian residual {np.median(abs(modelled / measured - 1)):.1%}, "
          f"90th percentile {np.quantile(abs(modelled / measured - 1), 0.9):.1%}")
    best = fit(full, share, measured)
    print("shares that fit best: " + ", ".join(f"{KINDS[kind]} {best[kind]:.2f}" for kind in FITTED))
    predicted = np.zeros(len(names))
    for left_out in found["counts"]:
        others = np.array([trace != left_out for trace, _ in names])
        predicted[~others] = full[~others] @ fit(full[others], share, measured[others])
    print("each trace by shares fitted to the others: "
          f"median residual {np.median(abs(predicted / measured - 1)):.1%}")


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
