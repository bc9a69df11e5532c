# SPDX-License-Identifier: Apache-2.0
"""fleet: every run once, whatever happens to workers, files and allocators; honest means; plans refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import results_factory
from heaptape.base.errors import HeaptapeError, ResultsError
from heaptape.fleet.plan import Plan, PlanError, allocator_name, read_plan
from heaptape.fleet.results import FleetResults
from heaptape.fleet.summary import notes_of, summarise, summary_markdown
from heaptape.fleet.unit import Outcome, Unit, run_unit, units_of
from heaptape.results.comparison import estimate_ratio, geometric_mean

ROOT = Path(__file__).resolve().parents[2]

# A replayer that measures nothing: its figures follow from the names. What a trace's content asks for
# happens: its first launch ends the worker, an allocator fails, or nothing can be run.
FAKE_REPLAY = f"""#!{sys.executable} -S
import hashlib, json, os, signal, sys, time
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word and not word.startswith("--alloc"))
specs = [word.removeprefix("--alloc=") for word in sys.argv if word.startswith("--alloc=")]
trace = sys.argv[-1]
if "--list" in sys.argv:
    print(json.dumps([{{"name": name}} for name in ("glibc", "jemalloc")]))
    sys.exit(0)
if "nonsense" in specs or options.get("touch") == "nonsense":
    print("heaptape replay: nonsense cannot be had", file=sys.stderr)
    sys.exit(2)
if trace == "/dev/null":
    sys.exit(3)
content = open(trace, "rb").read()
with open(os.environ["FAKE_LOG"], "a") as log:
    print(trace, options["seed"], file=log)
if b"kill the worker" in content and not os.path.exists(trace + ".killed"):
    open(trace + ".killed", "w").close()
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
if b"refuse" in content:
    print("heaptape replay: " + trace + ": offset 0: expected a trace", file=sys.stderr)
    sys.exit(3)
failing = b"jemalloc crashes" in content
with open(options["output"], "a") as file:
    for pass_name in ("time", "memory"):
        for name, factor in [("null", 0), *((spec, 1 + number) for number, spec in enumerate(specs))]:
            if failing and name == "jemalloc":
                continue
            figures = {{"alloc_time_ns": 1000 * factor}} if pass_name == "time" else {{
                "rss_peak_bytes": 4096 * factor, "rss_mean_bytes": 2048 * factor, "rss_end_bytes": 1024 * factor}}
            print(json.dumps({{"schema": 1, "trace": {{"path": trace, "sha256": hashlib.sha256(content).hexdigest()}},
                "allocator": {{"name": name, "build_id": name}}, "pass": pass_name, "round": 0, "failures": 0,
                "seed": int(options["seed"]), "control": False, "problem": None}} | figures), file=file)
if failing:
    print("heaptape replay: jemalloc: killed by Segmentation fault (SIGSEGV)", file=sys.stderr)
    sys.exit(1)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake replayer, in place; returns its log of launches."""
    script, log = tmp_path / "fake-replay", tmp_path / "launches"
    script.write_text(FAKE_REPLAY)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    log.touch()
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(script))
    monkeypatch.setenv("FAKE_LOG", str(log))
    return log


def _plan_file(folder: Path, traces: dict[str, str], text: str = "") -> Path:
    for name, content in traces.items():
        (folder / f"{name}.bin").write_text(content)
    path = folder / "plan.toml"
    path.write_text('traces = ["*.bin"]\nallocators = ["glibc", "jemalloc"]\n' + (text or "rounds = 2\n"))
    return path


def _plan(folder: Path, traces: dict[str, str], text: str = "") -> Plan:
    return read_plan(_plan_file(folder, traces, text), ["glibc", "jemalloc"])


def _run(folder: Path, *arguments: object, timeout_s: int = 120) -> subprocess.CompletedProcess[str]:
    """As the program does. The workers import what it started."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "analysis")}
    return subprocess.run([sys.executable, ROOT / "analysis" / "run_verb.py", "fleet", *map(str, arguments)], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=timeout_s, check=False)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _runs(path: Path) -> Counter[tuple[Any, ...]]:
    return Counter((Path(row["trace"]["path"]).stem, row["configuration"], row["round"], row["allocator"]["name"],
                    row["pass"], row["control"]) for row in _rows(path))


