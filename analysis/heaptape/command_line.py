"""The verbs `try`, `report`, `compare`, `export`, `fleet`, `tune` and `validate`: what `heaptape report` and its like run.

Exit status: 0 done; 1 the run failed; 2 bad usage; 3 bad input; 4 a condition of --fail-if holds; 5 one stayed undecided,
and none holds. Results go to stdout, talk to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from . import __version__
from .base.environment import missing_package, speak_plainly
from .base.errors import EXIT_FAILED, EXIT_HOLDS, EXIT_UNDECIDED, HeaptapeError, UsageError
from .base.printable import printable
from .fleet import verb as fleet_verb
from .report.html import write_report
from .report.table import comparison_csv, comparison_markdown, comparison_object, print_comparison
from .results.comparison import SEED, experiments
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
from .results.summary import Summary, summarise, tell_apart
from .trace.reader import read_trace
from .trial import verb as trial_verb
from .tune import verb as tune_verb
from .validate import verb as validate_verb


def build_parser() -> argparse.ArgumentParser:
    """The one table of verbs and options; --help is printed from it."""
    parser = argparse.ArgumentParser(prog="heaptape", description="Reads replay results and says which allocator is better.")
    parser.add_argument("--version", action="version", version=f"heaptape {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    report = verbs.add_parser("report", help="write a self-contained HTML report")
    report.set_defaults(run=run_report)
    _add_common(report)
    report.add_argument("-o", "--output", default="report.html", metavar="FILE", help="where to write (report.html)")
    report.add_argument("-q", "--quiet", action="store_true", help="print nothing on success")

    compare = verbs.add_parser("compare", help="print ratios, intervals and verdicts")
    compare.set_defaults(run=run_compare)
    _add_common(compare)
    compare.add_argument("--fail-if", action="append", default=[], metavar="CONDITION",
                         help="end with status 4 where an allocator is shown to be beyond, as in 'time>1.05' (time, rss_peak, "
                              "rss_mean, rss_end; > >= < <=), with 5 where that is undecided, with 1 where a run failed; "
                              "may be repeated")
    printed = compare.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="print JSON for machines")
    printed.add_argument("--csv", action="store_true", help="print one row for each measure and allocator")
    printed.add_argument("--markdown", action="store_true", help="print Markdown for issues and pull requests")

    export = verbs.add_parser("export", help="write a trace as Parquet tables")
    export.set_defaults(run=run_export)
    export.add_argument("trace", metavar="TRACE", help="trace.bin as convert writes it")
    export.add_argument("-o", "--output", metavar="FOLDER",
                        help="where to write events.parquet and its like (beside the trace)")
    export.add_argument("-q", "--quiet", action="store_true", help="print nothing on success")

    fleet_verb.add_parser(verbs)
    trial_verb.add_parser(verbs)
    tune_verb.add_parser(verbs)
    validate_verb.add_parser(verbs)
    for verb in verbs.choices.values():
        verb.add_argument("--version", action="version", version=f"heaptape {__version__}")
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="results.jsonl as replay writes it")
    parser.add_argument("--baseline", metavar="NAME", help="allocator to compare with (glibc, else the first)")
    parser.add_argument("--trace", action="append", default=[], metavar="FILE",
                        help="the trace replayed, if it is not where the results say; may be repeated")
    parser.add_argument("--seed", type=_seed, default=SEED, metavar="N", help=f"of the bootstrap ({SEED})")


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("a seed is not negative")
    return value


def _read(verb: str, paths: Sequence[str]) -> pd.DataFrame:
    """The results, with a line on stderr for each file that is cut short, or has what another has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultsWarning)
        frame = read_results(paths)
    for sentence in frame.attrs["cut_short"] + frame.attrs["repeated"]:
        print(f"heaptape {verb}: warning: {printable(sentence)}", file=sys.stderr)
    return frame


def run_report(options: argparse.Namespace) -> None:
    """heaptape report"""
    frame = _read("report", options.results)
    path = write_report(frame, options.output, options.trace, options.baseline, options.seed)
    if not options.quiet:
        size = f"{path.stat().st_size / 1e6:.2f} MB, " if path.is_file() else ""
        print(f"{printable(str(path))}: {size}{len(frame):,} runs", file=sys.stderr)


def run_compare(options: argparse.Namespace) -> int:
    """heaptape compare"""
    conditions = [parse_condition(text) for text in options.fail_if]
    traces = [Path(path) for path in options.trace]
    for path in traces:
        read_trace(path).close()
    found = experiments(_read("compare", options.results))
    summaries = tell_apart([summarise(item, options.baseline, options.seed, traces) for item in found])
    failed = bool(conditions) and any(summary.missing for summary in summaries)
    judged = [_judged(summary, conditions, failed) for summary in summaries]
    if options.json:
        print(json.dumps([comparison_object(summary) | ({"fail_if": judged_object(items)} if conditions else {})
                          for summary, items in zip(summaries, judged, strict=True)], indent=1))
    elif options.csv:
        print(comparison_csv(summaries), end="")
    elif options.markdown:
        print("\n\n".join(comparison_markdown(summary) for summary in summaries))
    else:
        for number, summary in enumerate(summaries):
            print("\n" if number else "", end="")
            print_comparison(summary)
    sys.stdout.flush()
    return _say_conditions(summaries, judged, failed)


