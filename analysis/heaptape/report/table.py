# SPDX-License-Identifier: Apache-2.0
"""Comparisons for the terminal, as Markdown, as CSV and as JSON."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..base.environment import terminal_columns
from ..base.text import markdown_escaped, printable, table_lines
from ..base.units import change, count, decimal, figure, interval, signed_percent, with_nulls
from ..results.caution import zeroed_line
from ..results.comparison import BASELINE, MEASURES, SAME, UNRESOLVED, Estimate
from ..results.counted import counted_figure, counts_by_allocator
from ..results.differences import differences
from ..results.program_time import (
    CAUSES,
    NOT_KNOWN,
    PARTS,
    PROGRAM_TIME,
    ProgramTime,
    interval_means,
)
from ..results.reader import NULL_ALLOCATOR
from ..results.remarks import ProcessorTable, limit_lines, order_line, shown_names
from ..results.summary import Summary
from ..results.verdicts import amount, in_words, signed_amount

# The pass, its main measure, and those beside it.
_TABLES = (("time", ()), ("rss_peak", ("rss_mean", "rss_end", "process_rss_peak")))
PIPED_COLUMNS = 240
"""The width where there is no terminal: no line is folded, since scripts expect a row on a line."""


@dataclass(frozen=True)
class TextTable:
    """Cells of text; `right` numbers the columns that are figures; `verdicts` has one for each row; `folds` is the column that
    narrow terminals have in several lines."""

    columns: list[str]
    rows: list[list[str]]
    right: frozenset[int]
    verdicts: list[str]
    folds: int | None = None
    coloured: int = 4
    """The column that has the colour of the row's verdict."""


def text_tables(summary: Summary) -> list[TextTable]:
    """The program's time, then time in malloc and memory, whichever was measured: value, ratio with its interval, verdict."""
    tables = [_program_table(summary)] if summary.program_times else []
    tables += _counted_tables(summary)
    for main, beside_it in _TABLES:
        rows = summary.comparison[summary.comparison["measure"] == main]
        if rows.empty:
            continue
        others = known_measures(summary.comparison, beside_it)
        columns = ["allocator", MEASURES[main].title, f"vs {summary.baseline}", "", "verdict"]
        # A run's least time is its best; memory hardly varies, and has more measures instead.
        columns += [cell for name in others for cell in (_SHORT[name], "vs")] or ["min", "rounds"]
        cells, shown = [], shown_names(summary.experiment.runs)
        bases = summary.comparison[summary.comparison["verdict"] == BASELINE].set_index("measure")["value"]
        for _, row in rows.iterrows():
            beside = _beside(summary.comparison, str(row["allocator"]), others, bases)
            cells.append([shown.get(str(row["allocator"]), str(row["allocator"])), *_main_cells(row, bases)[1:], *(beside or [figure(row["minimum"], row["unit"]), str(row["rounds"])])])
        right = frozenset({1, 2, *range(5, len(columns))})
        tables.append(TextTable(columns, cells, right, [str(verdict) for verdict in rows["verdict"]], _VERDICT))
    found = difference_rows(summary)
    if found:
        columns, rows = found
        tables.append(TextTable(columns, rows, frozenset({2, 3, 4, 5}), ["" for _ in rows], 1))
    return tables


def _counted_tables(summary: Summary) -> list[TextTable]:
    """Instructions, where they were counted."""
    counts = {name: counted_figure(item, "instructions") for name, item in counts_by_allocator(summary.experiment.runs).items()
              if name != NULL_ALLOCATOR}
    base = counts.get(summary.baseline, math.nan)
    names = sorted(counts, key=lambda name: (name != summary.baseline, counts[name]))
    rows = [[name, count(counts[name]), decimal(counts[name] / base, 4) if base else count(counts[name] - base)] for name in names]
    return [TextTable(["allocator", "instructions", f"vs {summary.baseline}"], rows, frozenset({1, 2}), ["" for _ in rows])] if rows else []


