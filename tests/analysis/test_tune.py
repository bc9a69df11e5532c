# SPDX-License-Identifier: Apache-2.0
"""`heaptape tune`: what is searched, the front, going on after an interruption, refusals, and one small real search."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import judged_runs
import numpy as np
import pytest

pytest.importorskip("optuna")

from heaptape.__main__ import main
from heaptape.base.errors import UsageError
from heaptape.judge.comparison import compare
from heaptape.tune.space import searched_knobs
from heaptape.tune.study import Trial, dominates, front_of, hypervolume, simplest_front, spread
from heaptape.tune.text import still_on_front
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
FAKE = str(ROOT / "tests/support/fake_replay.py")


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", FAKE)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.bin"
    path.write_bytes(b"good")
    return path


def _tune(trace: Path, *more: str) -> int:
    return main(["tune", str(trace), "--alloc", "fake", "--seed", "3", *more])


def _found(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _knob(**more: Any) -> dict[str, Any]:
    return {"name": "k", "type": "integer", "lowest": 0, "highest": 1, "words": None, "value": None, **more}


def test_values_that_are_tried() -> None:
    def values(**more: Any) -> tuple[str | None, ...]:
        return searched_knobs([_knob(**more)], None)[0].values

    assert values(type="boolean", value="1") == ("0", None)
    assert values(type="word", words=["a", "b", "c"], value="b") == ("a", None, "c")
    assert values(type="word", words=["a", "b"]) == (None, "a", "b")
    assert values(highest=5, value="2") == ("0", "1", None, "3", "4", "5")
    wide = values(lowest=-1, highest=10**13, value="10000")
    assert wide == ("-1", "0", "1", "10", "100", "1000", None, "100000", "1000000", "10000000", "100000000", "1000000000")
    bounded = values(lowest=-1, highest=10**13, search=[-1, 100_000], value="0")
    assert bounded[:4] == ("-1", None, "1", "4") and bounded[-1] == "100000"
    unknown = values(lowest=1, highest=4094, value="4 for each processor")
    assert unknown[0] is None and unknown[1] == "1" and unknown[-1] == "4094"


def test_knobs_by_their_other_names() -> None:
    knob = _knob(also=["MALLOC_ARENA_MAX"])
    assert searched_knobs([knob], ["MALLOC_ARENA_MAX", str(knob["name"])]) == searched_knobs([knob], None)


def test_what_the_version_ignores_is_not_searched() -> None:
    knobs = [_knob(lowest=0, highest=9) | {"name": "old", "heeded": False, "search": None}, _knob(lowest=0, highest=9) | {"name": "new"}]
    assert [knob.name for knob in searched_knobs(knobs, None)] == ["new"]
    with pytest.raises(UsageError, match="--knobs old: expected some of new$"):
        searched_knobs(knobs, ["old"])


def test_front() -> None:
    points = [(1.0, 1.0), (0.5, 2.0), (0.5, 1.5), (2.0, 0.5), (0.5, 1.5), (2.0, 2.0)]
    assert front_of(points) == [0, 2, 3]
    assert dominates((1, 1), (1, 2)) and not dominates((1, 1), (1, 1)) and not dominates((0, 2), (1, 1))
    assert simplest_front([(1, 1), (0.995, 1), (0.5, 2), (0.499, 1.99), (0.4, 2.5)], [0, 1, 2, 3, 3], 0.01) == [0, 2, 4]
    assert hypervolume([(1, 2), (2, 1)], (3, 3)) == 3 and hypervolume([(1, 1, 1)], (2, 3, 4)) == 6
    assert hypervolume([(0.5, 1), (1, 0.5)], (1, 1)) == 0
    assert set(spread([(0, 10), (0.1, 9.9), (5, 5), (10, 0)], 3)) != {0, 1, 2}
    assert 2 in spread([(0, 10), (0.1, 9.9), (5, 5), (10, 0)], 2)


def test_what_is_unresolved_stays_on_the_front() -> None:
    """Two between which the rounds show no difference both stay, whichever has the smaller ratio; what is shown to be beaten goes, and
    so does what is shown to be the same with more knobs, and what is not shown to be better than the default."""
    truth = {"fake": (1.0, 0.01), "trial-1": (0.7, 0.15), "trial-2": (0.71, 0.15), "trial-3": (0.9, 0.01), "trial-4": (1.0, 0.1),
             "trial-5": (0.5, 0.001), "trial-6": (0.5, 0.001)}
    peaks = {"fake": 1.0, "trial-5": 0.9, "trial-6": 0.9, "trial-3": 0.75}
    rng = np.random.default_rng(5)
    rounds = [[judged_runs.cell({"alloc_time_ns": 1e6 * time * rng.lognormal(0, noise)}, {"rss_peak_bytes": 1e6 * peaks.get(name, 0.7)})
               for name, (time, noise) in truth.items()] for _ in range(9)]
    comparison = compare(judged_runs.context(list(truth)), judged_runs.measurements([[*cells, cells[0]] for cells in rounds]))
    front = [Trial(number, dict.fromkeys("abcdef"[:number], "1"), (1.0, 1.0)) for number in range(1, 7)]
    kept = still_on_front(front, comparison, ["time", "rss_peak"])
    assert {trial.number for trial in kept} == {1, 2, 5}
    assert [trial.number for trial in still_on_front(front[3:4], comparison, ["time"])] == []


@pytest.mark.thorough
def test_finds_the_front_and_prints_what_to_paste(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = trace.with_name("rows.jsonl")
    assert _tune(trace, "--trials", "16", "--rounds", "6", "-o", str(rows), "--json") == 0
    found = _found(capsys)
    assert len(found["trials"]) == 16 and found["measured_again"] and found["rounds"] == 6
    assert all(trial["knobs"] and "risky" not in trial["knobs"] for trial in found["trials"])
    problems = {trial["problem"] for trial in found["trials"] if trial["ratios"] is None}
    assert any("odd is plain instead of strange" in problem for problem in problems)
    assert len(found["front"]) >= 3
    for member in found["front"]:
        knobs = member["knobs"]
        step = int(knobs["haste"]) - 4  # whatever else is set changes nothing
        assert knobs.get("waste") != "1"
        of_time, of_rss = member["objectives"]["time"], member["objectives"]["rss"]
        assert of_time["ci_low"] <= of_time["ratio"] <= of_time["ci_high"]
        assert of_time["ratio"] == pytest.approx(0.9**step, rel=0.02) and of_rss["ratio"] == pytest.approx(1.2**step)
        assert member["line"].startswith("FAKE_CONF=") and f"haste={knobs['haste']}" in member["line"]
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert {line["allocator"]["name"] for line in lines} > {"fake", f"trial-{found['front'][0]['trial']}"}

    assert _tune(trace, "--trials", "16", "--rounds", "6") == 0  # nothing is left to try, the front is measured again
    text = capsys.readouterr().out.splitlines()
    assert "16 trials of 4 knobs" in text[0] and "6 rounds" in text[0] and text[1].startswith("A/A control")
    assert sum("  FAKE_CONF=" in line for line in text) == len(found["front"])
    assert any("failed: fake: odd is plain" in line for line in text)
    assert sum(line.startswith("trial-") for line in text) % 2 == 0


@pytest.mark.thorough
def test_no_two_replays_of_a_search_have_one_seed(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Or `compare` would take the last measurement's first round for that of the first trial, too."""
    rows = trace.with_name("rows.jsonl")
    for trials in ("3", "4"):  # goes on, and measures again
        assert _tune(trace, "--trials", trials, "--rounds", "2", "--knobs", "haste", "-o", str(rows), "--json") == 0
        assert _found(capsys)["measured_again"]
    names: dict[int, set[str]] = {}
    rounds: dict[int, set[int]] = {}
    for line in map(json.loads, rows.read_text().splitlines()):
        names.setdefault(line["seed"], set()).add(line["allocator"]["name"])
        rounds.setdefault(line["seed"], set()).add(line["round"])
    of_trials = [found for seed, found in names.items() if rounds[seed] == {0}]
    assert [len(found) for found in of_trials] == [2] * 4 and len(set.union(*of_trials)) == 5  # each its own, beside the default
    assert len(names) == 6


