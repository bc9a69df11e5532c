# SPDX-License-Identifier: Apache-2.0
"""A trace and results that belong together, for the tests of report, command line and notebook."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import naive_writer
import results_factory
from naive_writer import Event, TraceSpec

CPU_NS = 5_600_000_000


def write_trace(path: Path, blocks: int = 3_000, **totals: object) -> str:
    """A trace that grows to 52.1 MB, reallocates and shrinks again over 4 s; returns its sha256."""
    data = _trace(blocks, *totals.items())
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


@cache
def _trace(blocks: int, *totals: tuple[str, object]) -> bytes:
    step, size = results_factory.SPAN_NS // (4 * blocks), 52_100_000 // blocks
    events = [Event(1, time=i * 2 * step, slot=i + 1, size=size) for i in range(blocks)]
    start = 2 * blocks * step
    events += [Event(3, time=start + i * step, slot=i + 1, size=size - i % 7) for i in range(blocks)]
    events += [Event(5, time=start + (blocks + i) * step, slot=i + 1) for i in range(blocks * 2 // 3)]
    samples = []
    for number in range(40):
        time = number * 100_000_000
        part = min(1.0, time / (2 * blocks * step)) * (0.4 if number > 36 else 1.0)
        samples.append((time, number * 200, int(8e6 + 64.7e6 * part), 3_000_000, int(CPU_NS * number / 39), number % 2))
    spec = TraceSpec(
        events,
        context={
            "command": "python3 job.py", "executable": "/usr/bin/python3.11", "build_id": "ab12cd34", "pid": 4711,
            "allocator_name": "glibc", "allocator_version": "2.36", "allocator": "/lib/libc.so.6", "page_bytes": 4096,
            "cpu": "Example CPU 3.1 GHz", "kernel": "6.1.0", "libc": "glibc 2.36", "thp": "madvise",
            "env.MALLOC_ARENA_MAX": "4", "start_realtime_ns": 1_763_600_000_000_000_000,
        },
        totals={
            "events": len(events), "records": len(events), "threads": 1, "peak_live_bytes": size * blocks,
            "peak_live_objects": blocks, "duration_ns": results_factory.SPAN_NS, "recorded_cpu_ns": CPU_NS,
            "anomalies": 0, "foreign_frees": 0, "lost_calls": 0,
        } | dict(totals),
        samples=samples, threads=[(4711, 0, 0, len(events), 4_000_000_000, 0, "python3")], compress=True,
    )
    return naive_writer.build(spec)[0]


def write_story(folder: Path, rounds: int = 12, **more: object) -> tuple[Path, Path]:
    """results.jsonl and job.bin in a folder; the results name the trace relative to themselves."""
    trace = folder / "job.bin"
    sha256 = write_trace(trace)
    rows = results_factory.schedule(rounds, **more)
    for row in rows:
        row["trace"] = {"path": "job.bin", "sha256": sha256, "events": 8_000}
    return results_factory.write(folder / "results.jsonl", rows), trace
