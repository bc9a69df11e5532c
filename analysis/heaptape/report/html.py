# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that answers first and explains afterwards, and opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..base import units
from ..base.errors import HeaptapeError, UsageError
from ..base.files import check_output, write_whole
from ..base.programs import find_heaptape, find_replay
from ..explain.answering import answer_of
from ..explain.heap_map import cells_each
from ..explain.snapshots import SnapshotFile, snapshots_in, snapshots_of
from ..results.comparison import (
    SEED,
    Experiment,
    allocator_order,
    choose_baseline,
    compare,
    experiments,
)
from ..results.counted import function_table, profiles_of
from ..results.curves import fragmentation, recorded_curves, replayed_curves
from ..results.found_trace import FoundTrace, find_trace
from ..results.program_time import NOT_KNOWN
from ..results.reader import NULL_ALLOCATOR
from ..results.remarks import SETTING, ProcessorTable, age_flips, processor_tables
from ..results.summary import Summary, summary_of
from ..results.use import Use, also_set, no_reason, use_heading, uses
from ..sites.figures import site_figures
from ..sites.frames import Stacks
from ..sites.table import by_place, call_tree
from ..trace.profile import TraceProfile, trace_profile
from ..trace.reader import Trace, read_trace
from . import provenance
from .answer import Gain, certainty, gain_of, placement_table, program_gain
from .bars import distribution_figures, parts_figures
from .figures import (
    Figure,
    Table,
    colour_classes,
    memory_curves,
    memory_figure,
)
from .flame_graph import flame_figure, profile_figure
from .heap_maps import Heap, accounts_figure, heaps_of
from .latencies import latency_figures
from .old_new import old_new_views, overview
from .page import rendered
from .pareto import pareto_figure
from .table import difference_rows

LIVE_POINTS = 4_000
"""Points kept of the live-bytes curve: more than any screen shows, peaks kept exactly."""


@dataclass(frozen=True)
class Decided:
    """What a trial decided, which its report repeats: sentences, the decision first, and whom to use."""

    lines: list[str]
    advised: list[str]


@dataclass(frozen=True)
class Chapter:
    """What the template shows of one experiment; headline: the answer, and sentences after it."""

    summary: Summary
    headline: list[str]
    subject: str
    classes: dict[str, str]
    gains: list[Gain]
    certainty: list[str]
    uses: list[tuple[str, Use]]
    also_set: str
    no_reason: str
    placement: Table | None
    placement_unknown: str
    memory_figure: Figure | None
    pareto_figure: Figure | None
    latency_figures: list[Figure]
    parts_figures: list[Figure]
    distribution_figures: list[Figure]
    threads: Table | None
    flame: Figure | None
    differences: Table | None
    profile: Figure | None
    functions: list[dict[str, Any]]
    harness: str
    trace_facts: provenance.Facts
    replay_facts: provenance.Facts
    allocators: Table
    warnings: list[str]
    heaps: list[Heap]


