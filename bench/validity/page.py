# SPDX-License-Identifier: Apache-2.0
"""docs/method/validity.md, from the tables beside it and the counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.validity.markdown import share_of, signed, table
from bench.validity.splice_page import splice_section
from bench.validity.totals import (
    Counted,
    Row,
    Tables,
    count_errors,
    count_pairs,
    count_signs,
    curves,
    ends_agree,
    malloc_error,
    malloc_errors,
    memory_errors,
    resolved,
    savings_noise,
    savings_off,
    signs,
)

from heaptape.base.units import MISSING, percent

GOALS = {"peak": (0.025, 0.10), "mean": (0.05, 0.15)}  # median and worst
RANKS_GOAL, SIGNS_GOAL, SAVING_GOAL, CURVE_GOAL = 0.9, 0.9, 0.25, 0.05
COUNT_GOALS = (0.02, 0.10)  # median and 90th percentile

HEAD = """# Predicted and real

`bench/validity/validate.py` ran `heaptape validate` ([validate.md](../reference/validate.md)) for {programs} real programs ([programs.toml](../../bench/validity/programs.toml)). Each was recorded once, under its own allocator,
replayed under each allocator, then run for real under each, in {rounds} rounds of random order. Then, of {counted} of them with smaller inputs, instructions were counted exactly (`heaptape validate --instructions`). heaptape was built with these programs, and is further off for others ([threats.md](threats.md), [public-cases.md](validity/public-cases.md)). These commands write this page:

```sh
bench/validity/validate.py -o validity.jsonl --tables docs/method/validity --page docs/method/validity.md
bench/validity/validate.py --instructions --page docs/method/validity.md
```

## All programs
"""

MEMORY = """## Largest errors in memory
Peak and mean RSS: the worst error (predicted/real − 1, median over the rounds) among the allocators, in percent, if above {peak} and {mean}; bold above the goal for the worst. Programs without such an error are left out."""

TIME = """## Time and instructions
Differences to glibc, predicted/real. *CPU*: ms, if the 95 % interval of the real one excludes 0 (few do if single runs vary much). *Instructions*: millions, exact, without start-up and loading; bold if the error of the prediction is more than {high} of the real difference.
Predicted are those of the replay's calls of malloc, real those of the whole program: the prediction does not include changes outside the allocator, by other addresses or other calls. [clock.md](clock.md) has where the errors of CPU time come from."""

TABLES = """## All figures
{links}. `peak_own_percent` is the program's own mappings as a share of the predicted peak, the same under every allocator. `ends_agree`: the allocators with the least and the most memory
are those predicted; allocators within the interval or 1 % of each other are equal. `curve_percent` is the time-weighted mean difference between the recorded RSS and the replay of the same allocator. Request
latencies are those that the load generator reports in the real runs; `malloc_p99_us` and `free_p99_us` are those of single calls in the replay. counts.jsonl: differences inside malloc, outside, in the loader and in the replay."""


def _memory_totals(tables: Tables) -> list[list[str]]:
    rows = []
    for figure, title in (("peak", "peak RSS"), ("mean", "mean RSS")):
        errors, (middle, most) = memory_errors(tables, figure), GOALS[figure]
        if errors:
            rows.append([f"{title}: median error of {errors.count} pairs of program and allocator", percent(errors.median), f"≤ {percent(middle)}"])
            rows.append([f"{title}: worst error ({errors.whose})", percent(errors.most), f"≤ {percent(most)}"])
        rows.append([f"{title}: programs whose smallest and largest allocator are as predicted", share_of(*ends_agree(tables, figure)),
                     f"≥ {percent(RANKS_GOAL)}"])
    return rows


def _count_totals(counted: list[Counted]) -> list[list[str]]:
    errors = count_errors(counted)
    if not errors:
        return []
    title = "instructions: error of the predicted difference"
    return [[f"{title}, median of {errors.count} pairs", percent(errors.median), f"≤ {percent(COUNT_GOALS[0])}"],
            [f"{title}, 90th percentile", percent(errors.high), f"≤ {percent(COUNT_GOALS[1])}"],
            ["instructions: sign of the difference right", share_of(*count_signs(counted)), "all"], *_malloc_totals(counted)]


def _malloc_totals(counted: list[Counted]) -> list[list[str]]:
    errors = malloc_errors(counted)
    title = "instructions within calls of malloc: the same"
    return [[f"{title}, median of {errors.count} pairs", percent(errors.median), f"≤ {percent(COUNT_GOALS[0])}"],
            [f"{title}, 90th percentile", percent(errors.high), f"≤ {percent(COUNT_GOALS[1])}"]] if errors else []


def totals_table(tables: Tables, counted: list[Counted]) -> str:
    """What, how much, and what it should be."""
    rows = _memory_totals(tables) if tables else []
    if "cpu.csv" in tables:
        known = resolved(tables)
        rows += [[f"CPU time: sign of the difference right, of differences resolved at 95 % ({len(tables['cpu.csv'])} in all)",
                  share_of(*signs(known)), f"≥ {percent(SIGNS_GOAL)}"],
                 ["CPU time: error of the predicted difference, median of those resolved", percent(savings_off(known)),
                  f"≤ {percent(SAVING_GOAL)}"],
                 ["CPU time: the same if all predictions were right, by the intervals of the real differences", percent(savings_noise(known)), ""]]
    rows += _count_totals(counted)
    if tables:
        rows.append(["recorded RSS curve against that of glibc's replay, time-weighted mean difference, median", percent(curves(tables)),
                     f"≤ {percent(CURVE_GOAL)}"])
    return table(["over all programs", "found", "goal"], rows)


