# SPDX-License-Identifier: Apache-2.0
"""All sentences about one experiment, in whatever form they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from ..base.sharing import as_sentence, sharing
from .caution import baseline_caution, caution, cautioned, was_forked
from .comparison import (
    MEASURES,
    SEED,
    Estimate,
    Experiment,
    choose_baseline,
    compare,
    control_estimate,
    newer_of,
)
from .differences import Shift, new_fails, shifts
from .found_trace import FoundTrace, find_trace
from .malloc_share import MallocShare, MemoryShare, malloc_share, memory_share
from .program_time import ProgramTime, other_costs_lines, program_times
from .remarks import (
    OwnAllocator,
    Trend,
    control_lines,
    find_trends,
    missing_lines,
    mixed_lines,
    own_allocator,
    refusal_lines,
    settings_lines,
)
from .verdicts import Standing, change_sentence, headline_of, ranked_standings


@dataclass(frozen=True)
class Summary:
    """`caution`, where there is one, goes before everything. `own`: the allocator that is part of the program, where none that was replayed is that. `differs`: the replay is not what the program ran under, and `standings` has no
    memory. Then `share_lines` lead: malloc's share of the program's CPU
    time and memory, or why that is not known. `same_name`: another trace has
    the same path, so that its checksum belongs to its name. `program_times`: empty where no accesses were simulated. `sharing`: the words
    that go with all advice about one of several processes, else ""; the headline has them."""

    experiment: Experiment
    baseline: str
    seed: int
    comparison: pd.DataFrame
    controls: dict[str, Estimate]
    trends: list[Trend]
    standings: list[Standing]
    malloc_share: MallocShare | None
    memory_share: MemoryShare | None
    program_times: list[ProgramTime]
    share_lines: list[str]
    missing: list[str]
    mixed: list[str]
    headline: str
    caution: str
    sharing: str
    differs: bool = False
    own: OwnAllocator | None = None
    same_name: bool = False
    obeyed: list[str] = field(default_factory=list)
    """Which of the program's control calls some allocators obey and others do not."""
    newer: str = ""
    """The allocator that is the baseline's newer build: then the question is what became worse, and the headline says it."""
    shifts: list[Shift] = field(default_factory=list)
    """The shifts of that one against the baseline."""

    @property
    def newer_fails(self) -> bool:
        """Whether that one fails, and the baseline does not."""
        return bool(self.newer) and new_fails(self.experiment.runs, self.baseline, self.newer)

    @property
    def title(self) -> str:
        """The trace and how it was replayed."""
        return self.trace_name + "".join(f", {key} {value}" for key, value in self.experiment.settings.items())

    @property
    def trace_name(self) -> str:
        """The name of the trace alone."""
        path, sha256 = self.experiment.trace_path, self.experiment.trace_sha256
        return f"{path} ({sha256[:12]})" if path and self.same_name else path or sha256 or "trace"


def tell_apart(summaries: Sequence[Summary]) -> list[Summary]:
    """The same, where traces that differ and have one path show their checksums, too."""
    seen: dict[str, set[str]] = {}
    for summary in summaries:
        seen.setdefault(summary.experiment.trace_path, set()).add(summary.experiment.trace_sha256)
    return [replace(summary, same_name=len(seen[summary.experiment.trace_path]) > 1) for summary in summaries]


def summarise(
    experiment: Experiment, baseline: str | None, seed: int = SEED, traces: Sequence[Path] = (), processes: str = ""
) -> Summary:
    """Compare, and find the trace for malloc's share; processes as in sharing(). Raises UsageError, and TraceError for a trace that
    is named and cannot be read."""
    found = find_trace(experiment, traces) if experiment.is_as_recorded else FoundTrace(None, "")
    try:
        return summary_of(experiment, baseline, seed, found, processes)
    finally:
        if found.trace:
            found.trace.close()


def summary_of(experiment: Experiment, baseline: str | None, seed: int, found: FoundTrace, processes: str = "") -> Summary:
    """The same, where the trace has been searched."""
    base = choose_baseline(experiment.all_runs, baseline)
    comparison = compare(experiment.all_runs, base, seed)
    controls = {name: control for name, measure in MEASURES.items()
                if (control := control_estimate(experiment.all_runs, measure, seed)) is not None}
    differs = baseline_caution(experiment.runs)
    standings = [standing for standing in ranked_standings(experiment.all_runs, comparison, seed)
                 if not differs or standing.measure.name == "time"]
    trace = found.trace if experiment.is_as_recorded else None
    own = own_allocator(experiment.runs)
    shares = trace is not None and len(comparison) > 0 and own is None
    time = malloc_share(experiment.all_runs, trace.context, trace.totals, comparison, seed) if trace and shares else None
    memory = memory_share(experiment.all_runs, trace, comparison, seed) if trace and shares else None
    sentences = {"time": time.sentence() if time else "", "rss_peak": memory.sentence() if memory else ""}
    lines = [sentences[standing.measure.name] for standing in standings if sentences[standing.measure.name]]
    about = caution(experiment.runs, trace.totals if trace else None)
    times = program_times(experiment.runs, base)
    newer = newer_of(experiment.runs, base)
    changed = shifts(experiment.runs, comparison, times, base, newer)
    answer = change_sentence(base, newer, [("", changed)], int(new_fails(experiment.runs, base, newer))) if newer else headline_of(standings)
    headline = cautioned(" ".join([*refusal_lines(experiment.runs), answer]), about)
    if own:
        headline = f"{own.sentence(base)} {headline}"
    if differs:
        headline, about = f"{differs} {headline}", f"{differs} {about}".rstrip()
    mixed = [*settings_lines(experiment.runs), *mixed_lines(experiment.runs), *other_costs_lines(experiment.runs, times)]
    shared = sharing(was_forked(experiment.runs), processes)
    return Summary(
        experiment, base, seed, comparison, controls, find_trends(experiment.all_runs, base), standings, time, memory, times,
        lines or [why_share_unknown(experiment, found, own)], missing_lines(experiment.runs), mixed,
        headline + as_sentence(shared), about, shared, bool(differs), own, obeyed=control_lines(experiment.runs),
        newer=newer, shifts=changed)


def why_share_unknown(experiment: Experiment, found: FoundTrace, own: OwnAllocator | None = None) -> str:
    """One sentence."""
    knows_cpu = found.trace is not None and bool((found.trace.totals or {}).get("recorded_cpu_ns"))
    reason = "its time was not measured" if knows_cpu else "the recording lacks the program's CPU time"
    if "scale" in experiment.settings:
        reason = f"{experiment.settings['scale']} copies of the program were replayed"
    elif "extended" in experiment.settings:
        reason = "the replay went on after the recording"
    elif "age" in experiment.settings:
        reason = "it was replayed on a used heap, the program ran on a fresh one"
    elif "processors" in experiment.settings:
        reason = "it was replayed as on another machine"
    elif own:
        reason = f"the program's own {own.name} is not replayed"
    elif found.trace is None:
        reason = f"the trace was not read: {found.why_not}"
    return f"Malloc's share of this program is unknown ({reason})."
