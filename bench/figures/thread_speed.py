#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What threads gain in a replay.

    bench/figures/thread_speed.py [--runs N] [--build FOLDER] [TRACE.bin...]

Replays a trace of two threads that have nothing to do with each other (or the traces named) in turns with its
threads and with --threads 1. Prints for each allocator the shortest times by the clock, their ratio, what the
threads waited for each other, and their CPU time: where the CPU time grows with threads, they get in each
other's way in the memory; where the waiting grows, they are held up. Needs two CPUs that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

EVENTS, LIVE = 8_000_000, 20_000
ALLOCATORS = "glibc,jemalloc,tcmalloc,mimalloc"


def make_trace(build: Path, trace: Path) -> Path:
    """An event every 100 ns."""
    subprocess.run([build / "bench" / "make_trace", trace, str(EVENTS), str(LIVE), "2", "1", "100", "apart"], check=True)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("traces", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trace in options.traces or [make_trace(options.build, folder / "two-threads.bin")]:
            compare(options.build, trace, options.runs, folder)


if __name__ == "__main__":
    main()
