# SPDX-License-Identifier: Apache-2.0
"""The judge as a process of its own, which prints what the runs of `replay` show. The runner (replay/jobs/judge.c) starts it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import socket
import sys
from typing import TYPE_CHECKING

from ..base.environment import missing_package, speak_plainly
from .intervals import BOOTSTRAP_ROUNDS_MIN
from .model import Context, Ended, Talk

if TYPE_CHECKING:
    from .judging import Judged, Judging

EXIT_DONE = 0


class Err(io.StringIO):
    """Standard error, where a line that cannot be written is lost, and no more."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(text)
            sys.stderr.flush()
        return len(text)


def main(words: list[str]) -> int:
    """words: the descriptor of the line to the runner, and that of standard output. The status is the runner's to give; that of
    this process is of no use."""
    with socket.socket(fileno=int(words[0])) as line:  # that stays open as long as its file
        talk = Talk(line)
    try:
        with contextlib.suppress(OSError, AttributeError):
            sys.stdout.flush()  # what Python's start-up printed is for where it has been going
        os.dup2(int(words[1]), 1)
        sys.stdout = open(1, "w", closefd=False)  # the old one knows of another file whether it is a terminal, and can seek
        speak_plainly()
        context = talk.meet()
        lacking = lacks(context)
        talk.write({"missing": lacking} if lacking else {"status": _status(context, talk)})
    except Ended:
        pass
    return EXIT_DONE


def lacks(context: Context) -> str:
    """One line about what is missing for intervals of this experiment, or "". Few rounds need no resampling, for which numpy is."""
    plan = context.plan
    if 0 < plan.rounds < BOOTSTRAP_ROUNDS_MIN and not plan.baseline_file:
        return ""
    try:
        import numpy  # noqa: F401
    except Exception as error:  # it refuses a processor by RuntimeError, and a file that is damaged may raise anything
        return missing_package(error if isinstance(error, ImportError) else ImportError(str(error), name="numpy"))
    return ""


def _status(context: Context, talk: Talk) -> int:
    """Runs and prints all. Returns the exit status."""
    from .judging import Judging

    judging = Judging(context, talk, Err())
    judged = judging.run()
    if judged is None:
        return judging.finish(judged)
    printed = _print(judging, _text(judged))
    if context.plan.in_rounds and not context.plan.json and judged.comparison.measurements.counts is not None:
        talk.ask("profile")
    status = judging.finish(judged, printed=printed)
    if context.plan.in_rounds and status == EXIT_DONE and not context.plan.quiet:
        _say_next(judging)
    return status


def _text(judged: Judged) -> str:
    from . import conditions
    from .against import earlier_json, print_earlier
    from .comparison_json import comparison_json
    from .json_text import json_text
    from .text import print_comparison

    comparison, plan, out = judged.comparison, judged.comparison.context.plan, io.StringIO()
    if plan.in_rounds:
        if judged.compares and plan.json:
            print(json_text(comparison_json(comparison), 2), file=out)
        elif judged.compares:
            print_comparison(comparison, out)
    elif judged.document is not None:
        made = judged.document
        if comparison.context.conditions:
            made["fail_if"] = conditions.conditions_json(comparison)
        if comparison.earlier is not None:
            made["against_file"] = earlier_json(comparison)
        print(json_text(made, 1, 17), file=out)
    elif comparison.earlier is not None and judged.failed_counts < len(comparison.names):
        print_earlier(comparison, out)
    return out.getvalue()


def _print(judging: Judging, text: str) -> bool:
    """Whether it could be printed; else that is said, but for a reader that has gone, as `| head` does."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, AttributeError) as error:
        if not isinstance(error, BrokenPipeError):
            judging.say(f"standard output: cannot write: {getattr(error, 'strerror', None) or os.strerror(errno.EBADF)}")
        # What is left in the buffer would be tried again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return False
    return True


def _say_next(judging: Judging) -> None:
    """Says as a command to copy what a user does next."""
    from .words import printable

    if judging.plan.json:  # a program reads this
        return
    if judging.plan.results_path:
        judging.err.write(printable(f"next: heaptape report {judging.plan.results_path} --trace {judging.plan.trace_path} -o report.html") + "\n")
    else:
        judging.err.write("next: add -o results.jsonl to keep all runs for heaptape report\n")
