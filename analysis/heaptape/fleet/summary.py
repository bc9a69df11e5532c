# SPDX-License-Identifier: Apache-2.0
"""What a fleet found: ratios to the baseline for each trace, and their geometric means over all traces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..base.sharing import sharing
from ..base.text import markdown_escaped, table_lines
from ..base.units import MISSING, counted, decimal, interval, with_nulls
from ..results.caution import baseline_caution
from ..results.comparison import (
    INTERVAL_MEANS,
    MEASURES,
    SEED,
    Floats,
    Measure,
    estimate_ratio,
    geometric_mean,
    is_hidden,
    paired_ratios,
)
from ..results.conditions import Condition, parse_condition
from ..results.counted import counted_figure, counts_by_allocator
from ..results.reader import NULL_ALLOCATOR
from .plan import Configuration, Plan

SUMMARY_MEASURES = ("time", "rss_peak", "rss_mean")
_INSTRUCTIONS = parse_condition("instructions>1")


@dataclass(frozen=True)
class Ratio:
    """A ratio to the baseline with its interval (NaN: not known), from so many traces and rounds."""

    allocator: str
    measure: str
    ratio: float
    ci_low: float
    ci_high: float
    traces: int
    rounds: int


@dataclass(frozen=True)
class Block:
    """All that was found in one configuration. `of_trace` has the ratios by the trace's name."""

    configuration: Configuration
    order: list[str]
    means: list[Ratio]
    of_trace: dict[str, list[Ratio]]


def paired_by_allocator(frame: pd.DataFrame, measure: Measure, baseline: str) -> dict[str, Floats]:
    """Ratios of each allocator to the baseline, one for each round that has both. Rounds are launches on one host, so
    nothing is ever compared across machines."""
    rows = frame[(frame["pass"] == measure.pass_name) & ~frame["control"] & (frame["failures"] == 0)]
    values = pd.to_numeric(rows[measure.column])
    rows = rows.assign(value=values)[values.notna()]
    if rows.empty:
        return {}
    table = rows.pivot(index=["host", "round"], columns="allocator", values="value")
    if baseline not in table:
        return {}
    return {str(name): paired_ratios(table[name], table[baseline]) for name in table if name != NULL_ALLOCATOR}


def summarise(plan: Plan, rows: list[dict[str, Any]], conditions: Sequence[Condition] = (), seed: int = SEED) -> list[Block]:
    """One block for each configuration of the plan; rows as FleetResults keeps them. Of counts it has the instructions, and what there
    are conditions of."""
    frame = pd.DataFrame(rows)
    if frame.empty:
        return []
    frame["control"] = frame["control"].map(lambda value: value is True)
    counted_ = [one for one in (_INSTRUCTIONS, *conditions) if one.counted]
    return [_block(plan, configuration, frame[frame["configuration"] == configuration.name], counted_, seed)
            for configuration in plan.configurations]


def _block(plan: Plan, configuration: Configuration, frame: pd.DataFrame, conditions: list[Condition], seed: int) -> Block:
    means: list[Ratio] = []
    of_trace: dict[str, list[Ratio]] = {trace.name: [] for trace in plan.traces}
    for measure in (MEASURES[name] for name in SUMMARY_MEASURES):
        pairs = {trace.name: paired_by_allocator(frame[frame["trace_sha256"] == trace.sha256], measure, plan.baseline)
                 for trace in plan.traces}
        for name in plan.names:
            mine = {trace: found[name] for trace, found in pairs.items() if len(found.get(name, ()))}
            if not mine:
                continue
            for trace, ratios in mine.items():
                one = estimate_ratio(ratios, seed)
                of_trace[trace].append(Ratio(name, measure.name, one.ratio, one.ci_low, one.ci_high, 1, one.rounds))
            usable = [ratios for ratios in mine.values() if not is_hidden(ratios)]
            means.append(Ratio(name, measure.name, *geometric_mean(usable, seed), len(usable), min(map(len, usable), default=0)))
    for condition in {one.bounded: one for one in conditions}.values():
        _add_counts(plan, condition, frame, means, of_trace)
    return Block(configuration, _order(plan, means), means, of_trace)


