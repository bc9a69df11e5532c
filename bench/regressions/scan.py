#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays a program that was recorded here under the releases of an allocator, and dates the release that made it worse.

    bench/regressions/scan.py [--build B] [--only NAME,...] [--rounds N] [--real N] [--bisect] [--cache DIR]

Of the published regressions in regressions.toml. cargo fetches the releases' sources; they and the libraries built from them stay in --cache.
Printed are, for each release, medians of the replay's figures, the ratio that the condition is about to the first release, with the interval that
its verdict goes by, and to the release before. --real runs the program itself N times under each release. --bisect lets `heaptape bisect`
find the release, in a repository with a commit for each, which it builds anew.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.regressions.builds import LIBRARY, Failed, Release, Releases, default_cache, read_release  # noqa: E402
from bench.regressions.dating import Real, date, run_real  # noqa: E402
from bench.validity import run as programs  # noqa: E402

from heaptape.results.comparison import compare, experiments  # noqa: E402
from heaptape.results.conditions import Condition, judge, parse_condition  # noqa: E402
from heaptape.results.counted import counted_figure, counts_by_allocator  # noqa: E402
from heaptape.results.reader import read_results  # noqa: E402

LIST = ROOT / "bench" / "regressions" / "regressions.toml"
REAL_LIMIT_S = 3600
STATUSES = (0, 4, 5)
"""Of replay: what came of the condition; the figures decide here, too."""
MEASURES = ("rss_peak", "rss_mean", "rss_end", "time")
MB = 1e6


@dataclass(frozen=True)
class Row:
    """A release's figures (NaN: not measured) and what the condition came to."""

    release: Release
    values: dict[str, float]
    ratio: float
    low: float
    high: float
    outcome: str


def passes(condition: Condition) -> list[list[str]]:
    """Options of the replays that make the table and decide the condition, the deciding one last."""
    both = ["--pass=both", "--instructions"]
    if condition.counted and condition.measure not in ("instructions", "mapping_calls"):
        return [both, ["--pass=count"]]
    return [both]


def replayed(trace: Path, libraries: dict[str, Path], condition: Condition, who: dict[str, Any], options: argparse.Namespace) -> list[Any]:
    """The results of each replay."""
    found = []
    baseline = next(iter(libraries))
    for number, words in enumerate(passes(condition)):
        results = trace.with_name(f"results{number}.jsonl")
        decides = [f"--fail-if={condition.text}"] if words == passes(condition)[-1] else []
        rounds = [] if "--pass=count" in words else [f"--rounds={options.rounds}"]
        named = ",".join(f"{name}={path}" for name, path in libraries.items())
        programs.run_tool([options.build / "replay", "-q", "--alloc", named, "--baseline", baseline, *words, *rounds, *decides, "-o", results, trace], who,
                          STATUSES)
        (one,) = experiments(read_results([str(results)]))
        found.append(one)
    return found


def rows_of(found: list[Any], releases: list[Release], condition: Condition) -> list[Row]:
    """One for each release, in order. heaptape's own comparison and judgement."""
    baseline = releases[0].number
    judged = {item.allocator: item for item in judge(compare(found[-1].all_runs, baseline), [condition], found[-1].runs, baseline)}
    comparison = compare(found[0].all_runs, baseline)
    counts: dict[str, dict[str, Any]] = {}
    for one in found:
        counts |= counts_by_allocator(one.runs)
    rows = []
    for release in releases:
        values = {measure: _measured(comparison, release.number, measure) for measure in MEASURES}
        values |= {figure: counted_figure(counts.get(release.number, {}), figure) for figure in ("instructions", "faults")}
        item = judged.get(release.number)
        rows.append(Row(release, values, item.ratio, item.low, item.high, item.outcome) if item else Row(release, values, 1, 1, 1, "baseline"))
    return rows


def _measured(comparison: Any, name: str, measure: str) -> float:
    found = comparison[(comparison["allocator"] == name) & (comparison["measure"] == measure)]["value"]
    return float(found.iloc[0]) if len(found) else math.nan


def _number(value: float, unit: float = 1, digits: int = 1) -> str:
    return f"{value / unit:,.{digits}f}" if math.isfinite(value) else "–"


def _interval(row: Row) -> str:
    exact = row.low == row.high
    return f"{row.ratio:.2f}" if exact else f"{row.ratio:.2f} [{row.low:.2f}, {row.high:.2f}]"


