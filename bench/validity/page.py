"""docs/method/validity.md, and the tables of figures beside it, from the results of bench/validity/validate.py."""

from __future__ import annotations

import csv
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

from heaptape.base.units import MISSING, decimal, percent

GOALS = {"peak": (0.025, 0.10), "mean": (0.05, 0.15)}  # median and worst
RANKS_GOAL, SIGNS_GOAL, SPEARMAN_GOAL, SAVING_GOAL, CURVE_GOAL = 0.9, 0.9, 0.9, 0.25, 0.05

HEAD = """# Predicted and real

`bench/validity/validate.py` ran `heaptape validate` ([validate.md](../reference/validate.md)) for {programs} real programs ([programs.toml](../../bench/validity/programs.toml)). Each was recorded once, under its own allocator,
replayed under each allocator, then run for real under each, in {rounds} rounds of random order. Nothing is fitted to any of them. The program writes this page:

```sh
bench/validity/validate.py -o validity.jsonl --page docs/method/validity.md --tables docs/method/validity
```

## All programs
"""

READING = """## Programs that were missed, or resolved
Peak and mean RSS: the worst error (predicted/real − 1, median over the rounds) among the allocators, in percent, where it is above {peak} and {mean}; bold above the goal for the worst. CPU: the difference to the baseline in ms, predicted/real, where the 95 % interval of the real one excludes 0 (resolved).
Other programs have none of these. Where single runs differ much, few differences are resolved, and the rank correlation of all of them is mostly that of noise."""

