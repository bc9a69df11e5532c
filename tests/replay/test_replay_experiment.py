# SPDX-License-Identifier: Apache-2.0
"""Rounds, budget, control, conditions and warnings of `replay`, and that `heaptape compare` says the same of its results."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heaptape.report.html import write_report
from heaptape.report.table import comparison_object
from heaptape.results.comparison import MEASURES, experiments
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise
from tool_runner import Tools, run
from waiting import wait_until


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 calls on one thread."""
    path = tmp_path_factory.mktemp("experiment") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "20000", "500", "1", "1", "1000"])
    return path


def replayed(tools: Tools, trace: Path, *more: str) -> tuple[dict, subprocess.CompletedProcess[bytes]]:
    done = run([tools.replay_program, "--alloc", "a=glibc,b=glibc,jemalloc", "--baseline", "a", "--json",
                *more, trace], timeout=120)
    return json.loads(done.stdout) if done.stdout else {}, done


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [1, 4, 9])
def test_compare_says_what_replay_says(tools: Tools, trace: Path, tmp_path: Path, rounds: int) -> None:
    results = tmp_path / "r.jsonl"
    said, done = replayed(tools, trace, "--rounds", str(rounds), "-o", str(results))
    assert done.returncode == 0, done.stderr
    (experiment,) = experiments(read_results(results))
    python = comparison_object(summarise(experiment, "a"))
    by_key = {(row["measure"], row["allocator"]): row for row in python["comparisons"]}
    for allocator in said["allocators"]:
        for name, measure in MEASURES.items():
            mine = allocator[measure.column]
            if (name, allocator["name"]) not in by_key:
                assert name == "process_rss_peak" and mine["median"] is None  # a trace that nobody recorded
                continue
            row = by_key[name, allocator["name"]]
            assert mine["median"] == pytest.approx(row["value"], rel=1e-6)
            assert mine["minimum"] == pytest.approx(row["minimum"], rel=1e-6)
            if allocator["baseline"]:
                continue
            # A round in which so few calls took less time than without an allocator has no ratio.
            assert mine["pairs"] == row["rounds"] <= rounds and (name == "time" or row["rounds"] == rounds)
            for key in ("ratio", "ci_low", "ci_high", "verdict_low", "verdict_high"):
                assert (mine[key] is None) == (row[key] is None)
                assert mine[key] is None or mine[key] == pytest.approx(row[key], rel=1e-5)
            assert row["verdict"].startswith(mine["verdict"])
            assert len(mine["outliers"]) == row["outliers"]
            assert (mine["more_rounds"] is None) == (row["more_rounds"] is None)
            if mine["more_rounds"]:
                assert math.isclose(mine["more_rounds"], row["more_rounds"], rel_tol=1e-3, abs_tol=1)
    assert set(MEASURES) - set(python["controls"]) == {"process_rss_peak"}
    for name, control in python["controls"].items():
        measure = MEASURES[name]
        assert said["control"][measure.column]["ratio"] == pytest.approx(control["ratio"], rel=1e-5)
        assert said["control"][measure.column]["pairs"] == control["rounds"] <= rounds