def _expected(traces: list[str], rounds: int, names: tuple[str, ...] = ("null", "glibc", "jemalloc")) -> set[tuple[Any, ...]]:
    return {(trace, "default", number, name, pass_name, False) for trace in traces for number in range(rounds)
            for name in names for pass_name in ("time", "memory")}


def _done(plan: Plan, path: Path, units: list[Unit]) -> None:
    with FleetResults(path, plan) as results:
        for unit in units:
            results.add(unit, run_unit(unit, "w"))


@pytest.mark.thorough
def test_a_worker_is_killed_midway(tmp_path: Path, fake: Path) -> None:
    plan = _plan_file(tmp_path, {"a": "kill the worker", "b": "b"})
    done = _run(tmp_path, plan, "--workers", 2, "-o", "r.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.bin.killed").exists() and "; other workers run its rounds again" in done.stderr
    runs = _runs(tmp_path / "r.jsonl")
    assert set(runs) == _expected(["a", "b"], 2) and set(runs.values()) == {1}
    assert len({line.split()[1] for line in fake.read_text().splitlines()}) == 4  # a seed of its own for each unit
    hosts = {row["host"] for row in _rows(tmp_path / "r.jsonl")}
    assert len(hosts) == 1 and json.loads(done.stdout)["hosts"] == sorted(hosts)
    assert {row["worker"] for row in _rows(tmp_path / "r.jsonl")} <= {"0", "1"}
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_the_same_command_runs_nothing_twice(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a", "b": "b"})
    results = tmp_path / "plan.results.jsonl"
    _done(plan, results, units_of(plan))
    launches = fake.read_text()
    done = _run(tmp_path, plan.path)
    assert done.returncode == 0, done.stderr
    assert "has 4 of 4 rounds already" in done.stderr and fake.read_text() == launches
    assert "geometric means" in done.stdout and set(_runs(results).values()) == {1}
    assert done.stdout.startswith("default: 2 rounds of 2 traces on 1 host\n")


@pytest.mark.thorough
def test_a_file_that_was_cut_goes_on(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a", "b": "b"})
    units, results = units_of(plan), tmp_path / "r.jsonl"
    _done(plan, results, units)
    whole = results.read_bytes()
    for missing in (1, 200, len(whole) // 2, len(whole)):
        results.write_bytes(whole[:len(whole) - missing])
        with FleetResults(results, plan) as opened:
            left = [unit for unit in units if unit.key not in opened.done]
            assert 1 <= len(left) <= len(units)
            assert results.read_bytes() == whole[:results.stat().st_size]
            for unit in [*left, *left]:  # whatever comes a second time is not written
                opened.add(unit, run_unit(unit, "w"))
        assert set(_runs(results)) == _expected(["a", "b"], 2) and set(_runs(results).values()) == {1}
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".part")) == []


@pytest.mark.thorough
def test_more_rounds_and_traces_later(tmp_path: Path, fake: Path) -> None:
    first, results = _plan(tmp_path, {"a": "a"}, "rounds = 1\n"), tmp_path / "r.jsonl"
    _done(first, results, units_of(first))
    more = _plan(tmp_path, {"b": "b"}, "rounds = 2\n")
    with FleetResults(results, more) as opened:
        assert [unit.key in opened.done for unit in units_of(more)] == [True, False, False, False]


def test_other_terms_are_not_mixed(tmp_path: Path, fake: Path) -> None:
    plan, results = _plan(tmp_path, {"a": "a"}), tmp_path / "r.jsonl"
    _done(plan, results, units_of(plan))
    for text, word in (('rounds = 2\noptions.touch = "all"\n', "options"), ('baseline = "jemalloc"\n', "baseline")):
        with pytest.raises(ResultsError, match=f"r.jsonl:1: was measured with another {word}"):
            FleetResults(results, _plan(tmp_path, {}, text))
    (tmp_path / "r.jsonl").write_text('{"trace": {}}\n')
    with pytest.raises(ResultsError, match="expected a line of a fleet's results"):
        FleetResults(results, plan)


@pytest.mark.parametrize("lines", ["true", "-1", "1.5"])
def test_a_number_of_lines_that_is_none_is_refused(tmp_path: Path, fake: Path, lines: str) -> None:
    plan, results = _plan(tmp_path, {"a": "a"}), tmp_path / "r.jsonl"
    _done(plan, results, units_of(plan))
    first = json.loads(results.read_text().splitlines()[0])
    first["fleet"]["lines"] = json.loads(lines)
    results.write_text(json.dumps(first, separators=(",", ":")) + "\n")
    with pytest.raises(ResultsError, match='an object "fleet" with a number of lines'):
        FleetResults(results, plan)


@pytest.mark.parametrize("has_build_id", [True, False])
def test_another_build_of_the_same_path_is_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Path, has_build_id: bool,
) -> None:
    """Rounds of this machine only: others have builds of their own."""
    plan, results = _plan(tmp_path, {"a": "a"}, "rounds = 1\n"), tmp_path / "r.jsonl"
    library = tmp_path / "liba.so"
    library.write_text("old")
    monkeypatch.setattr("heaptape.fleet.results.builds_here", lambda _plan: {"jemalloc": "aaaa", "glibc": "glibc"})
    _done(plan, results, units_of(plan))
    rows = _rows(results)
    for row in rows:
        if row["allocator"]["name"] == "jemalloc":
            row["allocator"] |= {"build_id": "aaaa" if has_build_id else "", "path": str(library)}
            row["fleet"]["files"] = {} if has_build_id else {str(library): hashlib.sha256(b"old").hexdigest()}
    results_factory.write(results, rows)
    before = results.read_bytes()
    with FleetResults(results, plan) as found:
        assert len(found.done) == 1
    library.write_text("new")
    monkeypatch.setattr("heaptape.fleet.results.builds_here", lambda _plan: {"jemalloc": "bbbb"})
    with pytest.raises(ResultsError, match="another build of jemalloc"):
        FleetResults(results, plan)
    assert results.read_bytes() == before
    for row in rows:
        row["host"] = "elsewhere"
    with FleetResults(results_factory.write(results, rows), plan) as found:
        assert len(found.done) == 1


