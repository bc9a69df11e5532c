"""heaptape's analysis: traces and replay results as pandas tables, comparisons with intervals, and the report."""

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
