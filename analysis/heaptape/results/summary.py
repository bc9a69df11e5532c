"""All that is said of one experiment, whatever it is printed as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from .caution import caution, cautioned
from .comparison import (
    MEASURES,
    SEED,
    Estimate,
    Experiment,
    choose_baseline,
    compare,
    control_estimate,
)
from .found_trace import find_trace
from .missing import missing_lines, mixed_lines
from .verdicts import headline
from .worth import MemoryWorth, Worth, memory_worth, worth


@dataclass(frozen=True)
class Summary:
    """`caution`, where there is one, goes before everything. Then `worth_lines` lead: malloc's share of the program's CPU
    time and memory, or why that is not known. `same_name`: another trace has
    the same path, so that its checksum belongs to its name."""

    experiment: Experiment
    baseline: str
    seed: int
    comparison: pd.DataFrame
    controls: dict[str, Estimate]
    worth: Worth | None
    memory_worth: MemoryWorth | None
    worth_lines: list[str]
    missing: list[str]
    mixed: list[str]
    headline: str
    caution: str
    same_name: bool = False

    @property
    def title(self) -> str:
        """The trace and how it was replayed."""
        return self.trace_name + "".join(f", {key} {value}" for key, value in self.experiment.settings.items())

    @property
    def trace_name(self) -> str:
        """Of the trace alone."""
        path, sha256 = self.experiment.trace_path, self.experiment.trace_sha256
        return f"{path} ({sha256[:12]})" if path and self.same_name else path or sha256 or "trace"


def tell_apart(summaries: Sequence[Summary]) -> list[Summary]:
    """The same, where traces that differ and have one path show their checksums, too."""
    seen: dict[str, set[str]] = {}
    for summary in summaries:
        seen.setdefault(summary.experiment.trace_path, set()).add(summary.experiment.trace_sha256)
    return [replace(summary, same_name=len(seen[summary.experiment.trace_path]) > 1) for summary in summaries]


def summarise(
    experiment: Experiment, baseline: str | None, seed: int = SEED, traces: Sequence[Path] = ()
) -> Summary:
    """Compare, and look for the trace to say what it is worth. Raises UsageError, and TraceError for a trace that is named
    and can't be read."""
    base = choose_baseline(experiment.runs, baseline)
    comparison = compare(experiment.all_runs, base, seed)
    controls = {name: control for name, measure in MEASURES.items()
                if (control := control_estimate(experiment.all_runs, measure, seed)) is not None}
    time, memory, lines, about = _worth(experiment, comparison, seed, traces)
    return Summary(
        experiment, base, seed, comparison, controls, time, memory, lines, missing_lines(experiment.runs), mixed_lines(experiment.runs),
        cautioned(headline(experiment.all_runs, comparison, seed), about), about)


def _worth(
    experiment: Experiment, comparison: pd.DataFrame, seed: int, traces: Sequence[Path]
) -> tuple[Worth | None, MemoryWorth | None, list[str], str]:
    about = caution(experiment.runs)
    if "scale" in experiment.settings:
        return None, None, [why_worth_unknown(experiment, "")], about
    found = find_trace(experiment, traces)
    if found.trace is None:
        return None, None, [why_worth_unknown(experiment, found.why_not)], about
    with found.trace as trace:
        time = worth(experiment.all_runs, trace.context, trace.totals, comparison, seed)
        memory = memory_worth(experiment.all_runs, trace, comparison, seed)
        lines = [time.sentence()] if time else []
        lines += [memory.sentence()] if memory else []
        knows_cpu = bool((trace.totals or {}).get("recorded_cpu_ns"))
        about = caution(experiment.runs, trace.totals)
    return time, memory, lines or [why_worth_unknown(experiment, "", knows_cpu)], about


def why_worth_unknown(experiment: Experiment, why_not: str, knows_cpu: bool = False) -> str:
    """One sentence; `why_not` says why there is no trace."""
    reason = "its time was not measured" if knows_cpu else "the recording does not know what the program used"
    if "scale" in experiment.settings:
        reason = f"{experiment.settings['scale']} copies of the program were replayed"
    elif why_not:
        reason = f"the trace was not read: {why_not}"
    return f"What malloc is worth to this program is unknown ({reason})."
