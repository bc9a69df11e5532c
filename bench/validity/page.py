"""docs/method/validity.md and the tables of docs/method/predictions.md, from the results of bench/validity/validate.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.validity.totals import (
    Result,
    Totals,
    Worst,
    baseline_ns,
    differences,
    measured,
    ranks_agree,
    totals,
)

from heaptape.base.units import MISSING, byte_count, count, decimal, nanoseconds, percent

GOALS = {"peak": (0.025, 0.10), "mean": (0.05, 0.15)}  # median and worst
RANKS_GOAL, SIGNS_GOAL, SPEARMAN_GOAL, SAVING_GOAL, CURVE_GOAL = 0.9, 0.9, 0.9, 0.25, 0.05

HEAD = """# Predicted and real

What replay predicts of {programs} real programs, beside what they really do under each allocator. It is written by `bench/validity/validate.py`, which runs `heaptape validate` ([validate.md](../reference/validate.md)) for each program of
`bench/validity/programs.toml`: recorded once, under its own allocator and no other, replayed under each, then run for real under each, in {rounds} rounds of random order. Nothing is fitted to any of them.

```sh
bench/validity/validate.py -o validity.jsonl --page docs/method/validity.md{curves}
```

## All together
"""

READING = """- **Error**: predicted over real, less 1; the median over the rounds. Peak and mean RSS are those of the whole process: what the allocator holds in replay and what the program has mapped for
  itself, measured in the recording. *Of it own* is the share of the latter, where the allocator can't be wrong.
- **Bold**: more than {peak} off for a peak, more than {mean} for a mean; a wrong sign; a difference of CPU time that is more than {saving} off.
- **Least, most**: whether the allocators with the least and the most memory are those predicted. Who can't be told apart, within the interval or 1 %, counts as equal.
- **CPU**: what the program takes more (+) or less (−) under an allocator than under the baseline, predicted and real, with the 95 % interval of the real one. *Ratio* is predicted over real, only where
  the real difference is resolved, that is where its interval does not include 0.
"""

PROGRAMS_HEAD = """## The programs

*Curve* is the time-weighted mean difference between the recorded RSS and that of the replay of the same allocator."""
REQUESTS_HEAD = """## Requests

