# SPDX-License-Identifier: Apache-2.0
"""heaptape's analysis: traces and replay results as pandas tables, comparisons with intervals, and the report."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base.errors import HeaptapeError, ResultsError, TraceError, UsageError
    from .explain.accounts import account
    from .explain.snapshots import read_snapshots
    from .explain.stretches import accounts_along
    from .report.html import write_report
    from .results.comparison import compare
    from .results.conditions import conditions_met, parse_condition
    from .results.curves import fragmentation, timeline
    from .results.reader import ResultsWarning, read_results
    from .trace import ops
    from .trace.live import live_bytes_curve, live_chunks
    from .trace.reader import Trace, read_trace

__version__ = Path(__file__).with_name("VERSION").read_text().strip()

__all__ = [
    "HeaptapeError",
    "ResultsError",
    "ResultsWarning",
    "Trace",
    "TraceError",
    "UsageError",
    "account",
    "accounts_along",
    "compare",
    "conditions_met",
    "fragmentation",
    "live_bytes_curve",
    "live_chunks",
    "ops",
    "parse_condition",
    "read_results",
    "read_snapshots",
    "read_trace",
    "timeline",
    "write_report",
]

# Loaded when asked for: a verb prints what is missing in one line, and loads nothing that it does not need.
_MODULES = {
    "HeaptapeError": "base.errors",
    "ResultsError": "base.errors",
    "TraceError": "base.errors",
    "UsageError": "base.errors",
    "account": "explain.accounts",
    "accounts_along": "explain.stretches",
    "read_snapshots": "explain.snapshots",
    "write_report": "report.html",
    "compare": "results.comparison",
    "conditions_met": "results.conditions",
    "parse_condition": "results.conditions",
    "timeline": "results.curves",
    "fragmentation": "results.curves",
    "ResultsWarning": "results.reader",
    "read_results": "results.reader",
    "live_bytes_curve": "trace.live",
    "live_chunks": "trace.live",
    "Trace": "trace.reader",
    "read_trace": "trace.reader",
}


def __getattr__(name: str) -> Any:
    if name == "ops":
        value = import_module(".trace.ops", __name__)
    elif name in _MODULES:
        value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
