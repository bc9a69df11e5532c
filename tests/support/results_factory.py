# SPDX-License-Identifier: Apache-2.0
"""Synthetic results of known truth, in the shape of the JSON contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

TRUTH = {  # allocator → version, time ratio, peak ratio
    "null": ("", 0.0, 0.0),
    "glibc": ("2.36", 1.00, 1.00),
    "jemalloc": ("5.3.0", 0.56, 1.27),
    "tcmalloc": ("2.10", 0.60, 1.002),
    "mimalloc": ("2.1.2", 0.45, 1.12),
}
FUNCTIONS = {"malloc": (0.46, 3_020_000), "free": (0.33, 3_000_000), "realloc": (0.18, 330_000), "calloc": (0.03, 14_276)}
SPAN_NS = 4_000_000_000
POINTS = 60


def timeline(peak: float, live: float, points: int, rng: np.random.Generator) -> dict[str, list[float]]:
    time = np.linspace(0, SPAN_NS, points)
    shape = np.minimum(time / SPAN_NS * 1.6, 1) * (0.86 + 0.14 * np.sin(time / SPAN_NS * 17)) * np.where(
        time > 0.85 * SPAN_NS, 0.35, 1)
    rss = np.maximum.accumulate(shape) * 0.4 + shape * 0.6
    return {
        "time_ns": time.astype(int).tolist(), "event": np.linspace(0, 6_364_276, points).astype(int).tolist(),
        "live_bytes": (shape / shape.max() * live).astype(int).tolist(),
        "rss_bytes": (rss / rss.max() * peak * (1 + 0.004 * rng.random(points))).astype(int).tolist(),
    }


def run(name: str, pass_name: str, number: int, rng: np.random.Generator, **more: Any) -> dict[str, Any]:
    version, time_ratio, peak_ratio = TRUTH.get(name, ("1.0", 1.0, 1.0))
    time_ratio, peak_ratio = more.pop("time_ratio", time_ratio), more.pop("peak_ratio", peak_ratio)
    points = more.pop("points", POINTS)
    weather = 1 + 0.05 * np.sin(number)
    total = int(0.67e9 * time_ratio * weather * np.exp(rng.normal(0, more.pop("noise", 0.012))))
    row: dict[str, Any] = {
        "schema": 1, "trace": {"path": "job.bin", "sha256": "", "events": 6_364_276},
        "allocator": {"name": name, "path": f"/usr/lib/lib{name}.so", "version": version,
                      "build_id": f"{abs(hash(name)):040x}"[:40], "knobs": {}},
        "pass": pass_name, "round": number, "seed": 20_817, "threads": "trace", "touch": "recorded", "pace": "virtual",
        "failures": 0, "started_at": f"2025-11-20T10:{number:02d}:00Z",
        "machine": {"cpu": "Example CPU 3.1 GHz", "cores": 2, "kernel": "6.1.0", "libc": "glibc 2.36", "thp": "madvise",
                    "load": 0.5},
    }
    if pass_name == "time":
        row |= {
            "alloc_time_ns": total, "harness_time_ns": 41_000_000, "touch_time_ns": int(0.08e9), "wait_time_ns": 0,
            "latency_ns": {f: {"count": 3_000, "p50": total / 7e7, "p90": total / 4e7, "p99": total / 1e7, "p999": total / 2e6,
                               "max": total / 1e5} for f in FUNCTIONS},
            "minor_faults": 15_000, "wall_ns": total + 60_000_000, "ns_per_call": total / 6_364_276,
            "calls": {f: {"count": c, "time_ns": int(total * s * 0.9), "touch_ns": int(total * s * 0.1)} for f, (s, c) in FUNCTIONS.items()},
        }
    else:
        peak = int(63.2e6 * peak_ratio * (1 + rng.normal(0, 0.0008)))
        row |= {
            "rss_peak_bytes": peak, "rss_mean_bytes": int(peak * 0.71), "rss_end_bytes": int(peak * 0.5),
            "lazyfree_bytes": 0, "live_peak_bytes": 52_100_000, "slop_bytes": 2_400_000, "minor_faults": peak // 4096,
            "rss_after_free_bytes": int(peak * 0.4), "rss_after_purge_bytes": int(peak * 0.05),
            "major_faults": 0, "fragmentation": {"f1": 1.1, "f2": 1.2, "f3": 1.3, "f4": round(peak / 52_100_000, 3)},
            "timeline": timeline(peak, 52_100_000, points, rng),
        }
    return row | more


def schedule(rounds: int = 12, names: tuple[str, ...] = tuple(TRUTH), seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(rounds):
        for index in rng.permutation(len(names)):
            for pass_name in ("time", "memory"):
                rows.append(run(names[index], pass_name, number, rng, **more))
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
