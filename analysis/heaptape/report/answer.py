# SPDX-License-Identifier: Apache-2.0
"""What the report's first screen answers: what is gained by each measure, how sure that is, and what the program's time gains."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base import units
from ..results.comparison import MEASURES, UNRESOLVED
from ..results.program_time import CAUSES, PARTS, BlockClass, ProgramTime, interval_means
from ..results.remarks import grounds, limit_lines
from ..results.summary import Summary
from ..results.verdicts import Standing, in_words
from .figures import Figure, Table, ratio_figure
from .table import control_line, known_measures


@dataclass(frozen=True)
class Gain:
    """What the leader by one measure saves, for the first screen, and the content of the measure's own screen."""

    measure: str
    title: str
    leader: str
    amount: str
    words: list[str]
    lead: str
    figure: Figure | None
    table: Table


def certainty(summary: Summary) -> list[str]:
    """What the answer rests on, and how sure it is, a line for each measure."""
    limits = [*grounds(summary.experiment, bool(summary.program_times)), *limit_lines(summary.experiment.runs)]
    rows = summary.comparison[summary.comparison["measure"].isin(["time", "rss_peak"]) & (summary.comparison["allocator"] != summary.baseline)]
    if rows.empty:
        return [*limits, "Nothing was compared."]
    least, most = int(rows["rounds"].min()), int(rows["rounds"].max())
    over = units.counted(most, "round")
    lines = [*limits, f"Brackets are 95 % intervals over {over if least == most else f'{least} to {over}'}."]
    unresolved = int((rows["verdict"] == UNRESOLVED).sum())
    lines.append(f"{unresolved} of {units.counted(len(rows), 'difference')} from {summary.baseline} {'is' if unresolved == 1 else 'are'} unresolved." if unresolved else
                 f"{'All ' if len(rows) > 1 else ''}{units.counted(len(rows), 'comparison')} with {summary.baseline} resolved.")
    control = control_line(summary.controls)
    return [*lines, *([f"{control} (1 is perfect)."] if control else [])]


def gain_of(summary: Summary, standing: Standing, classes: dict[str, str]) -> Gain:
    """The gain by the measure of the standing."""
    measure, runs = standing.measure, summary.experiment.runs
    cost = summary.malloc_share if measure.name == "time" else summary.memory_share
    leader, amount, words = "", "not measured", []
    if len(standing.measured) == 1 or (standing.measured and standing.leader is None):
        amount = "nothing to compare"
    elif standing.leader == standing.baseline:
        amount = "none clear"
        words = [f"{standing.baseline}: {units.figure(standing.row(standing.baseline)['value'], measure.unit)}"]
    elif standing.leader is not None:
        row = standing.row(standing.leader)
        amount = f"−{units.percent(1 - row['ratio'])}"
        base = standing.rows["value"].get(standing.baseline)
        leader = standing.leader
        words = [f"{units.figure(row['value'], measure.unit)} instead of {units.figure(base, measure.unit)}",
                 f"ratio {row['ratio']:.2f} {units.interval(row['ci_low'], row['ci_high'])}".rstrip()]
        if cost and cost.saving.allocator:
            words.append(f"saves {units.percent(cost.saving.share)} of the program’s {'CPU time' if measure.name == 'time' else 'memory'}")
    figure = ratio_figure(runs, summary.comparison, measure, classes)
    table = _measure_table(summary, measure.name)
    return Gain(measure.name, f"{measure.title[0].upper()}{measure.title[1:]}", leader, amount, words, cost.sentence() if cost else "",
                replace(figure, table=table) if figure else None, table)


_MORE = {"time": (("ns/call", "ns_per_call", 1), ("instructions", "instructions", 0), ("page faults", "minor_faults", 0)), "rss_peak": (("peak RSS/live", "fragmentation_f4", 2),)}
_BESIDE: dict[str, tuple[str, ...]] = {"time": (), "rss_peak": ("rss_mean", "rss_end", "process_rss_peak")}


