# SPDX-License-Identifier: Apache-2.0
"""Where the figures come from, and their cautions: the last two parts of the report."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pandas as pd

from ..base.units import (
    MISSING,
    byte_count,
    count,
    counted,
    interval,
    known,
    listing,
    nanoseconds,
    percent,
)
from ..explain.answering import WITHIN_CALL_SHARE
from ..results.caution import NOT_HELD_AGAINST, check_line, zeroed_line
from ..results.comparison import (
    BASELINE,
    BOOTSTRAP_ROUNDS_MIN,
    MEASURES,
    SAME,
    SAME_WITHIN,
    UNRESOLVED,
    Experiment,
    control_estimate,
    identical_pairs,
)
from ..results.reader import NULL_ALLOCATOR
from ..results.remarks import order_line
from ..results.summary import Summary
from ..trace.reader import Trace
from .figures import Table

_CONTEXT_TITLES = {
    "command": "command", "executable": "executable", "build_id": "build id", "allocator_name": "recorded under",
    "allocator_version": "its version", "allocator": "its library", "allocator_build_id": "its build id", "cpu": "CPU",
    "kernel": "kernel", "libc": "libc", "thp": "transparent huge pages", "page_bytes": "page size (bytes)",
    "shim_version": "shim version", "pid": "process id",
}

HARNESS_SHARE_MAX = 1.0
"""Harness time beyond that of the allocator itself: then more than half of what was measured was subtracted."""

REPAIRED_SHARE_MAX = 0.001

FEW_EVENTS = 10_000
"""Starting up is most of a program that makes fewer calls."""

LAZYFREE_SHARE_MAX = 0.05

PURGES_SOON = "mimalloc"
"""The kind that gives memory back by the clock, some ms after it is freed."""

MAJOR_FAULTS_MAX = 50
"""Loading the replayer itself from disk takes a few in its first run; more than these come from memory that ran short."""

NOT_COUNTED = "The program heaptape, which counts the trace's sizes, lifetimes and live bytes, was not found or is of another version, so they are missing here."

Facts = list[tuple[str, str]]


def trace_facts(trace: Trace | None, experiment: Experiment) -> Facts:
    """What was replayed and where it was recorded."""
    facts = [("trace", experiment.trace_path or MISSING), ("sha256", experiment.trace_sha256 or MISSING)]
    if trace is None:
        return facts + [("events", count(experiment.runs["trace_events"].iloc[0]))]
    totals = trace.totals or {}
    facts.append(("events", count(totals.get("events", trace.records))))
    for key, title in (("threads", "threads"), ("peak_live_objects", "peak live blocks")):
        if key in totals:
            facts.append((title, count(totals[key])))
    if "peak_live_bytes" in totals:
        facts.append(("peak live bytes", byte_count(totals["peak_live_bytes"])))
    if totals.get("inherited_objects"):
        inherited = byte_count(totals.get("inherited_bytes", 0))
        source = "from before the slice" if "sliced_from" in trace.context else "inherited at a fork"
        facts.append((source, f"{counted(totals['inherited_objects'], 'block')}, {inherited}"))
    if "duration_ns" in totals:
        facts.append(("duration", nanoseconds(totals["duration_ns"])))
    started = trace.context.get("start_realtime_ns")
    if isinstance(started, (int, float)) and started > 0:
        moment = datetime.fromtimestamp(started / 1e9, timezone.utc)
        facts.append(("recorded at", moment.strftime("%Y-%m-%d %H:%M:%S UTC")))
    facts += [(title, str(trace.context[key])) for key, title in _CONTEXT_TITLES.items() if trace.context.get(key)]
    facts += [("recorder", line) for line in [check_line(trace.context)] if line]
    facts += [(key[4:], str(value)) for key, value in trace.context.items() if key.startswith("env.")]
    return facts


def replay_facts(experiment: Experiment, seed: int) -> Facts:
    """How and on what machine it was replayed."""
    runs = experiment.runs
    rounds = runs.drop_duplicates(["seed", "round", "pass"]).groupby("pass").size()
    facts = [(f"rounds, {name} pass", str(number)) for name, number in rounds.items()]
    facts += [(name, value) for name, value in experiment.settings.items()]
    for column, title in (("pace", "pace"), ("seed", "schedule seed"), ("source", "results"), ("schema", "schema")):
        values = [str(value) for value in dict.fromkeys(runs[column])] if column in runs else []
        values = [value for value in values if value]
        if values and title not in dict(facts):
            shown = values if len(values) <= 8 else [*values[:8], f"and {len(values) - 8} more"]
            facts.append((title, ", ".join(shown)))
    facts.append(("bootstrap seed", str(seed)))
    for measure in MEASURES.values():
        control = control_estimate(experiment.all_runs, measure, seed)
        if control is not None and known(control.ratio):
            facts.append((f"A/A control, {measure.title}",
                          f"{control.ratio:.3f} {interval(control.ci_low, control.ci_high, 3)}".rstrip()))
    first, last = runs["started_at"].min(), runs["started_at"].max()
    if first:
        facts.append(("started", first if first == last else f"{first} to {last}"))
    machine: dict[str, Any] = next((value for value in runs["machine"] if value), {})
    return facts + [(str(key), _plain(value)) for key, value in machine.items()]


def _plain(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def allocator_table(runs: pd.DataFrame, allocators: list[str]) -> Table:
    """What was measured, the null replayer last where it ran."""
    names = [*allocators, NULL_ALLOCATOR] if (runs["allocator"] == NULL_ALLOCATOR).any() else allocators
    keys = ("version", "path", "build_id", "knobs")
    first = runs.groupby("allocator").first()
    return Table(["allocator", "version", "library", "build id", "knobs"],
                 [[name, *(str(first.loc[name, f"allocator_{key}"]) or "–" for key in keys)] for name in names])


def result_warnings(summary: Summary) -> list[str]:
    """The reasons to doubt the figures, each with its remedy."""
    comparison, runs = summary.comparison, summary.experiment.runs
    found = [*summary.obeyed, *summary.mixed, *summary.missing]
    few = comparison[(comparison["verdict"] != BASELINE) & (comparison["rounds"] < BOOTSTRAP_ROUNDS_MIN)]
    if len(few):
        found.append(f"Fewer than {BOOTSTRAP_ROUNDS_MIN} rounds: too few to resample, so intervals assume that the ratios "
                     f"scatter log-normally. Replay with --rounds {2 * BOOTSTRAP_ROUNDS_MIN} for better ones.")
    found += _control_warnings(runs, comparison)
    found += _baseline_warnings(summary.experiment, comparison)
    if len(comparison):  # or there were passes alone that compare nothing
        found += filter(None, [order_line(summary.trends)])
    found += _harness_warnings(runs)
    found += _set_up_warnings(runs)
    machines = {repr(_identity(machine)) for machine in runs["machine"] if machine}
    if len(machines) > 1:
        found.append("The runs come from more than one machine or set-up; ratios within rounds stay valid, times do not.")
    found += [*_unwatched_warning(runs), *_copying_warning(runs)]
    lazy = runs[runs["lazyfree_bytes"] > LAZYFREE_SHARE_MAX * runs["rss_end_bytes"]]["allocator"]
    if len(lazy):
        found.append(f"{listing(list(dict.fromkeys(lazy)))} had returned memory lazily at the end (MADV_FREE): the "
                     f"kernel still counts it as resident until it needs it.")
    if (runs["major_faults"] > MAJOR_FAULTS_MAX).any():
        found.append("Some runs had many major page faults, which read from disk: close other programs and replay again.")
    return found


def _unwatched_warning(runs: pd.DataFrame) -> list[str]:
    blind = runs[runs["watched"].isin([False])]["allocator"] if "watched" in runs else []
    names = [name for name in dict.fromkeys(blind) if name != NULL_ALLOCATOR]
    return [f"RSS of {listing(names)} was not read within calls: a peak there, as of a realloc that copies, is missed."] if names else []


def _copying_warning(runs: pd.DataFrame) -> list[str]:
    if not {"rss_between_calls_peak_bytes", "allocator_kind"} <= set(runs):
        return []
    within = runs["rss_between_calls_peak_bytes"] < (1 - WITHIN_CALL_SHARE) * runs["rss_peak_bytes"]
    names = list(dict.fromkeys(runs[within & (runs["allocator_kind"] == PURGES_SOON) & (runs["pace"] == "virtual")]["allocator"]))
    return [f"{listing(names)} may be shown with too high a peak: it gives memory back some ms after it is freed, but no trace time passes "
            "while a realloc copies. Replay with --pace memory=real."] if names else []


def _identity(machine: dict[str, Any]) -> dict[str, Any]:
    return {key: machine.get(key) for key in ("cpu", "cores", "kernel", "libc", "thp")}


def _control_warnings(runs: pd.DataFrame, comparison: pd.DataFrame) -> list[str]:
    """One allocator under two names must give equal figures; where it does not, the machine is too noisy."""
    found = []
    for one, other in identical_pairs(runs):
        rows = comparison[(comparison["allocator"] == other) & (comparison["baseline"] == one)]
        for _, row in rows[~rows["verdict"].isin([SAME, BASELINE])].iterrows():
            found.append(f"{other} is the same allocator as {one}, yet its {row['measure']} came out "
                         f"“{row['verdict']}” ({row['ratio']:.3f}): differences of that size are noise here.")
    return found


def _baseline_warnings(experiment: Experiment, comparison: pd.DataFrame) -> list[str]:
    """The warnings of `replay`: a baseline that differs from itself, and verdicts that are still open."""
    found = []
    for measure in MEASURES.values():
        if measure.name == "process_rss_peak":  # the heap's, with the same added to both
            continue
        control = control_estimate(experiment.all_runs, measure)
        if control is not None and (control.ci_low > 1 + SAME_WITHIN or control.ci_high < 1 - SAME_WITHIN):
            found.append(f"The A/A control of {measure.title} is {control.ratio:.3f} {interval(control.ci_low, control.ci_high, 3)}: "
                         "the baseline differs from itself. Verdicts allow for it; a larger --budget on a quieter machine narrows it.")
    for name in ("time", "rss_peak"):
        rows = comparison[(comparison["measure"] == name) & (comparison["verdict"] == UNRESOLVED)]
        if len(rows):
            found.append(f"The {MEASURES[name].title} of {listing(list(rows['allocator']))} is not resolved against {rows['baseline'].iloc[0]}'s: "
                         "a larger --budget, or a quieter machine, may show a difference.")
    return found


def _set_up_warnings(runs: pd.DataFrame) -> list[str]:
    """The warnings of `replay` that follow from what its lines say of the machine and of the trace."""
    found = []
    machines = [machine for machine in runs["machine"] if machine]
    governors = [str(value) for machine in machines if (value := machine.get("governor")) not in (None, "", "performance")]
    if governors:
        found.append(f"The processors' frequency governor is {listing(list(dict.fromkeys(governors)))}: cpupower frequency-set -g performance.")
    if any(machine.get("turbo") is True for machine in machines):
        found.append("Turbo is on, so the clock depends on other load.")
    found += filter(None, [zeroed_line(runs)])
    events = runs["trace_events"].dropna()
    if len(events) and 0 < events.min() < FEW_EVENTS:
        found.append(f"The trace has only {counted(events.min(), 'call')}: start-up dominates. Record a longer workload.")
    return found


def _harness_warnings(runs: pd.DataFrame) -> list[str]:
    timed = runs[(runs["pass"] == "time") & (runs["allocator"] != NULL_ALLOCATOR)]
    shares = (timed["harness_time_ns"] / timed["alloc_time_ns"]).groupby(timed["allocator"], sort=False).median()
    heavy = shares[shares > HARNESS_SHARE_MAX]
    if heavy.empty:
        return []
    names = listing([str(name) for name in heavy.index])
    return [(f"Replaying itself took longer than the allocator's own work for {names} "
             f"(subtracted: {percent(float(heavy.max()))} of the result at most); small differences in time are uncertain.")]


def trace_warnings(trace: Trace) -> list[str]:
    """The reasons in the recording to doubt its replay."""
    found = []
    if trace.truncated:
        found.append(f"The trace was cut short: it was read up to its last whole section (byte {trace.whole_bytes:,}), "
                     f"{counted(trace.records, 'event')}.")
    totals = trace.totals or {}
    if totals.get("recorded_rss_peak_bytes") is None:
        found.append(NOT_HELD_AGAINST)
    for key, noun, words in (
        ("repairs", "event", "recorded out of order and reordered"),
        ("anomalies", "event", "explained by no program order"),
        ("lost_calls", "call", "not recorded"),
        ("foreign_frees", "free", "of blocks from before the recording began"),
    ):
        number = totals.get(key) or 0
        if number and (key != "repairs" or number > REPAIRED_SHARE_MAX * trace.records):
            found.append(f"The trace has {counted(number, noun)} {words}.")
    return found