def table(rows: list[Row], condition: Condition, real: dict[str, float]) -> list[str]:
    """Markdown. real: the real program's figure, as a ratio to that of the first release."""
    faults = condition.measure == "faults"
    titles = ["release", "crate", "peak RSS, MB", "mean", "end", "time in malloc, ms", "instructions, millions", *(["page faults"] if faults else []),
              f"{condition.figure}, to {rows[0].release.number}", "to the one before", f"`{condition.text}`", *(["real program"] if real else [])]
    lines = [f"| {' | '.join(titles)} |", f"| --- | --- |{' --: |' * (len(titles) - 3 - bool(real))} --- |{' --: |' * bool(real)}"]
    before = math.nan
    for row in rows:
        values, now = row.values, row.values.get(condition.measure, math.nan)
        crate = f"{row.release.crate} {row.release.version.split('-')[0]}"
        cells = [row.release.number, crate, *(_number(values[measure], MB) for measure in MEASURES[:3]), _number(values["time"], 1e6),
                 _number(values["instructions"], 1e6, 2), *([_number(values["faults"], 1, 0)] if faults else []), _interval(row),
                 _number(now / before, 1, 2), row.outcome]
        if real:
            cells.append(_number(real.get(row.release.number, math.nan), 1, 2))
        lines.append(f"| {' | '.join(cells)} |")
        before = now
    return lines


def real_figures(prepared: programs.Prepared, libraries: dict[str, Path], figure: str, rounds: int) -> dict[str, list[float]]:
    """Of each run, the releases in turn."""
    command = prepared.words[1:]  # without the -- that heaptape takes
    found: dict[str, list[float]] = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, library in libraries.items():
            try:
                run: Real = run_real(command, library, prepared.who, REAL_LIMIT_S)
            except RuntimeError as error:
                raise Failed(str(error)) from error
            found[name].append(getattr(run, figure))
    return found


def bisect(trace: Path, regression: dict[str, Any], releases: list[Release], store: Releases, options: argparse.Namespace) -> str:
    """What `heaptape bisect` prints, from the first release to the one that the scan found or the last."""
    repository = trace.parent / "repository"
    store.repository(releases, repository)
    words = ["bisect", "-q", "--good", f"v{releases[0].number}", "--build", releases[0].build, "--alloc", LIBRARY, "--fail-if", regression["condition"]]
    if not parse_condition(regression["condition"]).counted:
        words += ["--rounds", str(options.rounds)]
    environment = os.environ | {"HEAPTAPE_PYTHON": os.environ.get("HEAPTAPE_PYTHON", sys.executable)}
    return programs.run_tool([options.build / "heaptape", *words, trace], {"cwd": repository, "env": environment, "stdin": subprocess.DEVNULL})


def examine(name: str, listed: dict[str, Any], scratch: Path, options: argparse.Namespace) -> None:
    """Prints all about one regression. Raises Failed, and what preparing the program raises."""
    regression, store = listed["regressions"][name], Releases(options.cache)
    releases = [read_release(listed["allocators"], regression["allocator"], number) for number in regression["releases"]]
    libraries = {release.number: store.library(release) for release in releases}
    prepared = programs.prepare(name, regression, scratch, options.build)
    trace, condition = programs.record(prepared, options.build), parse_condition(regression["condition"])
    rows = rows_of(replayed(trace, libraries, condition, prepared.who, options), releases, condition)
    real = real_figures(prepared, libraries, regression["real"], options.real)
    medians = {number: statistics.median(values) for number, values in real.items() if values}
    first = medians.get(releases[0].number, math.nan)
    print(f"## {name}\n{regression['published']}\n")
    print("\n".join(table(rows, condition, {number: value / first for number, value in medians.items()})))
    for number, values in real.items():
        if values:
            print(f"real {regression['real']} under {number}: median {medians[number]:,.6g} of {', '.join(f'{value:,.6g}' for value in values)}")
    dated = date(releases[0].number, [(row.release.number, row.outcome) for row in rows[1:]])
    print(f"\n`{condition.text}`: {dated or 'holds for no release'}\n", flush=True)
    if options.bisect:
        print(f"```\n{bisect(trace, regression, releases, store, options).strip()}\n```\n", flush=True)


def main() -> int:
    listed = tomllib.loads(LIST.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(listed['regressions'])}")
    parser.add_argument("--rounds", type=int, default=5, help="of the replay (default: 5)")
    parser.add_argument("--real", type=int, default=0, metavar="N", help="runs of the real program under each release (default: 0)")
    parser.add_argument("--bisect", action="store_true", help="run heaptape bisect, too")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder of sources and libraries (default: %(default)s)")
    options = parser.parse_args()
    options.build, options.cache = options.build.resolve(), options.cache.resolve()
    fine = True
    for name in programs.chosen(parser, options.only, listed["regressions"]):
        with tempfile.TemporaryDirectory(prefix="heaptape-releases-") as scratch:
            try:
                examine(name, listed, Path(scratch), options)
            except (Failed, programs.Failed, programs.PassedOver) as why:
                print(f"{name}: {why}", file=sys.stderr, flush=True)
                fine = fine and isinstance(why, programs.PassedOver)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
