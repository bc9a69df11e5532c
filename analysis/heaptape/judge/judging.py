# SPDX-License-Identifier: Apache-2.0
"""Has the runs of a replay made, and judges them, for who prints what they show (serve.py) or uses it (attached.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TextIO

from ..base.errors import EXIT_BAD_INPUT, EXIT_FAILED, HeaptapeError
from . import conditions
from .baseline_file import read, write
from .comparison import compare, of_counts
from .intervals import Random
from .model import Comparison, Context, Json, Matters, Measurements, Talk, Warning
from .rounds import Rounds
from .schedule import End
from .warnings import warnings_after
from .words import printable


@dataclass(frozen=True)
class Judged:
    """The result of the runs. failed: some of them failed, or what they showed could not be kept; failed_counts: so many simulations did;
    early: it was ended before it was done; no_round: the budget ended it before a round was; new: the warnings that nobody has said yet; document: of counts alone what --json prints,
    None where that is nothing."""

    comparison: Comparison
    failed: bool
    failed_counts: int
    early: bool = False
    no_round: bool = False
    new: tuple[Warning, ...] = ()
    document: Json | None = None

    @property
    def compares(self) -> bool:
        """Whether there is anything to look at. Half a round compares nothing."""
        in_rounds = self.comparison.context.plan.in_rounds
        return not self.early or self.comparison.rounds >= 2 if in_rounds else self.document is not None


class Judging:
    """curves, matters: as Rounds takes them."""

    def __init__(self, context: Context, talk: Talk, err: TextIO, *, curves: bool = False, matters: Matters | None = None) -> None:
        self.context, self.plan, self.talk, self.err, self.curves, self.matters = context, context.plan, talk, err, curves, matters
        self._earlier: Json | None = None

    def run(self) -> Judged | None:
        """None where --baseline-file is not one to compare with."""
        try:
            if self.plan.baseline_file:
                names = [choice.name for choice in self.context.choices]
                self._earlier = read(self.plan.baseline_file, self.context.baseline_facts, names, self.context.conditions)
        except HeaptapeError as error:
            self.say(str(error))
            return None
        self.talk.write({"ready": True})
        go = self.talk.read()
        return self._run_rounds(go) if self.plan.in_rounds else self._run_counts(go)

    def finish(self, judged: Judged | None, *, printed: bool = True) -> int:
        """Says warnings and conditions, and writes the file of --write-baseline. Returns the exit status: what failed may have hidden
        anything, and comes before what the rest shows."""
        if judged is None:
            return EXIT_BAD_INPUT
        if not self.plan.in_rounds and (judged.failed or not printed):
            return EXIT_FAILED
        for warning in () if self.plan.quiet else judged.new:
            self.say(f"warning: {warning.message}; {warning.remedy}")
        status = conditions.say(judged.comparison, self.err)
        # What was cut short or failed is no baseline.
        if self.plan.write_baseline and not (judged.early or judged.comparison.measurements.failed_runs or judged.failed_counts):
            try:
                write(self.plan.write_baseline, judged.comparison)
            except HeaptapeError as error:
                self.say(str(error))
                return error.exit_status
        # Without a round only what was counted can settle a condition.
        return EXIT_FAILED if judged.failed or not printed or (judged.no_round and status == conditions.EXIT_DONE) else status

    def say(self, words: str) -> None:
        self.err.write(f"heaptape replay: {printable(words)}\n")

    def _run_rounds(self, go: Json) -> Judged:
        failed_counts, counts, warnings = 0, None, [Warning(**warning) for warning in go["warnings"]]
        said = len(warnings)
        rounds = Rounds(self.context, self.talk, Random(int(go["random"], 16)), warnings, self.err, curves=self.curves,
                        matters=self.matters)
        if self.plan.instructions:
            answer = self.talk.ask("instructions")
            failed_counts, counts = answer["failed"], answer["counts"]
        before = self.talk.ask("activity")["activity"]
        if not self.talk.interrupted:
            rounds.run()
        measurements, early = rounds.measurements, rounds.end in (End.EARLY, End.NO_ROUND)
        measurements.counts, measurements.limits = counts, go["limits"]
        measurements.figures = self.talk.ask("figures")["figures"]
        if self.talk.interrupted:
            self._say_stopped(measurements)
        comparison = replace(compare(self.context, measurements), earlier=self._earlier, spent_s=math.nan if early else rounds.spent_s)
        if not early:
            now = self.talk.ask("activity")["activity"]
            warnings += warnings_after(comparison, activity_between(before, now), rounds.end, rounds.spent_s)
        gate = bool(self.plan.write_baseline) or any(condition.counted for condition in self.context.conditions)
        failed = rounds.end == End.EARLY or go["refused"] or measurements.failed_runs or self.talk.results_failed or (gate and failed_counts)
        return Judged(replace(comparison, warnings=warnings), bool(failed), failed_counts, early, rounds.end == End.NO_ROUND, tuple(warnings[said:]))

    def _say_stopped(self, measurements: Measurements) -> None:
        plan, done = self.plan, len(measurements.rounds)
        if not done:
            self.say(f"stopped during the warm-up, seed {plan.seed}")
            return
        of = f" of {plan.rounds}" if plan.rounds else ""
        kept = f"; completed runs are in {plan.results_path}" if plan.results_path else ""
        self.say(f"stopped in round {done}{of}, seed {plan.seed}{kept}")

    def _run_counts(self, go: Json) -> Judged:
        answer = self.talk.ask("counts")
        failed = go["refused"] or answer["failed"] or self.talk.results_failed
        return Judged(of_counts(self.context, answer["counts"], self._earlier), bool(failed), answer["failed"], document=answer["print"])


def activity_between(before: Json, now: Json) -> Json:
    """The machine's activity meanwhile: differences, null if one is not known."""
    return {key: None if before[key] is None or value is None else value - before[key] for key, value in now.items()}