def test_one_fleet_at_a_time(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a"})
    with FleetResults(tmp_path / "r.jsonl", plan), pytest.raises(HeaptapeError, match="another heaptape fleet is writing it"):
        FleetResults(tmp_path / "r.jsonl", plan)


@pytest.mark.thorough
def test_failing_runs_are_reported_and_the_rest_is_done(
        tmp_path: Path, fake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from heaptape.__main__ import main
    from heaptape.fleet import cluster

    def run_units(_client: None, units: list[Unit], take: Any, _tell: Any) -> None:
        for unit in units:
            take(unit, run_unit(unit, "w"))

    monkeypatch.setattr(cluster, "open_client", lambda *_: nullcontext())
    monkeypatch.setattr(cluster, "run_units", run_units)
    plan = _plan_file(tmp_path, {"a": "jemalloc crashes", "b": "b", "c": "refuse"}, "rounds = 1\n")
    assert main(["fleet", str(plan), "-o", str(tmp_path / "r.jsonl"), "--json"]) == 1
    done = SimpleNamespace(**dict(zip(("stdout", "stderr"), capsys.readouterr(), strict=True)))
    assert "a, default, round 1: jemalloc, time pass: killed by Segmentation fault (SIGSEGV)" in done.stderr
    assert "c, default, round 1:" in done.stderr and "expected a trace" in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "failed runs in 1 round; 1 round could not be run; run the same command to try again")
    runs = _runs(tmp_path / "r.jsonl")
    assert set(runs) == _expected(["a", "b"], 1) and set(runs.values()) == {1}
    means = {(mean["allocator"], mean["measure"]): mean for mean in json.loads(done.stdout)["configurations"][0]["geometric_means"]}
    assert means["jemalloc", "time"]["traces"] == 1 and means["glibc", "time"]["traces"] == 2
    assert means["jemalloc", "time"]["ratio"] == 2 and means["jemalloc", "time"]["ci_low"] is None
    with FleetResults(tmp_path / "r.jsonl", read_plan(plan, []), retry_failed=True) as results:
        assert len(results.done) == 1


@pytest.mark.thorough
def test_a_missing_count_is_a_failed_run(tmp_path: Path, fake: Path) -> None:
    """Of the first round, which alone counts. A simulation that fails leaves no line."""
    first, second = units_of(_plan(tmp_path, {"a": "a"}, 'rounds = 2\noptions = { pass = "memory", instructions = true }\n'))
    assert run_unit(first, "w").problems == ["glibc, count pass: did not run", "jemalloc, count pass: did not run"]
    assert run_unit(second, "w").problems == []


def test_only_a_line_feed_ends_a_line_of_results(tmp_path: Path, fake: Path) -> None:
    """As replay writes paths, and in any locale."""
    script = tmp_path / "fake-replay"
    script.write_text(script.read_text().replace("json.dumps(", "json.JSONEncoder(ensure_ascii=False).encode("))
    name = "u\u2028v\u2029w\x85é"
    outcome = run_unit(units_of(_plan(tmp_path, {name: "a"}))[0], "w")
    assert outcome.problems == [] and {Path(json.loads(line)["trace"]["path"]).stem for line in outcome.lines} == {name}


def test_a_line_on_a_full_disk_is_taken_back(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a"})
    unit, results = units_of(plan)[0], tmp_path / "r.jsonl"
    with FleetResults(results, plan) as opened:
        real = opened._file

        class Full:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def write(self, data: bytes) -> int:
                if real.tell() > 100:
                    raise OSError(28, "No space left on device")
                return int(real.write(data[:300]))

        opened._file = Full()  # type: ignore[assignment]
        with pytest.raises(HeaptapeError, match="No space left on device; run the same command to resume"):
            opened.add(unit, run_unit(unit, "w"))
    assert results.read_bytes() == b""


@pytest.mark.parametrize(("text", "words"), [
    ("traces = [", "expected TOML"),
    ("rounds = 1", "traces: missing"),
    ("traces = []", "traces: expected a list of texts, with one at least"),
    ('traces = ["no*.bin"]', "traces[0]: no file matches no*.bin"),
    ('traces = ["absent.bin"]', "traces[0]: absent.bin: cannot read: No such file"),
    ('traces = ["a.bin", "b.bin"]', "are the same trace"),
    ('traces = ["a.bin"]\nrounds = 0', "rounds: expected a whole number of at least 1, found 0"),
    ('traces = ["a.bin"]\nfrob = 1', "frob: expected a key of a plan"),
    ('traces = ["a.bin"]\nallocators = ["glibc", "glibc"]', "allocators[1]: glibc is named twice"),
    ('traces = ["a.bin"]\nallocators = ["glibc,jemalloc"]', "allocators[0]: 'glibc,jemalloc': expected one allocator"),
    ('traces = ["a.bin"]\nbaseline = "hoard"', "baseline: expected one of the allocators glibc, jemalloc"),
    ('traces = ["a.bin"]\noptions.rounds = 3', "options.rounds: expected an option for a fleet"),
    ('traces = ["a.bin"]\noptions.verify = "yes"', "options.verify: expected true or false"),
    ('traces = ["a.bin"]\n[configurations.x]\nscale = true', "configurations.x.scale: expected a text or number"),
    ('traces = ["a.bin"]\nallocators = ["nonsense", "glibc"]', "allocators (nonsense): nonsense cannot be had"),
    ('traces = ["a.bin"]\nconfigurations.x.touch = "nonsense"', "configurations.x: nonsense cannot be had"),
])
def test_bad_plans(tmp_path: Path, fake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                   text: str, words: str) -> None:
    from heaptape.__main__ import main
    for name in ("a", "b"):
        (tmp_path / f"{name}.bin").write_text("same")
    (tmp_path / "plan.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["fleet", "plan.toml"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("heaptape fleet: plan.toml: ")
    assert words in err and not (tmp_path / "plan.results.jsonl").exists()


def test_names_of_allocators(tmp_path: Path) -> None:
    assert [allocator_name(spec) for spec in ("glibc", "jemalloc:narenas=1", "x=jemalloc:narenas=1", "/l/b.so:k=1", "new=/a.so")
            ] == ["glibc", "jemalloc:narenas=1", "x", "/l/b.so:k=1", "new"]
    plan = _plan(tmp_path, {"a": "a"}, "").path
    plan.write_text('traces = ["a.bin"]\nallocators = ["jemalloc:narenas=1", "new=lib/a.so", "all"]\n')
    assert read_plan(plan, ["glibc", "new"]).allocators == ["jemalloc:narenas=1", f"new={tmp_path}/lib/a.so", "glibc"]


def test_the_corpus_plan_has_every_shipped_trace(fake: Path) -> None:
    plan = read_plan(ROOT / "traces" / "corpus.toml", ["glibc", "jemalloc"])
    shipped = {path.stem for path in (ROOT / "traces").glob("*.bin")} - {"sqlite3-small"}
    assert {trace.name for trace in plan.traces} == shipped and len(shipped) >= 8
    assert plan.baseline == "glibc" and plan.rounds >= 6


def test_a_trace_that_is_another_on_the_worker(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a"})
    (tmp_path / "a.bin").write_text("changed")
    outcome = run_unit(units_of(plan)[0], "w")
    assert outcome.lines == [] and "is a different trace on this host" in str(outcome.refused)


def test_pairs_are_within_a_host_and_a_round(tmp_path: Path) -> None:
    """A slow machine measures all of its rounds slowly; the ratio must not see it."""
    plan = _plan(tmp_path, {"a": "a"}, "rounds = 8\n")
    rows = [
        {"allocator": name, "pass": "time", "round": number, "seed": number, "control": False, "failures": 0, "problem": None,
         "host": f"host{number % 2}", "configuration": "default", "alloc_time_ns": (1 + 99 * (number % 2)) * factor,
         "rss_peak_bytes": None, "rss_mean_bytes": None, "rss_end_bytes": None, "version": "1", "build_id": "1",
         "trace_sha256": plan.traces[0].sha256}
        for number in range(8) for name, factor in (("glibc", 10.0), ("jemalloc", 5.0))
    ]
    mean = next(mean for mean in summarise(plan, rows)[0].means if mean.allocator == "jemalloc")
    assert (mean.ratio, mean.ci_low, mean.ci_high, mean.rounds) == pytest.approx((0.5, 0.5, 0.5, 8))


def test_names_in_markdown(tmp_path: Path) -> None:
    plan = _plan(tmp_path, {"a|b_c_": "a"}, "[configurations.'<b>*x*|_y_']\n")
    rows = [{"allocator": name, "pass": "memory", "round": 0, "seed": 1, "control": False, "failures": 0, "problem": None, "host": "here",
             "configuration": "<b>*x*|_y_", "alloc_time_ns": None, "rss_peak_bytes": 1, "rss_mean_bytes": 1, "rss_end_bytes": 1, "version": "1",
             "build_id": "1", "trace_sha256": plan.traces[0].sha256} for name in ("glibc", "jemalloc")]
    lines = summary_markdown(plan, summarise(plan, rows), rows, ["*note*"]).splitlines()
    assert lines[0].startswith(r"### \<b\>\*x\*\|\_y\_: 1 round") and r"| allocator | a\|b\_c\_ |" in lines and lines[-1] == r"- \*note\*"


def test_shared_pages_are_noted(tmp_path: Path) -> None:
    plan = _plan(tmp_path, {"a": "a", "b": "b"})
    rows = [{"allocator": "glibc", "problem": None, "version": "1", "build_id": "1", "trace_sha256": trace.sha256, "forked": trace is plan.traces[1]}
            for trace in plan.traces for _ in range(2)]
    assert notes_of(plan, rows) == [f"{plan.traces[1].name}: one of several processes; shared pages are not counted"]


def test_geometric_mean_holds_the_truth() -> None:
    """Coverage of the 95 % interval on data of known truth: 10 traces, 10 rounds, noise that differs by trace."""
    rng = np.random.default_rng(5)
    truth = rng.uniform(0.3, 2, 10)
    noise = rng.uniform(0.01, 0.1, 10)
    held = 0
    for _ in range(200):
        ratios = [centre * np.exp(rng.normal(0, sigma, 10)) for centre, sigma in zip(truth, noise, strict=True)]
        middle, low, high = geometric_mean(ratios, resamples=600)
        assert low <= middle <= high
        held += low <= np.exp(np.log(truth).mean()) <= high
    assert 0.90 <= held / 200 <= 0.995
    assert geometric_mean([np.array([2.0]), np.array([8.0])])[0] == pytest.approx(4)
    assert geometric_mean([np.ones(10), np.ones(5)]) == (1, 1, 1)
    assert np.isnan(geometric_mean([np.ones(10), np.ones(1)])[1])


@pytest.mark.parametrize(("traces", "rounds"), [
    (1, 3), (1, 5), (1, 7), (1, 8), (2, 2), (2, 3), (5, 5), *(pytest.param(traces, rounds, marks=pytest.mark.thorough)
     for traces, rounds in ((1, 20), (2, 5), (2, 8), (2, 20), (5, 3), (5, 8), (5, 20), (20, 3), (20, 5), (20, 8), (20, 20)))])
def test_few_traces_and_few_rounds(traces: int, rounds: int) -> None:
    """The interval holds the truth in 93 % or more of 600 experiments, less two standard errors of 1 %; noise of 0.5 to 5 %."""
    rng, held = np.random.default_rng(6), 0
    for _ in range(600):
        truth, noise = rng.normal(0, 0.2, traces), np.exp(rng.uniform(np.log(0.005), np.log(0.05), traces))
        ratios = [np.exp(centre + rng.normal(0, sigma, rounds)) for centre, sigma in zip(truth, noise, strict=True)]
        middle, low, high = geometric_mean(ratios, resamples=600)
        assert low <= middle <= high
        held += low <= np.exp(truth.mean()) <= high
    assert held >= 0.93 * 600 - 12


def test_one_trace_may_vary_and_the_others_not() -> None:
    """As RSS does; the same as above."""
    rng, held = np.random.default_rng(9), 0
    for _ in range(600):
        middle, low, high = geometric_mean([np.full(7, 0.8), rng.lognormal(0, 0.02, 7), np.full(7, 1.25)], resamples=600)
        held += low <= 1 <= high
    assert held >= 0.93 * 600 - 12


def test_the_mean_of_one_trace_is_its_ratio() -> None:
    ratios = np.random.default_rng(8).lognormal(0, 0.03, 7)
    one = estimate_ratio(ratios)
    assert geometric_mean([ratios]) == (one.ratio, one.ci_low, one.ci_high)


def test_outcomes_of_nothing_are_not_written(tmp_path: Path, fake: Path) -> None:
    plan = _plan(tmp_path, {"a": "a"})
    with FleetResults(tmp_path / "r.jsonl", plan) as results:
        results.add(units_of(plan)[0], Outcome([], [], "every worker that began it died"))
        assert results.done == {} and (tmp_path / "r.jsonl").read_bytes() == b""


@pytest.mark.thorough
def test_no_scheduler(tmp_path: Path, fake: Path) -> None:
    plan = _plan_file(tmp_path, {"a": "a"})
    done = _run(tmp_path, plan, "--scheduler", "tcp://127.0.0.1:1", "--workers", 2)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    with pytest.raises(PlanError):
        read_plan(tmp_path / "absent.toml", ["glibc"])


@pytest.mark.slow
def test_a_worker_is_killed_while_it_measures(tmp_path: Path, heaptape_binary: Path) -> None:
    """The real replayer under two workers, of which one is killed with SIGKILL in the middle of a replay."""
    wrapper, real = tmp_path / "replay", heaptape_binary.parent / "replay"
    wrapper.write_text(f"""#!/bin/sh
for trace; do :; done
case $trace in
*redis.bin) if mkdir "{tmp_path}/killed" 2>/dev/null; then (sleep 0.3; kill -9 $PPID) & fi ;;
esac
exec {real} "$@"
""")
    wrapper.chmod(0o755)
    plan = tmp_path / "plan.toml"
    plan.write_text(f'traces = ["{ROOT}/traces/redis.bin", "{ROOT}/traces/cc1.bin"]\nallocators = ["glibc", "jemalloc"]\n'
                    'rounds = 6\noptions = { points = 100 }\n')
    os.environ["HEAPTAPE_REPLAY"] = str(wrapper)
    try:
        done = _run(tmp_path, plan, "--workers", 2, "-o", "r.jsonl", "--markdown", timeout_s=600)
    finally:
        del os.environ["HEAPTAPE_REPLAY"]
    assert done.returncode == 0 and "lost the worker " in done.stderr, done.stderr
    assert (tmp_path / "killed").is_dir()
    runs = _runs(tmp_path / "r.jsonl")
    control = {key[:3] + ("glibc", key[4], True) for key in _expected(["redis", "cc1"], 6)}
    assert set(runs) == _expected(["redis", "cc1"], 6) | control and set(runs.values()) == {1}
    assert done.stdout.count("| jemalloc |") == 4 and "] |" in done.stdout
