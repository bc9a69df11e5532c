# SPDX-License-Identifier: Apache-2.0
"""docs/method/validity.md and the totals, from the tables beside the page (validate.py writes them)."""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heaptape.base.units import MISSING, decimal, percent
from heaptape.trial.changes import OWN_RUNS, REPLAY_ERROR

Row = dict[str, str]
Tables = dict[str, list[Row]]
"""By file name, what is in it."""
Programs = dict[str, dict[str, Any]]
"""By name, each with its set."""
Cell = Callable[[Tables], str]

GOALS = {"peak": (0.025, 0.10), "mean": (0.05, 0.15)}  # median and worst
RANKS_GOAL, SIGNS_GOAL, SAVING_GOAL, CURVE_GOAL = 0.9, 0.9, 0.25, 0.05
COUNT_GOALS = (0.02, 0.10)  # median and 90th percentile
HELD_GOAL = 0.9
CHANGES = [f"{word}{end}" for word in ("change", "real_change") for end in ("", "_low", "_high")]
"""Of heaptape validate's figures of memory, against the baseline."""
ACCESSES_GOAL, CALLS_GOAL, OFF_GOAL, ORDER_GOAL = 0.003, 0.008, 0.05, 0.95
LARGE = 0.01
"""The sign of a difference has to be right if that is a greater share of the program's time."""
NORMAL_95 = 1.96

SETS = {"programs": "heaptape was built with these", "others": "others, chosen before the first was recorded", "services": "threaded services, likewise",
        "large": "of up to {largest}, likewise"}
"""The sets of programs whose memory and time were measured: files beside this one, and columns of the page."""

HEAD = """# Predicted and real

`bench/validity/validate.py` ran [`heaptape validate`](../reference/validate.md) for {programs} real programs. It recorded each once, replayed it under
each allocator, and ran it for real under each, in {rounds} rounds of random order. Sets:
{sets}.

Of {counted} programs, with smaller inputs, it counted instructions exactly (`heaptape validate --instructions`). The page is written by

```sh
bench/validity/validate.py times --again --only programs,others,services   # two hours, on a quiet machine
bench/validity/validate.py times --again --only large --rounds 2           # two hours; its service takes another
bench/validity/validate.py instructions --again                            # half an hour
bench/validity/validate.py accesses --again                                # 20 minutes
```

## All programs
*Held*: the real figure is within the interval of the prediction. That of `replay` is about its rounds, and knows nothing of what a replay leaves out;
`try` [adds that](../reference/try.md#the-answer), by a constant that was chosen when eleven of the others were known.
"""

MEMORY = """## Largest errors in memory
The worst error among the allocators (predicted/real − 1, median over the rounds), in percent, where it is above {peak} (peak) or {mean} (mean); bold
above the goal for the worst."""

LARGE_HEAD = """## Large and long
Peak RSS in GB, predicted / real."""

TIME = """## Time and instructions
Differences to glibc, predicted/real. *CPU*: ms, where the 95 % interval of the real one excludes 0. *Instructions*: millions, exact, without start-up
and loading; bold where the prediction is more than {high} off. Predicted are those of the replay's calls of malloc, real those of the whole program.
[Why CPU time differs](method.md#validity)."""

ACCESSES = """## The program's time
`heaptape validate --count --accesses` counts {programs} other programs of about 0.1 s, and replays their calls with and without their accesses
([count](../reference/count.md)). Differences to glibc of the modelled time, in percent of the program's, *real / with accesses / calls alone*; bold
where the sign is wrong above {large}."""

OUTSIDE = """## Instructions outside malloc
Of the differences that are more than {high} off: how many million instructions more than under glibc the program executes outside malloc, which calls
do not tell, and how far the replay is off within."""

TABLES = """## All figures
{links}. `peak_own_percent`: the program's own mappings, of the predicted peak. `ends_agree`: the allocators with the least and the most memory are
those predicted; allocators within the interval or 1 % of each other are equal. `curve_percent`: time-weighted mean difference of the recorded RSS and
the recorded allocator's replay. Request latencies are the load generator's; `malloc_p99_us` and `free_p99_us` are of single calls in the replay.
instructions.csv: differences of the replay, of the real program, in its calls of malloc and outside."""


