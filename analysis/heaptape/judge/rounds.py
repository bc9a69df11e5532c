# SPDX-License-Identifier: Apache-2.0
"""Has the schedule's turns run, and gathers what they show."""

from __future__ import annotations

import math
import time
from typing import TextIO

from .comparison import compare_figure, compared_values
from .conditions import is_open as condition_is_open
from .intervals import INTERIM_CONFIDENCE, Random, median
from .model import (
    CHOICE_NULL,
    FIGURES,
    PEAK,
    TIME,
    UNRESOLVED,
    Cell,
    Context,
    Estimate,
    Failing,
    FigureWords,
    Interim,
    Json,
    Matters,
    Measurements,
    Talk,
    Warning,
)
from .schedule import ROUNDS_MIN, End, Schedule, Turn, run
from .words import printable

FAILING_ROUNDS_MAX = 2
"""An allocator that failed in so many rounds in a row is not run any more."""

RUN_CPU_NS = 100_000
"""A hundred times what reading the clock costs. Not more: repeats find the heap warm, which is not what the program paid, and of
two runs of 5 ms one learns more than of one of 100 ms (docs/method/method.md)."""


SAFETY = 0.2
"""So much longer than the rounds are expected to take, a budget is advised: the first runs say little."""


def _time_text(ns: float) -> str:
    """Such as 90s or 5m, as --budget takes it, and not less."""
    seconds = math.ceil(ns / 1e9)
    return f"{seconds}s" if seconds <= 120 else f"{math.ceil(seconds / 60)}m"


def given_up(failing: Failing) -> bool:
    return failing.rounds_in_a_row >= FAILING_ROUNDS_MAX


def note(failing: Failing, number: int, problem: str | None) -> bool:
    """A pass has ended. True if this is what makes the allocator be given up, which is said once."""
    failing.runs += 1
    if problem is None:
        return False
    before = given_up(failing)
    follows = failing.rounds_in_a_row > 0 and failing.last_round + 1 == number
    same = failing.rounds_in_a_row > 0 and failing.last_round == number
    failing.failed += 1
    failing.rounds_in_a_row = failing.rounds_in_a_row if same else failing.rounds_in_a_row + 1 if follows else 1
    failing.last_round = number
    failing.problem = problem
    return not before and given_up(failing)