def build_chapter(
    experiment: Experiment, found: FoundTrace, baseline: str | None, seed: int, remarks: Sequence[str] = (), snapshots: Sequence[SnapshotFile] = (),
    processes: str = "", decided: Decided | None = None,
) -> Chapter:
    """All figures and words about one experiment; remarks are sentences of `read_results`, snapshots those of its allocators; processes
    as in results.sharing."""
    runs, trace = experiment.runs, found.trace
    summary = summary_of(experiment, baseline, seed, found, processes)
    comparison = summary.comparison
    allocators = allocator_order(runs, summary.baseline)
    classes = colour_classes(allocators, summary.baseline)
    program = trace if experiment.is_as_recorded else None
    calls = trace if experiment.has_recorded_calls else None
    profile = _profile(calls) if calls else None
    curves = memory_curves(
        replayed_curves(runs, allocators), recorded_curves(program) if program else {}, profile.live if profile else None,
        classes, comparison)
    warnings = [f"{sentence}." for sentence in remarks] + provenance.result_warnings(summary)
    if trace:
        warnings = provenance.trace_warnings(trace) + warnings
    else:
        warnings.insert(0, f"The trace was not read ({found.why_not}), so the recorded program's own memory and CPU time "
                           f"are missing here. Name it with --trace.")
    if calls and not profile:
        warnings.append(provenance.NOT_COUNTED)
    subject = _subject(experiment, trace)
    context = trace.context if trace else {}
    return Chapter(
        summary=summary,
        headline=decided.lines if decided else [summary.headline],
        subject=subject,
        classes=classes,
        gains=[*([program_gain(summary)] if summary.program_times else []),
               *(gain_of(summary, standing, classes) for standing in summary.standings)],
        certainty=certainty(summary),
        uses=[(use_heading(use, summary.sharing), use)
              for use in uses(summary, str(context.get("command") or "COMMAND"), str(context.get("allocator_name") or ""),
                              str(context.get("linked_allocator") or ""), decided.advised if decided else None)] if not summary.newer else [],
        also_set=also_set(context),
        no_reason="" if decided else no_reason(summary),
        placement=placement_table(summary),
        placement_unknown="" if summary.program_times else NOT_KNOWN,
        memory_figure=memory_figure(curves),
        pareto_figure=pareto_figure(experiment.all_runs, comparison, classes, seed),
        latency_figures=latency_figures(runs, allocators, classes),
        parts_figures=parts_figures(fragmentation(runs), classes),
        distribution_figures=distribution_figures(profile) if profile else [],
        threads=threads_table(calls) if calls else None,
        flame=_flame(calls) if calls else None,
        differences=_differences(summary),
        profile=profile_figure(profiles_of(runs), summary.baseline),
        functions=_function_tables(runs, allocators),
        harness=_harness(runs),
        trace_facts=provenance.trace_facts(trace, experiment),
        replay_facts=provenance.replay_facts(experiment, seed),
        allocators=provenance.allocator_table(runs, allocators),
        warnings=warnings,
        heaps=heaps_of([answer_of(one, "peak", trace, cells_each(len(snapshots))) for name in classes for one in snapshots
                        if one.allocator["name"] == name], classes),
    )


def _profile(trace: Trace) -> TraceProfile | None:
    """None where heaptape, without which the package may be installed, is not found or cannot tell."""
    try:
        return trace_profile(find_heaptape(find_replay()), trace.path, LIVE_POINTS)
    except HeaptapeError:
        return None


def _subject(experiment: Experiment, trace: Trace | None) -> str:
    command = str(trace.context.get("command", "")) if trace else ""
    return command or Path(experiment.trace_path).name or "a trace"


def _function_tables(runs: pd.DataFrame, allocators: list[str]) -> list[dict[str, Any]]:
    tables = []
    for name in allocators:
        table = function_table(runs, name)
        if table.empty:
            continue
        rows = [
            [units.decimal(100 * row["share"]), units.seconds(row["time_ns"]), units.seconds(row["touch_ns"]),
             units.decimal(row["ns_per_call"], 1), units.count(row["calls"]), str(row["function"])]
            for _, row in table.iterrows()
        ]
        time, calls = table["time_ns"].sum(min_count=1), table["calls"].sum()
        touch = table["touch_ns"].sum(min_count=1)
        total = ["100.00", units.seconds(time), units.seconds(touch), units.decimal(time / calls, 1),
                 units.count(calls), "total"]
        tables.append({"name": name, "rows": rows, "total": total})
    return tables


THREADS_SHOWN = 20


