# SPDX-License-Identifier: Apache-2.0
"""Who runs when, and when it is enough. Knows nothing of processes: an executor runs the turns, so that a test can be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from .model import CHOICE_NULL
from .random_numbers import Random

ROUNDS_MIN = 3
"""So many always run, whatever the budget."""

ROUNDS_INTERIM = 8
"""The first interim analysis is after these: what is resolved?"""

ROUNDS_TIMED = 8
"""Of an open number of rounds, those with a timed pass: it decides nothing."""

ANY_CPU = -1


class End(Enum):
    """Why no more rounds run."""

    ROUNDS = "as many as were asked for"
    RESOLVED = "nothing is open"
    BUDGET = "the budget is spent"
    EARLY = "the executor wanted it"


@dataclass(frozen=True)
class Schedule:
    """rounds: 0 is until all is resolved; budget_ns: 0 is none; control: the baseline runs a second time in each round;
    timed_always: a timed pass in every round, also where their number is open; cpus: to pin the time runs of a round to
    one of, if any."""

    choices: int
    rounds: int = 0
    budget_ns: int = 0
    time_pass: bool = False
    memory_pass: bool = False
    control: bool = False
    timed_always: bool = False
    cpus: Sequence[int] = ()


@dataclass(frozen=True)
class Turn:
    """One allocator replays the trace in one way. round: 0 in the warm-up, too; who: see CHOICE_NULL; pass_name: flat, timed or
    memory; timed_follows: of a flat turn, the time pass is not complete without the timed one; cpu: or ANY_CPU."""

    round: int
    warm_up: bool
    who: int
    pass_name: str
    timed_follows: bool
    cpu: int


class Executor(Protocol):
    """Who runs the turns."""

    def turn(self, turn: Turn) -> bool:
        """False: nothing may run after this."""

    def interim(self, rounds: int) -> tuple[bool, bool]:
        """Whether the figures of the time pass, and those of the memory pass, need more rounds than there have been."""


def next_interim_after(rounds: int) -> int:
    """When one was made after `rounds`: after half as many again."""
    return ROUNDS_INTERIM if rounds < ROUNDS_INTERIM else rounds + rounds // 2


def run(schedule: Schedule, random: Random, executor: Executor, now_ns: Callable[[], int]) -> tuple[End, int]:
    """How it ended, and after how many whole rounds. A warm-up, in which each allocator runs once and nothing counts, then
    the rounds. In a round the passes come one after the other, so that the runs to be compared are close in time; in each pass
    the null replayer is first, because its figures are taken off the others', and then the others in random order."""
    rounds = _Rounds(schedule, random, executor)
    all_begun_ns, done, next_interim = now_ns(), 0, ROUNDS_INTERIM
    if not rounds.warm_up():
        return End.EARLY, done
    while True:
        begun_ns = now_ns()
        if not rounds.run(done):
            return End.EARLY, done
        done += 1
        round_ns = now_ns() - begun_ns
        if schedule.rounds and done == schedule.rounds:
            return End.ROUNDS, done
        if not schedule.rounds and done == next_interim:
            rounds.analyse_interim(done)
            if not rounds.time_open and not rounds.memory_open:
                return End.RESOLVED, done
            next_interim = next_interim_after(done)
        # A round that would not end within the budget is not begun.
        if schedule.budget_ns and done >= ROUNDS_MIN and now_ns() - all_begun_ns + round_ns > schedule.budget_ns:
            return End.BUDGET, done


class _Rounds:
    def __init__(self, schedule: Schedule, random: Random, executor: Executor) -> None:
        self._schedule, self._random, self._executor = schedule, random, executor
        self.time_open, self.memory_open = schedule.time_pass, schedule.memory_pass

    def warm_up(self) -> bool:
        """What is on disk and the clock of the processor are as they will be; how long a run takes becomes known."""
        turn = Turn(0, True, CHOICE_NULL, "flat" if self._schedule.time_pass else "memory", False, self._draw_cpu())
        return self._run_pass(turn, self._draw_order(control=False))

    def run(self, number: int) -> bool:
        schedule = self._schedule
        timed = bool(schedule.rounds) or schedule.timed_always or number < ROUNDS_TIMED
        flat = Turn(number, False, CHOICE_NULL, "flat", timed, self._draw_cpu())
        order = self._draw_order(control=schedule.control)
        if self.time_open:
            if not self._run_pass(flat, order):
                return False
            if timed and not self._run_pass(replace(flat, pass_name="timed", timed_follows=False), order):
                return False
        # Where memory comes to lie does not hang on the processor, but threads of the allocator's own may.
        memory = replace(flat, pass_name="memory", timed_follows=False, cpu=ANY_CPU)
        return not self.memory_open or self._run_pass(memory, order)

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

    def _run_pass(self, turn: Turn, order: Sequence[int]) -> bool:
        return all(self._executor.turn(replace(turn, who=who)) for who in order)