def _worst_error(tables: Tables, program: str, figure: str) -> str:
    """Empty where every allocator's is within the goal for the median."""
    errors = [float(row[f"{figure}_error_percent"]) for row in tables.get("memory.csv", [])
              if row["program"] == program and row[f"{figure}_error_percent"]]
    worst, (middle, most) = max(errors, key=abs, default=0), GOALS[figure]
    if abs(worst) <= 100 * middle:
        return ""
    return f"**{signed(worst)}**" if abs(worst) > 100 * most else signed(worst)


def memory_table(tables: Tables) -> str:
    """Of the programs whose memory was missed."""
    names = [row["program"] for row in tables["programs.csv"]]
    rows = [[name, _worst_error(tables, name, "peak"), _worst_error(tables, name, "mean")] for name in names]
    return table(["program", "peak RSS", "mean RSS"], [row for row in rows if any(row[1:])])


def _cpu_cell(rows: list[Row], program: str) -> str:
    return ", ".join(f"{row['allocator']} {signed(float(row['predicted_difference_ms']))}/{signed(float(row['real_difference_ms']))}"
                     for row in rows if row["program"] == program)


def _millions(value: float) -> str:
    """Of at least two digits."""
    return f"{value / 1e6:+,.{1 if abs(value) >= 1e7 else 2 if abs(value) >= 1e5 else 4}f}".replace("-", "−")


def _count_cell(item: dict[str, Any]) -> str:
    if item.get("instructions_delta_real") is None:
        return MISSING
    cell = f"{_millions(item['instructions_delta_predicted'])}/{_millions(item['instructions_delta_real'])}"
    return f"**{cell}**" if (item["instructions_error"] or 0) > COUNT_GOALS[1] else cell


def time_table(tables: Tables, counted: list[Counted]) -> str:
    """Of all programs, and of the allocators that were counted."""
    of = {result["name"]: {item["name"]: item for item in result["allocators"] if item["name"] != result["baseline"]} for result in counted}
    allocators = list(dict.fromkeys(name for items in of.values() for name in items))
    known = resolved(tables)
    rows = [[name, _cpu_cell(known, name), *(_count_cell(of[name][allocator]) if allocator in of.get(name, {}) else "" for allocator in allocators)]
            for name in (row["program"] for row in tables["programs.csv"])]
    return table(["program", "CPU, ms", *(f"{name}, instructions" for name in allocators)], rows)


def _notes(tables: Tables, counted: list[Counted], programs: dict[str, dict[str, Any]]) -> list[str]:
    lines = [f"- **{name}**: {' '.join(program['note'].split())}" for name, program in programs.items() if "note" in program]
    lines += [f"- **{row['program']}**: {remark}." for row in tables["programs.csv"] for remark in row["remarks"].split("; ") if remark]
    far = {result["name"] for result, item in count_pairs(counted) if item["instructions_error"] > COUNT_GOALS[1]}
    for result in counted:
        name = result["name"]
        explained = programs[name].get("count_note") if name in far else None
        remarks = [*([" ".join(explained.split())] if explained else []), *(f"{warning}." for warning in result["warnings"])]
        lines += [f"- **{name}**, instructions: {remark}" for remark in remarks]
        lines += [f"- **{name}**, instructions under {item['name']}: not counted: {item['problem']}."
                  for item in result["allocators"] if item["problem"]]
    lines += [f"- **{result['name']}**, instructions under {item['name']}: outside malloc the program executes "
              f"{_millions(item['count_differences']['program']['instructions'])} million more than under {result['baseline']}, "
              f"not predictable from calls; within malloc the replay is {percent(malloc_error(item))} off."
              for result, item in count_pairs(counted) if item["instructions_error"] > COUNT_GOALS[1] and malloc_error(item) is not None]
    missing = [row["program"] for row in tables["programs.csv"] if row["program"] not in {result["name"] for result in counted}]
    return [*lines, *([f"- Instructions not counted yet: {', '.join(missing)}."] if missing else [])]


def page(tables: Tables, counted: list[Counted], spliced: list[dict[str, Any]], programs: dict[str, dict[str, Any]], beside: Path,
         folder: Path) -> str:
    """The whole page, which is written into `folder`; drawings and tables of figures are in `beside`."""
    rows, where = tables["programs.csv"], os.path.relpath(beside.resolve(), folder)
    rounds = " or ".join(sorted({row["rounds"] for row in rows}, key=int))
    parts = [HEAD.format(programs=len(rows), rounds=rounds, counted=len(counted)) + "\n" + totals_table(tables, counted),
             MEMORY.format(**{figure: percent(middle) for figure, (middle, _) in GOALS.items()}), memory_table(tables),
             TIME.format(high=percent(COUNT_GOALS[1])), time_table(tables, counted)]
    if spliced:
        parts += [splice_section(spliced)]
    if notes := _notes(tables, counted, programs):
        parts += ["## Explanations of the errors", "\n".join(notes)]
    files = [file for file in [*tables, "counts.jsonl"] if (beside / file).exists()]
    parts += [TABLES.format(links=", ".join(f"[{file}]({where}/{file})" for file in files))]
    drawings = [name for name in (row["program"] for row in rows) if (beside / f"{name}.svg").exists()]
    if drawings:
        parts += ["## Memory over time\nUnder glibc. The recording takes longer because of its own cost.",
                  "\n".join(f"![{name}]({where}/{name}.svg)" for name in drawings)]
    return "\n\n".join(parts) + "\n"
