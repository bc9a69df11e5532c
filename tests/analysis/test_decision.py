# SPDX-License-Identifier: Apache-2.0
"""What `heaptape try` recommends, from how much each allocator changes of what the program uses."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from heaptape.base.text import outlined
from heaptape.judge.model import Estimate, Interim, Interval
from heaptape.results.malloc_share import ProgramUse
from heaptape.results.summary import Summary
from heaptape.trial.answer import _change, lines_of_runs
from heaptape.trial.changes import CPU, MEMORY, OWN_RUNS, REPLAY_ERROR, Change, Changes, _ratio, interim_changes, of_one_round
from heaptape.trial.decision import KEEP, OPEN, USE, decide, may_turn, promising
from heaptape.trial.real_runs import Ended, RealRuns, run_once, will_run
from heaptape.trial.recorded import Recorded
from heaptape.trial.verb import _still

WHOLE = {CPU: 1e9, MEMORY: 100e6}
MORE = {CPU: "More of CPU.", MEMORY: "More of memory."}


def change(what: str, share: float, off: float = 0.002, placement: float = 0.0) -> Change:
    """off: how far the interval's ends are from the share."""
    low, high = share - off, share + off
    return Change(what, WHOLE[what], share, low, high, low - placement, high + placement)


def both(cpu: Change | float, memory: Change | float) -> dict[str, Change]:
    return {CPU: cpu if isinstance(cpu, Change) else change(CPU, cpu), MEMORY: memory if isinstance(memory, Change) else change(MEMORY, memory)}


def decided(changes: Changes, refused: dict[str, str] | None = None) -> tuple[str, list[str], list[str]]:
    shown = {name: name for name in ("glibc", *changes)}
    found = decide(changes, "glibc", shown, MORE, refused)
    return found.answer, found.allocators, found.lines


@pytest.mark.parametrize(("figures", "answer", "line"), [
    (both(0.0, 0.0), KEEP, "Keep glibc: x does not save 1 % of the program's CPU (in malloc's calls) or memory."),
    (both(0.05, 0.05), KEEP, "Keep glibc: x does not save 1 % of the program's CPU (in malloc's calls) or memory."),
    (both(0.06, -0.087), USE, "x: 8.70 MB (8.7 %) less memory, for 60.0 ms (6.0 %) more CPU."),
    (both(-0.05, 0.0), USE, "x: 50.0 ms (5.0 %) less CPU; the same memory."),
    (both(-0.05, -0.2), USE, "x: 20.0 MB (20 %) less memory and 50.0 ms (5.0 %) less CPU."),
    (both(-0.012, 0.37), KEEP, "Keep glibc: no saving is worth its price."),  # a trade that nobody would make
    (both(0.0, change(MEMORY, -0.2, 0.05)), USE, "x: 20.0 MB (15 to 25 %) less memory; the same CPU in malloc."),
    (both(change(CPU, 0.03, 0.02, 0.09), -0.2), USE, "x: 20.0 MB (20 %) less memory; CPU between 8.0 % less and 14 % more."),
    (both(change(CPU, -0.02, 0.005, 0.09), 0.0), OPEN, "Not decided: in malloc's calls x saves 20.0 ms (2.0 %) of CPU; with where blocks lie the program takes between 12 % less and 7.5 % more. heaptape validate runs it under both."),
    (both(change(CPU, -0.02, 0.05), 0.0), OPEN, "Not decided: x may save up to 7.0 % of CPU. More of CPU."),
    (both(0.0, change(MEMORY, -0.03, 0.05)), OPEN, "Not decided: x may save up to 8.0 % of memory. More of memory."),
    (both(change(CPU, -0.02, 0.05), 0.3), KEEP, "Keep glibc: x does not save 1 % of the program's CPU (in malloc's calls) or memory."),  # the price is known
    ({CPU: change(CPU, -0.3)}, USE, "x: 300 ms (30 %) less CPU."),
    ({}, OPEN, "Not decided: what glibc takes of the program's CPU time and memory is not known.")])
def test_the_first_line(figures: dict[str, Change], answer: str, line: str) -> None:
    found, allocators, lines = decided({"x": figures})
    assert (found, lines[0]) == (answer, line) and allocators == (["x"] if answer == USE else [])


