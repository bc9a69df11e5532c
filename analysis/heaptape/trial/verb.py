# SPDX-License-Identifier: Apache-2.0
"""The verb `try`: records a program, replays what it did under other allocators, and says what would change."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

from ..base.errors import EXIT_FAILED, HeaptapeError, UsageError
from ..base.printable import printable
from ..base.programs import find_heaptape, find_replay, run_attended
from ..base.units import counted
from ..report.html import write_report
from ..results.as_set import settings_lines
from ..results.caution import check_line
from ..results.comparison import experiments
from ..results.reader import ResultsWarning, read_results
from ..results.summary import Summary, summarise
from ..results.use import also_set, no_reason, python_malloc, use_heading, uses
from .allocators import choose, listed
from .answer import table
from .recorded import CHECKED_WITHIN, Recorded, input_comes_twice, record

NAMESAKES_MAX = 3
"""So many logs of other processes of the same name are listed."""


def _folder(options: argparse.Namespace) -> Path:
    """Makes the folder."""
    if options.output:
        path = Path(options.output)
        if os.path.lexists(path):
            raise UsageError(f"-o {path}: already exists")
        try:
            path.mkdir()
        except OSError as error:
            raise UsageError(f"-o {path}: cannot create: {error.strerror}") from error
        return path
    name = f"heaptape-{Path(options.command[0]).name}"
    for number in range(1, 10_000):
        path = Path(name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise HeaptapeError(f"{path}: cannot create: {error.strerror}; name a folder with -o") from error
    raise HeaptapeError(f"{name} to {name}-9999 exist: name a folder with -o")


def _replay(replay: str, alloc: str, baseline: str, trace: Path, results: Path, options: argparse.Namespace) -> str:
    """Its progress, on a terminal, is that of replay itself. What went wrong without ending all, or ""."""
    command = [replay, "--alloc", alloc, "--baseline", baseline, "-o", str(results), "--json"]
    command += ["--budget", f"{max(round(options.budget), 1)}s"] if options.budget else []
    command += ["--cpus", str(options.cpus)] if options.cpus else []
    command += ["-q"] if options.quiet or not sys.stderr.isatty() else []
    status = run_attended([*command, "--", str(trace)], subprocess.Popen.wait, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if not results.exists() or not results.stat().st_size:
        raise HeaptapeError(f"the replay failed with status {status}")
    return f"the replay ended with status {status}: not all runs succeeded" if status else ""


def _say(options: argparse.Namespace, words: str) -> None:
    if not options.quiet:
        print(f"heaptape try: {printable(words)}", file=sys.stderr, flush=True)


def _summary(folder: Path, baseline: str, processes: str) -> Summary:
    """Of the results, whose report is written beside them; processes as in results.sharing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResultsWarning)
        frame = read_results(folder / "results.jsonl")
    write_report(frame, folder / "report.html", [folder / "trace.bin"], baseline, processes=processes)
    return summarise(experiments(frame)[0], baseline, traces=[folder / "trace.bin"], processes=processes)


def _use(summary: Summary, command: list[str], recorded: Recorded) -> list[str]:
    lines = []
    kind, linked = (str(recorded.context.get(key) or "") for key in ("allocator_name", "linked_allocator"))
    for use in uses(summary, shlex.join(command), kind, linked):
        lines += ["", use_heading(use, summary.sharing), *(f"  {what:7}  {line}" for what, line in use.lines)]
    if lines and also_set(recorded.context):
        lines += ["", also_set(recorded.context)]
    return lines or ["", no_reason(summary)]


def _answer(summary: Summary, recorded: Recorded, why_baseline: str, command: list[str], folder: Path) -> str:
    lines = [summary.caution] if summary.caution else []
    lines += [summary.headline.removeprefix(summary.caution).strip()]
    lines += [why_baseline] if why_baseline else []
    lines += ["", *table(summary), "", *(line for line in summary.missing if line not in summary.headline), *summary.obeyed, *summary.share_lines,
              *settings_lines(summary.experiment.runs)]
    lines += filter(None, [check_line(recorded.context)])
    if python_malloc(recorded.context) == "":
        lines += ["Python allocates objects of up to 512 bytes itself: they are not compared. To compare them too: "
                  f"PYTHONMALLOC=malloc heaptape try -- {shlex.join(command)}"]
    lines += _use(summary, command, recorded)
    if recorded.others:
        lines += ["", f"{recorded.executable} (process {recorded.context.get('pid')}) was compared; beside it there {'is' if recorded.others == 1 else 'are'} {counted(recorded.others, 'other log')}; "
                  "--process NAME takes another."]
    if recorded.namesakes:
        more = len(recorded.namesakes) - NAMESAKES_MAX
        lines += [f"Also called {recorded.executable}: {', '.join(str(log) for log in recorded.namesakes[:NAMESAKES_MAX])}"
                  f"{f' and {more} more' if more > 0 else ''}. heaptape convert LOG -o other.bin and "
                  "heaptape replay --alloc all other.bin compare one of these."]
    lines += ["", f"{folder}/report.html has the curves; {folder}/trace.bin and results.jsonl are its inputs."]
    return "\n".join(printable(line) for line in lines)


def run_try(options: argparse.Namespace) -> int:
    """heaptape try"""
    replay = find_replay()
    heaptape = find_heaptape(replay)
    if not shutil.which(options.command[0]):
        raise UsageError(f"{options.command[0]}: no such program")
    if options.alloc:
        listed(replay, options.alloc)  # refused before the program runs
    folder = _folder(options)
    try:
        checked = not options.no_check and not options.seconds and input_comes_twice()
        again = f", and once more without the recorder if it ends within {CHECKED_WITHIN} (--no-check leaves that out)" if checked else ""
        _say(options, f"recording {' '.join(options.command)}{again}")
        recorded = record(heaptape, options.command, folder, options.process, options.seconds, checked)
    except HeaptapeError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if recorded.exit_status:
        _say(options, f"the program ended with status {recorded.exit_status}")
    alloc, baseline, why_baseline = choose(replay, options.alloc, recorded.context)
    _say(options, f"replaying {counted(recorded.info['events'], 'call')} under {alloc.replace(',', ', ')}")
    problem = _replay(replay, alloc, baseline, recorded.trace, folder / "results.jsonl", options)
    summary = _summary(folder, baseline, recorded.sharers)
    print(_answer(summary, recorded, why_baseline, options.command, folder))
    if problem:
        print(f"heaptape try: {problem}", file=sys.stderr)
    return EXIT_FAILED if problem else 0
