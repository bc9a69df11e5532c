"""The report: one HTML file that answers first and explains afterwards, and opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from ..base import units
from ..base.files import refuse_inputs, write_whole
from ..base.printable import printable
from ..results.caution import caution, cautioned
from ..results.comparison import (
    MEASURES,
    SEED,
    Experiment,
    allocator_order,
    choose_baseline,
    compare,
    experiments,
)
from ..results.curves import recorded_curves, replayed_curves
from ..results.found_trace import FoundTrace, find_trace
from ..results.functions import function_table
from ..results.memory_parts import fragmentation
from ..results.reader import NULL_ALLOCATOR
from ..results.verdicts import headline, in_words
from ..results.worth import MemoryWorth, Worth, memory_worth, worth
from ..trace.profile import profile_trace
from ..trace.reader import Trace, read_trace
from . import provenance
from .bars import distribution_figures, parts_figures
from .figures import (
    Figure,
    Table,
    colour_classes,
    memory_curves,
    memory_figure,
    ratio_figures,
    stylesheet,
)
from .latencies import latency_figures
from .pareto import pareto_figure

LIVE_POINTS = 4_000
"""Points kept of the live-bytes curve: more than any screen shows, peaks kept exactly."""


@dataclass(frozen=True)
class Chapter:
    """Everything that the template says about one experiment."""

    headline: str
    subject: str
    baseline: str
    comparison: list[dict[str, str]]
    worth: Worth | None
    memory_worth: MemoryWorth | None
    worth_unknown: str
    ratio_figures: list[Figure]
    pareto_figure: Figure | None
    memory_figure: Figure | None
    latency_figures: list[Figure]
    parts_figures: list[Figure]
    distribution_figures: list[Figure]
    threads: Table | None
    functions: list[dict[str, Any]]
    harness: str
    trace_facts: provenance.Facts
    replay_facts: provenance.Facts
    allocators: list[dict[str, str]]
    warnings: list[str]


def build_chapter(
    experiment: Experiment, found: FoundTrace, baseline: str | None, seed: int, remarks: Sequence[str] = ()
) -> Chapter:
    """All figures and words about one experiment; remarks are sentences of `read_results`."""
    runs = experiment.runs
    base = choose_baseline(runs, baseline)
    comparison = compare(experiment.all_runs, base, seed)
    allocators = allocator_order(runs, base)
    classes = colour_classes(allocators, base)
    trace = found.trace
    # The recorded program is not to be set beside several copies of it.
    program = trace if "scale" not in experiment.settings else None
    value = worth(experiment.all_runs, program.context, program.totals, comparison, seed) if program else None
    profile = profile_trace(program, LIVE_POINTS) if program else None
    curves = memory_curves(
        replayed_curves(runs, allocators), recorded_curves(program) if program else {}, profile.live if profile else None,
        classes)
    warnings = [f"{sentence}." for sentence in remarks] + provenance.result_warnings(experiment, comparison)
    if trace:
        warnings = provenance.trace_warnings(trace) + warnings
    else:
        warnings.insert(0, f"The trace was not read ({found.why_not}), so the recorded program's own memory and CPU time "
                           f"are missing here. Name it with --trace.")
    return Chapter(
        headline=cautioned(headline(experiment.all_runs, comparison, seed),
                           caution(runs, trace.totals if trace else None)),
        subject=_subject(experiment, trace),
        baseline=base,
        comparison=comparison_rows(runs, comparison, allocators, classes, base),
        worth=value,
        memory_worth=memory_worth(experiment.all_runs, program, comparison, seed) if program else None,
        worth_unknown="" if value else _why_unknown(experiment, trace, found),
        ratio_figures=ratio_figures(runs, comparison, classes),
        pareto_figure=pareto_figure(experiment.all_runs, comparison, classes, seed),
        memory_figure=memory_figure(curves),
        latency_figures=latency_figures(runs, allocators, classes),
        parts_figures=parts_figures(fragmentation(runs), allocators),
        distribution_figures=distribution_figures(profile) if profile else [],
        threads=threads_table(program) if program else None,
        functions=_function_tables(runs, allocators),
        harness=_harness(runs),
        trace_facts=provenance.trace_facts(trace, experiment),
        replay_facts=provenance.replay_facts(experiment, seed),
        allocators=provenance.allocator_rows(runs, allocators),
        warnings=warnings,
    )


def _subject(experiment: Experiment, trace: Trace | None) -> str:
    command = str(trace.context.get("command", "")) if trace else ""
    return command or Path(experiment.trace_path).name or "a trace"


def _why_unknown(experiment: Experiment, trace: Trace | None, found: FoundTrace) -> str:
    if "scale" in experiment.settings:
        return f"unknown, as {experiment.settings['scale']} copies of the program were replayed"
    if trace is None:
        return f"unknown, as the trace was not read ({found.why_not})"
    if not (trace.totals or {}).get("recorded_cpu_ns"):
        return "unknown, as the recording does not know how much CPU time the program used"
    return "unknown, as the time pass was not run"


def comparison_rows(
    runs: pd.DataFrame, comparison: pd.DataFrame, allocators: list[str], classes: dict[str, str], baseline: str
) -> list[dict[str, str]]:
    """One row of text cells per allocator for the main table."""
    by_key = {(row["measure"], row["allocator"]): row for _, row in comparison.iterrows()}
    others = _other_medians(runs)
    rows = []
    for name in allocators:
        row = {"name": name, "css": classes[name], "baseline": "yes" if name == baseline else ""}
        row["version"] = str(runs.loc[runs["allocator"] == name, "allocator_version"].iloc[0])
        for measure in MEASURES.values():
            row |= _measure_cells(measure.name, by_key.get((measure.name, name)))
        row["ns_per_call"] = units.decimal(others["ns_per_call"].get(name), 1)
        row["faults"] = units.count(others["minor_faults"].get(name))
        row["f4"] = units.decimal(others["fragmentation_f4"].get(name))
        rows.append(row)
    return rows


def _measure_cells(measure: str, row: Any) -> dict[str, str]:
    """Value, ratio, interval and verdict of one measure, all n/a where it was not measured."""
    if row is None:
        return {measure: units.MISSING} | {f"{measure}_{key}": "" for key in ("ratio", "ci", "words", "verdict")}
    baseline = row["verdict"] == "baseline"
    return {
        measure: units.figure(row["value"], row["unit"]),
        f"{measure}_ratio": "1.00" if baseline else units.decimal(row["ratio"]),
        f"{measure}_ci": "" if baseline else units.interval(row["ci_low"], row["ci_high"]),
        f"{measure}_words": in_words(row),
        f"{measure}_verdict": str(row["verdict"]).split()[0],
    }


def _other_medians(runs: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Median over the rounds of figures that are shown beside the compared ones: column → allocator → value."""
    valid = runs[runs["failures"] == 0]
    timed, measured = (valid[valid["pass"] == name] for name in ("time", "memory"))
    # Faults belong to the time that they cost; the memory pass has its own, shown only where nothing was timed.
    sources = {
        "ns_per_call": timed, "minor_faults": measured if timed.empty else timed, "fragmentation_f4": measured,
    }
    return {column: rows.groupby("allocator")[column].median().to_dict() for column, rows in sources.items()}


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
    """The threads that called most; None for a trace that has not noted any."""
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
        rows.append([f"{len(rest):,} others", units.count(rest["calls"].sum()), units.percent(rest["calls"].sum() / total), "", ""])
    return Table(["thread", "calls", "share", "started", "ended"], rows)