TABLES = """## All figures
{links}. `peak_own_percent` is the share of the predicted peak that the program mapped for itself, the same under every allocator. `ends_agree`: the allocators with the least and the most memory
are those predicted; allocators within the interval or 1 % of each other are equal. `curve_percent` is the time-weighted mean difference between the recorded RSS and the replay of the same allocator. Request
latencies are those that the load generator reports in the real runs; `malloc_p99_us` and `free_p99_us` are those of single calls in the replay."""


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
    signs = f"{right} of {resolved}, {percent(right / resolved)}" if resolved else MISSING
    return [
        *rows,
        (f"CPU time: sign of the difference right, of those resolved at 95 % ({found.pairs} in all)", signs,
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


def _signed(value: float, scale: float) -> str:
    return f"{scale * value:+,.1f}".replace("-", "−")


def _worst_error(result: Result, figure: str) -> str:
    """Empty where every allocator's is within the goal for the median."""
    errors = [error for item in measured(result) if (error := item["memory"][figure]["error"]) is not None]
    worst = max(errors, key=abs, default=0)
    middle, most = GOALS[figure]
    if abs(worst) <= middle:
        return ""
    return f"**{_signed(worst, 100)}**" if abs(worst) > most else _signed(worst, 100)


def _resolved(result: Result) -> str:
    return ", ".join(f"{name} {_signed(cpu['predicted_difference_ns'], 1e-6)}/{_signed(cpu['real_difference_ns'], 1e-6)}"
                     for name, cpu in differences(result) if cpu["resolved"])


def program_table(results: list[Result]) -> str:
    rows = [[result["name"], _worst_error(result, "peak"), _worst_error(result, "mean"), _resolved(result)] for result in results]
    return table(["program", "peak RSS", "mean RSS", "CPU"], [row for row in rows if any(row[1:])])


def _number(value: float | None, scale: float = 1) -> str:
    """Of three digits."""
    return "" if value is None else f"{float(f'{value * scale:.3g}'):g}"


def _tenths(value: float | None, scale: float) -> str:
    return "" if value is None else f"{value * scale:.1f}"


def figures(results: list[Result], programs: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """All figures, by file."""
    rows: dict[str, list[dict[str, Any]]] = {"programs.csv": [], "memory.csv": [], "cpu.csv": [], "requests.csv": []}
    for result in results:
        name, recorded, curve = result["name"], result["validation"]["recorded"], result["validation"]["curve"]
        rows["programs.csv"].append({
            "program": name, "what": programs[name]["does"], "calls": recorded["calls"], "threads": recorded["threads"],
            "lasts_s": _number(recorded["duration_ns"], 1e-9), "cpu_s": _number(recorded["cpu_ns"], 1e-9),
            "curve_percent": _tenths(curve and curve["difference"], 100),
            **{f"{figure}_ends_agree": {True: "yes", False: "no", None: ""}[ranks_agree(result, figure)] for figure in GOALS}})
        for item in measured(result):
            rows["memory.csv"].append({"program": name, "allocator": item["name"]} | {
                f"{figure}_{key}": cell for figure in GOALS for key, cell in _memory(item["memory"][figure], figure).items()})
            if result["validation"]["server"]:
                rows["requests.csv"].append({"program": name, "allocator": item["name"]} | {
                    f"{key}_us": _number(item["latency"][f"{key}_ns"], 1e-3)
                    for key in ("request_p50", "request_p99", "malloc_p99", "free_p99")})
        for allocator, cpu in differences(result):
            rows["cpu.csv"].append({
                "program": name, "baseline_cpu_s": _number(baseline_ns(result), 1e-9), "allocator": allocator,
                **{f"{key}_ms": _tenths(cpu[f"{key}_ns"], 1e-6)
                   for key in ("predicted_difference", "real_difference", "real_low", "real_high")},
                "resolved": "yes" if cpu["resolved"] else "no",
                "predicted_over_real": f"{cpu['predicted_over_real']:.2f}" if cpu["resolved"] else ""})
    return {file: lines for file, lines in rows.items() if lines}


def _memory(of: dict[str, Any], figure: str) -> dict[str, str]:
    cells = {"predicted_mb": _number(of["predicted_bytes"], 1e-6), "real_mb": _number(of["real_bytes"], 1e-6),
             "error_percent": _tenths(of["error"], 100)}
    if figure == "peak":
        cells["own_percent"] = _number(of["own_bytes"] / of["predicted_bytes"], 100)
    return cells


def write_figures(rows: dict[str, list[dict[str, Any]]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in rows.items():
        with (folder / file).open("w", newline="") as output:
            writer = csv.DictWriter(output, list(lines[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


def _notes(results: list[Result], programs: dict[str, dict[str, Any]]) -> list[str]:
    lines = [f"- **{result['name']}**: {' '.join(programs[result['name']]['note'].split())}"
             for result in results if "note" in programs[result["name"]]]
    for result in results:
        lines += [f"- **{result['name']}** under {item['name']} was not measured: {item['problem']}"
                  for item in result["validation"]["allocators"] if item["problem"]]
        lines += [f"- **{result['name']}**: {warning}." for warning in result["validation"]["warnings"]]
    return lines


def page(results: list[Result], programs: dict[str, dict[str, Any]], drawings: dict[str, Path], tables: Path | None, folder: Path) -> str:
    """The whole page, which is written into `folder`; drawings and tables of figures are in `tables`."""
    rounds = " or ".join(map(str, sorted({result["validation"]["rounds"] for result in results})))
    parts = [HEAD.format(programs=len(results), rounds=rounds) + "\n" + totals_table(results),
             READING.format(**{figure: percent(middle) for figure, (middle, _) in GOALS.items()}),
             program_table(results)]
    if notes := _notes(results, programs):
        parts += ["## What explains the misses", "\n".join(notes)]
    if tables:
        where = os.path.relpath(tables.resolve(), folder)
        parts += [TABLES.format(links=", ".join(f"[{file}]({where}/{file})" for file in figures(results, programs)))]
    if drawings:
        parts += ["## Memory over time\nUnder glibc. The recording takes longer, because it costs time.",
                  "\n".join(f"![{name}]({os.path.relpath(path.resolve(), folder)})" for name, path in drawings.items())]
    return "\n\n".join(parts) + "\n"
