# SPDX-License-Identifier: Apache-2.0
"""Who runs when, and when it is enough. Knows nothing of processes: an executor runs the turns, so that a test can be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from .intervals import Random
from .model import CHOICE_NULL

ROUNDS_MIN = 3
"""So many may end a little later than the budget: fewer say little."""

ROUNDS_INTERIM = 8
"""The first interim analysis is after these: what is resolved?"""

ROUNDS_TIMED = 8
"""So many of an open number of rounds have a timed pass, which decides nothing."""

LONG_NS = 10_000_000_000
"""A run as long as that is as warm as it will be, and is not repeated where it decides nothing."""

ANY_CPU = -1


class End(Enum):
    """Why no more rounds run."""

    ROUNDS = "as many as were asked for"
    RESOLVED = "nothing is open"
    BUDGET = "the budget is spent"
    NO_ROUND = "the budget holds no round"
    EARLY = "the executor wanted it"


@dataclass(frozen=True)
class Schedule:
    """rounds: 0 is until all is resolved; budget_ns: 0 is none; latest_ns: likewise, for the first rounds; late_ns of both have gone
    before; budget_holds: a run that takes too long is cut short; control: the baseline runs a second
    time in each round; timed_always: a timed pass in every round, also where their number is open; cpus: to pin the time runs of a round to
    one of, if any."""

    choices: int
    rounds: int = 0
    budget_ns: int = 0
    latest_ns: int = 0
    late_ns: int = 0
    budget_holds: bool = False
    time_pass: bool = False
    memory_pass: bool = False
    control: bool = False
    timed_always: bool = False
    cpus: Sequence[int] = ()


@dataclass(frozen=True)
class Turn:
    """One allocator replays the trace in one way. round: 0 in the warm-up, too; who: see CHOICE_NULL; pass_name: flat, timed or
    memory; timed_follows: of a flat turn, the time pass is not complete without the timed one; cpu: or ANY_CPU; deadline_ns: by
    the clock, when it is cut short, or 0."""

    round: int
    warm_up: bool
    who: int
    pass_name: str
    timed_follows: bool
    cpu: int
    deadline_ns: int = 0


class Executor(Protocol):
    """Who runs the turns."""

    def turn(self, turn: Turn) -> bool:
        """False: nothing may run after this. What its deadline cuts short does not count."""

    def no_round(self, round_ns: int, ready_ns: int) -> bool:
        """The budget holds no whole round, which takes so long, as far as is known, and is ready so long after the beginning. Whether
        one is to run all the same."""

    def interim(self, rounds: int) -> tuple[bool, bool]:
        """Whether the figures of the time pass, and those of the memory pass, need more rounds than there have been."""


def next_interim_after(rounds: int) -> int:
    """When one was made after `rounds`: after half as many again."""
    return ROUNDS_INTERIM if rounds < ROUNDS_INTERIM else rounds + rounds // 2


def run(schedule: Schedule, random: Random, executor: Executor, now_ns: Callable[[], int]) -> tuple[End, int]:
    """How it ended, and after how many whole rounds. A warm-up, in which each allocator runs once and nothing counts, then
    the rounds. In a round the passes come one after the other, so that the runs to be compared are close in time; in each pass
    the null replayer is first, because its figures are taken off the others', and then the others in random order."""
    rounds = _Rounds(schedule, random, executor, now_ns)
    done, next_interim = 0, ROUNDS_INTERIM
    end = rounds.warm_up()
    while not end:
        begun_ns = now_ns()
        end = rounds.run(done)
        if end:
            break
        done += 1
        round_ns = now_ns() - begun_ns
        if schedule.rounds and done == schedule.rounds:
            return End.ROUNDS, done
        if not schedule.rounds and done == next_interim:
            rounds.analyse_interim(done)
            if not rounds.time_open and not rounds.memory_open:
                return End.RESOLVED, done
            next_interim = next_interim_after(done)
        # A round that would not end in time is not begun.
        if not rounds.has_ns(round_ns, done):
            return End.BUDGET, done
    return end, done


