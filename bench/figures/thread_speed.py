#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What threads gain in a replay, and whether its times depend on what else the machine does.

    bench/figures/thread_speed.py [--runs N] [--build FOLDER] [TRACE.bin...]

Replays a trace of two threads that have nothing to do with each other (or the traces named) in turns with its
threads and with --threads 1. Prints for each allocator the shortest times by the clock, their ratio, what the
threads waited for each other, and their CPU time: where the CPU time grows with threads, they get in each
other's way in the memory; where the waiting grows, they are held up. Needs two CPUs that nobody else uses.

Then replays a trace of eight such threads in turns alone and beside a process that keeps a CPU busy, and
prints the medians of the time per call, which is CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

EVENTS, LIVE = 8_000_000, 20_000
ALLOCATORS = "glibc,jemalloc,tcmalloc,mimalloc"


def make_trace(build: Path, trace: Path, threads: int) -> Path:
    """An event every 100 ns."""
    subprocess.run([build / "bench" / "make_trace", trace, str(EVENTS), str(LIVE), str(threads), "1",
                    "100", "apart"], check=True)
    return trace


def replay(build: Path, trace: Path, threads: str, results: Path) -> list[dict]:
    results.unlink(missing_ok=True)
    subprocess.run([build / "replay", "-q", "--alloc", ALLOCATORS, "--pass", "time", "--rounds", "1",
                    "--threads", threads, "-o", results, trace], check=True,
                   stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in results.read_text().splitlines()]


def compare(build: Path, trace: Path, runs: int, folder: Path) -> None:
    best: dict[str, dict[str, dict]] = defaultdict(dict)
    for _ in range(runs):
        for threads in ("trace", "1"):
            for run in replay(build, trace, threads, folder / "results.jsonl"):
                of_allocator = best[run["allocator"]["name"]]
                if run["wall_ns"] < of_allocator.get(threads, run)["wall_ns"] + 1:
                    of_allocator[threads] = run
    print(f"{trace.name}, shortest of {runs} runs on {len(os.sched_getaffinity(0))} CPUs, in ms")
    for name, of_allocator in best.items():
        many, one = of_allocator["trace"], of_allocator["1"]
        cpu = [run["harness_time_ns"] + (run["alloc_time_ns"] or 0) for run in (many, one)]
        print(f"{name:9} {one['wall_ns'] / 1e6:7.1f} on one thread, {many['wall_ns'] / 1e6:7.1f} on "
              f"{many['replay_threads']}: {one['wall_ns'] / many['wall_ns']:.2f}x faster; "
              f"CPU {cpu[1] / 1e6:.1f} and {cpu[0] / 1e6:.1f}, waited {many['wait_time_ns'] / 1e6:.2f}")


@contextmanager
def busy_process(yes: bool) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if yes else None
    try:
        yield
    finally:
        if process:
            process.kill()
            process.wait()


def compare_load(build: Path, trace: Path, runs: int, folder: Path) -> None:
    seen: dict[str, dict[bool, list[float]]] = defaultdict(lambda: {False: [], True: []})
    for _ in range(runs):
        for busy in (False, True):
            with busy_process(busy):
                for run in replay(build, trace, "trace", folder / "results.jsonl"):
                    if run["ns_per_call"] is not None:
                        seen[run["allocator"]["name"]][busy].append(run["ns_per_call"])
    print(f"{trace.name}, ns per call, medians of {runs} runs")
    for name, of_allocator in seen.items():
        alone, beside = median(of_allocator[False]), median(of_allocator[True])
        print(f"{name:9} {alone:6.2f} alone, {beside:6.2f} beside a busy process: "
              f"{(beside / alone - 1) * 100:+.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("traces", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trace in options.traces or [make_trace(options.build, folder / "two-threads.bin", 2)]:
            compare(options.build, trace, options.runs, folder)
        eight = make_trace(options.build, folder / "eight-threads.bin", 8)
        compare_load(options.build, eight, options.runs, folder)


if __name__ == "__main__":
    main()