def _harness(runs: pd.DataFrame) -> str:
    timed = runs[(runs["pass"] == "time") & (runs["allocator"] != NULL_ALLOCATOR)]["harness_time_ns"].dropna()
    if timed.empty:
        return ""
    return (f"Replaying itself, measured with an allocator that does nothing, took "
            f"{units.nanoseconds(float(timed.median()))}; it is already subtracted.")


def render(chapters: list[Chapter]) -> str:
    """The HTML of a report."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )
    environment.globals["nanoseconds"] = units.nanoseconds
    environment.globals["percent"] = units.percent
    made = environment.get_template("report.html.j2").render(
        chapters=chapters, figure_style=stylesheet(), title=chapters[0].subject)
    return printable(made, keep="\n\t")


def write_report(
    frame: pd.DataFrame,
    output: str | Path,
    traces: Sequence[str | Path] = (),
    baseline: str | None = None,
    seed: int = SEED,
) -> Path:
    """Write the report on `frame` (from `read_results`) to `output`, whole or not at all; returns its path.

    `traces` names the traces replayed; without, they are looked for where the results say. Raises UsageError, TraceError
    (for a trace that was named and can't be read) or HeaptapeError (output can't be written)."""
    given = [Path(path) for path in traces]
    inputs: list[str | Path] = [*dict.fromkeys(frame["source"]), *given]
    refuse_inputs(output, inputs)
    for path in given:
        read_trace(path).close()
    chapters = []
    for experiment in experiments(frame):
        found = find_trace(experiment, given)
        remarks = [sentence for key in ("cut_short", "repeated") for sentence in frame.attrs.get(key, [])]
        chapters.append(build_chapter(experiment, found, baseline, seed, remarks))
        if found.trace:
            inputs.append(found.trace.path)
            found.trace.close()
    write_whole(output, render(chapters), inputs)
    return Path(output)