def test_what_placement_may_turn_is_no_gain() -> None:
    """It stands behind what is shown."""
    assert decided({"x": both(change(CPU, -0.05, 0.002, 0.09), -0.2)})[2][0] == "x: 20.0 MB (20 %) less memory; CPU between 14 % less and 4.2 % more."


def test_a_megabyte_is_no_reason() -> None:
    small = Change(MEMORY, 3e6, -0.2, -0.21, -0.19, -0.21, -0.19)
    assert small.is_small and decided({"x": {MEMORY: small}})[0] == KEEP


def test_a_price_that_may_be_high_is_none_to_pay() -> None:
    """A saving of memory, and a time whose interval is wide."""
    assert decided({"x": both(change(CPU, 0.1, 0.3), -0.05)})[0] == OPEN
    assert decided({"x": both(Change(CPU, 1e9, 0.0, -0.1, math.inf, -0.1, math.inf), -0.2)})[0] == OPEN


def test_the_best_a_setting_and_the_other_trade() -> None:
    changes = {"glibc:arena_max=1": both(0.01, -0.15), "a": both(0.0, -0.2), "b": both(-0.25, 0.3), "c": both(-0.01, 0.9)}
    answer, allocators, lines = decided(changes)
    assert answer == USE and allocators[:2] == ["a", "glibc:arena_max=1"]
    assert [line.partition(":")[0] if not line.startswith("Or") else "Or" for line in lines] == ["a", "Or", "For CPU alone, b"]


def test_nothing_that_nobody_would_do_is_named() -> None:
    """A price of more than twice what it saves."""
    assert len(decided({"x": both(-0.05, 0.11)})[2]) == 1
    assert len(decided({"x": both(-0.05, 0.09)})[2]) == 2


def test_several_recordings_widen_the_interval() -> None:
    """By how far the program's runs are apart; those that are alike leave the replays' own interval."""
    row = pd.Series({"ratio": 0.8, "verdict_low": 0.78, "verdict_high": 0.82})
    assert _ratio([row]) == pytest.approx((0.8, 0.78, 0.82)) and _ratio([row] * 3) == pytest.approx((0.8, 0.78, 0.82))
    ratio, low, high = _ratio([row, row * 1.1, row * 0.9])
    assert ratio == pytest.approx(0.8, rel=0.01) and low < 0.65 and high > 0.98
    assert math.isnan(_ratio([row, row * math.nan])[1])


def test_the_program_s_own_time_has_no_placement_beside_it() -> None:
    """Of runs of the program itself."""
    run = replace(change(CPU, -0.12), runs=9)
    assert decided({"x": both(run, 0.0)})[2] == ["x: 120 ms (12 %) less CPU; the same memory."]
    assert decided({"x": both(replace(run, share=0.0, low=-0.002, high=0.002), 0.0)})[2] == ["Keep glibc: x does not save 1 % of the program's CPU or memory."]
    assert promising({"x": both(change(CPU, 0.0, 0.0, 0.17), 0.02), "y": both(-0.2, 0.0), "z": both(0.1, -0.05), "w": both(change(CPU, 0.5, 0.9), 0.0)}) == ["y", "x", "w"]