def table(heads: list[str], rows: list[list[str]], right_from: int = 1) -> str:
    """Markdown. Columns from `right_from` on are aligned to the right."""
    marks = ["---"] * right_from + ["---:"] * (len(heads) - right_from)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, marks, *rows])


def signed(value: float, digits: int = 1) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−")


def _share_of(agreed: int, of: int) -> str:
    return f"{agreed} of {of}, {percent(agreed / of)}" if of else MISSING


def _signs(pairs: list[tuple[float, float]]) -> str:
    return _share_of(sum(one * other > 0 for one, other in pairs), len(pairs))


def _high(errors: list[float]) -> float:
    """The 90th percentile."""
    return statistics.quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]


def _errors(tables: Tables, figure: str) -> list[tuple[float, str]]:
    """As shares, each with whose it is."""
    return [(abs(float(error)) / 100, f"{row['program']} under {row['allocator']}") for row in tables["memory.csv"]
            if (error := row[f"{figure}_error_percent"])]


def _median_error(tables: Tables, figure: str) -> str:
    errors = [error for error, _ in _errors(tables, figure)]
    return f"{percent(statistics.median(errors))} of {len(errors)} pairs" if errors else MISSING


def _high_error(tables: Tables, figure: str) -> str:
    errors = [error for error, _ in _errors(tables, figure)]
    return percent(_high(errors)) if errors else MISSING


def _worst_of_all(tables: Tables, figure: str) -> str:
    errors = _errors(tables, figure)
    return f"{percent(max(errors)[0])} ({max(errors)[1]})" if errors else MISSING


def _ends(tables: Tables, figure: str) -> str:
    ends = [row[f"{figure}_ends_agree"] for row in tables["programs.csv"] if row[f"{figure}_ends_agree"]]
    return _share_of(ends.count("yes"), len(ends))


def _changes(tables: Tables, figure: str) -> list[dict[str, float]]:
    """Of the pairs whose real change has an interval, in percent of the baseline's figure."""
    rows = [[row.get(f"{figure}_{name}_percent") for name in CHANGES] for row in tables["memory.csv"]]
    return [dict(zip(CHANGES, map(float, filter(None, row)), strict=True)) for row in rows if all(row)]


def _change_signs(tables: Tables, figure: str) -> str:
    """Of the changes that are shown to be there, and are not next to nothing."""
    clear = [change for change in _changes(tables, figure)
             if min(abs(change["real_change_low"]), abs(change["real_change_high"])) > 100 * LARGE and change["real_change_low"] * change["real_change_high"] > 0]
    return _signs([(change["change"], change["real_change"]) for change in clear])


def _change_error(tables: Tables, figure: str) -> str:
    errors = [abs(change["change"] - change["real_change"]) / 100 for change in _changes(tables, figure)]
    return f"{percent(statistics.median(errors))}, {percent(_high(errors))}" if errors else MISSING


def _changes_held(tables: Tables, figure: str) -> str:
    changes = _changes(tables, figure)
    return _share_of(sum(change["change_low"] <= change["real_change"] <= change["change_high"] for change in changes), len(changes))


def _held_by_try(tables: Tables) -> str:
    """With what `try` adds for one recording: of one thread the replay's own error, of several how runs differ."""
    threads = {row["program"]: int(row["threads"]) for row in tables["programs.csv"]}
    held = []
    for row in tables["memory.csv"]:
        if change := _changes({"memory.csv": [row]}, "peak"):
            ratio, low, high, real = (1 + change[0][key] / 100 for key in ("change", "change_low", "change_high", "real_change"))
            error = math.hypot(OWN_RUNS if threads[row["program"]] > 1 else 0.0, REPLAY_ERROR)
            low, high = (ratio * math.exp(side * math.hypot(math.log(end / ratio), error)) for side, end in ((-1, low), (1, high)))
            held.append(low <= real <= high)
    return _share_of(sum(held), len(held))


