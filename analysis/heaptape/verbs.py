# SPDX-License-Identifier: Apache-2.0
"""The verbs `compare`, `report`, `explain` and `export`. Results go to stdout, talk to stderr."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from .base.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_HOLDS, EXIT_UNDECIDED, UsageError
from .base.files import check_output
from .base.text import ProgressLine, printable
from .base.units import counted
from .group.trace import is_group
from .report.old_new import old_new_markdown, old_new_views, print_old_new
from .report.table import (
    comparison_csv,
    comparison_markdown,
    comparison_object,
    print_comparison,
    processor_lines,
    processor_markdown,
)
from .results.comparison import experiments
from .results.conditions import (
    HOLDS,
    REFUTED,
    UNDECIDED,
    Condition,
    Judged,
    judge,
    judged_object,
    parse_condition,
)
from .results.reader import ResultsWarning, read_results
from .results.remarks import age_flips, processor_tables
from .results.summary import Summary, summarise, tell_apart
from .trace.reader import read_trace


def _read(verb: str, paths: Sequence[str]) -> pd.DataFrame:
    """The results, with a line on stderr for each file that is cut short, has what another has, or runs of a group."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultsWarning)
        frame = read_results(paths)
    for sentence in frame.attrs["cut_short"] + frame.attrs["repeated"] + frame.attrs["of_groups"]:
        print(f"heaptape {verb}: warning: {printable(sentence)}", file=sys.stderr)
    return frame


def run_report(options: argparse.Namespace) -> None:
    """heaptape report"""
    from .report.html import write_report  # what compare has no use for

    check_output(options.output, [*options.results, *options.trace])
    frame = _read("report", options.results)
    path = write_report(frame, options.output, options.trace, options.baseline, options.seed, options.snapshots)
    if not options.quiet:
        size = f"{path.stat().st_size / 1e6:.2f} MB, " if path.is_file() else ""
        print(f"{printable(str(path))}: {size}{counted(len(frame), 'run')}", file=sys.stderr)


def run_explain(options: argparse.Namespace) -> None:
    """heaptape explain TRACE"""
    from .explain.verb import explain, print_answers

    if options.trace is None:
        raise UsageError("expected TRACE, --pid or --core")
    if options.trace.isdigit() and not Path(options.trace).exists():
        raise UsageError(f"{options.trace}: there is no such file; for the process of that number: --pid {options.trace}")
    for name in ("stop", "every", "for_", "blocks"):
        if getattr(options, name):
            raise UsageError(f"--{name.rstrip('_')}: expected with --pid, found with a trace")
    if is_group(options.trace):
        from .group.verb import explain_group

        explain_group(options)
        return

    answers = explain(options)
    print_answers(options, answers)
    sys.stdout.flush()
    if options.html is not None:
        from .report.heap_maps import write_heap_page  # what the answer alone has no use for

        write_heap_page(answers, options.html, [options.trace])


def run_compare(options: argparse.Namespace) -> int:
    """heaptape compare"""
    if options.to or options.output or options.snapshots:
        from .feeds.write import check_feed, write_feed  # what tables have no use for

        check_feed(options)
    conditions = [parse_condition(text) for text in options.fail_if]
    traces = [Path(path) for path in options.trace]
    for path in traces:
        read_trace(path).close()
    found = experiments(_read("compare", options.results))
    summaries = tell_apart([summarise(item, options.baseline, options.seed, traces) for item in found])
    failed = bool(conditions) and any(summary.missing for summary in summaries)
    judged = [_judged(summary, conditions, failed) for summary in summaries]
    failed = failed or any(item.not_counted for items in judged for item in items)
    if options.to:
        write_feed(options, summaries)
        for summary in [] if failed else summaries:
            _say_missing(summary, "warning: ", _names(summaries))
    elif options.json:
        print(json.dumps([comparison_object(summary) | ({"fail_if": judged_object(items)} if conditions else {})
                          for summary, items in zip(summaries, judged, strict=True)], indent=1))
    elif options.csv:
        print(comparison_csv(summaries), end="")
    elif options.markdown:
        views, others = old_new_views(summaries)
        print("\n\n".join([*map(old_new_markdown, views), *map(comparison_markdown, others), *map(processor_markdown, processor_tables(found))]))
    else:
        views, others = old_new_views(summaries)
        printers = [*(partial(print_old_new, view) for view in views), *(partial(print_comparison, summary) for summary in others)]
        for number, show in enumerate(printers):
            print("\n" if number else "", end="")
            show(options.color)
        for table in processor_tables(found):
            print("\n" + "\n".join(processor_lines(table)))
    for sentence in age_flips((summary.experiment, summary.comparison) for summary in summaries):
        print(f"heaptape compare: warning: {printable(sentence)}", file=sys.stderr)
    sys.stdout.flush()
    return _say_conditions(summaries, judged, failed)


