# SPDX-License-Identifier: Apache-2.0
"""Lines of results of a group as `replay` writes them, and what `info` says of its trace: made, not measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heaptape.group.trace import GroupTrace, of_info

MB = 1_000_000
PIDS = (100, 101, 102)
SHARED = 60 * MB
"""Each process has these pages; a worker has 20 MB of its own as recorded, the master 10 MB."""
ALONE = (10 * MB, 20 * MB, 20 * MB)
OWN = MB
TOTAL = SHARED + sum(ALONE)


def _pages(alone: float, shared: float = SHARED) -> dict[str, float]:
    return {"rss_anon_bytes": alone + shared, "pss_anon_bytes": alone + shared / len(PIDS), "own_bytes": OWN}


def info(*, moments: int = 1, **of_moment: float) -> dict[str, Any]:
    """A master and two workers. of_moment: as swap_bytes=…"""
    moment = {"time_ns": 2_000_000_000, "reason": "peak", "anonymous_bytes": TOTAL, "own_bytes": 3 * OWN, "rss_anon_sum_bytes": 3 * SHARED + sum(ALONE), "swap_bytes": 0, "ksm_bytes": 0,
              "huge_bytes": 0, **of_moment}
    processes = [{"pid": pid, "parent": 0 if number else None, "name": "server", "threads": 1, "presence": [_pages(ALONE[number])] * moments} for number, pid in enumerate(PIDS)]
    return {"kind": "group", "processes": processes, "moments": [moment] * moments,
            "context": {"allocator_name": "glibc", "allocator": "/lib/libc.so.6", "allocator_version": "2.36", "command": "./server"}}


def trace(**more: Any) -> GroupTrace:
    return of_info(Path("service.bin"), info(**more))


def line(name: str, total: float, *, drawn: str = "apart", seed: int = 7, round_number: int = 0, copied: float = 0, worker_bytes: float = 20 * MB, **more: Any) -> dict[str, Any]:
    """total: at the one moment; worker_bytes: what each worker has alone."""
    path = "/lib/libc.so.6" if name.startswith("glibc") else f"/lib/lib{name}.so.2"
    processes = [{"pid": pid, "name": "server", **{key: _pages(worker_bytes if number else ALONE[0])[key] for key in ("rss_anon_bytes", "pss_anon_bytes")},
                  "recorded_rss_anon_bytes": 0, "recorded_pss_anon_bytes": 0} for number, pid in enumerate(PIDS)]
    moment = {"time_ns": 2_000_000_000, "reason": "peak", "bytes": total, "copied_by_program_bytes": copied, "own_bytes": 3 * OWN, "recorded_bytes": TOTAL, "rss_anon_sum_bytes": 0,
              "recorded_rss_anon_sum_bytes": 0, "processes": processes}
    return {"schema": 1, "trace": {"path": "service.bin", "sha256": "0" * 64, "processes": 3}, "allocator": {"name": name, "kind": name.partition(":")[0], "path": path, "version": "1.0",
            "environment": []}, "pass": "group", "round": round_number, "seed": seed, "drawn": drawn, "purged_at_fork": False, "group_moment_bytes": total, "group_peak_bytes": total,
            "group_end_bytes": total, "moments": [moment], "problem": None, "failures": 0, **more}


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path
