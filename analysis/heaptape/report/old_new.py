# SPDX-License-Identifier: Apache-2.0
"""An old build of an allocator against a new one, over all traces: the view that opens the report, and all that `compare` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..base.sharing import as_sentence
from ..base.units import counted, interval, listing, signed_percent
from ..results.comparison import (
    INTERVAL_MEANS,
    MEASURES,
    SEED,
    Floats,
    geometric_mean,
    measured_names,
    paired_ratios,
    round_table,
)
from ..results.differences import ALIKE, BETTER, FIGURES, INSTRUCTIONS, OPEN, WORSE, Shift, inside
from ..results.summary import Summary
from ..results.verdicts import amount, change_sentence, open_words, signed_amount
from .table import TextTable, notes, print_tables, tables_markdown

_MEASURES = ("time", "rss_peak")
_WORDS = {"time": "Time in malloc", "rss_peak": "Peak RSS"}


@dataclass(frozen=True)
class OverviewTable:
    """The table of one measure. rows: number of the experiment in the report, its name, a cell for each allocator; mean: such cells, empty
    where traces lack an allocator."""

    title: str
    allocators: list[str]
    rows: list[tuple[int, str, list[str]]]
    mean: list[str]
    note: str


def overview(summaries: Sequence[Summary], seed: int = SEED) -> list[OverviewTable]:
    """Empty for one experiment alone, and where baselines differ: their ratios do not compare."""
    if len(summaries) < 2 or len({summary.baseline for summary in summaries}) > 1:
        return []
    names = experiment_names(summaries)
    tables = [_table(summaries, names, measure, seed) for measure in _MEASURES]
    return [table for table in tables if table.allocators]


def experiment_names(summaries: Sequence[Summary]) -> list[str]:
    """The trace's file, with its folder where files have one name, and how it was replayed where that differs."""
    paths = [Path(summary.experiment.trace_path) for summary in summaries]
    several = {path.name for path in paths if len({other for other in paths if other.name == path.name}) > 1}
    settings = [summary.experiment.settings for summary in summaries]
    differ = [name for name in dict.fromkeys(key for one in settings for key in one) if len({one.get(name) for one in settings}) > 1]
    return [", ".join([str(Path(*path.parts[-2:])) if path.name in several else path.name or "a trace",
                       *(f"{name} {one.get(name, 'as usual')}" for name in differ)])
            for path, one in zip(paths, settings, strict=True)]


def ratios_of(summary: Summary, measure: str) -> dict[str, Floats]:
    """The ratios of each round, by allocator."""
    table = round_table(summary.experiment.runs, MEASURES[measure])
    if summary.baseline not in table:
        return {}
    return {str(name): paired_ratios(table[name], table[summary.baseline]) for name in table if name != summary.baseline}


def _table(summaries: Sequence[Summary], names: list[str], measure: str, seed: int) -> OverviewTable:
    cells: list[dict[str, str]] = []
    for summary in summaries:
        rows = summary.comparison[(summary.comparison["measure"] == measure) & (summary.comparison["allocator"] != summary.baseline)]
        cells.append({str(row["allocator"]): f"{row['ratio']:.2f} {str(row['verdict']).partition(' ')[0]}" for _, row in rows.iterrows()
                      if math.isfinite(row["ratio"])})
    ratios = [ratios_of(summary, measure) for summary in summaries]
    allocators = list(dict.fromkeys(name for one in cells for name in one))
    # Not a number where a trace has no ratio: a mean of the others is another one.
    found = {name: geometric_mean([one[name] for one in ratios], seed) for name in allocators if all(name in one for one in ratios)}
    means = {name: mean for name, mean in found.items() if math.isfinite(mean[0])}
    allocators.sort(key=lambda name: means.get(name, (math.inf,))[0])
    return OverviewTable(
        title=f"{_WORDS[measure]} against {summaries[0].baseline}",
        allocators=allocators,
        rows=[(number, name, [one.get(allocator, "") for allocator in allocators]) for number, (name, one) in enumerate(zip(names, cells, strict=True), 1)],
        mean=[_mean_text(means.get(name)) for name in allocators] if means else [],
        note=f"{INTERVAL_MEANS}." if any(math.isfinite(low) for _, low, _ in means.values()) else "",
    )


