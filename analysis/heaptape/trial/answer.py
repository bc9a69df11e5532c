# SPDX-License-Identifier: Apache-2.0
"""What `heaptape try` prints: the decision, the figures behind it, what is at stake, and how to go on."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.allocators import in_words
from ..base.recorded_trace import RecordedProcess
from ..base.sharing import in_brackets
from ..base.text import printable, table_lines
from ..base.units import (
    byte_count,
    counted,
    figure,
    listing,
    nanoseconds,
    null_unless_known,
    percent,
)
from ..results.caution import check_line
from ..results.comparison import BASELINE, MEASURES, SAME, SAME_WITHIN, UNRESOLVED
from ..results.reader import NULL_ALLOCATOR
from ..results.remarks import settings_lines, shown_names
from ..results.summary import Summary
from ..results.use import COMMAND_SHOWN, also_set, python_malloc, use_in_one_line
from .changes import CPU, Change, Changes, modelled_ratio, modelled_times
from .decision import Decision
from .recorded import Recorded

ROWS_MAX = 11
PROCESSES_SHOWN = 5
TIMES_FROM = 2.0
"""From this ratio on "times as much" is easier to read than percent."""


@dataclass(frozen=True)
class Trial:
    """All that is known when the replays have ended: recordings and summaries of the program, in the same order. logs: where another
    process's log is found."""

    command: list[str]
    folder: Path
    logs: str
    recorded: list[Recorded]
    summaries: list[Summary]
    decision: Decision
    changes: Changes
    why_baseline: str
    notes: list[str]


def short(command: Sequence[str]) -> str:
    """A command line that fits into one line."""
    return _cut(shlex.join(command))


def _cut(command: str) -> str:
    return command if len(command) <= COMMAND_SHOWN else f"{command[:COMMAND_SHOWN - 1]}…"


def answer(trial: Trial) -> str:
    """The whole text; the first line is the decision."""
    summary, recorded = trial.summaries[0], trial.recorded[0]
    shown = readable_names(summary.experiment.runs)
    lines = [*decision_lines(trial), *lines_of_runs(trial.changes, shown), *trial.notes, "", *table(summary), "", *_stakes(summary)]
    lines += [line for line in summary.missing if line not in summary.headline]
    lines += [*summary.obeyed, *settings_lines(summary.experiment.runs), *filter(None, [check_line(recorded.context)]), *_python_lines(trial)]
    lines += _processes(trial)
    lines += _use(trial)
    lines += [f"Report:  {trial.folder}/report.html"]
    return "\n".join(printable(line) for line in lines)


def decision_lines(trial: Trial) -> list[str]:
    """The decision first, then what else may be done, and what speaks against all of it."""
    summary = trial.summaries[0]
    first, *more = [summary.headline] if summary.own else trial.decision.lines
    shared = f" ({summary.sharing})" if summary.sharing and not summary.own else ""
    caution = [] if summary.own or not summary.caution else [summary.caution]
    return [f"{first.removesuffix('.')}{shared}." if shared else first, *more, *caution, *filter(None, [trial.why_baseline])]


def lines_of_runs(changes: Changes, shown: Mapping[str, str]) -> list[str]:
    """Whose figures are no replay's."""
    runs = {shown[name]: figures[CPU].runs for name, figures in changes.items() if CPU in figures and figures[CPU].runs}
    words = " to ".join(str(number) for number in sorted({min(runs.values()), max(runs.values())})) if runs else ""
    return [f"CPU under {listing(list(runs))} is that of {words} runs of the program itself."] if runs else []


# ---- the table ----


def table(summary: Summary) -> list[str]:
    """A line for each allocator, the baseline first: time in malloc, the modelled time where it was counted, and peak RSS."""
    runs = summary.experiment.runs
    versions, shown, counts = versions_of(runs), readable_names(runs), modelled_times(runs)
    names = list(dict.fromkeys(summary.comparison["allocator"]))[:ROWS_MAX]
    rows = summary.comparison.set_index(["measure", "allocator"])
    by_count = summary.baseline in counts
    cells = [["allocator", MEASURES["time"].title, "", *(["modelled"] if by_count else []), MEASURES["rss_peak"].title, ""]]
    for name in names:
        line = [shown[name] if ":" in name else f"{shown[name]} {versions.get(name, '')}".rstrip()]
        line += _cells(rows, "time", name)
        line += [_by_count(counts, name, summary.baseline)] if by_count else []
        cells.append(line + _cells(rows, "rss_peak", name))
    return table_lines(cells, right=(1, 4) if by_count else (1, 3), columns=0)