@pytest.mark.thorough
def test_every_line_that_replay_writes_is_read(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """By the report, too, which reads the most of it; and by all ways to replay."""
    results, page = tmp_path / "r.jsonl", tmp_path / "r.html"
    for more in (["--rounds", "2", "-v"], ["--rounds", "1", "--verify"], ["--rounds", "1", "--thp", "never"]):
        assert replayed(tools, trace, *more, "-o", str(results))[1].returncode == 0
    assert len(read_results(results)) == len(rows_of(results))
    write_report(read_results(results), page, [trace])
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.thorough
def test_the_control_is_a_row_of_its_own(tools: Tools, trace: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    replayed(tools, trace, "--rounds", "3", "-o", str(results))
    rows = rows_of(results)
    for pass_name in ("time", "memory"):
        for number in range(3):
            names = [(row["allocator"]["name"], row["control"]) for row in rows
                     if row["pass"] == pass_name and row["round"] == number]
            assert names[0] == ("null", False)
            assert sorted(names[1:]) == [("a", False), ("a", True), ("b", False), ("jemalloc", False)]
    runs = read_results(results)
    (experiment,) = experiments(runs)
    assert len(experiment.all_runs) == len(rows) == 30 and len(experiment.runs) == 24
    # What is measured alone has nothing to be compared with, and needs no control.
    alone = tools.replay(trace, "jemalloc", tmp_path / "alone.jsonl")
    assert not any(row["control"] for row in alone)


@pytest.mark.thorough
def test_one_thread_is_pinned_to_one_processor_a_round(tools: Tools, trace: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    replayed(tools, trace, "--rounds", "3", "-o", str(results))
    rows = rows_of(results)
    for number in range(3):
        cpus = {row["cpu"] for row in rows if row["round"] == number and row["pass"] == "time"}
        assert len(cpus) == 1 and cpus <= os.sched_getaffinity(0)
    assert {row["cpu"] for row in rows if row["pass"] == "memory"} == {None}


def test_several_threads_are_not_pinned(tools: Tools, tmp_path: Path) -> None:
    path, results = tmp_path / "t.bin", tmp_path / "r.jsonl"
    tools.succeed([tools.build / "bench" / "make_trace", path, "20000", "500", "3", "1", "1000"])
    rows = tools.replay(path, "glibc", results)
    assert {row["cpu"] for row in rows} == {None}


@pytest.mark.thorough
def test_copies_of_one_thread_are_not_pinned(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """They are threads of their own, unless one thread replays them all."""
    def cpus(name: str, *more: str) -> set[int | None]:
        rows = tools.replay(trace, "glibc", tmp_path / name, "--pass", "time", *more)
        return {row["cpu"] for row in rows}
    assert cpus("copies.jsonl", "--scale", "2") == {None}
    assert cpus("one.jsonl", "--scale", "2", "--threads", "1") <= os.sched_getaffinity(0)


@pytest.mark.thorough
def test_a_difference_ends_an_open_number_of_rounds(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """glibc and jemalloc differ in peak RSS by far: the memory pass ends at the first interim analysis."""
    results = tmp_path / "r.jsonl"
    tools.succeed([tools.replay_program, "--alloc", "glibc,jemalloc", "--pass", "memory", "-o", results, trace])
    assert max(row["round"] for row in rows_of(results)) == 7


@pytest.mark.thorough
def test_the_budget_ends_what_nothing_resolves(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """An allocator and itself, in no time at all: the least number of whole rounds, and no verdict on time."""
    results = tmp_path / "r.jsonl"
    said, done = replayed(tools, trace, "--budget", "0.001s", "-o", str(results))
    assert done.returncode == 0 and said["rounds"] == 3
    assert len(rows_of(results)) == 3 * 5 * 2
    assert "budget" in {warning["kind"] for warning in said["warnings"]}


@pytest.mark.slow
def test_a_budget_that_holds_no_round(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """It is said within the budget what a round takes, and nothing that was cut short is kept."""
    slow, results = tmp_path / "slow.py", tmp_path / "r.jsonl"
    slow.write_text("import os, sys, time\ntime.sleep(30)\nos.execv(sys.argv[1], sys.argv[1:])\n")
    short = [tools.replay_program, "--alloc", "glibc,jemalloc", "--pass", "memory", "--budget", "1s", "--wrap", f"{sys.executable} {slow}", "-o", results, trace]
    begun = time.monotonic()
    for python, conditions, status in ((None, (), 1), (None, ("--fail-if", "rss_peak>1.05"), 5), ("/bin/false", (), 1)):
        done = run([*short, *conditions], env={"HEAPTAPE_PYTHON": python} if python else {}, timeout=30)
        assert (done.returncode, results.read_bytes()) == (status, b"")
        (line,) = [line for line in done.stderr.decode().splitlines() if "a round takes" in line]
        assert "--budget" in line and ("fewer allocators" in line)
    assert time.monotonic() - begun < 3 * (1.2 + 10)


def test_a_condition_that_is_met_fails(tools: Tools, trace: Path) -> None:
    more = ["--rounds", "6", "--pass", "memory"]
    said, done = replayed(tools, trace, *more, "--fail-if", "rss_peak>1.1", "--fail-if", "rss_end > 1000")
    assert done.returncode == 4
    assert said["fail_if"] == [
        {"condition": "rss_peak>1.1", "outcome": "holds", "met_by": ["jemalloc"], "undecided": []},
        {"condition": "rss_end > 1000", "outcome": "refuted", "met_by": [], "undecided": []}]
    assert b"--fail-if rss_peak>1.1: jemalloc is at" in done.stderr
    said, done = replayed(tools, trace, *more, "--fail-if", "rss_peak<0.5")
    assert done.returncode == 0 and said["fail_if"][0]["outcome"] == "refuted"


@pytest.mark.thorough
def test_a_condition_that_stays_undecided_is_reported(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Two rounds have an interval of Student's t with one degree of freedom: it holds everything near the estimate."""
    said, done = replayed(tools, trace, "--rounds", "2", "--pass", "time", "--seed", "7")
    b = next(item["alloc_time_ns"] for item in said["allocators"] if item["name"] == "b")
    said, done = replayed(tools, trace, "--rounds", "2", "--pass", "time", "--fail-if", f"time>{b['ratio']:.3f}")
    assert done.returncode == 5 and said["fail_if"][0]["outcome"] == "undecided"
    assert "b" in said["fail_if"][0]["undecided"] and said["fail_if"][0]["met_by"] == []
    (line,) = [line for line in done.stderr.decode().splitlines() if "undecided: b is at" in line]
    assert " of a; " in line and "more round" in line
    # What holds comes first.
    _, done = replayed(tools, trace, "--rounds", "1", "--pass", "memory", "--fail-if", "rss_peak>1.1")
    assert done.returncode == 5 and b"in one round, which has no interval: --rounds 12" in done.stderr
    _, done = replayed(tools, trace, "--rounds", "6", "--fail-if", "rss_peak>1.1", "--fail-if", "time>1")
    assert done.returncode == 4


@pytest.mark.thorough
def test_a_failed_run_comes_before_conditions(tools: Tools, trace: Path) -> None:
    """One allocator cannot be measured at all: what the others show is no answer to what was asked."""
    done = run([tools.replay_program, "--alloc", "glibc,jemalloc,/lib/x86_64-linux-gnu/libm.so.6", "--rounds", "6", "--pass", "memory",
                "--fail-if", "rss_peak>1.1", trace], timeout=120)
    assert done.returncode == 1 and b"rss_peak>1.1: jemalloc is at" in done.stderr


@pytest.mark.parametrize("options", [
    ["--fail-if", "time=1"], ["--fail-if", "speed>1"], ["--fail-if", "time>"],
    ["--fail-if", "time>1.05"], ["--alloc", "jemalloc", "--pass", "time", "--fail-if", "rss_peak>1"],
    ["--alloc", "null=glibc"],
    ["--budget", "-1s"], ["--budget", "5d"], ["--rounds", "0"], ["--rounds", "automatic"],
])
def test_bad_values_are_usage_errors(tools: Tools, trace: Path, options: list[str]) -> None:
    done = run([tools.replay_program, "--alloc", "glibc", *options, trace])
    assert done.returncode == 2
    assert options[-2].encode() in done.stderr and done.stdout == b""


def test_a_name_that_is_not_utf8_is_null_in_json(tools: Tools, trace: Path, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/odd\xff.bin"
    shutil.copy(trace, odd)
    command = [tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--pass", "memory", "--json"]
    done = subprocess.run([*command, odd], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["trace"] is None


@pytest.mark.thorough
def test_verify_takes_no_figure_away(tools: Tools, trace: Path) -> None:
    said, _ = replayed(tools, trace, "--rounds", "1", "--pass", "memory", "--verify")
    assert {one["name"] for one in said["allocators"] if one["slop_bytes"] is not None} == {"a", "b", "jemalloc"}


@pytest.mark.thorough
def test_warnings_name_a_remedy(tools: Tools, trace: Path) -> None:
    # What waits for the clock is not repeated, however short it is.
    said, done = replayed(tools, trace, "--rounds", "2", "--pace", "time=x1000000,memory=virtual")
    kinds = [warning["kind"] for warning in said["warnings"]]
    assert "few_rounds" in kinds and len(set(kinds)) == len(kinds)
    for warning in said["warnings"]:
        assert warning["message"] and warning["remedy"]
        assert f"heaptape replay: warning: {warning['message']}; {warning['remedy']}\n" in done.stderr.decode()
    _, quiet = replayed(tools, trace, "--rounds", "2", "-q")
    assert quiet.stderr == b""


@pytest.mark.thorough
def test_a_short_trace_and_a_lossy_one_are_warned_of(tools: Tools, tmp_path: Path) -> None:
    """16 calls, an anomaly and two foreign frees among them."""
    log = Path(__file__).parents[1] / "golden" / "imports" / "malloc_wrap_raw.txt"
    trace = tools.convert(log, tmp_path / "t.bin")
    said, done = replayed(tools, trace, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    warnings = {warning["kind"]: warning["message"] for warning in said["warnings"]}
    assert {"few_events", "short_run"} <= set(warnings)
    assert "1 anomaly, 2 foreign frees" in warnings["lossy_trace"]


def test_instructions_are_exact(tools: Tools, trace: Path, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    results = tmp_path / "r.jsonl"
    said, done = replayed(tools, trace, "--rounds", "1", "--pass", "time", "--instructions", "-o", str(results))
    assert done.returncode == 0, done.stderr
    counted = {item["name"]: item["instructions"] for item in said["allocators"]}
    assert counted["a"] == counted["b"] != counted["jemalloc"]
    assert 10 * 20_000 < counted["a"] < 1000 * 20_000
    for row in rows_of(results):
        assert row["instructions"] == counted.get(row["allocator"]["name"])


def test_without_valgrind_instructions_are_not_available(tools: Tools, trace: Path, tmp_path: Path) -> None:
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--pass", "time", "--instructions", trace],
               env={"PATH": str(tmp_path)})
    assert done.returncode == 0
    assert b"glibc: --instructions: valgrind is not installed: apt-get install valgrind" in done.stderr
    assert b"n/a" in done.stdout


@pytest.mark.parametrize("spec", ["a=null", "a=", "a=glibc,a=jemalloc", "a=no-such-allocator"])
def test_labels_that_name_nothing(tools: Tools, trace: Path, spec: str) -> None:
    done = run([tools.replay_program, "--alloc", spec, trace])
    assert done.returncode == 2 and b"--alloc" in done.stderr and done.stdout == b""


@pytest.mark.thorough
def test_what_was_interrupted_is_compared_as_far_as_it_went(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Ctrl-C after some rounds of many: their runs are kept and compared."""
    results = tmp_path / "r.jsonl"
    command = [tools.replay_program, "--alloc", "a=glibc,b=glibc", "--rounds", "100000", "-o", results, trace]
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as replay:
        wait_until(lambda: results.exists() and results.read_text().count("\n") >= 40, "results", process=replay)
        replay.send_signal(signal.SIGINT)
        out, said = replay.communicate(timeout=60)
    assert replay.returncode == -signal.SIGINT
    assert b"heaptape replay: stopped in round" in said and b"A/A control" in out and b"rounds, seed" in out
    rows = rows_of(results)
    assert all(row["failures"] == 0 for row in rows) and len(rows) >= 40


@pytest.mark.thorough
def test_repeats(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """One replay is a run, unless it ends below the resolution of a clock, or --repeats asks for more."""
    def repeats_of(path: Path, *more: str) -> dict[str, set[int]]:
        results = tmp_path / f"r{len(list(tmp_path.iterdir()))}.jsonl"
        rows = tools.replay(path, "glibc", results, *more)
        return {name: {row["repeats"] for row in rows if row["pass"] == name} for name in ("time", "memory")}

    assert repeats_of(trace) == {"time": {1}, "memory": {1}}
    assert repeats_of(trace, "--repeats", "3") == {"time": {3}, "memory": {1}}
    (tmp_path / "tiny.txt").write_text("1: malloc 0x1000 16 1 2\n1: free 0x1000 3 4\n")
    tiny = tools.convert(tmp_path / "tiny.txt", tmp_path / "tiny.bin")
    (repeats,) = repeats_of(tiny)["time"]
    assert repeats > 1
    assert repeats_of(tiny, "--repeats", "1")["time"] == {1}
    assert repeats_of(trace, "--repeats", "3", "--pace", "time=x100")["time"] == {1}