def _mean_text(mean: tuple[float, float, float] | None) -> str:
    return "" if mean is None else f"{mean[0]:.2f} {interval(*mean[1:])}".rstrip()


_STYLES = {WORSE: "larger", BETTER: "smaller", OPEN: "unresolved"}


@dataclass(frozen=True)
class OldNew:
    """`cautions` go before the headline; `about` says what was compared and what is missing of it; `notes` stand below the tables."""

    old: str
    new: str
    subject: str
    cautions: list[str]
    headline: str
    about: list[str]
    tables: list[TextTable]
    notes: list[str]


def old_new_views(summaries: Sequence[Summary]) -> tuple[list[OldNew], list[Summary]]:
    """One for each pair of builds, and the experiments that compare others, too, or no such pair."""
    pairs = dict.fromkeys((summary.baseline, summary.newer) for summary in summaries if summary.newer)
    return ([_view(old, new, [summary for summary in summaries if (summary.baseline, summary.newer) == (old, new)]) for old, new in pairs],
            [summary for summary in summaries if not summary.newer or len(measured_names(summary.experiment.runs)) > 2])


def _view(old: str, new: str, summaries: list[Summary]) -> OldNew:
    several, names = len(summaries) > 1, experiment_names(summaries)
    noun = "trace" if len({summary.trace_name for summary in summaries}) == len(summaries) else "experiment"
    headline, cautions = summaries[0].headline, []
    if several:
        headline = change_sentence(old, new, [(name, summary.shifts) for name, summary in zip(names, summaries, strict=True)],
                                   sum(summary.newer_fails for summary in summaries), noun)
        cautions = _told(summaries, names, _cautions)
    shifts = [(shift, f", {name}" if several else "") for summary, name in zip(summaries, names, strict=True) for shift in summary.shifts]
    tables = [_shift_table(old, new, title, [item for item in shifts if item[0].outcome == outcome], outcome)
              for title, outcome in (("worse", WORSE), ("better", BETTER), ("not resolved", OPEN))]
    missing = _told(summaries, names, lambda summary: [*summary.missing, *summary.obeyed, *summary.mixed])
    below = _told(summaries, names, lambda summary: [line for line in notes(summary) if line not in summary.missing])
    return OldNew(old, new, counted(len(summaries), noun) if several else names[0], cautions, headline,
                  [*missing, *_builds(summaries[0]), _traces(summaries)],
                  [*filter(None, [*tables, _inside_table(old, new, summaries, names if several else [""])])],
                  [*_same_line(summaries, names), *(_mean_lines(summaries) if several else []), *below])


def _cautions(summary: Summary) -> list[str]:
    """What the headline of a trace alone has before and after the answer."""
    own = summary.own.sentence(summary.baseline) if summary.own else ""
    return [*filter(None, [summary.caution, own, as_sentence(summary.sharing).strip()])]


def _told(summaries: Sequence[Summary], names: Sequence[str], lines: Callable[[Summary], list[str]]) -> list[str]:
    """Once each; what is not said of all traces names its own."""
    traces: dict[str, list[str]] = {}
    for summary, name in zip(summaries, names, strict=True):
        for line in lines(summary):
            traces.setdefault(line, []).append(name)
    return [line if len(of) == len(summaries) else f"{listing(of)}: {line}" for line, of in traces.items()]


def _builds(summary: Summary) -> list[str]:
    """What the two are, a line each, as the first trace's runs have it, with the knobs that the other does not have so."""
    runs = summary.experiment.runs
    rows = [runs[runs["allocator"] == name].iloc[0] for name in (summary.baseline, summary.newer)]
    knobs = [str(row["allocator_knobs"]).split(", ") for row in rows]
    builds = [_text(row, "build_id") for row in rows]
    lines = []
    for row, own, others in zip(rows, knobs, reversed(knobs), strict=True):
        build, differ = _text(row, "build_id")[:12], [knob for knob in own if knob not in others]
        facts = [f"{_text(row, 'kind')} {_text(row, 'version')}".strip(), _text(row, "path"), f"build {build}" if build else "", *differ]
        lines.append(f"{row['allocator']}: {', '.join(filter(None, facts))}")
    return [*lines, *(["Both are one build with one set of knobs."] if builds[0] == builds[1] != "" and knobs[0] == knobs[1] else [])]