def difference_rows(summary: Summary) -> tuple[list[str], list[list[str]]] | None:
    """Columns and rows of old against new; None but of two allocators that were counted and differ."""
    changes = differences(summary.experiment.runs, summary.comparison, summary.baseline)
    if not changes:
        return None
    (other,) = set(summary.experiment.runs["allocator"]) - {summary.baseline, NULL_ALLOCATOR}
    return ["largest differences", "of", summary.baseline, str(other), "change", ""], [
        [one.figure, one.of, amount(one.base, one.unit), amount(one.value, one.unit),
         signed_amount(one.size, one.unit), signed_percent(one.size / one.base) if one.base else "new"]
        for one in changes]


def known_measures(comparison: pd.DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of them that any run has: not every trace knows what its program held beside the heap."""
    known = set(comparison["measure"])
    return tuple(name for name in names if name in known)


def _program_table(summary: Summary) -> TextTable:
    columns = ["allocator", PROGRAM_TIME, f"vs {summary.baseline}", "", "verdict", "in the allocator", "its own", "mostly"]
    cells = []
    for item in summary.program_times:
        row = [item.allocator, figure(item.ns, "ns"), decimal(item.ratio.ratio, 3)]
        if item.verdict == BASELINE:
            cells.append([*row, "", BASELINE, "", "", ""])
            continue
        causes = ", ".join(f"{cause} {signed_percent(share)}" for cause, share in item.main_causes())
        cells.append([*row, interval(item.ratio.ci_low, item.ratio.ci_high, 3), item.verdict,
                      *(signed_percent(item.share(part)) for part in PARTS), causes])
    return TextTable(columns, cells, frozenset({1, 2, 5, 6}), [item.verdict for item in summary.program_times], _VERDICT)


def program_line(summary: Summary) -> list[str]:
    """What the brackets of the program's time are, or that it is not known."""
    if summary.program_times:
        means = interval_means(summary.program_times[0].bursts)
        return [f"Your program's time: {means[0].lower()}{means[1:]}"]
    return [NOT_KNOWN] if "time" in set(summary.experiment.runs["pass"]) else []


def _program_object(item: ProgramTime) -> dict[str, Any]:
    return {"allocator": item.allocator, "ns": item.ns, "ratio": item.ratio.ratio, "ratio_low": item.ratio.ci_low, "ratio_high": item.ratio.ci_high,
            "verdict": item.verdict, "shares": {part: {cause: item.share(part, cause) for cause in CAUSES} for part in PARTS},
            "blocks": [asdict(block) for block in item.blocks]}


_SHORT = {"rss_mean": "mean", "rss_end": "at end", "process_rss_peak": "process"}
PROCESS_NOTE = "Process: the peak of heap and what the program was measured to hold itself, at the same moment, without file pages."
_VERDICT = 4
_FOLDED_MIN = 10
"""Columns of a terminal for what is folded."""
_BETWEEN = 3
"""The columns between two cells: the padding and the place of a line."""


def _ratio_cell(row: pd.Series, bases: pd.Series) -> str:
    """A difference where the baseline takes nothing."""
    base = float(bases.get(row["measure"], math.nan))
    if math.isfinite(row["ratio"]) or not base <= 0:
        return decimal(row["ratio"])
    return change(row["value"] - base, row["unit"])


def _main_cells(row: pd.Series, bases: pd.Series) -> list[str]:
    bounds = "" if row["verdict"] == BASELINE else interval(row["ci_low"], row["ci_high"])
    return [str(row["allocator"]), figure(row["value"], row["unit"]), _ratio_cell(row, bases), bounds, in_words(row)]


def _beside(comparison: pd.DataFrame, allocator: str, measures: tuple[str, ...], bases: pd.Series) -> list[str]:
    cells = []
    for name in measures:
        rows = comparison[(comparison["measure"] == name) & (comparison["allocator"] == allocator)]
        cells += ["", ""] if rows.empty else [
            figure(rows["value"].iloc[0], rows["unit"].iloc[0]), _ratio_cell(rows.iloc[0], bases)]
    return cells


def control_line(controls: dict[str, Estimate]) -> str:
    """The baseline's ratio to itself, or ""."""
    reported = [f"{MEASURES[name].title} {control.ratio:.2f} {interval(control.ci_low, control.ci_high)}".rstrip()
            for name, control in controls.items() if math.isfinite(control.ratio) and name in dict(_TABLES)]
    return f"A/A control: {', '.join(reported)}" if reported else ""


def notes(summary: Summary) -> list[str]:
    """What stands below the tables."""
    process = PROCESS_NOTE if known_measures(summary.comparison, ("process_rss_peak",)) else ""
    return [*limit_lines(summary.experiment.runs), *filter(None, [process, control_line(summary.controls), order_line(summary.trends),
                                                         zeroed_line(summary.experiment.runs)]), *summary.missing]


_STYLES = {"faster": "green", "smaller": "green", "slower": "red", "larger": "red", UNRESOLVED: "yellow", SAME: "",
           BASELINE: "dim"}


def print_comparison(summary: Summary, color: str = "auto") -> None:
    """Malloc's cost, the tables, and the answer last, so that it is visible after a long output."""
    about = [*summary.obeyed, *summary.mixed, *summary.share_lines, *program_line(summary)]
    print_tables([(summary.caution, "bold"), (f"{summary.title}; bootstrap seed {summary.seed}", "dim"), *((line, "") for line in about)],
                 text_tables(summary), [*((line, "") for line in notes(summary)), (summary.headline, "bold")], color)


def print_tables(above: Sequence[tuple[str, str]], tables: Sequence[TextTable], below: Sequence[tuple[str, str]], color: str) -> None:
    """Lines with their styles, tables, lines. As wide as the terminal, and there with colour; color: auto, always or never."""
    from rich.console import Console
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    columns = terminal_columns(sys.stdout)
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    coloured = color == "always" or (color == "auto" and on_terminal and not plain)
    console = Console(file=sys.stdout, width=columns or PIPED_COLUMNS, highlight=False, soft_wrap=not columns,
                      force_terminal=coloured, color_system="standard" if coloured else None, no_color=not coloured)

    def say(lines: Sequence[tuple[str, str]]) -> None:
        for words, style in lines:
            if words:
                console.print(Text(printable(words), style=style))

    say(above)
    for table in tables:
        for part in _fitting(table, columns):
            console.print()
            _print_table(console, part, on_terminal)
    console.print()
    say(below)


def _fitting(table: TextTable, columns: int) -> list[TextTable]:
    """What stands beside the verdicts is a table of its own if the table is wider than so many columns (0: any number)."""
    if table.folds != _VERDICT or not columns or _least_width(table) <= columns:
        return [table]
    end = _VERDICT + 1
    main = TextTable(table.columns[:end], [row[:end] for row in table.rows], frozenset(n for n in table.right if n < end), table.verdicts, _VERDICT)
    columns_beside, *rows_beside = [[row[0], *row[end:]] for row in [table.columns, *table.rows]]
    right = frozenset(number - _VERDICT for number in table.right if number >= end)
    last = len(columns_beside) - 1
    beside = TextTable(columns_beside, rows_beside, right, ["" for _ in rows_beside], None if last in right else last)
    return [main, beside]


def _print_table(console: Any, table: TextTable, on_terminal: bool) -> None:
    """Whole: a line that is longer than the terminal's goes on in its next one, where rich would leave out columns and digits."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD if on_terminal else None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(table.columns):
        folds = number == table.folds
        made.add_column(Text(printable(name)), justify="right" if number in table.right else "left", no_wrap=not folds,
                        min_width=_FOLDED_MIN if folds else None)
    for row, verdict in zip(table.rows, table.verdicts, strict=True):
        style = _STYLES.get(verdict, "")
        made.add_row(*(Text(printable(cell), style=style if number == table.coloured else "") for number, cell in enumerate(row)))
    width = console.width
    console.width = max(width, _least_width(table))
    if on_terminal:
        console.print(made)
    else:
        _print_stripped(console, made)
    console.width = width


def _least_width(table: TextTable) -> int:
    """The least width of a terminal that all cells fit into, if what folds takes several lines."""
    from rich.cells import cell_len

    cells = [[printable(cell) for cell in column] for column in zip(table.columns, *table.rows, strict=True)]
    widths = [max(map(cell_len, column)) for column in cells]
    if table.folds is not None:
        widths[table.folds] = max(_FOLDED_MIN, *(cell_len(word) for cell in cells[table.folds] for word in ["", *cell.split()]))
    return sum(widths) + _BETWEEN * len(widths) - 1


def _print_stripped(console: Any, table: Any) -> None:
    """Without trailing blanks."""
    with console.capture() as captured:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def processor_lines(table: ProcessorTable) -> list[str]:
    """Memory by allocator and number of processors, as text."""
    rows = [[printable(cell) for cell in row] for row in [table.columns, *table.rows]]
    return [f"{table.title[0].upper()}{table.title[1:]} by processors: {printable(table.trace_path)}", *table_lines(rows, range(1, len(table.columns)))]


def processor_markdown(table: ProcessorTable) -> str:
    """The table as Markdown."""
    rule = ["---", *["---:"] * (len(table.columns) - 1)]
    heading = f"**{markdown_escaped(table.title[0].upper() + table.title[1:])} by processors**: {markdown_escaped(table.trace_path)}"
    return "\n".join([heading, "", *(_markdown_row(cells) for cells in (list(map(markdown_escaped, table.columns)), rule)),
                      *(_markdown_row(list(map(markdown_escaped, row))) for row in table.rows)])


def comparison_markdown(summary: Summary) -> str:
    """For issues, pull requests and wikis: the answer, malloc's cost, the tables."""
    return tables_markdown([summary.headline], [*summary.obeyed, *summary.mixed, *summary.share_lines, *program_line(summary)], text_tables(summary),
                           notes(summary), f"{summary.title}; bootstrap seed {summary.seed}")


def tables_markdown(answer: Sequence[str], about: Sequence[str], tables: Sequence[TextTable], below: Sequence[str], title: str) -> str:
    """Lines in bold, lines, tables, a list of notes, and what was compared."""
    lines = [*(f"**{markdown_escaped(words)}**" for words in answer), "", *map(markdown_escaped, about)]
    for table in tables:
        rule = ["---:" if number in table.right else "---" for number in range(len(table.columns))]
        lines += ["", *(_markdown_row(cells) for cells in (list(map(markdown_escaped, table.columns)), rule))]
        lines += [_markdown_row(list(map(markdown_escaped, row))) for row in table.rows]
    lines += ["", *(f"- {markdown_escaped(note)}" for note in below)] if below else []
    return "\n".join([*lines, "", markdown_escaped(title)])


def _markdown_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comparison_csv(summaries: list[Summary]) -> str:
    """One row for each trace, setting, measure and allocator; empty cells for what is not known. Times in ns, memory in
    bytes."""
    tables = []
    for summary in summaries:
        settings = ", ".join(f"{key}={value}" for key, value in summary.experiment.settings.items())
        table = summary.comparison.copy()
        table.insert(0, "trace", summary.experiment.trace_path or summary.experiment.trace_sha256)
        table.insert(1, "settings", settings)
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    for name in whole.select_dtypes(exclude="number").columns:
        whole[name] = [printable(cell) if isinstance(cell, str) else cell for cell in whole[name]]
    return str(whole.to_csv(index=False, lineterminator="\n"))


def comparison_object(summary: Summary) -> dict[str, Any]:
    """One experiment as JSON values; figures that are not known are null."""
    experiment, time, memory = summary.experiment, summary.malloc_share, summary.memory_share
    return {
        "trace": {"path": experiment.trace_path, "sha256": experiment.trace_sha256},
        "settings": experiment.settings,
        "baseline": summary.baseline,
        "bootstrap_seed": summary.seed,
        "headline": summary.headline,
        "caution": summary.caution or None,
        "worth": {
            "sentences": summary.share_lines,
            "cpu_ns": time.cpu_ns if time else None,
            "cpu_share": time.share if time else None,
            "memory_bytes": memory.whole_bytes if memory else None,
            "memory_share": memory.share if memory else None,
            "memory_gain": memory.gain if memory else None,
        },
        "program_time": [_program_object(item) for item in summary.program_times] or None,
        "controls": {name: with_nulls({key: value for key, value in asdict(control).items() if key != "hidden"}) for name, control in summary.controls.items()},
        "differences": [asdict(one) for one in differences(experiment.runs, summary.comparison, summary.baseline)],
        "order": [asdict(trend) for trend in summary.trends],
        "missing": summary.missing,
        "mixed": summary.mixed,
        "control_calls": summary.obeyed,
        "comparisons": [with_nulls(row) for row in summary.comparison.drop(columns="baseline").to_dict("records")],
        **({"newer": summary.newer, "shifts": [with_nulls(asdict(shift) | {"change": shift.size}) for shift in summary.shifts]} if summary.newer else {}),
    }
