# SPDX-License-Identifier: Apache-2.0
"""The judge of `replay`: has runs made, and prints what they show. The runner (replay/jobs/judge.c) starts it."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import sys

from ..base.environment import missing_package, speak_plainly
from ..base.errors import EXIT_FAILED, HeaptapeError
from .intervals import BOOTSTRAP_ROUNDS_MIN
from .model import Context, Json, Measurements, Warning
from .talk import Ended, Talk

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
    talk = Talk(int(words[0]))
    try:
        os.dup2(int(words[1]), 1)
        sys.stdout = open(1, "w", closefd=False)  # the old one knows of another file whether it is a terminal, and can seek
        speak_plainly()
        talk.write({"hello": 1})
        context = Context.of(talk.read())
        lacking = lacks(context)
        talk.write({"missing": lacking} if lacking else {"status": Judge(context, talk).status()})
    except Ended:
        pass
    return EXIT_DONE


def lacks(context: Context) -> str:
    """What is missing for intervals of this experiment, in a line; or "". Few rounds need no resampling, for which numpy is."""
    plan = context.plan
    if 0 < plan.rounds < BOOTSTRAP_ROUNDS_MIN and not plan.baseline_file:
        return ""
    try:
        import numpy  # noqa: F401
    except Exception as error:  # it refuses a processor by RuntimeError, and a file that is damaged may raise anything
        return missing_package(error if isinstance(error, ImportError) else ImportError(str(error), name="numpy"))
    return ""


class Judge:
    def __init__(self, context: Context, talk: Talk) -> None:
        self.context, self.plan, self.talk = context, context.plan, talk
        self.err = Err()
        self.earlier: Json | None = None
        self.warnings: list[Warning] = []
        self.refused = 0

    def status(self) -> int:
        """Runs and prints all. Returns the exit status."""
        from .baseline_file import read

        if self.plan.baseline_file:
            try:
                self.earlier = read(self.plan.baseline_file, self.context)
            except HeaptapeError as error:
                self._say(str(error))
                return error.exit_status
        self.talk.write({"ready": True})
        go = self.talk.read()
        self.refused = go["refused"]
        self.warnings = [Warning(**warning) for warning in go["warnings"]]
        return self._judge_rounds(go) if self.plan.time_pass or self.plan.memory_pass else self._judge_counts()

    def _say(self, words: str) -> None:
        from .words import printable

        self.err.write(f"heaptape replay: {printable(words)}\n")

    def _printed(self, text: str) -> bool:
        """Whether it could be printed; else that is said, but for a reader that has gone, as `| head` does."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except (OSError, AttributeError) as error:
            if not isinstance(error, BrokenPipeError):
                self._say(f"standard output: cannot write: {getattr(error, 'strerror', None) or os.strerror(errno.EBADF)}")
            # What is left in the buffer would be tried again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return False
        return True

    # --- rounds

    def _judge_rounds(self, go: Json) -> int:
        from .random_numbers import Random
        from .rounds import Rounds
        from .schedule import End

        printed, failed_counts, counts = len(self.warnings), 0, None
        rounds = Rounds(self.context, self.talk, Random(int(go["random"], 16)), self.warnings, self.err)
        if self.plan.instructions:
            answer = self.talk.ask("instructions")
            failed_counts, counts = answer["failed"], answer["counts"]
        before = self.talk.ask("activity")["activity"]
        if not self.talk.interrupted:
            rounds.run()
        measurements = rounds.measurements
        measurements.counts, measurements.limits = counts, go["limits"]
        measurements.figures = self.talk.ask("figures")["figures"]
        early = rounds.end == End.EARLY
        if self.talk.interrupted:
            self._say_stopped(measurements)
        incomplete, judged = self._print(rounds, before, early, printed, failed_counts)
        gate = bool(self.plan.write_baseline) or any(condition.counted for condition in self.context.conditions)
        failed = early or self.refused or incomplete or measurements.failed_runs or self.talk.results_failed or (gate and failed_counts)
        # What failed may have hidden anything: it comes before what the rest shows.
        status = EXIT_FAILED if failed else judged
        if status == EXIT_DONE and not self.plan.quiet:
            self._say_next()
        return status

    def _print(self, rounds: object, before: Json, early: bool, printed: int, failed_counts: int) -> tuple[bool, int]:
        """The comparison, warnings, conditions and the file of --write-baseline. Returns whether any of it failed, and what the
        conditions say."""
        from dataclasses import replace

        from . import conditions
        from .baseline_file import write
        from .comparison import compare
        from .comparison_json import comparison_json
        from .json_text import json_text
        from .rounds import Rounds
        from .text import print_comparison
        from .warnings import warnings_after

        assert isinstance(rounds, Rounds)
        measurements = rounds.measurements
        spent_s = math.nan if early else rounds.spent_s
        comparison = replace(compare(self.context, measurements), earlier=self.earlier, spent_s=spent_s)
        if not early:
            now = self.talk.ask("activity")["activity"]
            self.warnings += warnings_after(comparison, activity_between(before, now), rounds.end, rounds.spent_s)
        comparison = replace(comparison, warnings=self.warnings)
        text = io.StringIO()
        # Half a round compares nothing.
        if not early or len(measurements.rounds) >= 2:
            if self.plan.json:
                print(json_text(comparison_json(comparison), 2), file=text)
            else:
                print_comparison(comparison, text)
        failed = not self._printed(text.getvalue())
        if not self.plan.json and measurements.counts is not None:
            self.talk.ask("profile")
        if not self.plan.quiet:
            for warning in self.warnings[printed:]:
                self._say(f"warning: {warning.message}; {warning.remedy}")
        judged = conditions.say(comparison, self.err)
        # What was cut short or failed is no baseline.
        if self.plan.write_baseline and not (early or measurements.failed_runs or failed_counts):
            try:
                write(self.plan.write_baseline, comparison)
            except HeaptapeError as error:
                self._say(str(error))
                failed = True
        return failed, judged

    def _say_stopped(self, measurements: Measurements) -> None:
        plan, done = self.plan, len(measurements.rounds)
        if not done:
            self._say(f"stopped during the warm-up, seed {plan.seed}")
            return
        of = f" of {plan.rounds}" if plan.rounds else ""
        kept = f"; completed runs are in {plan.results_path}" if plan.results_path else ""
        self._say(f"stopped in round {done}{of}, seed {plan.seed}{kept}")

    def _say_next(self) -> None:
        """What a user does next, as a command to copy."""
        from .words import printable

        if self.plan.json:  # a program reads this
            return
        if self.plan.results_path:
            self.err.write(printable(f"next: heaptape report {self.plan.results_path} --trace {self.plan.trace_path} -o report.html") + "\n")
        else:
            self.err.write("next: add -o results.jsonl to keep all runs for heaptape report\n")

    # --- counts alone

    def _judge_counts(self) -> int:
        from . import conditions
        from .baseline_file import write
        from .comparison import of_counts
        from .earlier_report import earlier_json, print_earlier
        from .json_text import json_text

        answer, text = self.talk.ask("counts"), io.StringIO()
        comparison = of_counts(self.context, answer["counts"], self.earlier)
        if answer["print"] is not None:
            made = answer["print"]
            if self.context.conditions:
                made["fail_if"] = conditions.conditions_json(comparison)
            if self.earlier is not None:
                made["against_file"] = earlier_json(comparison)
            print(json_text(made, 1, 17), file=text)
        elif self.earlier is not None and answer["failed"] < len(self.context.choices):
            print_earlier(comparison, text)
        if not self._printed(text.getvalue()) or self.refused or answer["failed"] or self.talk.results_failed:
            return EXIT_FAILED
        if self.plan.write_baseline:
            try:
                write(self.plan.write_baseline, comparison)
            except HeaptapeError as error:
                self._say(str(error))
                return error.exit_status
        return conditions.say(comparison, self.err)


def activity_between(before: Json, now: Json) -> Json:
    """What the machine did meanwhile: differences, null where one is not known."""
    return {key: None if before[key] is None or value is None else value - before[key] for key, value in now.items()}