def _judged(summary: Summary, conditions: list[Condition], failed: bool) -> list[Judged]:
    """Where runs failed, what they leave may not suffice for a condition; that they failed is told anyway."""
    try:
        return judge(summary.comparison, conditions)
    except UsageError:
        if failed:
            return []
        raise


def _names(summaries: list[Summary]) -> dict[int, str]:
    """Of each the trace, and how it was replayed where that trace was replayed in several ways."""
    paths = Counter(summary.trace_name for summary in summaries)
    return {id(summary): summary.trace_name if paths[summary.trace_name] == 1 else summary.title for summary in summaries}


def _say_conditions(summaries: list[Summary], judged: list[list[Judged]], failed: bool) -> int:
    """A line for all that is not refuted; the exit status: what failed may have hidden anything, and comes first."""
    outcomes, names = set(), _names(summaries)
    for summary, items in zip(summaries, judged, strict=True):
        for line in summary.missing if failed else []:
            print(f"heaptape compare: {printable(names[id(summary)])}: {printable(line.rstrip('.'))}",
                  file=sys.stderr)
        for item in items:
            outcomes.add(item.outcome)
            if item.outcome != REFUTED:
                print(f"heaptape compare: {printable(item.sentence(names[id(summary)]))}", file=sys.stderr)
    if failed:
        return EXIT_FAILED
    return EXIT_HOLDS if HOLDS in outcomes else EXIT_UNDECIDED if UNDECIDED in outcomes else 0


class _Progress:
    """A line on stderr, redrawn about six times a second from the first second on, and only on a terminal."""

    def __init__(self) -> None:
        self._due = time.monotonic() + 1
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._due or not sys.stderr.isatty():
            return
        print(f"\r\x1b[K{100 * done // max(total, 1):3d} %  {done:,} events", end="", file=sys.stderr, flush=True)
        self._due, self._drawn = now + 1 / 6, True

    def end(self) -> None:
        """Leave the line empty."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run_export(options: argparse.Namespace) -> None:
    """heaptape export"""
    from .trace.parquet import (
        export_parquet,  # here, because the other verbs need not load that library
    )

    folder = options.output or str(Path(options.trace).with_suffix(".parquet"))
    with read_trace(options.trace) as trace:
        progress = _Progress()
        try:
            paths = export_parquet(trace, folder, None if options.quiet else progress)
        finally:
            progress.end()
        if trace.truncated:
            print(f"heaptape export: warning: {printable(options.trace)}: cut short after {trace.whole_bytes} bytes of whole "
                  "sections; the tables hold what comes before", file=sys.stderr)
        if not options.quiet:
            size = sum(path.stat().st_size for path in paths)
            print(f"{printable(folder)}: {trace.records:,} events, {size / 1e6:.2f} MB in {len(paths)} tables", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    speak_plainly()
    options = build_parser().parse_args(arguments)
    try:
        status = options.run(options)
        sys.stdout.flush()
    except HeaptapeError as error:
        print(f"heaptape {options.verb}: {printable(str(error))}", file=sys.stderr)
        return error.exit_status
    except ImportError as error:
        print(f"heaptape {options.verb}: {missing_package(error)}", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; closing stderr too keeps the interpreter quiet about it.
        sys.stderr.close()
        return EXIT_FAILED
    except (MemoryError, OSError) as error:
        print(f"heaptape {options.verb}: {printable(str(error)) or type(error).__name__}", file=sys.stderr)
        _drop_unwritten()
        return EXIT_FAILED
    return int(status or 0)


def _drop_unwritten() -> None:
    """What stdout could not take. The interpreter would try it once more at its end, and complain with a status of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Ended(BaseException):
    """A signal wants us gone; what has been begun is removed on the way out."""


def run_program() -> int:
    """As main, but signals that end it leave no half-written file behind, and end it as they would have."""
    deadly = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) != signal.SIG_IGN]
    ended_by = 0
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some parents leave it, it hides how a child ended

    def end(number: int, _frame: object) -> None:
        nonlocal ended_by
        ended_by = number
        for other in deadly:
            signal.signal(other, signal.SIG_IGN)
        raise _Ended

    for number in deadly:
        signal.signal(number, end)
    try:
        return main()
    except _Ended:
        signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
        return EXIT_FAILED