def threads_table(trace: Trace) -> Table | None:
    """The threads with the most calls; None for a trace without threads."""
    threads = trace.threads
    if threads.empty:
        return None
    busiest = threads.assign(number=range(len(threads))).sort_values("calls", ascending=False, kind="stable")
    total = max(int(threads["calls"].sum()), 1)
    rows = [[f"{row['number']} {row['name']}".rstrip(), units.count(row["calls"]), units.percent(row["calls"] / total),
             units.nanoseconds(row["start_ns"]), units.nanoseconds(row["end_ns"])]
            for _, row in busiest.head(THREADS_SHOWN).iterrows()]
    rest = busiest.iloc[THREADS_SHOWN:]
    if len(rest):
        rows.append([units.counted(len(rest), "other"), units.count(rest["calls"].sum()), units.percent(rest["calls"].sum() / total), "", ""])
    return Table(["thread", "calls", "share", "started", "ended"], rows)


def _flame(trace: Trace) -> Figure | None:
    """None of a trace without call sites."""
    if trace.sites.sites.empty:
        return None
    sites, stacks = site_figures(trace).sites, Stacks(trace.sites)
    return flame_figure(call_tree(sites, stacks), by_place(sites, stacks))


def _differences(summary: Summary) -> Table | None:
    found = difference_rows(summary)
    if not found:
        return None
    columns, rows = found
    return Table([columns[0], *columns[2:]], [[f"{figure}: {of}", *rest] for figure, of, *rest in rows])


def _harness(runs: pd.DataFrame) -> str:
    timed = runs[(runs["pass"] == "time") & (runs["allocator"] != NULL_ALLOCATOR)]["harness_time_ns"].dropna()
    if timed.empty:
        return ""
    return (f"Replaying itself, measured with an allocator that does nothing, took "
            f"{units.nanoseconds(float(timed.median()))}; it is already subtracted.")


def render(chapters: list[Chapter], machines: Sequence[ProcessorTable] = ()) -> str:
    """The HTML of a report."""
    summaries = [chapter.summary for chapter in chapters]
    views, others = old_new_views(summaries)
    return rendered("report.html.j2", ["old_new.css"] if views else [], chapters=chapters, machines=machines, views=views, overview=overview(summaries) if others else [],
                    accounts_figure=accounts_figure, title=chapters[0].subject)


def write_report(
    frame: pd.DataFrame,
    output: str | Path,
    traces: Sequence[str | Path] = (),
    baseline: str | None = None,
    seed: int = SEED,
    snapshots: str | Path | None = None,
    processes: str = "",
    decided: Decided | None = None,
) -> Path:
    """Write the report on `frame` (from `read_results`) to `output`, whole or not at all; returns its path.

    `traces` names the traces replayed; without, they are searched where the results say. `snapshots`
    is a folder that `heaptape replay --snapshots` wrote, of which the report shows the heaps. `processes` names those that share pages
    since a fork, such as "4 workers". `decided`: the answer, where it is not from these results alone. Raises UsageError, TraceError
    (for a trace that was named and cannot be read) or HeaptapeError (output cannot be written)."""
    given = [Path(path) for path in traces]
    inputs: list[str | Path] = [*dict.fromkeys(frame["source"]), *given]
    check_output(output, inputs)
    for path in given:
        read_trace(path).close()
    heaps = snapshots_in(Path(snapshots)) if snapshots else []
    chapters = []
    found_experiments = experiments(frame)
    flips = age_flips((item, compare(item.all_runs, choose_baseline(item.all_runs, baseline), seed)) for item in found_experiments) \
        if any(SETTING in item.settings for item in found_experiments) else []
    for experiment in found_experiments:
        found = find_trace(experiment, given)
        remarks = [sentence for key in ("cut_short", "repeated") for sentence in frame.attrs.get(key, [])] + flips
        chapters.append(build_chapter(experiment, found, baseline, seed, remarks, snapshots_of(heaps, experiment), processes, decided))
        if found.trace:
            inputs.append(found.trace.path)
            found.trace.close()
    if heaps and not any(chapter.heaps for chapter in chapters):
        raise UsageError(f"--snapshots {snapshots}: expected snapshots of the trace that was replayed, under an allocator of the results")
    write_whole(output, render(chapters, processor_tables(found_experiments)), inputs)
    return Path(output)