def _of_memory(figure: str) -> list[tuple[str, str, Cell]]:
    middle, most = GOALS[figure]
    cells: list[tuple[str, str, Callable[[Tables, str], str]]] = [
        ("error, median", f"≤ {percent(middle)}", _median_error), ("error, 90th percentile", "", _high_error),
        ("worst error", f"≤ {percent(most)}", _worst_of_all), ("smallest and largest allocator as predicted", f"≥ {percent(RANKS_GOAL)}", _ends),
        (f"sign of changes above {percent(LARGE)} right", f"≥ {percent(SIGNS_GOAL)}", _change_signs),
        ("error of the change, median, 90th percentile", "", _change_error), ("change held by the interval of the rounds", "", _changes_held)]
    return [(f"{figure} RSS: {title}", goal, partial(cell, figure=figure)) for title, goal, cell in cells]


def _resolved(tables: Tables) -> list[Row]:
    """The differences of CPU time that are shown to be there."""
    return [row for row in tables["cpu.csv"] if row["resolved"] == "yes"]


def savings_noise(rows: list[Row]) -> float | None:
    """What the median error of savings would be of right predictions: errors of the real differences alone, drawn from their 95 %
    intervals."""
    if not rows:
        return None
    real, low, high = (np.array([float(row[f"real_{name}_ms"]) for row in rows]) for name in ("difference", "low", "high"))
    drawn = np.random.default_rng(20817).standard_normal((10_000, len(rows))) * (high - low) / 2 / NORMAL_95
    return float(np.median(np.median(np.abs(drawn / real), axis=1)))


def _cpu_signs(tables: Tables) -> str:
    return _signs([(float(row["predicted_difference_ms"]), float(row["real_difference_ms"])) for row in _resolved(tables)])


def _cpu_error(tables: Tables) -> str:
    errors = [abs(float(row["predicted_over_real"]) - 1) for row in _resolved(tables)]
    return percent(statistics.median(errors)) if errors else MISSING


def _cpu_noise(tables: Tables) -> str:
    return percent(savings_noise(_resolved(tables)))


def _cpu_held(tables: Tables) -> str:
    """Here the real figure is as uncertain as the predicted one, so that two intervals have to meet."""
    rows = [row for row in _resolved(tables) if row.get("predicted_low_ms")]
    return _share_of(sum(float(row["predicted_low_ms"]) <= float(row["real_high_ms"]) and float(row["real_low_ms"]) <= float(row["predicted_high_ms"])
                         for row in rows), len(rows))


def _curve(tables: Tables) -> str:
    curves = [float(row["curve_percent"]) / 100 for row in tables["programs.csv"] if row["curve_percent"]]
    return percent(statistics.median(curves)) if curves else MISSING


TOTALS: list[tuple[str, str, Cell]] = [
    *_of_memory("peak"), ("peak RSS: change held by the interval of `try`", f"≥ {percent(HELD_GOAL)}", _held_by_try), *_of_memory("mean"),
    ("CPU time: sign right of differences resolved at 95 %", f"≥ {percent(SIGNS_GOAL)}", _cpu_signs),
    ("CPU time: error of these differences, median", f"≤ {percent(SAVING_GOAL)}", _cpu_error),
    ("CPU time: the same if all predictions were right, by the real intervals", "", _cpu_noise),
    ("CPU time: the intervals of both meet", "", _cpu_held),
    ("recorded RSS curve against that of its replay, time-weighted mean difference, median", f"≤ {percent(CURVE_GOAL)}", _curve)]
"""Title, goal and figure of each row."""


def _only(tables: Tables, names: set[str]) -> Tables:
    return {file: [row for row in rows if row["program"] in names] for file, rows in tables.items()}


def measured_sets(tables: Tables, programs: Programs) -> dict[str, Tables]:
    """By the sets of which something was measured."""
    there = {row["program"] for row in tables["programs.csv"]}
    of_sets = {name: {key for key in there if programs[key]["set"] == name} for name in SETS}
    return {name: _only(tables, names) for name, names in of_sets.items() if names}


@dataclass(frozen=True)
class Counted:
    """Differences of instructions of a program under an allocator: of the replay, of the real program, and its parts."""

    program: str
    allocator: str
    predicted: int
    real: int
    malloc: int
    outside: int

    @property
    def error(self) -> float:
        return abs(self.predicted - self.real) / abs(self.real)

    @property
    def malloc_error(self) -> float | None:
        return abs(self.predicted / self.malloc - 1) if self.malloc else None