def _measure_table(summary: Summary, name: str) -> Table:
    """The table of one measure; empty where it was not measured."""
    runs, measure = summary.experiment.runs, MEASURES[name]
    valid = runs[(runs["failures"] == 0) & (runs["pass"] == measure.pass_name)]
    more = [item for item in _MORE[name] if item[1] in valid and valid[item[1]].notna().any()]
    medians = valid.groupby("allocator")[[column for _, column, _ in more]].median()
    by_key = {(row["measure"], row["allocator"]): row for _, row in summary.comparison.iterrows()}
    cost = summary.malloc_share if name == "time" else summary.memory_share
    savings = cost.rows.set_index("allocator")["saving"] if cost else {}
    columns = ["allocator", measure.title, f"vs {summary.baseline}", "95 % interval", "verdict", "rounds"]
    beside_it = known_measures(summary.comparison, _BESIDE[name])
    columns += [cell for beside in beside_it for cell in (MEASURES[beside].title, "vs")] + [title for title, _, _ in more]
    columns += ["of the program’s"] if cost else []
    rows = []
    for allocator in dict.fromkeys(summary.comparison["allocator"]):
        row = by_key.get((name, allocator))
        if row is None:
            continue
        cells = [allocator, units.figure(row["value"], row["unit"]), units.decimal(row["ratio"], 3),
                 "" if row["verdict"] == "baseline" else units.interval(row["ci_low"], row["ci_high"], 3), in_words(row), str(row["rounds"])]
        for beside in beside_it:
            other = by_key.get((beside, allocator))
            cells += [units.MISSING, ""] if other is None else [units.figure(other["value"], other["unit"]), units.decimal(other["ratio"])]
        cells += [units.count(medians[column].get(allocator)) if digits == 0 else units.decimal(medians[column].get(allocator), digits)
                  for _, column, digits in more]
        if cost:
            cells.append(_saved(savings.get(allocator)))
        rows.append(cells)
    return Table(columns, rows)


def _saved(saving: float | None) -> str:
    """The saving as a share of the program's time or memory, in words."""
    if saving is None or not units.known(saving):
        return "no clear difference"
    return f"{'saves' if saving > 0 else 'costs'} {units.percent(abs(saving))}" if saving else "–"


MEASURE = "program_time"
_PARTS = dict(zip(PARTS, ("in the allocator", "its own"), strict=True))


def program_gain(summary: Summary) -> Gain:
    """The gain of the allocator with the least modelled time, if the model shows that to be less than the baseline's."""
    base, *others = summary.program_times
    less = [item for item in others if item.verdict == MEASURES["time"].less]
    best = min(less, key=lambda item: item.ratio.ratio, default=None)
    if best is None:
        amount, words = "none clear" if others else "nothing to compare", [f"{base.allocator}: {units.nanoseconds(base.ns)}"]
    else:
        bounds = units.interval(best.ratio.ci_low, best.ratio.ci_high, 3)
        amount = f"−{units.percent(1 - best.ratio.ratio)}"
        words = [f"{units.nanoseconds(best.ns)} instead of {units.nanoseconds(base.ns)}, modelled", f"ratio {best.ratio.ratio:.3f} {bounds}"]
    return Gain(MEASURE, "Your program’s time", best.allocator if best else "", amount, words, interval_means(summary.program_times[0].bursts), None, _split(summary.program_times))


def _split(times: list[ProgramTime]) -> Table:
    """A row for each allocator and part: differences in percent of the program's time under the baseline."""
    base, *others = times
    columns = ["allocator", "time", f"vs {base.allocator}", "interval", "part", "change", *CAUSES]
    rows = [[base.allocator, units.nanoseconds(base.ns), *[""] * (len(columns) - 2)]]
    for item in others:
        head = [item.allocator, units.nanoseconds(item.ns), units.decimal(item.ratio.ratio, 3),
                units.interval(item.ratio.ci_low, item.ratio.ci_high, 3)]
        for part, words in _PARTS.items():
            rows.append([*head, words, *(units.signed_percent(item.share(part, cause)) for cause in (None, *CAUSES))])
            head = [item.allocator, "", "", ""]
    return Table(columns, rows)


def placement_table(summary: Summary) -> Table | None:
    """The size classes whose misses change most; None where none change."""
    rows = [[item.allocator, _sizes(block), f"{block.far_misses:+,}", f"{block.near_misses:+,}"]
            for item in summary.program_times for block in item.blocks]
    return Table(["allocator", "blocks of", "far misses", "near misses"], rows) if rows else None


def _sizes(block: BlockClass) -> str:
    high = units.counted(block.high_bytes, "byte")
    return high if block.low_bytes == block.high_bytes else f"{block.low_bytes:,} to {high}"