class _Rounds:
    """Its methods return why nothing may follow, or None."""

    def __init__(self, schedule: Schedule, random: Random, executor: Executor, now_ns: Callable[[], int]) -> None:
        self._schedule, self._random, self._executor, self._now_ns = schedule, random, executor, now_ns
        self.time_open, self.memory_open = schedule.time_pass, schedule.memory_pass
        self._begun_ns = now_ns() - schedule.late_ns
        self._latest_ns = schedule.latest_ns
        self._took_ns: dict[tuple[str, int], int] = {}
        self._done = 0
        self._whatever = self._long = False

    def has_ns(self, round_ns: int, done: int) -> bool:
        """Whether the budget holds another round, of those that are done."""
        budget_ns = self._schedule.budget_ns if done >= ROUNDS_MIN else self._latest_ns
        return not budget_ns or self._now_ns() - self._begun_ns + round_ns <= budget_ns

    def warm_up(self) -> End | None:
        """After it the disk's cache and the processor's clock are as they will be, and it is known how long a run takes. After a long
        one nobody else is warmed up."""
        turn = Turn(0, True, CHOICE_NULL, "flat" if self._schedule.time_pass else "memory", False, self._draw_cpu())
        return self._run_turns([(turn, self._draw_order(control=False))])

    def run(self, number: int) -> End | None:
        schedule = self._schedule
        self._done, self._whatever = number, self._whatever and not number
        timed = bool(schedule.rounds) or schedule.timed_always or (number < ROUNDS_TIMED and not self._long)
        flat = Turn(number, False, CHOICE_NULL, "flat", timed, self._draw_cpu())
        order = self._draw_order(control=schedule.control)
        # Where memory comes to lie does not hang on the processor, but threads of the allocator's own may.
        memory = replace(flat, pass_name="memory", timed_follows=False, cpu=ANY_CPU)
        passes = [flat] * self.time_open + [replace(flat, pass_name="timed", timed_follows=False)] * (self.time_open and timed)
        return self._run_turns([(turn, order) for turn in (*passes, *[memory] * self.memory_open)])

    def analyse_interim(self, done: int) -> None:
        """A pass whose figures are resolved is not run again."""
        time_open, memory_open = self._executor.interim(done)
        self.time_open = self.time_open and time_open
        self.memory_open = self.memory_open and memory_open

    def _draw_cpu(self) -> int:
        cpus = self._schedule.cpus
        return cpus[self._random.below(len(cpus))] if cpus else ANY_CPU

    def _draw_order(self, *, control: bool) -> list[int]:
        return [CHOICE_NULL, *(1 + number for number in self._random.order(self._schedule.choices + control))]

    # --- turns, and what they take

    def _run_turns(self, passes: Sequence[tuple[Turn, Sequence[int]]]) -> End | None:
        turns = [replace(turn, who=who) for turn, order in passes for who in order]
        for number, turn in enumerate(turns):
            if turn.warm_up and self._long:
                break
            end = self._cannot_end(turns[number:])
            if end:
                return end
            begun_ns = self._now_ns()
            deadline_ns = self._begun_ns + self._latest_ns if self._schedule.budget_holds else 0
            if not self._executor.turn(replace(turn, deadline_ns=deadline_ns)):
                return End.EARLY
            if not turn.warm_up or turn.pass_name == "flat":  # else it may have had nothing to do
                self._took_ns[_kind(turn)] = self._now_ns() - begun_ns
            self._long = self._long or (turn.warm_up and self._now_ns() - begun_ns >= LONG_NS)
            if deadline_ns and self._now_ns() >= deadline_ns:
                return self._cannot_end(turns[number:], certain=True)
        return None

    def _cannot_end(self, turns: Sequence[Turn], *, certain: bool = False) -> End | None:
        """Whether what is left of this round, or of the warm-up and a round, would end too late for certain."""
        if not self._latest_ns or self._whatever:
            return None
        spent_ns = self._now_ns() - self._begun_ns
        a_round = self._first_round()
        left = [*turns, *(a_round if turns[0].warm_up else [])]
        if not certain and spent_ns + sum(self._estimate_ns(turn)[0] for turn in left) <= self._latest_ns:
            return None
        if self._done:
            return End.BUDGET
        round_ns, left_ns = (sum(self._estimate_ns(turn)[1] for turn in those) for those in (a_round, left))
        self._whatever = self._executor.no_round(round_ns, spent_ns + left_ns)
        return None if self._whatever else End.NO_ROUND

    def _first_round(self) -> list[Turn]:
        passes = ["flat", *["timed"] * (not self._long)] * self._schedule.time_pass + ["memory"] * self._schedule.memory_pass
        participants = 1 + self._schedule.choices + self._schedule.control
        return [Turn(0, False, who, name, False, ANY_CPU) for name in passes for who in range(participants)]

    def _estimate_ns(self, turn: Turn) -> tuple[int, int]:
        """The least and the probable time of a turn: as it took before; else by other passes of the same allocator, else by all others."""
        found = self._took_ns.get(_kind(turn))
        if found is not None:
            return found, found
        own = [ns for (_, who), ns in self._took_ns.items() if who == turn.who]
        others = own or list(self._took_ns.values()) or [0]
        return min(others) // 2, max(others)


def _kind(turn: Turn) -> tuple[str, int]:
    return "warm-up" if turn.warm_up else turn.pass_name, turn.who