def _counted(tables: Tables) -> list[Counted]:
    """The rows in which both differences are known."""
    return [Counted(row["program"], row["allocator"], *(int(row[key]) for key in ("predicted", "real", "malloc", "outside")))
            for row in tables["instructions.csv"] if row["predicted"] and int(row["real"])]


def _count_totals(counted: list[Counted]) -> list[list[str]]:
    if not counted:
        return []
    within = [pair.malloc_error for pair in counted if pair.malloc_error is not None]
    rows = []
    for title, errors in (("instructions: error of the predicted difference", [pair.error for pair in counted]),
                          ("instructions within calls of malloc: the same", within)):
        if errors:
            rows += [[f"{title}, median of {len(errors)} pairs", percent(statistics.median(errors)), f"≤ {percent(COUNT_GOALS[0])}"],
                     [f"{title}, 90th percentile", percent(_high(errors)), f"≤ {percent(COUNT_GOALS[1])}"]]
    rows.insert(2, ["instructions: sign of the difference right", _signs([(pair.predicted, pair.real) for pair in counted]), "all"])
    return rows


def totals_table(tables: Tables, programs: Programs, with_accesses: bool = False) -> str:
    """What, of which set, and what it should be. Counts are of the set programs. The page has those of accesses in their own section."""
    sets = measured_sets(tables, programs)
    rows = [[title, *(cell(of) for of in sets.values()), goal] for title, goal, cell in TOTALS] if sets else []
    one_of = [*_count_totals(_counted(tables)), *(accesses_totals(_placed(tables)) if with_accesses else [])]
    rows += [[title, found, *[""] * (len(sets) - 1), goal] for title, found, goal in one_of]
    return table(["over all", *(sets or ["found"]), "goal"], rows)


def _worst_error(tables: Tables, program: str, figure: str) -> str:
    """Empty where every allocator's is within the goal for the median."""
    errors = [float(row[f"{figure}_error_percent"]) for row in tables["memory.csv"]
              if row["program"] == program and row[f"{figure}_error_percent"]]
    worst, (middle, most) = max(errors, key=abs, default=0), GOALS[figure]
    if abs(worst) <= 100 * middle:
        return ""
    return f"**{signed(worst)}**" if abs(worst) > 100 * most else signed(worst)


def is_missed(tables: Tables, program: str) -> bool:
    """Whether its memory is, under any allocator."""
    return any(_worst_error(tables, program, figure) for figure in GOALS)


def memory_table(tables: Tables) -> str:
    """The table of the programs whose memory was missed."""
    names = [row["program"] for row in tables["programs.csv"] if is_missed(tables, row["program"])]
    return table(["program", "peak RSS", "mean RSS"], [[name, *(_worst_error(tables, name, figure) for figure in GOALS)] for name in names])


def _millions(value: float) -> str:
    """Millions, with two digits at least."""
    return signed(value / 1e6, 1 if abs(value) >= 1e7 else 2 if abs(value) >= 1e5 else 4)


def _count_cell(pair: Counted) -> str:
    cell = f"{_millions(pair.predicted)}/{_millions(pair.real)}"
    return f"**{cell}**" if pair.error > COUNT_GOALS[1] else cell


def time_table(tables: Tables) -> str:
    """The table of all programs, and of the allocators that were counted."""
    counted = {(pair.program, pair.allocator): _count_cell(pair) for pair in _counted(tables)}
    known = {(row["program"], row["allocator"]) for row in tables["instructions.csv"] if row["allocator"] != "glibc"}
    allocators = list(dict.fromkeys(row["allocator"] for row in tables["instructions.csv"] if row["allocator"] != "glibc"))
    rows = []
    for name in (row["program"] for row in tables["programs.csv"]):
        savings = ", ".join(f"{row['allocator']} {signed(float(row['predicted_difference_ms']))}/{signed(float(row['real_difference_ms']))}"
                            for row in _resolved(tables) if row["program"] == name)
        rows.append([name, savings, *(counted.get((name, allocator), MISSING if (name, allocator) in known else "") for allocator in allocators)])
    return table(["program", "CPU, ms", *(f"{name}, instructions" for name in allocators)], rows)


