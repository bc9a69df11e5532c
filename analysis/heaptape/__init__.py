"""heaptape's analysis: traces and replay results as pandas tables, comparisons with intervals, and the report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import compare
    from .conditions import conditions_met, parse_condition
    from .curves import timeline
    from .errors import HeaptapeError, ResultsError, TraceError, UsageError
    from .live import live_bytes_curve, live_chunks
    from .memory_parts import fragmentation
    from .report import write_report
    from .results import ResultsWarning, read_results
    from .trace import Trace, read_trace

__version__ = "0.1.0"

__all__ = [
    "HeaptapeError",
    "ResultsError",
    "ResultsWarning",
    "Trace",
    "TraceError",
    "UsageError",
    "compare",
    "conditions_met",
    "fragmentation",
    "live_bytes_curve",
    "live_chunks",
    "parse_condition",
    "read_results",
    "read_trace",
    "timeline",
    "write_report",
]

# Loaded when asked for: whoever runs a verb is told in a line what is missing, and waits for nothing that it does not need.
_MODULES = {
    "compare": "comparison",
    "conditions_met": "conditions",
    "parse_condition": "conditions",
    "timeline": "curves",
    "HeaptapeError": "errors",
    "ResultsError": "errors",
    "TraceError": "errors",
    "UsageError": "errors",
    "live_bytes_curve": "live",
    "live_chunks": "live",
    "fragmentation": "memory_parts",
    "write_report": "report",
    "ResultsWarning": "results",
    "read_results": "results",
    "Trace": "trace",
    "read_trace": "trace",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value