def _cells(rows: pd.DataFrame, measure: str, name: str) -> list[str]:
    if (measure, name) not in rows.index:
        return ["n/a", ""]
    row = rows.loc[(measure, name)]
    value = float(row["value"])
    shown = figure(value, row["unit"]) if math.isfinite(value) else "n/a"
    return [shown, "" if row["verdict"] == BASELINE else _difference(row, MEASURES[measure].unit == "ns")]


def _difference(row: pd.Series, of_time: bool) -> str:
    """In words, so that no number has to be turned round: "2.1× faster [1.9, 2.4]", "12 % more [10, 14]"."""
    ratio, low, high = (float(row[key]) for key in ("ratio", "verdict_low", "verdict_high"))
    if not math.isfinite(ratio):
        return "n/a"
    if row["verdict"] == UNRESOLVED:
        return f"not resolved {_bounds(low, high, _percent_off)}".rstrip()
    if row["verdict"] == SAME:
        return "the same"
    less, more = ("faster", "slower") if of_time else ("less", "more")
    if of_time or not 1 / TIMES_FROM < ratio < TIMES_FROM:
        if ratio < 1:
            return f"{1 / ratio:.2f}× {less} {_bounds(1 / high, 1 / low, '{:.2f}'.format)}".rstrip()
        return f"{ratio:.2f}× {more} {_bounds(low, high, '{:.2f}'.format)}".rstrip()
    low, high = (low, high) if ratio > 1 else (2 - high, 2 - low)
    return f"{abs(ratio - 1) * 100:.0f} % {less if ratio < 1 else more} {_bounds(low, high, _percent_off)}".rstrip()


def _percent_off(ratio: float) -> str:
    return f"{(ratio - 1) * 100:.0f}".replace("-", "−")


def _bounds(low: float, high: float, text: Callable[[float], str]) -> str:
    return f"[{text(low)}, {text(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def _by_count(counts: dict[str, float], name: str, baseline: str) -> str:
    if name == baseline:
        return nanoseconds(counts[name])
    ratio, low, high = modelled_ratio(counts, name, baseline)
    if not math.isfinite(ratio):
        return ""
    if abs(ratio - 1) <= SAME_WITHIN:
        return "the same"
    return f"{1 / ratio:.2f}× faster" if high < 1 else f"{ratio:.2f}× slower" if low > 1 else "no difference shown"


def readable_names(runs: pd.DataFrame) -> dict[str, str]:
    """What sentences and tables call each allocator."""
    with_settings = shown_names(runs)
    return {name: with_settings[name] if with_settings.get(name, name) != name else in_words(name) for name in map(str, runs["allocator"].unique())}


def versions_of(runs: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(group["allocator_version"].iloc[0]) for name, group in runs.groupby("allocator") if name != NULL_ALLOCATOR} \
        if "allocator_version" in runs else {}


# ---- what is at stake, and how to go on ----


def _stakes(summary: Summary) -> list[str]:
    """What the program uses, and malloc's part of it."""
    time, memory = summary.malloc_share, summary.memory_share
    words = [f"malloc takes {percent(time.share)} of {nanoseconds(time.cpu_ns)} of CPU time{'' if time.alone else ' (with the recorder)'}"] if time else []
    if memory:
        gain = "" if memory.gain is None else f", {byte_count(memory.gain * memory.whole_bytes)} beyond the live blocks"
        words.append(f"its heap is {percent(memory.share)} of {byte_count(memory.whole_bytes)} of memory at the peak{gain}")
    return [f"At stake: {'; '.join(words)}."] if words else summary.share_lines


def _python_lines(trial: Trial) -> list[str]:
    if python_malloc(trial.recorded[0].context) != "":
        return []
    return ["Python allocates objects of up to 512 bytes itself: they are not compared. To compare them too: set PYTHONMALLOC=malloc."]