@dataclass(frozen=True)
class Placed:
    """A program under an allocator: differences to the baseline as shares of the program's time."""

    program: str
    allocator: str
    real: float
    accesses: float
    calls: float

    @property
    def wrong(self) -> bool:
        return abs(self.real) > LARGE and self.real * self.accesses <= 0

    @property
    def cell(self) -> str:
        cell = " / ".join(signed(100 * value, 2) for value in (self.real, self.accesses, self.calls))
        return f"**{cell}**" if self.wrong else cell


def _placed(tables: Tables) -> list[Placed]:
    return [Placed(row["program"], row["allocator"], *(float(row[f"{key}_percent"]) / 100 for key in ("real", "accesses", "calls_alone")))
            for row in tables["accesses.csv"] if row["real_percent"]]


def _order(pairs: list[Placed]) -> float:
    """Spearman's correlation of the differences."""
    ranks = [np.argsort(np.argsort(values)) for values in ([pair.real for pair in pairs], [pair.accesses for pair in pairs])]
    return float(np.corrcoef(*ranks)[0, 1])


def accesses_totals(pairs: list[Placed]) -> list[list[str]]:
    """What, how much, and what it should be."""
    if len(pairs) < 2:
        return []
    large, title = [pair for pair in pairs if abs(pair.real) > LARGE], "program's time"
    rows = [[f"{title}: error {how}, in percent of it, median of {len(pairs)} pairs", percent(statistics.median(errors)), f"≤ {percent(goal)}"]
            for how, goal, errors in (("with accesses", ACCESSES_GOAL, [abs(pair.accesses - pair.real) for pair in pairs]),
                                      ("of calls alone", CALLS_GOAL, [abs(pair.calls - pair.real) for pair in pairs]))]
    off = statistics.median(abs(pair.accesses / pair.real - 1) for pair in large) if large else None
    return [*rows, [f"{title}: error with accesses, of differences above {percent(LARGE)}, median", percent(off), f"≤ {percent(OFF_GOAL)}"],
            [f"{title}: sign right with accesses, of differences above {percent(LARGE)}",
             _share_of(sum(not pair.wrong for pair in large), len(large)), "all"],
            [f"{title}: rank correlation of real differences and those with accesses", decimal(_order(pairs), 2), f"≥ {decimal(ORDER_GOAL, 2)}"]]


def accesses_section(tables: Tables) -> str:
    """The whole."""
    pairs, rows = _placed(tables), {row["program"]: row for row in tables["accesses.csv"]}
    cells = {(pair.program, pair.allocator): pair.cell for pair in pairs}
    allocators = list(dict.fromkeys(row["allocator"] for row in tables["accesses.csv"]))
    lines = [[name, f"{float(row['baseline_ms']):.0f}", f"{int(row['calls']):,}", *(cells.get((name, allocator), MISSING) for allocator in allocators)]
             for name, row in rows.items()]
    return "\n\n".join([ACCESSES.format(programs=len(rows), large=percent(LARGE)), table(["program", "ms", "calls", *allocators], lines),
                        table(["all pairs", "found", "goal"], accesses_totals(pairs))])


SIMULATED_CALLS = re.compile(r"under simulation the program made ([\d,]+) calls under (\w+), but ([\d,]+) when recorded")


def _remarks(row: Row) -> list[str]:
    """Those of other numbers of calls in one."""
    remarks = [remark for remark in row["remarks"].split("; ") if remark]
    found = [match for remark in remarks if (match := SIMULATED_CALLS.fullmatch(remark))]
    if len(found) < 2:
        return remarks
    made = ", ".join(f"{match[1]} ({match[2]})" for match in found)
    return [*(remark for remark in remarks if not SIMULATED_CALLS.fullmatch(remark)), f"under simulation it made {made} calls, but {found[0][3]} when recorded"]