def _text(row: pd.Series, key: str) -> str:
    value = row.get(f"allocator_{key}")
    return value if isinstance(value, str) else ""


def _traces(summaries: Sequence[Summary]) -> str:
    titles = [summaries[0].title] if len(summaries) == 1 else list(dict.fromkeys(summary.trace_name for summary in summaries))
    return f"{counted(len(titles), 'trace')}: {', '.join(titles)}; bootstrap seed {summaries[0].seed}"


def _percent_interval(low: float, high: float) -> str:
    """The interval of a ratio, as a difference."""
    return f"[{signed_percent(low - 1)}, {signed_percent(high - 1)}]".replace(" %,", ",") if math.isfinite(low + high) else ""


def _shift_table(old: str, new: str, title: str, found: Sequence[tuple[Shift, str]], outcome: str) -> TextTable | None:
    """The shifts, the largest change of each figure first, each with the words that name its trace. None if there is none."""
    if not found:
        return None
    ranked = sorted(found, key=lambda item: (FIGURES.index(item[0].figure), -item[0].extent))
    rows = [[f"{shift.figure}{words}", signed_amount(shift.size, shift.unit),
             signed_percent(shift.ratio - 1) if math.isfinite(shift.ratio) else "",
             _percent_interval(shift.low, shift.high) if shift.low < shift.high else "exact" if not shift.unit else "",
             amount(shift.old, shift.unit), amount(shift.new, shift.unit), *([open_words(shift)] if outcome == OPEN else [])]
            for shift, words in ranked]
    columns = [title, "change", "", "95 % interval", old, new, *(["needs"] if outcome == OPEN else [])]
    return TextTable(columns, rows, frozenset({1, 2, 4, 5}), [_STYLES[outcome]] * len(rows), folds=0, coloured=1)


def _inside_table(old: str, new: str, summaries: Sequence[Summary], names: Sequence[str]) -> TextTable | None:
    of_traces = [(summary.experiment.runs, summary.shifts, f", {name}" if name else "") for summary, name in zip(summaries, names, strict=True)]
    changes = inside(of_traces, old, new)
    rows = [[f"{one.figure}: {one.of}", signed_amount(one.size, one.unit), signed_percent(one.size / one.base) if one.base else "new", "",
             amount(one.base, one.unit), amount(one.value, one.unit)] for one in changes]
    return TextTable(["where", "change", "", "", old, new], rows, frozenset({1, 2, 4, 5}), ["" for _ in rows], folds=0) if rows else None


def _same_line(summaries: Sequence[Summary], names: Sequence[str]) -> list[str]:
    """Which figures are the same."""
    same: dict[str, list[str]] = {}
    for summary, name in zip(summaries, names, strict=True):
        for shift in summary.shifts:
            if shift.outcome == ALIKE:
                same.setdefault(shift.figure, []).append(name)
    said = [figure if len(of) == len(names) else f"{figure} ({listing(of)})" for figure, of in same.items()]
    return [f"Same within 1 %: {', '.join(said)}."] if said else []


def _mean_lines(summaries: Sequence[Summary]) -> list[str]:
    """The means of the main figures that all traces have."""
    ratios = {MEASURES[name].title: [ratios_of(summary, name).get(summary.newer, np.zeros(0)) for summary in summaries] for name in ("rss_peak", "time")}
    ratios[INSTRUCTIONS] = [np.array([shift.ratio for shift in summary.shifts if shift.figure == INSTRUCTIONS]) for summary in summaries]
    means = {title: geometric_mean(found, summaries[0].seed) for title, found in ratios.items()}
    said = [f"{title} {signed_percent(middle - 1)} {_percent_interval(low, high)}".rstrip() for title, (middle, low, high) in means.items() if math.isfinite(middle)]
    return [f"Geometric mean over {len(summaries)} traces: {', '.join(said)}; {INTERVAL_MEANS}."] if said else []


def print_old_new(view: OldNew, color: str) -> None:
    """The answer first, then the tables that it comes from."""
    print_tables([*((words, "bold") for words in (*view.cautions, view.headline)), *((line, "dim") for line in view.about)], view.tables,
                 [(line, "") for line in view.notes], color)


def old_new_markdown(view: OldNew) -> str:
    """The view as Markdown for pull requests."""
    *about, traces = view.about
    return tables_markdown([*view.cautions, view.headline], about, view.tables, view.notes, traces)