The latencies that the load tells, under each allocator for real, beside those of single calls in the replay."""
PROGRAM_COLUMNS = ["program", "what it does", "calls", "threads", "lasts", "CPU", "curve"]
MEMORY_COLUMNS = ["program", "allocator", "peak: predicted", "real", "error", "of it own", "least, most",
                  "mean: predicted", "real", "error", "least, most"]
CPU_COLUMNS = ["program", "CPU under the baseline", "allocator", "predicted", "real", "95 %", "sign", "ratio"]
README_READING = ("Program by program: the worst error among the allocators of peak and of mean RSS, then CPU time less glibc's, "
                  "predicted / real; in brackets where the real difference is not resolved.")
REQUEST_COLUMNS = ["server", "allocator", "requests p50", "p99", "malloc p99", "free p99"]


def totals_rows(found: Totals) -> list[tuple[str, str, str]]:
    """What, how much, and what it should be."""
    rows = []
    for figure, title in (("peak", "peak RSS"), ("mean", "mean RSS")):
        worst: Worst | None = getattr(found, figure)
        middle, most = GOALS[figure]
        if worst:
            what = f"{title}: median error of {worst.count} pairs of program and allocator"
            rows.append((what, percent(worst.median), f"≤ {percent(middle)}"))
            rows.append((f"{title}: worst error ({worst.whose})", percent(worst.most), f"≤ {percent(most)}"))
        agreed, of = getattr(found, f"{figure}_ranks")
        if of:
            rows.append((f"{title}: programs whose least and most allocator are as predicted",
                         f"{agreed} of {of}, {percent(agreed / of)}", f"≥ {percent(RANKS_GOAL)}"))
    right, resolved = found.signs
    told = f"{right} of {resolved}, {percent(right / resolved)}" if resolved else MISSING
    return [
        *rows,
        (f"CPU time: sign of the difference right, of those resolved at 95 % ({found.pairs} in all)", told,
         f"≥ {percent(SIGNS_GOAL)}"),
        ("CPU time: Spearman's rank correlation of all differences, as shares of the program's time",
         decimal(found.spearman), f"≥ {SPEARMAN_GOAL:.1f}"),
        ("CPU time: how far the predicted difference is from the real one, median of those resolved",
         percent(found.saving_off), f"≤ {percent(SAVING_GOAL)}"),
        ("recorded RSS curve against that of glibc's replay, time-weighted mean difference, median",
         percent(found.curve), f"≤ {percent(CURVE_GOAL)}"),
    ]


def table(heads: list[str], rows: list[list[str]], right_from: int = 1) -> str:
    """Markdown; columns from `right_from` on are aligned to the right."""
    marks = ["---"] * right_from + ["---:"] * (len(heads) - right_from)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, marks, *rows])


def totals_table(results: list[Result]) -> str:
    return table(["over all programs", "found", "goal"], [list(row) for row in totals_rows(totals(results))])


def _signed(value: float | None, beyond: float) -> str:
    if value is None:
        return MISSING
    told = f"{100 * value:+.1f} %".replace("-", "−")
    return f"**{told}**" if abs(value) > beyond else told


def _milliseconds(value_ns: float | None) -> str:
    return MISSING if value_ns is None else f"{value_ns / 1e6:+,.1f}".replace("-", "−")


def _memory_rows(result: Result) -> list[list[str]]:
    rows = []
    for number, item in enumerate(measured(result)):
        cells = [result["name"] if number == 0 else "", item["name"]]
        for figure in ("peak", "mean"):
            it = item["memory"][figure]
            cells += [byte_count(it["predicted_bytes"]), byte_count(it["real_bytes"]),
                      _signed(it["error"], GOALS[figure][0])]
            cells += [percent(it["own_bytes"] / it["predicted_bytes"])] if figure == "peak" else []
            agrees = ranks_agree(result, figure) if number == 0 else None
            cells.append({None: "", True: "yes", False: "**no**"}[agrees])
        rows.append(cells)
    return rows


def _cpu_rows(result: Result) -> list[list[str]]:
    base_ns = baseline_ns(result)
    rows = []
    for number, (name, cpu) in enumerate(differences(result)):
        ratio = cpu["predicted_over_real"] if cpu["resolved"] else None
        told = decimal(ratio).replace("-", "−") if cpu["resolved"] else "unresolved"
        if ratio is not None and abs(ratio - 1) > SAVING_GOAL:
            told = f"**{told}**"
        first = [result["name"], nanoseconds(base_ns)] if number == 0 else ["", ""]
        rows.append([*first, name, _milliseconds(cpu["predicted_difference_ns"]), _milliseconds(cpu["real_difference_ns"]),
                     f"[{_milliseconds(cpu['real_low_ns'])}, {_milliseconds(cpu['real_high_ns'])}]",
                     {True: "right", False: "**wrong**", None: ""}[cpu["sign_agrees"]], told])
    return rows


def _request_rows(result: Result) -> list[list[str]]:
    keys = ("request_p50_ns", "request_p99_ns", "malloc_p99_ns", "free_p99_ns")
    return [[result["name"] if number == 0 else "", item["name"], *(nanoseconds(item["latency"][key]) for key in keys)]
            for number, item in enumerate(measured(result))]


def _program_rows(results: list[Result], programs: dict[str, dict[str, Any]]) -> list[list[str]]:
    rows = []
    for result in results:
        recorded = result["validation"]["recorded"]
        curve = result["validation"]["curve"]
        rows.append([result["name"], programs[result["name"]]["does"], count(recorded["calls"]), count(recorded["threads"]),
                     nanoseconds(recorded["duration_ns"]), nanoseconds(recorded["cpu_ns"]),
                     percent(curve["difference"]) if curve else MISSING])
    return rows


def _notes(results: list[Result], programs: dict[str, dict[str, Any]]) -> list[str]:
    lines = [f"- **{result['name']}**: {' '.join(programs[result['name']]['note'].split())}"
             for result in results if "note" in programs[result["name"]]]
    for result in results:
        lines += [f"- **{result['name']}** under {item['name']} was not measured: {item['problem']}"
                  for item in result["validation"]["allocators"] if item["problem"]]
        lines += [f"- **{result['name']}**: {warning}." for warning in result["validation"]["warnings"]]
    return lines


def page(results: list[Result], programs: dict[str, dict[str, Any]], drawings: dict[str, Path], folder: Path) -> str:
    """The whole page; `folder` is where it will lie."""
    rounds = " or ".join(map(str, sorted({result["validation"]["rounds"] for result in results})))
    option = f" --curves docs/method/{next(iter(drawings.values())).parent.name}" if drawings else ""
    reading = READING.format(peak=percent(GOALS["peak"][0]), mean=percent(GOALS["mean"][0]), saving=percent(SAVING_GOAL))
    parts = [HEAD.format(programs=len(results), rounds=rounds, curves=option) + "\n" + totals_table(results),
             reading.rstrip(), PROGRAMS_HEAD, table(PROGRAM_COLUMNS, _program_rows(results, programs), 2),
             "## Memory", table(MEMORY_COLUMNS, [row for result in results for row in _memory_rows(result)], 2),
             "## CPU time\n\nDifferences to the baseline, in ms.",
             table(CPU_COLUMNS, [row for result in results for row in _cpu_rows(result)], 3)]
    if servers := [result for result in results if result["validation"]["server"]]:
        parts += [REQUESTS_HEAD, table(REQUEST_COLUMNS, [row for result in servers for row in _request_rows(result)], 2)]
    if notes := _notes(results, programs):
        parts += ["## What explains the misses\n\nOnly what is known to be so.", "\n".join(notes)]
    if drawings:
        parts += ["## Memory along time\n\nUnder glibc. What was recorded runs longer, because recording takes time.",
                  *(f"![{name}]({os.path.relpath(path.resolve(), folder)})" for name, path in drawings.items())]
    return "\n\n".join(parts) + "\n"


def readme_table(results: list[Result]) -> str:
    """The totals, then a line for each program: its worst predictions of memory, and its differences of CPU time."""
    names = list(dict.fromkeys(name for result in results for name, _ in differences(result)))
    rows = []
    for result in results:
        cells = [result["name"]]
        for figure in ("peak", "mean"):
            errors = [item["memory"][figure]["error"] for item in measured(result)]
            known = [error for error in errors if error is not None]
            cells.append(_signed(max(known, key=abs), GOALS[figure][1]) if known else MISSING)
        told = {name: _difference(cpu) for name, cpu in differences(result)}
        rows.append([*cells, *(told.get(name, MISSING) for name in names)])
    heads = ["program", "peak RSS", "mean RSS", *(f"CPU, ms: {name}" for name in names)]
    return totals_table(results) + "\n\n" + README_READING + "\n\n" + table(heads, rows)


def _difference(cpu: dict[str, Any]) -> str:
    told = f"{_milliseconds(cpu['predicted_difference_ns'])} / {_milliseconds(cpu['real_difference_ns'])}"
    return told if cpu["resolved"] else f"({told})"
