# SPDX-License-Identifier: Apache-2.0
"""Who runs when and when it ends, with an executor that runs nothing and has a clock of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from heaptape.judge.intervals import Random
from heaptape.judge.model import CHOICE_NULL
from heaptape.judge.schedule import ANY_CPU, LONG_NS, ROUNDS_MIN, ROUNDS_TIMED, End, Schedule, Turn, run

BOTH = Schedule(choices=3, time_pass=True, memory_pass=True, control=True)


@dataclass
class Mock:
    """resolved: after so many rounds, by pass; fail_at: turns. 0: never. turn_ns: what one takes; goes_on: where the budget holds no
    round. told: what was said of it."""

    time_resolved_at: int = 0
    memory_resolved_at: int = 0
    fail_at: int = 0
    turn_ns: int = 1_000
    goes_on: bool = False
    told: list[tuple[int, int]] = field(default_factory=list)
    clock_ns: int = 0
    turns: list[Turn] = field(default_factory=list)
    interims: list[int] = field(default_factory=list)

    def turn(self, turn: Turn) -> bool:
        self.turns.append(turn)
        self.clock_ns += self.turn_ns
        if turn.deadline_ns:
            self.clock_ns = min(self.clock_ns, turn.deadline_ns)
        return len(self.turns) != self.fail_at

    def no_round(self, round_ns: int, ready_ns: int) -> bool:
        self.told.append((round_ns, ready_ns))
        return self.goes_on

    def interim(self, rounds: int) -> tuple[bool, bool]:
        self.interims.append(rounds)
        return tuple(not at or rounds < at for at in (self.time_resolved_at, self.memory_resolved_at))  # type: ignore[return-value]

    def run(self, schedule: Schedule, seed: int) -> tuple[End, int]:
        return run(schedule, Random(seed), self, lambda: self.clock_ns)

    def passes(self, number: int, who: int) -> list[str]:
        """That somebody ran in a round."""
        return [turn.pass_name for turn in self.turns if not turn.warm_up and (turn.round, turn.who) == (number, who)]


def test_everybody_runs_once_in_each_pass_of_a_round() -> None:
    mock = Mock()
    assert mock.run(replace(BOTH, rounds=20), 1) == (End.ROUNDS, 20)
    assert all(mock.passes(number, who) == ["flat", "timed", "memory"] for number in range(20) for who in range(5))
    assert len(mock.turns) == 4 + 20 * 3 * 5  # the warm-up leaves the control out
    assert mock.interims == []


def test_the_null_replayer_comes_first_and_the_rest_in_changing_order() -> None:
    mock, second = Mock(), Counter[int]()
    mock.run(replace(BOTH, rounds=200), 2)
    rows = [[turn.who for turn in mock.turns[at:at + 5]] for at in range(4, len(mock.turns), 5)]
    assert all(row[0] == CHOICE_NULL and sorted(row) == list(range(5)) for row in rows)
    for flat, timed, memory in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert flat == timed == memory
        second[flat[1]] += 1
    assert all(30 <= second[who] <= 70 for who in range(1, 5))


def test_a_seed_repeats_its_schedule() -> None:
    one, again, other = Mock(), Mock(), Mock()
    for mock, seed in ((one, 3), (again, 3), (other, 4)):
        mock.run(replace(BOTH, rounds=10), seed)
    assert one.turns == again.turns != other.turns


def test_a_seed_gives_the_order_that_it_always_gave() -> None:
    """That of the judge in C."""
    mock = Mock()
    mock.run(replace(BOTH, rounds=2, cpus=[3, 7, 9]), 11)
    assert [(turn.who, turn.cpu) for turn in mock.turns if turn.pass_name == "flat"] == [
        (0, 3), (1, 3), (3, 3), (2, 3),
        (0, 3), (2, 3), (4, 3), (3, 3), (1, 3),
        (0, 9), (2, 9), (1, 9), (3, 9), (4, 9)]


def test_a_round_is_pinned_to_one_of_the_processors() -> None:
    mock = Mock()
    mock.run(replace(BOTH, rounds=100, cpus=[3, 7]), 4)
    rounds = [mock.turns[at:at + 15] for at in range(4, len(mock.turns), 15)]
    for turns in rounds:
        assert [turn.cpu for turn in turns] == [turns[0].cpu] * 10 + [ANY_CPU] * 5
    assert {turns[0].cpu for turns in rounds} == {3, 7} and 30 <= sum(turns[0].cpu == 3 for turns in rounds) <= 70
    free = Mock()
    free.run(replace(BOTH, rounds=1), 4)
    assert {turn.cpu for turn in free.turns} == {ANY_CPU}


def test_interim_analyses_are_far_between_and_end_it() -> None:
    mock = Mock(time_resolved_at=20, memory_resolved_at=20)
    assert mock.run(BOTH, 5) == (End.RESOLVED, 27)
    assert mock.interims == [8, 12, 18, 27]


def test_a_resolved_pass_runs_no_more() -> None:
    mock = Mock(time_resolved_at=30, memory_resolved_at=8)
    assert mock.run(BOTH, 6) == (End.RESOLVED, 40)
    # The timed pass decides nothing and ends, too.
    assert mock.passes(ROUNDS_TIMED - 1, 1) == ["flat", "timed", "memory"]
    assert mock.passes(ROUNDS_TIMED, 1) == mock.passes(39, 1) == ["flat"]
    always = Mock(time_resolved_at=30, memory_resolved_at=8)
    always.run(replace(BOTH, timed_always=True), 6)
    assert always.passes(39, 1) == ["flat", "timed"]


def test_the_budget_ends_between_rounds() -> None:
    """15 turns a round, later 10, and 4 of the warm-up: what would end too late is not begun."""
    mock = Mock()
    end, rounds = mock.run(replace(BOTH, budget_ns=200_000), 7)
    assert (end, rounds) == (End.BUDGET, 8 + (200 - 4 - 8 * 15) // 10)
    assert mock.clock_ns <= 200_000 and len(mock.turns) == 4 + 8 * 15 + (rounds - 8) * 10


def test_the_first_rounds_may_end_a_little_later() -> None:
    hurried = replace(BOTH, budget_ns=1, latest_ns=4_000 + ROUNDS_MIN * 15_000)
    assert Mock().run(hurried, 8) == (End.BUDGET, ROUNDS_MIN)
    assert Mock().run(replace(hurried, rounds=2), 8) == (End.ROUNDS, 2)
    assert Mock().run(replace(hurried, rounds=50), 8) == (End.BUDGET, ROUNDS_MIN)
    assert Mock().run(replace(hurried, latest_ns=hurried.latest_ns - 1), 8) == (End.BUDGET, ROUNDS_MIN - 1)
    assert Mock().run(replace(hurried, late_ns=1), 8) == (End.BUDGET, ROUNDS_MIN - 1)


def test_a_budget_that_holds_no_round_is_noticed_in_the_warm_up() -> None:
    """By half of what the null replayer took: the others may be faster in other passes."""
    mock, short = Mock(), replace(BOTH, budget_ns=5_000, latest_ns=6_000, budget_holds=True)
    assert mock.run(short, 8) == (End.NO_ROUND, 0)
    assert len(mock.turns) == 1 and mock.told == [(15_000, 4_000 + 15_000)]
    asked = Mock(goes_on=True)
    assert asked.run(replace(short, budget_holds=False), 8) == (End.BUDGET, 1)
    assert len(asked.turns) == 4 + 15 and len(asked.told) == 1


def test_long_runs_are_not_warmed_up() -> None:
    """Nor have they a timed pass, unless the number of rounds is given."""
    mock = Mock(goes_on=True, turn_ns=LONG_NS)
    assert mock.run(replace(BOTH, budget_ns=60_000_000_000, latest_ns=17_000_000_000), 8) == (End.BUDGET, 1)
    assert len(mock.turns) == 1 + 10 and mock.passes(0, 1) == ["flat", "memory"]
    assert mock.told == [(10 * LONG_NS, 11 * LONG_NS)]
    given = Mock(turn_ns=LONG_NS)
    assert given.run(replace(BOTH, rounds=2), 8) == (End.ROUNDS, 2)
    assert len(given.turns) == 1 + 2 * 15 and given.passes(0, 1) == ["flat", "timed", "memory"]
    short = Mock(turn_ns=LONG_NS - 1)
    assert short.run(replace(BOTH, rounds=1), 8) == (End.ROUNDS, 1) and len(short.turns) == 4 + 15


def test_what_takes_too_long_is_cut_short() -> None:
    """The round that it belongs to does not count."""
    mock = Mock(turn_ns=10_000)
    assert mock.run(replace(BOTH, budget_ns=5_000, latest_ns=6_000, budget_holds=True), 8) == (End.NO_ROUND, 0)
    assert mock.clock_ns == 6_000 and len(mock.turns) == len(mock.told) == 1
    slower = Mock()
    slow = slower.turn

    def turn(turn: Turn) -> bool:
        slower.turn_ns = 1_000 if turn.round == 0 else 100_000
        return slow(turn)

    slower.turn = turn  # type: ignore[method-assign]
    assert slower.run(replace(BOTH, rounds=2, budget_ns=50_000, latest_ns=60_000, budget_holds=True), 8) == (End.BUDGET, 1)
    assert slower.clock_ns == 60_000 and not slower.told


def test_it_ends_where_the_executor_wants() -> None:
    mock = Mock(fail_at=4 + 2 * 15 + 3)
    assert mock.run(replace(BOTH, rounds=10), 9) == (End.EARLY, 2) and len(mock.turns) == mock.fail_at
    assert Mock(fail_at=1).run(replace(BOTH, rounds=10), 9) == (End.EARLY, 0)


def test_one_pass_alone() -> None:
    mock = Mock()
    mock.run(Schedule(choices=0, rounds=2, memory_pass=True), 10)
    assert [(turn.warm_up, turn.who, turn.pass_name) for turn in mock.turns] == [
        (True, 0, "memory"), (False, 0, "memory"), (False, 0, "memory")]
    mock = Mock()
    mock.run(Schedule(choices=1, rounds=2, time_pass=True), 10)
    assert len(mock.turns) == 2 + 2 * 2 * 2 and mock.passes(0, 1) == ["flat", "timed"]
    assert [turn.timed_follows for turn in mock.turns] == [False] * 2 + [True, True, False, False] * 2