def _add_counts(plan: Plan, condition: Condition, frame: pd.DataFrame, means: list[Ratio], of_trace: dict[str, list[Ratio]]) -> None:
    """Counts are exact: their ratios have no interval."""
    found: dict[str, list[float]] = {name: [] for name in plan.names}
    for trace in plan.traces:
        counts = counts_by_allocator(frame[frame["trace_sha256"] == trace.sha256])
        values = {name: counted_figure(counts.get(name, {}), condition.measure, condition.part) for name in plan.names}
        for name, value in values.items():
            if value > 0 and values[plan.baseline] > 0:
                found[name].append(value / values[plan.baseline])
                of_trace[trace.name].append(Ratio(name, condition.bounded, found[name][-1], math.nan, math.nan, 1, 1))
    for name, ratios in found.items():
        if ratios:
            means.append(Ratio(name, condition.bounded, math.exp(math.fsum(map(math.log, ratios)) / len(ratios)), math.nan, math.nan, len(ratios), 1))


def _order(plan: Plan, means: list[Ratio]) -> list[str]:
    """The baseline first, then from the fastest to the slowest (where no time was measured: the smallest peak)."""
    key = {(mean.allocator, mean.measure): mean.ratio for mean in means}
    rank = {name: tuple(key.get((name, measure), math.inf) for measure in SUMMARY_MEASURES) for name in plan.names}
    return [plan.baseline, *sorted((name for name in plan.names if name != plan.baseline), key=lambda name: (rank[name], name))]


def summary_object(plan: Plan, blocks: list[Block], rows: list[dict[str, Any]], notes: list[str], seed: int = SEED) -> dict[str, Any]:
    """The summary as JSON values; what is not known is null."""
    hosts = sorted({str(row["host"]) for row in rows})
    return {
        "plan": str(plan.path), "baseline": plan.baseline, "bootstrap_seed": seed, "hosts": hosts,
        "traces": [asdict(trace) for trace in plan.traces], "cautions": cautions_of(plan, rows), "notes": notes,
        "configurations": [
            {"name": block.configuration.name, "options": block.configuration.options,
             "geometric_means": [with_nulls(asdict(mean)) for mean in block.means],
             "ratios": [{"trace": trace} | with_nulls(asdict(ratio)) for trace, found in block.of_trace.items() for ratio in found]}
            for block in blocks
        ],
    }


Tables = list[tuple[str, list[list[str]]]]


def _tables(plan: Plan, block: Block) -> Tables:
    """Titles and cells, the first row being the heading: geometric means, then each measure trace by trace."""
    measures = list(dict.fromkeys(mean.measure for mean in block.means))
    means = {(mean.allocator, mean.measure): mean for mean in block.means}
    titles = {name: MEASURES[name].title if name in MEASURES else name for name in measures}
    cells = [["allocator", *titles.values(), "traces"]]
    for name in block.order:
        counts = {means[name, measure].traces for measure in measures if (name, measure) in means}
        cells.append([name, *(_mean_text(means.get((name, measure)), name == plan.baseline) for measure in measures),
                      str(min(counts, default=0))])
    tables: Tables = [(f"geometric means over the traces, each over {plan.baseline}'s", cells)]
    for measure in measures:
        shown = [trace.name for trace in plan.traces if block.of_trace[trace.name]]
        found = {(trace, ratio.allocator): ratio for trace in shown for ratio in block.of_trace[trace]
                 if ratio.measure == measure}
        tables.append((f"{titles[measure]}, trace by trace", [
            ["allocator", *shown],
            *([name, *(_ratio_text(found.get((trace, name))) for trace in shown)] for name in block.order)]))
    return tables


def _ratio_text(ratio: Ratio | None) -> str:
    return decimal(ratio.ratio, 2 if ratio.measure in MEASURES else 4) if ratio else MISSING


def _mean_text(mean: Ratio | None, is_baseline: bool) -> str:
    bounds = "" if mean is None or is_baseline else interval(mean.ci_low, mean.ci_high)
    return f"{_ratio_text(mean)} {bounds}".rstrip()


