"""heaptape's analysis: traces and replay results as pandas tables, comparisons with intervals, and the report."""

from .comparison import compare
from .errors import HeaptapeError, ResultsError, TraceError, UsageError
from .live import live_bytes_curve, live_chunks
from .report import write_report
from .results import read_results
from .trace import Trace, read_trace

__version__ = "0.1.0"

__all__ = [
    "HeaptapeError",
    "ResultsError",
    "Trace",
    "TraceError",
    "UsageError",
    "compare",
    "live_bytes_curve",
    "live_chunks",
    "read_results",
    "read_trace",
    "write_report",
]