class Rounds:
    """The schedule's executor. curves: lines of results come with theirs; matters: asked before more rounds for what is open. end,
    spent_s: how it ended, and how long warm-up and rounds took."""

    def __init__(self, context: Context, talk: Talk, random: Random, warnings: list[Warning], err: TextIO, *, curves: bool = False,
                 matters: Matters | None = None) -> None:
        self.context, self.plan, self.talk, self.warnings = context, context.plan, talk, warnings
        self.err, self._curves, self._matters = err, curves, matters
        self.measurements = Measurements(failing=[Failing() for _ in context.choices])
        self.random = random
        self.end, self.spent_s = End.EARLY, 0.0
        self._null_failing = Failing()
        self._null_failed = {"time": False, "memory": False}
        self._layouts = [0] * (len(context.choices) + 2)
        self._fastest_cpu_ns = 0
        self._begun_ns = self._rounds_begun_ns = self._round_begun_ns = 0

    def run(self) -> None:
        plan = self.plan
        schedule = Schedule(choices=len(self.context.choices), rounds=plan.rounds, budget_ns=plan.budget_ns,
                            latest_ns=plan.latest_ns, late_ns=plan.loading_ns, budget_holds=plan.budget_given, time_pass=plan.time_pass, memory_pass=plan.memory_pass,
                            control=len(self.context.choices) > 1, timed_always=plan.pollutes, cpus=self.context.cpus)
        self.talk.ask("progress")
        self._begun_ns = self.now_ns()
        self.end, done = run(schedule, self.random, self, self.now_ns)
        if self.end != End.EARLY:  # what the budget cut short compares nothing
            del self.measurements.rounds[done:]
        self.spent_s = self._seconds_since(self._begun_ns)
        self.talk.ask("quiet")

    # --- the executor

    @staticmethod
    def now_ns() -> int:
        return time.monotonic_ns()

    def turn(self, turn: Turn) -> bool:
        """False: nothing may run after this."""
        if not turn.warm_up:
            self._rounds_begun_ns = self._rounds_begun_ns or self.now_ns()
            self._begin_round(turn.round)
            if turn.who != CHOICE_NULL and self._null_failed[self._pass(turn)]:
                return True
        if given_up(self._failing_of(turn.who)):
            return True
        answer = self._run(turn)
        if self.talk.interrupted:
            return False
        if turn.warm_up:
            self._note_warm_up(turn, answer)
            return True
        return turn.who != CHOICE_NULL or not self._null_failed[self._pass(turn)] or self._go_on_without_null(turn)

    def no_round(self, round_ns: int, ready_ns: int) -> bool:
        plan = self.plan
        whose = f"--budget {_time_text(plan.budget_ns)}" if plan.budget_given else f"the {_time_text(plan.budget_ns)} without --budget"
        enough_ns = (1 + SAFETY) * (ready_ns + (ROUNDS_MIN - 1) * round_ns)
        use = [f"--budget {_time_text(enough_ns)}", *(["fewer allocators"] if len(self.context.choices) > 1 else []),
               *(["one --pass"] if plan.time_pass and plan.memory_pass else [])]
        if not plan.budget_given and plan.quiet:
            return True
        self.talk.ask("quiet")
        takes = f"a round takes about {_time_text(round_ns)}, and the first would end" if round_ns else "the first round would begin"
        self._say(f"{takes} {_time_text(ready_ns)} after the start, later than {whose} allows: "
                  f"{'nothing is compared' if plan.budget_given else 'it runs all the same'}; use {', '.join(use[:-1])}"
                  f"{' or ' if len(use) > 1 else ''}{use[-1]}")
        return not plan.budget_given

    def interim(self, rounds: int) -> tuple[bool, bool]:
        """Whether the figures of the time and of the memory pass need more rounds than there have been."""
        assert rounds == len(self.measurements.rounds)
        # A gate that leaves time alone reports it, but does not wait for it.
        conditions = self.context.conditions
        waits = not conditions or any(condition.figure == TIME.name for condition in conditions)
        time_open, memory_open = waits and self._is_open(TIME), any(self._is_open(words) for words in FIGURES[1:])
        if self._matters and (time_open or memory_open):
            still = self._matters(self._shown())
            return time_open and TIME.name in still, memory_open and PEAK.name in still
        return time_open, memory_open

    def _shown(self) -> Interim:
        others = [choice for choice in range(len(self.context.choices)) if choice != self.context.baseline]
        return Interim(median(compared_values(self.measurements, TIME, self.context.baseline)), {
            words.name: {self.context.choices[choice].name: self._estimate(words, choice) for choice in others} for words in (TIME, PEAK)})

    def _estimate(self, words: FigureWords, choice: int) -> Estimate:
        return compare_figure(self.measurements, words, choice, self.context.baseline, INTERIM_CONFIDENCE)

    def _is_open(self, words: FigureWords) -> bool:
        """A figure is open while neither the verdict nor any of the conditions of --fail-if is settled by the stricter interval. Several
        analyses would find a difference by chance more often than one does."""
        for choice in range(len(self.context.choices)):
            if choice == self.context.baseline:
                continue
            estimate = self._estimate(words, choice)
            # What was never measured, because it failed or the harness hides it, will not be by more rounds.
            if estimate.ratio.count == 0 or estimate.ratio.hidden > 0.5:
                continue
            if words in (TIME, PEAK) and estimate.verdict == UNRESOLVED:
                return True
            if condition_is_open(self.context.conditions, words, estimate.widened):
                return True
        return False

    # --- a turn

    @staticmethod
    def _pass(turn: Turn) -> str:
        return "memory" if turn.pass_name == "memory" else "time"

    def _is_control(self, who: int) -> bool:
        return who == len(self.context.choices) + 1

    def _choice(self, who: int) -> int:
        """The index of the allocator that takes the turn; of the null replayer none."""
        return self.context.baseline if self._is_control(who) else who - 1

    def _name(self, who: int) -> str:
        return "null" if who == CHOICE_NULL else self.context.choices[self._choice(who)].name

    def _failing_of(self, who: int) -> Failing:
        """The control's failures are the baseline's."""
        return self._null_failing if who == CHOICE_NULL else self.measurements.failing[self._choice(who)]

    def _run(self, turn: Turn) -> Json:
        if turn.pass_name == "flat" and not turn.warm_up and not self.plan.layout_fixed:
            self._layouts[turn.who] = self.random.below(self.plan.layouts)
        before, after = self._progress(turn)
        answer = self.talk.ask("turn", who=turn.who, round=turn.round, warm_up=turn.warm_up, timed_follows=turn.timed_follows, cpu=turn.cpu,
                               layout=self._layouts[turn.who], repeats=self.measurements.repeats, random=f"{self.random.state:x}",
                               curves=self._curves, deadline_ns=turn.deadline_ns, before=before, after=after, **{"pass": turn.pass_name})
        self.random.state = int(answer["random"], 16)
        self.warnings += [Warning(**warning) for warning in answer["warnings"]]
        if answer.get("cut_short"):
            return answer
        if "failed" in answer and turn.who == CHOICE_NULL:
            self._null_failed["time"] = answer["failed"]
        if "line" in answer and not self.talk.interrupted:
            self._take(turn, answer)
        return answer

    def _take(self, turn: Turn, answer: Json) -> None:
        problem, name = answer["problem"], self._pass(turn)
        if turn.who == CHOICE_NULL:
            self._null_failed[name] = problem is not None
        ends = note(self._failing_of(turn.who), turn.round, problem)
        if problem is not None:
            self._say_problem(turn, problem, ends)
            return
        cell = self.measurements.rounds[turn.round][turn.who]
        if name == "time":
            cell.time, cell.exact_time = answer["line"], answer["exact"]
        else:
            cell.memory, cell.exact_memory = answer["line"], answer["exact"]

    def _say(self, words: str) -> None:
        self.err.write(f"heaptape replay: {printable(words)}\n")

    def _say_problem(self, turn: Turn, problem: str, ends: bool) -> None:
        self.measurements.failed_runs += 1
        if turn.who != CHOICE_NULL and self.context.choices[self._choice(turn.who)].refused_calls:
            return  # that was said before the first round
        name = self._name(turn.who)
        self._say(f"{name}, round {turn.round + 1}, {self._pass(turn)} pass: {problem}")
        if ends and self.plan.rounds != turn.round + 1:
            self._say(f"{name} failed in {FAILING_ROUNDS_MAX} rounds in a row: no more runs of it")

    def _go_on_without_null(self, turn: Turn) -> bool:
        """One run of the null replayer that somebody killed costs what is left of a round; if it cannot run, that ends it all."""
        if turn.timed_follows:  # that turn comes next, and says what the problem was
            return True
        if not given_up(self._null_failing) and turn.round + 1 != self.plan.rounds:
            return True
        self._say("the null replayer failed: nothing can be compared")
        return False

    # --- a round

    def _begin_round(self, number: int) -> None:
        if number < len(self.measurements.rounds):
            return
        self._round_begun_ns = self.now_ns()
        self.measurements.repeats = self.measurements.repeats or self._choose_repeats()
        self.measurements.rounds.append([Cell() for _ in range(len(self.context.choices) + 2)])

    def _note_warm_up(self, turn: Turn, answer: Json) -> None:
        if (turn.who == CHOICE_NULL and self.context.choices) or "cpu_ns" not in answer:
            return
        if not self._fastest_cpu_ns or answer["cpu_ns"] < self._fastest_cpu_ns:
            self._fastest_cpu_ns = answer["cpu_ns"]

    def _choose_repeats(self) -> int:
        asked, trace = self.plan.repeats, self.context.trace
        if self.plan.time_real > 0 or trace.streamed or trace.has_prelude:
            if asked > 1:
                self.warnings.append(Warning("no_repeats", "a run replays a trace only once where it waits for the clock, decodes on the way or "
                                             "begins with a prelude", "--pace virtual, or more --decoded-memory"))
            return 1
        if asked or not self._fastest_cpu_ns or self._fastest_cpu_ns >= RUN_CPU_NS:
            return asked or 1
        return min(-(-RUN_CPU_NS // self._fastest_cpu_ns), self.plan.repeats_max)

    # --- how long it takes

    def _seconds_since(self, ns: int) -> float:
        return (self.now_ns() - ns) / 1e9

    def _round_s(self, done: int) -> float:
        return (self._round_begun_ns - self._rounds_begun_ns) / 1e9 / done

    def _progress(self, turn: Turn) -> tuple[str, str]:
        """The words that are drawn before and after the name of who runs."""
        if turn.warm_up:
            return "warming up: ", ""
        if not self.plan.rounds:
            all_ns = self.plan.budget_ns if turn.round >= ROUNDS_MIN else self.plan.latest_ns
            left_s = (all_ns - self.plan.loading_ns) / 1e9 - self._seconds_since(self._begun_ns)
            return f"round {turn.round + 1}: ", f", at most about {left_s:.0f} s left" if left_s > 0 else ""
        left_s = max(self._round_s(turn.round) * self.plan.rounds - self._seconds_since(self._rounds_begun_ns), 0) if turn.round else math.nan
        return f"round {turn.round + 1} of {self.plan.rounds}: ", "" if math.isnan(left_s) else f", about {left_s:.0f} s left"
