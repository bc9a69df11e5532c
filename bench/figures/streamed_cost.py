#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What streaming costs: a trace replayed held in memory, and decoded beside each run under a limit.

    bench/figures/streamed_cost.py TRACE [--limit MIB] [--rounds N] [--alloc NAME,...] [--build DIR]

--limit is an RLIMIT_AS for launcher and replayers, by default a third of the decoded trace, at least 180 MiB. Runs are
interleaved; ratios of ns per call are paired, medians with 95 % intervals.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from intervals import median_interval

DECODED_BYTES_PER_CALL = 9.5
LIMIT_MIN = 180 << 20
"""The least in which a launcher starts its replays: for a third of it a trace has to have some 60 M calls."""


def replay(build: Path, trace: Path, allocators: str, limit_bytes: int | None,
           held: bool) -> dict[str, dict]:
    """One round; the time pass' results by allocator."""
    def confine() -> None:
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        command = [build / "replay", "-q", "--rounds", "1", "--pass", "time", "--threads", "1",
                   "--touch", "none", "--alloc", allocators, "-o", results]
        if held:
            command += ["--decoded-memory", str(1 << 20)]
        done = subprocess.run([*map(str, command), str(trace)], preexec_fn=confine, check=False,
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"streamed_cost.py: {done.stderr.strip()}")
        rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert all(row["streamed"] != held for row in rows), "held or streamed, as asked for"
    return {row["allocator"]["name"]: row for row in rows if not row["control"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--limit", type=int, metavar="MIB")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--alloc", default="glibc,jemalloc,mimalloc")
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    options = parser.parse_args()
    warm_up = replay(options.build, options.trace, options.alloc, None, True)
    decoded = next(iter(warm_up.values()))["trace"]["events"] * DECODED_BYTES_PER_CALL
    limit = options.limit << 20 if options.limit else max(int(decoded / 3), LIMIT_MIN)
    ratios: dict[str, list[float]] = {}
    per_call: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        held = replay(options.build, options.trace, options.alloc, None, True)
        streamed = replay(options.build, options.trace, options.alloc, limit, False)
        for name, row in held.items():
            figure = "harness_time_ns" if name == "null" else "alloc_time_ns"
            ratios.setdefault(name, []).append(streamed[name][figure] / row[figure])
            calls = sum(function["count"] for function in row["calls"].values())
            per_call.setdefault(name, []).append(row[figure] / calls)
    print(f"decoded about {decoded / 1e6:.0f} MB; limit {limit / 1e6:.0f} MB of address space; "
          f"{options.rounds} rounds")
    for name, values in ratios.items():
        ratio, held_ns = median_interval(values), median_interval(per_call[name])
        print(f"{name:10} held {held_ns.median:6.2f} ns/call   streamed/held {ratio.median:.3f} "
              f"[{ratio.low:.3f}, {ratio.high:.3f}]")


if __name__ == "__main__":
    main()
