#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a trace into columns with the Python reader; prints the time that took and the most memory.

    bench/figures/read_trace.py TRACE [COLUMN,...]

A trace to try it on: build/bench/make_trace big.bin 30000000 20000 1 5
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))

from heaptape import read_trace
from heaptape.trace.reader import EVENT_COLUMNS


def main() -> int:
    """Keep every column of every chunk, as a program that goes on to use them would."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    names = tuple(sys.argv[2].split(",")) if len(sys.argv) == 3 else EVENT_COLUMNS
    started, cpu_started = time.monotonic(), time.process_time()
    with read_trace(sys.argv[1]) as trace:
        kept = list(trace.event_arrays(names))
    took, cpu = time.monotonic() - started, time.process_time() - cpu_started
    events = sum(chunk[names[0]].size for chunk in kept)
    # Of this kernel's, ru_maxrss is in KiB.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{events:,} events, {len(names)} columns: {took:.1f} s, {cpu:.1f} s of CPU time, "
          f"{events / took / 1e6:.1f} M events/s, peak RSS {peak / 1e9:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
