# SPDX-License-Identifier: Apache-2.0
"""The answer of `heaptape try` for programs: at most a few kilobytes."""

from __future__ import annotations

from typing import Any

from ..base.units import null_unless_known
from .answer import Trial, use_line
from .changes import CPU, Change


def answer_object(trial: Trial) -> dict[str, Any]:
    """decision: "use", "keep" or "not decided"; shares are of what the program uses, negative: less than under the baseline;
    [low, high] is the interval by which was decided, [least, most] also holds what placement may do; null: not known.
    runs: the figure is of so many runs of the program itself under each."""
    summary, recorded = trial.summaries[0], trial.recorded[0]
    return {
        "decision": None if summary.own else trial.decision.answer,
        "sentences": [summary.headline] if summary.own else trial.decision.lines,
        "allocators": [summary.own.best] if summary.own and summary.own.best else trial.decision.allocators,
        "use": use_line(trial),
        "baseline": summary.baseline,
        "changes": {name: {"cpu" if what == CPU else "memory": _change(change) for what, change in figures.items()} for name, figures in trial.changes.items()},
        "unknown": [*([summary.caution] if summary.caution else []), *filter(None, [trial.why_baseline]), *trial.notes, *summary.missing],
        "recordings": len(trial.recorded),
        "process": {"pid": recorded.process.pid, "command": recorded.process.command, "calls": recorded.process.calls,
                    "cpu_ns": recorded.process.cpu_ns, "rss_anon_peak_bytes": recorded.process.rss_anon_peak_bytes},
        "processes": len(recorded.processes),
        "sharing": summary.sharing or None,
        "folder": str(trial.folder),
    }


def _change(change: Change) -> dict[str, Any]:
    unit = "ns" if change.what == CPU else "bytes"
    rounded = {key: null_unless_known(round(getattr(change, key), 4)) for key in ("share", "low", "high", "least", "most")}
    return {f"whole_{unit}": round(change.whole), **rounded, "modelled": change.counted, **({"runs": change.runs} if change.runs else {})}
