# SPDX-License-Identifier: Apache-2.0
"""The answer of `heaptape try` about a service for programs: at most a few kilobytes."""

from __future__ import annotations

from typing import Any

from .answer import (
    PROCESSES_SHOWN,
    ServiceTrial,
    allocators_worth,
    decision_lines,
    name_of,
    unknown_lines,
    use_line,
)
from .estimate import Estimate
from .trace import Process


def answer_object(trial: ServiceTrial) -> dict[str, Any]:
    """decision: "use", "keep" or "not decided". group_bytes: of all processes, each page once; changes: the same under others, with the
    interval by which was decided. null: not known."""
    found, trace = trial.estimates, trial.trace
    return {
        "kind": "group",
        "decision": trial.decision,
        "sentences": decision_lines(trial),
        "allocators": allocators_worth(found.savers),
        "use": use_line(trial),
        "baseline": found.baseline,
        "group_bytes": round(found.whole_bytes),
        "rss_anon_sum_bytes": trace.moment.rss_sum_bytes if trace.moment else None,
        "one_more_worker_bytes": _whole(found.worker_bytes),
        "copied_by_program_bytes": _whole(found.copied_bytes),
        "baseline_error": None if found.baseline_error is None else round(found.baseline_error, 4),
        "changes": {name_of(one): _change(one, found.whole_bytes) for one in found.others},
        "unknown": unknown_lines(trial),
        "process_count": len(trace.present),
        "processes": [_process(one) for one in trace.present[:PROCESSES_SHOWN] if one.pages],
        "folder": str(trial.folder),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _change(one: Estimate, whole_bytes: float) -> dict[str, Any]:
    return {"group_bytes": round(one.total_bytes), "group_low_bytes": round(whole_bytes + one.low_bytes),
            "group_high_bytes": round(whole_bytes + one.high_bytes), "resolved": one.is_resolved, "one_more_worker_bytes": _whole(one.worker_bytes)}


def _process(one: Process) -> dict[str, Any]:
    assert one.pages
    return {"pid": one.pid, "role": one.role, "name": one.name, "rss_anon_bytes": one.pages.rss_bytes, "pss_anon_bytes": one.pages.pss_bytes,
            "own_bytes": one.pages.own_bytes}
