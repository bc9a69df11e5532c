#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether a replay's memory is the allocator's, and the same every time.

    bench/figures/rss_repeats.py [--events N] [--runs N] [--build FOLDER] [TRACE.bin...]

Prints first by how much the null replayer's anonymous memory moves while it replays 30 million events, on
one thread, on four, and of a trace with threads by the thousand: what moves there would be taken for an
allocator's. Then, for each trace (one made here of 2 million events, and those named), how far apart the
RSS of runs of the same allocator is at its peak, in the mean and at the end: the largest less the smallest, over the
smallest. With fixed addresses, then with drawn ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections import defaultdict
from itertools import product
from pathlib import Path

ALLOCATORS = "glibc,jemalloc,mimalloc,tcmalloc"
FIGURES = ("rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes")


def make_trace(build: Path, trace: Path, *arguments: int) -> Path:
    subprocess.run([build / "bench" / "make_trace", trace, *map(str, arguments)], check=True)
    return trace


def memory_runs(build: Path, trace: Path, results: Path, *options: str) -> list[dict]:
    results.unlink(missing_ok=True)
    subprocess.run([build / "replay", "-q", "--pass", "memory", "-o", results, *options, trace],
                   check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in results.read_text().splitlines()]


def print_null(build: Path, folder: Path, events: int) -> None:
    """The figures of the null replayer's own runs are all of its anonymous memory."""
    for threads, scale in ((1, 1), (4, 1), (500, 10)):
        trace = make_trace(build, folder / "long.bin", events // scale, 200_000, threads, 1)
        [run] = memory_runs(build, trace, folder / "results.jsonl", "--alloc", "null", "--rounds",
                            "1", "--scale", str(scale))
        seen = run["timeline"]["rss_bytes"]
        print(f"null replayer, {events:,} events, {run['replay_threads']:,} threads: RssAnon from "
              f"{min(seen) / 1024:.0f} to {max(seen) / 1024:.0f} KiB, moves by "
              f"{(max(seen) - min(seen)) / 1024:.0f} KiB", flush=True)


def print_apart(build: Path, trace: Path, folder: Path, runs: int) -> None:
    for threads, layout in product(("1", "trace"), ("fixed", "drawn")):
        found: dict[str, list[dict]] = defaultdict(list)
        for run in memory_runs(build, trace, folder / "results.jsonl", "--alloc", ALLOCATORS,
                               "--rounds", str(runs), "--threads", threads, "--layout", layout):
            found[run["allocator"]["name"]].append(run)
        apart = "; ".join(f"{name} {', '.join(share_apart(of, figure) for figure in FIGURES)}"
                          for name, of in found.items() if name != "null")
        print(f"{trace.name}, --threads {threads}, --layout {layout}, {runs} runs apart by % (peak, mean, end): {apart}",
              flush=True)


def share_apart(runs: list[dict], figure: str) -> str:
    values = [run[figure] for run in runs]
    return f"{(max(values) / min(values) - 1) * 100:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=30_000_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("traces", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print_null(options.build, folder, options.events)
        made = make_trace(options.build, folder / "made.bin", 2_000_000, 100_000, 4, 1)
        for trace in [made, *options.traces]:
            print_apart(options.build, trace, folder, options.runs)


if __name__ == "__main__":
    main()