def _notes(tables: Tables, programs: Programs) -> list[str]:
    """A line for each program, and one for its instructions."""
    said: dict[str, list[str]] = {name: [" ".join(program["note"].split()).rstrip(".")] for name, program in programs.items() if "note" in program}
    for row in tables["programs.csv"]:
        said.setdefault(row["program"], []).extend(_remarks(row))
    far, counted = {pair.program for pair in _far(tables)}, dict[str, list[str]]()
    for row in tables["instructions.csv"]:
        name = row["program"]
        if name in far and name not in counted and "count_note" in programs[name]:
            counted[name] = [" ".join(programs[name]["count_note"].split()).rstrip(".")]
        counted.setdefault(name, []).extend(_remarks(row))
    missing = [row["program"] for row in tables["programs.csv"] if row["program"] not in counted]
    return [*(f"- **{name}**: {'; '.join(remarks)}." for name, remarks in said.items() if remarks),
            *(f"- **{name}**, instructions: {'; '.join(remarks)}." for name, remarks in counted.items() if remarks),
            *([f"- Instructions not counted yet: {', '.join(missing)}."] if missing else [])]


def _far(tables: Tables) -> list[Counted]:
    """The differences that are predicted badly."""
    return [pair for pair in _counted(tables) if pair.error > COUNT_GOALS[1] and pair.malloc_error is not None]


def large_section(of: Tables) -> str:
    """Each program: what it is, and its peaks under all allocators."""
    allocators = list(dict.fromkeys(row["allocator"] for row in of["memory.csv"]))
    cells = {(row["program"], row["allocator"]): f"{float(row['peak_predicted_mb']) / 1000:.2f} / {float(row['peak_real_mb']) / 1000:.2f}"
             for row in of["memory.csv"]}
    lines = [[row["program"], row["what"], f"{int(row['calls']):,}", f"{float(row['lasts_s']):.0f}",
              *(cells.get((row["program"], name), MISSING) for name in allocators)] for row in of["programs.csv"]]
    return LARGE_HEAD + "\n\n" + table(["program", "does", "calls", "seconds", *allocators], lines, 2)


def outside_table(tables: Tables) -> str:
    far = _far(tables)
    allocators = list(dict.fromkeys(row["allocator"] for row in tables["instructions.csv"] if row["allocator"] in {pair.allocator for pair in far}))
    cells = {(pair.program, pair.allocator): f"{_millions(pair.outside)}, {percent(pair.malloc_error)}" for pair in far}
    names = dict.fromkeys(pair.program for pair in far)
    return table(["program", *allocators], [[name, *(cells.get((name, allocator), "") for allocator in allocators)] for name in names])


def _set_words(sets: dict[str, Tables], largest: str) -> str:
    return ";\n".join(f"- [{name}](../../bench/validity/{name}.toml) ({len(of['programs.csv'])}): {SETS[name].format(largest=largest)}" for name, of in sets.items())


def page(tables: Tables, programs: Programs, beside: Path, folder: Path) -> str:
    """The whole page, which is written into `folder`; the tables of figures are in `beside`."""
    rows, where, sets = tables["programs.csv"], os.path.relpath(beside.resolve(), folder), measured_sets(tables, programs)
    rounds = " or ".join(sorted({row["rounds"] for row in rows}, key=int))
    counted = len({row["program"] for row in tables["instructions.csv"]})
    largest = f"{max(float(row['peak_real_mb'] or 0) for row in tables['memory.csv']) / 1000:.1f} GB"
    parts = [HEAD.format(programs=len(rows), rounds=rounds, counted=counted, sets=_set_words(sets, largest)) + "\n" + totals_table(tables, programs),
             MEMORY.format(**{figure: percent(middle) for figure, (middle, _) in GOALS.items()}), memory_table(tables),
             TIME.format(high=percent(COUNT_GOALS[1])), time_table(tables)]
    if "large" in sets:
        parts.insert(1, large_section(sets["large"]))
    if tables["accesses.csv"]:
        parts += [accesses_section(tables)]
    if notes := _notes(tables, programs):
        parts += ["## Explanations of the errors\n" + "\n".join(notes)]
    if _far(tables):
        parts += [OUTSIDE.format(high=percent(COUNT_GOALS[1])), outside_table(tables)]
    parts += [TABLES.format(links=", ".join(f"[{file}]({where}/{file})" for file, lines in tables.items() if lines))]
    return "\n\n".join(parts) + "\n"