def _judged(summary: Summary, conditions: list[Condition], failed: bool) -> list[Judged]:
    """The conditions as judged. If runs failed, what they leave may not suffice for a condition; the failures are reported anyway."""
    try:
        return judge(summary.comparison, conditions, summary.experiment.runs, summary.baseline)
    except UsageError:
        if failed:
            return []
        raise


def _names(summaries: list[Summary]) -> dict[int, str]:
    """The name of each: its trace, and how that was replayed if it was replayed in several ways."""
    paths = Counter(summary.trace_name for summary in summaries)
    return {id(summary): summary.trace_name if paths[summary.trace_name] == 1 else summary.title for summary in summaries}


def _say_missing(summary: Summary, kind: str, names: dict[int, str]) -> None:
    """A line for each allocator whose runs failed."""
    for line in summary.missing:
        print(f"heaptape compare: {kind}{printable(names[id(summary)])}: {printable(line.rstrip('.'))}", file=sys.stderr)


def _say_conditions(summaries: list[Summary], judged: list[list[Judged]], failed: bool) -> int:
    """A line for all that is not refuted; the exit status: what failed may have hidden anything, and comes first."""
    outcomes, names = set(), _names(summaries)
    for summary, items in zip(summaries, judged, strict=True):
        if failed:
            _say_missing(summary, "", names)
        for item in items:
            outcomes.add(item.outcome)
            if item.outcome != REFUTED:
                print(f"heaptape compare: {printable(item.sentence(names[id(summary)]))}", file=sys.stderr)
    if failed:
        return EXIT_FAILED
    return EXIT_HOLDS if HOLDS in outcomes else EXIT_UNDECIDED if UNDECIDED in outcomes else 0


class _Progress(ProgressLine):
    """Redrawn about six times a second from the first second on."""

    def __init__(self, wanted: bool) -> None:
        super().__init__(wanted)
        self._due = time.monotonic() + 1

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self.show(f"{100 * done // max(total, 1):3d} %  {counted(done, 'event')}", self.left_s(done, total))
            self._due = now + 1 / 6


def run_export(options: argparse.Namespace) -> int:
    """heaptape export"""
    from .trace.parquet import (
        export_parquet,  # here, because the other verbs need not load that library
    )

    folder = options.output or str(Path(options.trace).with_suffix(".parquet"))
    with read_trace(options.trace) as trace:
        progress = _Progress(not options.quiet)
        try:
            paths = export_parquet(trace, folder, progress)
        finally:
            progress.end()
        if trace.truncated:
            print(f"heaptape export: warning: {printable(options.trace)}: cut short after {trace.whole_bytes} bytes of whole "
                  "sections; the tables hold what comes before", file=sys.stderr)
        if not options.quiet:
            size = sum(path.stat().st_size for path in paths)
            print(f"{printable(folder)}: {counted(trace.records, 'event')}, {size / 1e6:.2f} MB in {counted(len(paths), 'table')}", file=sys.stderr)
        return EXIT_BAD_INPUT if trace.truncated else 0