def _heading(plan: Plan, block: Block, rows: list[dict[str, Any]]) -> str:
    mine = [row for row in rows if row["configuration"] == block.configuration.name]
    rounds = {(row["trace_sha256"], row["round"]) for row in mine}
    hosts = sorted({str(row["host"]) for row in mine})
    options = "".join(f", {key} {value}" for key, value in block.configuration.options.items())
    of_traces = Counter(sha256 for sha256, _ in rounds).values()
    least, most = min(of_traces, default=0), max(of_traces, default=0)
    return (f"{block.configuration.name}{options}: {f'{least} to ' if least < most else ''}{counted(most, 'round')} of "
            f"{counted(len(of_traces), 'trace')} on {counted(len(hosts), 'host')}")


def summary_text(plan: Plan, blocks: list[Block], rows: list[dict[str, Any]], notes: list[str]) -> str:
    """The summary for the terminal."""
    lines: list[str] = []
    for block in blocks:
        lines += ["", _heading(plan, block, rows)]
        for title, cells in _tables(plan, block):
            lines += ["", f"{title}:", *table_lines(cells)]
    cautions = cautions_of(plan, rows)
    return "\n".join([*cautions, *lines[0 if cautions else 1:], *_closing(blocks), *notes])


def summary_markdown(plan: Plan, blocks: list[Block], rows: list[dict[str, Any]], notes: list[str]) -> str:
    """The summary as Markdown, for a README."""
    lines: list[str] = []
    for block in blocks:
        lines += ["", f"### {markdown_escaped(_heading(plan, block, rows))}"]
        for title, cells in _tables(plan, block):
            lines += ["", f"{markdown_escaped(title[0].upper() + title[1:])}:", "", _markdown(cells[0]), _markdown(["---"] * len(cells[0]))]
            lines += [_markdown(row) for row in cells[1:]]
    closing = [line for line in (*_closing(blocks), *notes) if line]
    cautions = [f"**{markdown_escaped(line)}**" for line in cautions_of(plan, rows)]
    return "\n".join([*cautions, *lines[0 if cautions else 1:], "", *(f"- {markdown_escaped(line)}" for line in closing)]).rstrip()


def _markdown(cells: list[str]) -> str:
    return f"| {' | '.join(map(markdown_escaped, cells))} |"


def _closing(blocks: list[Block]) -> list[str]:
    measured = [mean for block in blocks for mean in block.means if mean.measure in MEASURES]
    if any(math.isfinite(mean.ci_low) for mean in measured):
        return ["", INTERVAL_MEANS]
    if not measured:
        return ["", "counts are exact: they have no intervals"]
    return ["", "no intervals: of one round of a trace there is none"]


def cautions_of(plan: Plan, rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each trace whose replay is not what the program ran under."""
    found = []
    for trace in plan.traces:
        checks = [row["baseline_check"] for row in rows if row["trace_sha256"] == trace.sha256 and row.get("baseline_check")]
        words = baseline_caution(pd.DataFrame({"baseline_check": checks}))
        found += [f"{trace.name}: {words}"] if words else []
    return found


def notes_of(plan: Plan, rows: list[dict[str, Any]]) -> list[str]:
    """What a reader has to know beside the figures: runs that failed, and allocators that were not the same everywhere."""
    names = {trace.sha256: trace.name for trace in plan.traces}
    failed: dict[tuple[str, str], list[str]] = {}
    builds: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        if row["problem"]:
            failed.setdefault((row["allocator"], names[row["trace_sha256"]]), []).append(str(row["problem"]))
        elif row["build_id"]:
            builds.setdefault(row["allocator"], set()).add((row["version"], row["build_id"]))
    notes = [f"{len(problems)} run{'s' * (len(problems) > 1)} of {name} on {trace} failed (the last: {problems[-1]})"
             for (name, trace), problems in failed.items()]
    notes += [f"{name} differs between hosts: {len(found)} builds ({', '.join(sorted({v for v, _ in found}))})"
              for name, found in builds.items() if len(found) > 1 and name != NULL_ALLOCATOR]
    forked = dict.fromkeys(names[row["trace_sha256"]] for row in rows if row.get("forked"))
    return notes + [f"{trace}: {sharing(True)}" for trace in forked]