def _processes(trial: Trial) -> list[str]:
    """Which process this is of, where there were several."""
    recorded = trial.recorded[0]
    processes = recorded.processes
    if len(processes) < 2:
        return []
    shown = list(processes[:PROCESSES_SHOWN])
    if recorded.process not in shown:
        shown[-1] = recorded.process
    rows = [["process", "calls", "CPU", "RssAnon", "command"], *(_process_cells(one, one == recorded.process) for one in shown)]
    left = len(processes) - len(shown)
    return ["", f"This is process {recorded.process.number} of {counted(len(processes), 'recorded program')}:",
            *(f"  {line}" for line in table_lines(rows, right=(1, 2, 3), columns=0)), *([f"  and {left} more"] if left > 0 else []),
            f"Another:  heaptape try --logs {shlex.quote(trial.logs)} --process PID"]


def _process_cells(process: RecordedProcess, chosen: bool) -> list[str]:
    first, _, rest = process.command.partition(" ")
    command = _cut(f"{first.rpartition('/')[2]} {rest}".rstrip())
    return [f"{process.number}{' *' if chosen else ''}", f"{process.calls:,}", nanoseconds(process.cpu_ns), byte_count(process.rss_anon_peak_bytes), command]


def _use(trial: Trial) -> list[str]:
    """One line to paste for the first that is worth using; the report has those of services and containers."""
    line = use_line(trial)
    also = also_set(trial.recorded[0].context)
    return ["", *([also] if also and line else []), f"Use{in_brackets(trial.summaries[0].sharing)}:  {line}"] if line else [""]


def use_line(trial: Trial) -> str | None:
    """None where there is nothing to use."""
    recorded, summary = trial.recorded[0], trial.summaries[0]
    name = summary.own.best if summary.own else next(iter(trial.decision.allocators), "")
    if not name:
        return None
    kind, path, package, variables = used_as(summary, name)
    return use_in_one_line(name, kind, path, package, variables, trial.command, recorded.context)


def used_as(summary: Summary, name: str) -> tuple[str, str, str, list[str]]:
    """Kind, path and Debian package of an allocator, "" where not known, and the variables that set it."""
    run = summary.experiment.runs[summary.experiment.runs["allocator"] == name].iloc[0]
    kind, path, package = (value if isinstance(value := run.get(f"allocator_{key}"), str) else "" for key in ("kind", "path", "debian"))
    variables: Any = run.get("allocator_environment")
    return kind, path, package, variables if isinstance(variables, list) else []


# ---- as JSON ----

def answer_object(trial: Trial) -> dict[str, Any]:
    """decision: "use", "keep" or "not decided"; shares are of what the program uses, negative: less than under the baseline;
    [low, high] is the interval by which was decided, [least, most] also holds what placement may do, or what a replay leaves out; null: not known.
    from: "runs" of the program itself, as many as "runs" says, "counts" of simulated calls, or the "replay"."""
    summary, recorded = trial.summaries[0], trial.recorded[0]
    return {
        "decision": None if summary.own else trial.decision.answer,
        "sentences": [summary.headline] if summary.own else trial.decision.lines,
        "allocators": [summary.own.best] if summary.own and summary.own.best else trial.decision.allocators,
        "use": use_line(trial),
        "baseline": summary.baseline,
        "changes": {name: {"cpu" if what == CPU else "memory": _change(change) for what, change in figures.items()} for name, figures in trial.changes.items()},
        "unknown": [*([summary.caution] if summary.caution else []), *filter(None, [trial.why_baseline]), *trial.notes, *summary.missing],
        "recordings": len(trial.recorded),
        "process": {"pid": recorded.process.pid, "command": _cut(recorded.process.command), "calls": recorded.process.calls,
                    "cpu_ns": recorded.process.cpu_ns, "rss_anon_peak_bytes": recorded.process.rss_anon_peak_bytes},
        "processes": len(recorded.processes),
        "sharing": summary.sharing or None,
        "folder": str(trial.folder),
    }


def _change(change: Change) -> dict[str, Any]:
    unit = "ns" if change.what == CPU else "bytes"
    rounded = {key: null_unless_known(round(getattr(change, key), 3) + 0.0) for key in ("share", "low", "high", "least", "most")}
    return {f"whole_{unit}": round(change.whole), **rounded, "from": "runs" if change.runs else "counts" if change.counted else "replay",
            **({"runs": change.runs} if change.runs else {})}