@pytest.mark.thorough
def test_one_objective_and_chosen_knobs(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--objective", "rss_peak", "--knobs", "haste,risky", "--trials", "6", "--rounds", "2", "--json")
    assert _tune(trace, *options) == 0
    found = _found(capsys)
    assert {name for trial in found["trials"] for name in trial["knobs"]} <= {"haste", "risky"}
    assert len(found["front"]) == 1 and set(found["front"][0]["objectives"]) == {"rss_peak"}


@pytest.mark.thorough
@pytest.mark.parametrize("forked", [False, True])
def test_shared_pages(trace: Path, capsys: pytest.CaptureFixture[str], forked: bool) -> None:
    """No setting of one of several processes is advised without these words."""
    words = "one of several processes; shared pages are not counted"
    trace.write_bytes(b"goodforked" if forked else b"good")
    options = ["--objective", "time", "--knobs", "haste", "--trials", "6", "--rounds", "2"]
    assert _tune(trace, *options) == 0
    assert f"put its line before the command{f' ({words})' if forked else ''}:" in capsys.readouterr().out
    assert _tune(trace, *options, "--json") == 0
    assert _found(capsys)["sharing"] == (words if forked else None)


@pytest.mark.thorough
def test_nothing_better_than_the_default(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _tune(trace, "--objective", "rss", "--knobs", "waste", "--trials", "9", "--rounds", "2") == 0
    text = capsys.readouterr().out
    assert "1 trial of 1 knob," in text and "keep the default" in text  # there is one value to try, and no more


@pytest.mark.thorough
def test_a_study_whose_path_is_no_utf8_is_refused(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = trace.rename(os.fsdecode(os.fsencode(trace.parent) + b"/t\xff"))
    assert _tune(odd, "--trials", "1", "--rounds", "2") == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "/t\\xff.fake.time-rss.study: cannot keep a study there" in said.err
    assert list(odd.parent.iterdir()) == [odd]


@pytest.mark.thorough
@pytest.mark.parametrize("limit", [8192, 100_000, 200_000])
def test_a_study_that_has_no_room_is_no_bad_study(trace: Path, capsys: pytest.CaptureFixture[str], limit: int) -> None:
    """As it is made, and later. It goes on once there is room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        status = _tune(trace, "--trials", "12", "--rounds", "2", "-q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr()
    assert status == 1 and said.out == "" and said.err.count("\n") == 1 and ".study: cannot write: " in said.err
    assert _tune(trace, "--trials", "12", "--rounds", "2", "-q") == 0


@pytest.mark.thorough
def test_a_study_of_something_else_is_refused(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = ("--study", str(trace.with_name("s")), "--trials", "1", "--rounds", "2", "--knobs", "haste,waste")
    assert _tune(trace, *study) == 0
    for options, words in ((("--objective", "time"), "another objectives"), (("--knobs", "haste"), "another set of knobs")):
        capsys.readouterr()
        assert _tune(trace, *study, *options) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and words in said.err
    trace.write_bytes(b"good, but changed")
    assert _tune(trace, *study) == 2 and "another trace" in capsys.readouterr().err


@pytest.mark.thorough
def test_bad_input(trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(status: int, words: str, *arguments: str) -> None:
        assert main(["tune", *arguments]) == status
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and words in said.err, said.err

    refused(3, "cannot open", str(trace.with_name("absent")), "--alloc", "fake")
    refused(2, "is not built", str(trace), "--alloc", "other")
    refused(2, "expected one allocator", str(trace), "--alloc", "fake,fake")
    refused(2, "--knobs none: expected some of ", str(trace), "--alloc", "fake", "--knobs", "none")
    bad = trace.with_name("bad.bin")
    bad.write_bytes(b"not a trace")
    refused(3, "offset 0: expected a trace", str(bad), "--alloc", "fake")
    refused(3, "expected a study of heaptape tune", str(trace), "--alloc", "fake", "--study", str(_text_file(trace)))
    refused(1, "all trials failed (1): fake: odd is plain", str(trace), "--alloc", "fake", "--knobs", "odd", "--trials", "1",
            "--study", str(trace.with_name("odd.study")))
    monkeypatch.setenv("HEAPTAPE_REPLAY", "/nonexistent/replay")
    refused(1, "cannot run /nonexistent/replay", str(trace), "--alloc", "fake")


def _text_file(trace: Path) -> Path:
    path = trace.with_name("text")
    path.write_text("a line of text that is no database\n" * 100)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_goes_on_after_it_was_stopped(
    trace: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    runs = trace.with_name("runs")
    runs.write_text("")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "analysis"), "FAKE_REPLAY_STOP": f"{runs}:4"}
    command = [sys.executable, "-m", "heaptape", "tune", str(trace), "--alloc", "fake", "--seed", "3", "--trials", "6",
               "--rounds", "2", "--knobs", "haste"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: runs.read_text().count("\n") >= 4, "the fourth run", process=process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number, err
    if number == signal.SIGINT:
        assert "3 trials of 1 knob," in out and "measured once" in out and "FAKE_CONF=haste=" in out
        assert err == "heaptape tune: stopped; run the same command to resume\n"
    options = ("--trials", "6", "--rounds", "2", "--knobs", "haste", "--json")
    assert _tune(trace, *options) == 0
    found = _found(capsys)
    assert len(found["trials"]) == 6 and found["measured_again"]
    values = [trial["knobs"]["haste"] for trial in found["trials"]]
    assert len(set(values)) == 6  # nothing was tried twice


@pytest.mark.thorough
def test_a_budget_ends_the_search(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # On a busy machine not one trial may have ended within the least budget.
    assert any(_tune(trace, "--trials", "1000", "--budget", budget, "--rounds", "2", "--json") == 0 for budget in ("1s", "30s"))
    found = _found(capsys)
    assert 0 < len(found["trials"]) < 200


def test_a_real_search(
    heaptape_binary: Path, recorded_traces: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay = heaptape_binary.with_name("replay")
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(replay))
    trace = min(recorded_traces, key=lambda path: path.stat().st_size)
    listed = json.loads(subprocess.run([replay, "--list", "--json", "--alloc", "all"], check=True, text=True,
                                       stdout=subprocess.PIPE, timeout=60).stdout)
    if not any(item["name"] == "jemalloc" and item["built"] for item in listed):
        pytest.skip("jemalloc is not built")
    assert main(["tune", str(trace), "--alloc", "jemalloc", "--knobs", "tcache,narenas", "--trials", "3", "--rounds", "2",
                 "--seed", "1", "--study", str(tmp_path / "s"), "--json"]) == 0
    found = _found(capsys)
    assert len(found["trials"]) == 3 and all(trial["ratios"] for trial in found["trials"]), found["trials"]
    assert all(set(trial["ratios"]) == {"time", "rss"} for trial in found["trials"])
    assert all("MALLOC_CONF=" in member["line"] for member in found["front"])


@pytest.mark.parametrize("ahead", [False, True])
def test_a_database_of_somebody_else_stays_as_it_is(tmp_path: Path, ahead: bool) -> None:
    from heaptape.tune.study import StudyError, open_study

    path = tmp_path / "any.sqlite"
    with closing(sqlite3.connect(path)) as base:
        if ahead:
            base.execute("PRAGMA journal_mode=WAL")
        base.execute("CREATE TABLE letters (text TEXT)")
        base.execute("INSERT INTO letters VALUES ('a')")
        base.commit()
        before = path.read_bytes()
        with pytest.raises(StudyError, match="found a database with tables named 'letters'"), \
                open_study(path, {"objectives": ["time"]}, [], 3, 1):
            pass
        assert path.read_bytes() == before
        assert [name for (name,) in base.execute("SELECT name FROM sqlite_master")] == ["letters"]


@pytest.mark.thorough
def test_a_study_of_somebody_else_stays_as_it_is(tmp_path: Path) -> None:
    import optuna
    from heaptape.tune.study import StudyError, open_study

    path = tmp_path / "any.sqlite"
    optuna.create_study(study_name="theirs", storage=f"sqlite:///{path}")
    before = path.read_bytes()
    with pytest.raises(StudyError, match="studies named 'theirs'"), open_study(path, {"objectives": ["time"]}, [], 3, 1):
        pass
    assert path.read_bytes() == before


@pytest.mark.thorough
def test_the_programs_time_stands_beside_the_objectives(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine tenths of it are the program's own, whatever the knobs."""
    accesses = trace.with_name("x.acc")
    options = ("--objective", "time", "--knobs", "haste", "--trials", "2", "--rounds", "2", "--splice", str(accesses))
    assert _tune(trace, *options) == 3 and "x.acc: cannot open" in capsys.readouterr().err  # before anything is searched
    accesses.touch()
    assert _tune(trace, *options) == 0
    text = capsys.readouterr().out
    assert "your program's time (modelled)" in text and "brackets: the error" in text
    assert _tune(trace, *options, "--json") == 0
    for member in _found(capsys)["front"]:
        modelled = member["program_time"]
        assert modelled["ratio"] == pytest.approx(0.9 + 0.1 * 0.9 ** (int(member["knobs"]["haste"]) - 4))
        assert modelled["ratio_low"] < modelled["ratio"] < modelled["ratio_high"]
