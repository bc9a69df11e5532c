# SPDX-License-Identifier: Apache-2.0
"""The verbs as a user types them: output, exit status, one line on bad input, nothing half-written."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import results_factory
import story
from quick_tier import quick
from verbs_here import run_here as _run

ROOT = Path(__file__).resolve().parents[2]


def _run_as_typed(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "analysis")}
    return subprocess.run([sys.executable, "-m", "heaptape", *map(str, arguments)], cwd=cwd, env=environment,
                          capture_output=True, text=True, timeout=120, check=False)


def _one_line(done: subprocess.CompletedProcess[str], status: int, words: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert words in done.stderr and "Traceback" not in done.stderr


def test_report(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    done = _run_as_typed("report", results, "-o", "out.html", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "") and done.stderr.startswith("out.html: 0.")
    assert "mimalloc is fastest" in (tmp_path / "out.html").read_text()
    assert _run("report", results, "-q", cwd=tmp_path).stderr == "" and (tmp_path / "report.html").exists()


@pytest.mark.thorough
def test_report_finds_the_trace_beside_the_results_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    results, trace = story.write_story(tmp_path / "deep")
    assert _run("report", results, "-o", "a.html", cwd=tmp_path).returncode == 0
    assert "recorded heap" in (tmp_path / "a.html").read_text()
    moved = trace.rename(tmp_path / "moved.bin")
    assert _run("report", results, "--trace", moved, "-o", "b.html", cwd=tmp_path).returncode == 0
    assert "recorded heap" in (tmp_path / "b.html").read_text()


@pytest.mark.thorough
def test_compare(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    done = _run_as_typed("compare", results, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "mimalloc is fastest" in done.stdout.splitlines()[-1]
    assert any(line.split()[0] == "tcmalloc" and "same within 1 %" in line for line in done.stdout.splitlines() if line)
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())


def test_compare_json(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path, rounds=1)
    found = json.loads(_run("compare", results, "--json", "--baseline", "jemalloc", cwd=tmp_path).stdout)
    assert found[0]["baseline"] == "jemalloc"
    row = next(r for r in found[0]["comparisons"] if (r["measure"], r["allocator"]) == ("time", "glibc"))
    assert row["verdict"] == "unresolved" and row["ci_low"] is None and row["ratio"] > 1
    assert {"measure", "allocator", "rounds", "value", "unit", "ratio", "ci_low", "ci_high", "verdict"} <= set(row)


@pytest.mark.thorough
def test_same_seed_same_output(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    one, other = (_run("compare", results, "--seed", "7", cwd=tmp_path).stdout for _ in range(2))
    assert one == other and "bootstrap seed 7" in one


@pytest.mark.thorough
def test_compare_leads_with_malloc_share(tmp_path: Path) -> None:
    results, trace = story.write_story(tmp_path)
    lines = _run("compare", results, cwd=tmp_path).stdout.splitlines()
    assert "5.60 s of CPU time; glibc takes 12 % of it" in lines[1] and "mimalloc would save about 6.6 %" in lines[1]
    assert "in malloc's heap" in lines[2] and "% is malloc's overhead" in lines[2]
    trace.unlink()
    assert "unknown (the trace was not read" in _run("compare", results, cwd=tmp_path).stdout.splitlines()[1]


def test_compare_csv_and_markdown(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    rows = list(csv.DictReader(_run("compare", results, "--csv", cwd=tmp_path).stdout.splitlines()))
    found = json.loads(_run("compare", results, "--json", cwd=tmp_path).stdout)[0]["comparisons"]
    assert [(r["measure"], r["allocator"], r["verdict"], float(r["ratio"])) for r in rows] == [
        (r["measure"], r["allocator"], r["verdict"], r["ratio"]) for r in found]
    text = _run("compare", results, "--markdown", cwd=tmp_path).stdout
    assert text.startswith("**mimalloc is fastest") and "| allocator | time in malloc |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables[:6]} == {8} and len(tables) == 12
    assert _run("compare", results, "--csv", "--json", cwd=tmp_path).returncode == 2


@pytest.mark.thorough
def test_compare_as_a_gate(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    passed = _run("compare", results, "--fail-if", "time > 1.05", "--fail-if", "rss_peak>=1.5", cwd=tmp_path)
    assert passed.returncode == 0 and passed.stderr == ""
    failed = _run("compare", results, "--fail-if", "rss_peak>1.2", cwd=tmp_path)
    assert failed.returncode == 4 and failed.stderr.count("\n") == 1 and "mimalloc is fastest" in failed.stdout
    assert failed.stderr.startswith("heaptape compare: --fail-if rss_peak>1.2: jemalloc is at 1.2") and failed.stderr.endswith(" of glibc in job.bin\n")


@pytest.mark.thorough
def test_a_condition_that_stays_undecided_has_a_status_of_its_own(tmp_path: Path) -> None:
    # At 1.06 [1.02, 1.10], 1.05 is neither reached nor not.
    rows = results_factory.schedule(rounds=12, names=("glibc", "other"), noise=0.05)
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    row = next(r for r in json.loads(_run("compare", results, "--json", cwd=tmp_path).stdout)[0]["comparisons"]
               if (r["measure"], r["allocator"]) == ("time", "other"))
    inside = f"time>{(row['verdict_low'] + row['ratio']) / 2:.4f}"
    done = _run("compare", results, "--fail-if", inside, "--json", cwd=tmp_path)
    assert done.returncode == 5 and done.stderr.count("\n") == 1
    assert f"--fail-if {inside}: undecided: other is at {row['ratio']:.3f} [" in done.stderr and "more round" in done.stderr
    assert json.loads(done.stdout)[0]["fail_if"] == [
        {"condition": inside, "outcome": "undecided", "met_by": [], "undecided": ["other"]}]
    # One that holds comes before one that does not know; a failed run before both.
    both = ("--fail-if", inside, "--fail-if", "time>0.5")
    assert _run("compare", results, *both, cwd=tmp_path).returncode == 4
    rows[-1]["failures"] = 1
    done = _run("compare", results_factory.write(results, rows), *both, cwd=tmp_path)
    assert done.returncode == 1 and "1 of 24 runs of " in done.stderr and "time>0.5: " in done.stderr
    assert _run("compare", results, cwd=tmp_path).returncode == 0


def _counted(name: str, instructions: int) -> dict[str, Any]:
    row = results_factory.run(name, "memory", 0, np.random.default_rng(1))
    return row | {"pass": "count", "counts": {"allocator": {"instructions": instructions, "mapping_calls": 1}}}


@pytest.mark.thorough
@pytest.mark.parametrize(("counted", "said"), [
    (["glibc", "jemalloc"], "tcmalloc was not counted in job.bin"),
    (["glibc"], "tcmalloc was not counted in job.bin"),
    (["jemalloc", "tcmalloc"], "tcmalloc is compared with glibc, which was not counted in job.bin")])
def test_a_missing_count_is_a_failure(tmp_path: Path, counted: list[str], said: str) -> None:
    """`replay --instructions` leaves no line of an allocator that cannot be simulated."""
    rows = results_factory.schedule(rounds=3, names=("glibc", "jemalloc", "tcmalloc", "null")) + [_counted(name, 1000) for name in counted]
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    done = _run("compare", results, "--fail-if", "instructions>1.01", "--json", cwd=tmp_path)
    assert done.returncode == 1 and f"--fail-if instructions>1.01: undecided: {said}\n" in done.stderr, done.stderr
    [gate] = json.loads(done.stdout)[0]["fail_if"]
    assert gate["outcome"] == "undecided" and "tcmalloc" in gate["undecided"]
    assert _run("compare", results, "--fail-if", "rss_peak>1.5", cwd=tmp_path).returncode == 0


def test_one_round_decides_nothing(tmp_path: Path) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=1, names=("glibc", "jemalloc")))
    done = _run("compare", results, "--fail-if", "time>5", cwd=tmp_path)
    assert done.returncode == 5 and "undecided: jemalloc is at 0.5" in done.stderr and "no interval" in done.stderr


def test_conditions_name_the_trace(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=6)
    others = [row | {"trace": {"path": "other.bin", "sha256": "ab", "events": 1}} for row in rows]
    results = results_factory.write(tmp_path / "r.jsonl", rows + others)
    said = _run("compare", results, "--fail-if", "rss_peak>1.2", cwd=tmp_path).stderr.splitlines()
    assert [line.rsplit(" in ", 1)[1] for line in said] == ["job.bin", "other.bin"]
    assert all("jemalloc is at 1.2" in line for line in said)


@pytest.mark.thorough
def test_results_of_a_killed_run(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    results.write_bytes(results.read_bytes()[:-40])
    for verb in ("compare", "report"):
        done = _run(verb, results, cwd=tmp_path)
        assert done.returncode == 0 and f"heaptape {verb}: warning: {results}:120: cut short" in done.stderr
    assert "120: cut short" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_verification_alone_measures_nothing(tmp_path: Path, verb: str) -> None:
    rows = [results_factory.run("glibc", "time", 0, np.random.default_rng(1)) | {"pass": "verify", "alloc_time_ns": None}]
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    _one_line(_run(verb, results, cwd=tmp_path), 2, "nothing was measured: the results hold the verify pass only, which found "
              "no fault")
    rows[0]["failures"] = 1
    results_factory.write(results, rows)
    _one_line(_run(verb, results, cwd=tmp_path), 2, "found faults in glibc")


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_bad_input(tmp_path: Path, verb: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"trace": {}\n')
    _one_line(_run(verb, "bad.jsonl", cwd=tmp_path), 3, "bad.jsonl:1: expected one JSON object")
    _one_line(_run(verb, "absent.jsonl", cwd=tmp_path), 3, "absent.jsonl: cannot read")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.jsonl"]


def test_bad_trace(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    _one_line(_run("report", results, "--trace", results, cwd=tmp_path), 3, "offset 0: expected a trace")
    _one_line(_run("report", results, "--trace", "absent.bin", cwd=tmp_path), 3, "absent.bin: cannot open")
    assert not (tmp_path / "report.html").exists()


def test_bad_usage(tmp_path: Path) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=2))
    _one_line(_run("compare", results, "--baseline", "hoard", cwd=tmp_path), 2, "--baseline hoard: expected one of ")
    _one_line(_run("compare", results, "--fail-if", "speed>1", cwd=tmp_path), 2, "one of time, rss_peak, rss_mean, rss_end")
    for arguments in ((), ("frob",), ("report",), ("compare", results, "--seed", "-1"), ("report", results, "--frob")):
        done = _run(*arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and "--help' or `heaptape" in done.stderr


@pytest.mark.thorough
def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    _one_line(_run("report", results, "-o", "no/such/folder/r.html", cwd=tmp_path), 1, "cannot write")


@pytest.mark.parametrize("verb", quick([[]], [[], ["report"], ["compare"]]))
def test_help_goes_to_stdout(tmp_path: Path, verb: list[str]) -> None:
    done = _run_as_typed(*verb, "--help", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("Usage: heaptape") and done.stderr == ""