def test_rounds_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many allocators as rounds of them fit, each until it is enough; one that ends the program is run under no more, and has no figure."""
    ran: list[str] = []

    def once(command: list[str], variables: list[str], status: int, position: int | None) -> Ended:
        name = variables[0] if variables else "glibc"
        ran.append(name)
        return Ended({"glibc": 1.0, "a": 0.5, "b": 1.2, "c": 0.1}[name], "is ended by SIGSEGV" if name == "c" else "")

    monkeypatch.setattr("heaptape.trial.real_runs.run_once", once)
    monkeypatch.setattr(RealRuns, "is_possible", True)
    monkeypatch.setattr(RealRuns, "variables", lambda self, name: [] if name == "glibc" else [name])
    runs = RealRuns(["app"], cast(Recorded, SimpleNamespace(exit_status=0)), cast(Summary, SimpleNamespace(baseline="glibc")), None)
    told: list[Mapping[str, Change]] = []

    def still(real: Mapping[str, Change]) -> set[str]:
        told.append(real)
        return {"a"} if len(told) == 1 else set()

    runs.measure(["a", "b", "c"], 60.0, lambda names, how_long: ran.append(f"{len(names)} {how_long}"), still)
    assert ran[1] == "3 for up to 60 s" and (ran.count("a"), ran.count("b"), ran.count("glibc"), ran.count("c")) == (12, 8, 12, 1)
    assert [set(real) for real in told] == [{"a", "b"}] * 2 and told[0]["a"].runs == 8
    found = runs.changes()
    assert set(found) == {"a", "b"} and found["a"].share == pytest.approx(-0.5) and found["b"].share == pytest.approx(0.2) and found["a"].runs == 12
    assert runs.refused == {"c": "is ended by SIGSEGV"} and not runs.prove("c", lambda names, how_long: None) and runs.prove("a", lambda names, how_long: None)


@pytest.mark.parametrize(("changes", "turning"), [
    ({"x": both(change(CPU, -0.02, 0.05), 0.0)}, {("x", CPU)}),
    ({"x": both(change(CPU, -0.02, 0.05), 0.3)}, set()),  # the price is known
    ({"x": both(change(CPU, 0.0, 0.009), 0.0)}, set()),  # small, whatever its verdict
    ({"x": both(change(CPU, 0.0, 0.05), 0.0), "y": both(-0.2, 0.0)}, set()),  # at its best it is not as good as another one
    ({"x": both(change(CPU, -0.18, 0.2), 0.0), "y": both(-0.2, 0.0)}, {("x", CPU)}),
    ({"x": both(change(CPU, 0.0, 0.05), change(MEMORY, -0.18, 0.2)), "y": both(-0.2, 0.0)}, {("x", CPU), ("x", MEMORY)})])
def test_which_open_figures_may_change_the_answer(changes: Changes, turning: set[tuple[str, str]]) -> None:
    assert may_turn(changes) == turning


def test_what_ends_the_program_outweighs_nobody() -> None:
    changes = {"x": both(change(CPU, -0.02, 0.05), 0.0), "y": both(-0.3, -0.3)}
    assert _still(changes, {})({}) == set() and _still(changes, {"y": "is ended by SIGSEGV"})({}) == {"x"}
    assert _still(changes, {"y": "is ended by SIGSEGV"})({"x": replace(change(CPU, -0.02), runs=8)}) == set()


def test_changes_on_the_way_are_shares_of_the_program() -> None:
    """malloc takes a tenth of the CPU time, and the heap is half of the memory."""
    ratio, wide = Interval(0.8, 0.79, 0.81, 8), Interval(0.8, 0.7, 0.9, 8)
    estimate = Estimate(math.nan, math.nan, ratio, wide, "less", math.nan, [])
    interim = Interim(1e8, {"time": {"x": estimate}, "rss_peak": {"x": estimate}})
    found = interim_changes(interim, ProgramUse(10 ** 9, 10 ** 8, 5 * 10 ** 7, 10 ** 6))["x"]
    assert (found[CPU].share, found[CPU].low, found[CPU].high) == pytest.approx((-0.02, -0.03, -0.01)) and found[CPU].least < -0.15
    assert (found[MEMORY].low, found[MEMORY].high, found[MEMORY].whole) == pytest.approx((-0.15, -0.05, 1e8))
    # The replay's error adds to [0.7, 0.9] in quadrature, in logarithms.
    least, most = (0.8 * math.exp(side * math.hypot(math.log(end / 0.8), REPLAY_ERROR)) for side, end in ((-1, 0.7), (1, 0.9)))
    assert least < 0.7 and most > 0.9
    assert (found[MEMORY].least, found[MEMORY].most) == pytest.approx(((least - 1) / 2, (most - 1) / 2))
    assert set(interim_changes(interim, ProgramUse(0, 10 ** 8, 5 * 10 ** 7, 10 ** 6))["x"]) == {MEMORY}


def test_what_a_replay_leaves_out_opens_nothing() -> None:
    """Memory that the replay shows to be the same is so; a saving that is within its error is not advised, and more rounds do not tell."""
    same, less = ({"x": {CPU: change(CPU, 0.0), MEMORY: replace(change(MEMORY, share, 0.001), least=share - 0.04, most=share + 0.04)}} for share in (0.0, -0.02))
    kept = decide(same, "glibc", {"x": "X", "glibc": "glibc"}, MORE)
    assert kept.answer == KEEP and not may_turn(same)
    found = decide(less, "glibc", {"x": "X", "glibc": "glibc"}, MORE)
    assert (found.answer, found.lines[0]) == (OPEN, "Not decided: X may save up to 6.0 % of memory. heaptape validate runs it under both.")
    assert not may_turn(less)


def test_one_round_tells_of_memory() -> None:
    one = of_one_round((3.6, math.nan, math.nan), REPLAY_ERROR)
    assert one == ((3.6, 3.6, 3.6), OWN_RUNS)
    several = (0.9, 0.89, 0.91)
    assert of_one_round(several, REPLAY_ERROR) == (several, REPLAY_ERROR)


def test_how_often_the_program_ran() -> None:
    changes = {name: {CPU: replace(change(CPU, 0.1), runs=runs)} for name, runs in (("x", 8), ("y", 12), ("z", 0))}
    assert lines_of_runs(changes, {"x": "X", "y": "Y"}) == ["CPU under X and Y is that of 8 to 12 runs of the program itself."]
    assert lines_of_runs({"x": changes["x"]}, {"x": "X"}) == ["CPU under X is that of 8 runs of the program itself."]
    assert lines_of_runs({"z": changes["z"]}, {}) == []


def test_the_answer_as_json_is_short() -> None:
    """Of the seven that are tried where nobody names any, with long settings."""
    one = {"cpu": _change(change(CPU, -0.123, 0.0456, 0.15)), "memory": _change(change(MEMORY, -0.1578, 0.012))}
    found = {"changes": {f"glibc:trim_threshold=131072,mmap_threshold={number:06}": one for number in range(7)}}
    text = outlined(found)
    assert json.loads(text) == found and len(text) < 2400 and text.count("\n") == 10


@pytest.mark.parametrize(("command", "context", "runs"), [
    (["app"], {"check": {"alone_cpu_ns": 10 ** 9}}, True), (["app"], {"check": {"alone_cpu_ns": 5 * 10 ** 9}}, False), (["app"], {}, False),
    ([], {"check": {"alone_cpu_ns": 10 ** 9}}, False), (["app"], {"check": {"alone_cpu_ns": 10 ** 9}, "linked_allocator": "jemalloc"}, False)])
def test_which_programs_tell_their_own_time(command: list[str], context: dict[str, Any], runs: bool) -> None:
    assert will_run(command, context, 30.0) == runs


def test_what_ends_the_program_is_not_advised() -> None:
    """The next best is; where none is left, the present one stays."""
    changes = {"a": both(-0.3, -0.3), "b": both(-0.2, -0.1), "c": both(0.1, 0.1)}
    ends = {"a": "is ended by SIGSEGV"}
    assert decided(changes, ends) == (USE, ["b"], ["b: 200 ms (20 %) less CPU and 10.0 MB (10 %) less memory.", "Under a the program is ended by SIGSEGV."])
    assert decided(changes, ends | {"b": "is ended by SIGSEGV"})[::2] == (
        KEEP, ["Keep glibc: c does not save 1 % of the program's CPU (in malloc's calls) or memory.", "Under a and b the program is ended by SIGSEGV."])
    assert decided({"a": changes["a"]}, ends)[::2] == (KEEP, ["Keep glibc.", "Under a the program is ended by SIGSEGV."])


@pytest.mark.parametrize(("script", "why"), [("exit 0", ""), ("exit $HT_STATUS", "ends with status 3 in place of 0"), ("kill -SEGV $$", "is ended by SIGSEGV"),
                                             ("read word; test $word = second", "")])
def test_one_run_of_the_program(tmp_path: Path, script: str, why: str) -> None:
    """Its input is read from where the first run read it."""
    (tmp_path / "input").write_text("first\nsecond\n")
    with (tmp_path / "input").open() as read:
        kept = os.dup(0)
        try:
            os.dup2(read.fileno(), 0)
            assert run_once(["sh", "-c", script], ["HT_STATUS=3"], 0, len("first\n")).why == why
        finally:
            os.dup2(kept, 0)
            os.close(kept)


def test_a_program_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heaptape.trial.real_runs.LIMIT_S", 0.2)
    assert run_once(["sleep", "60"], [], 0, None).why == "had not ended after 0 s"
