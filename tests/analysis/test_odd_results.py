# SPDX-License-Identifier: Apache-2.0
"""Results that no replay of ours wrote: each is read, or refused in one line with file, line number, expected and found."""

from __future__ import annotations

import copy
import json
import random
import resource
from pathlib import Path
from typing import Any

import pytest
import results_factory
import story
from heaptape.__main__ import main
from heaptape.base.errors import HeaptapeError
from heaptape.fleet.plan import read_plan
from heaptape.fleet.results import FleetResults
from heaptape.fleet.summary import notes_of, summarise, summary_text
from heaptape.results.comparison import experiments
from heaptape.results.differences import INSTRUCTIONS, differences
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise as summary_of
from quick_tier import quick

ODD: tuple[Any, ...] = ("x", "", "µ\u2028", -1, 0, 1.5, 10**25, 1e308, True, None, [], [None], ["x"], {}, {"a": []}, {"time_ns": "x"},
                        [[[]]], {"name": {}}, "\ud800", float("nan"), float("inf"))


def _rows() -> list[dict[str, Any]]:
    rows = results_factory.schedule(rounds=2, names=("null", "glibc", "jemalloc"), points=6)
    for row in rows:
        row |= {"control": False, "decomposition": {"peak": {"rss_bytes": 5, "requested_bytes": 4}}, "scale": 1, "problem": None}
    return rows


def _counted_rows() -> list[dict[str, Any]]:
    """Of two allocators, with all that counts may have."""
    kinds = ("instruction", "l1d_miss", "l2_miss", "far_4mib_miss", "fault")
    rows = []
    for name, times in (("glibc", 5.0), ("jemalloc", 4.0)):
        allocator, program = ({"instructions": 9, "faults": 2, "modelled_ns": {**dict.fromkeys(kinds, times), "total": 5 * times}} for _ in range(2))
        counts = {
            "accesses": "x.acc", "calibrated": True, "allocator": allocator, "program": program, "time": None, "program_time": {"ns": 10 * times},
            "costs": {kind: {"latency_ns": 4.0, "low_ns": 3.0, "high_ns": 5.0, "share": 0.5, "cost_ns": 2.0, "cost_low_ns": 1.0, "cost_high_ns": 3.0}
                      for kind in kinds},
            "blocks": [{"size_low": low, "accesses": 9, "l1d_misses": 8, "l2_misses": times} for low in (48, 1024)],
            "calls_by_size": [{"function": function, "size_low": 48, "calls": 3, "instructions": times} for function in ("malloc", "free")],
            "sampled": {"bursts": 4, "groups": [{"accesses": 5, "ns": value} for value in (1.0, times)]},
            "profile": {"samples": 3, "stacks": [{"frames": ["malloc", "grow"], "samples": 2}, {"frames": ["free"], "samples": 1}]},
        }
        rows.append(results_factory.run(name, "count", 0, results_factory.np.random.default_rng(1)) | {
            "counts": counts, "control": False, "rss_peak_bytes": None, "timeline": None, "started_at": f"2025-11-20T09:00:{len(name):02d}Z"})
    return rows


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*path, key), *_places(item, (*path, key))]]


def _mutate(rows: list[dict[str, Any]], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        row = rng.choice(rows)
        places = _places(row)
        # Outer keys as often as all that is inside of curves.
        depth = rng.choice((1, 1, 2, 3, 5))
        place = rng.choice([found for found in places if len(found) == depth] or places)
        holder = row
        for key in place[:-1]:
            holder = holder[key]
        how = rng.randrange(4)
        if how == 0 and isinstance(holder, dict):
            del holder[place[-1]]
        elif how == 1 and isinstance(holder, dict):
            holder[rng.choice(("source", "line", "allocator_path", "fragmentation_f1", "control", "é"))] = copy.deepcopy(rng.choice(ODD))
        else:
            holder[place[-1]] = copy.deepcopy(rng.choice(ODD))


def _one_line(said: str, status: int, file: Path) -> None:
    lines = [line for line in said.splitlines() if "warning:" not in line]
    assert status in (0, 1, 2, 3) and "Traceback" not in said
    if status == 3:
        assert len(lines) == 1 and f"{file}:" in lines[0] and "expected" in lines[0]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(60))
def test_whatever_a_line_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    rng = random.Random(seed)
    rows = _rows() + _counted_rows()
    _mutate(rows[-2:] if seed % 2 else rows, rng)
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    for arguments in (["compare", str(results)], ["compare", "--json", str(results)], ["report", "-q", str(results), "-o", str(tmp_path / "o.html")]):
        capsys.readouterr()
        status = main(arguments)
        _one_line(capsys.readouterr().err, status, results)
        assert (tmp_path / "o.html").exists() == (arguments[0] == "report" and status == 0)


@pytest.mark.parametrize("seed", quick(range(10), range(40)))
def test_whatever_a_line_of_a_fleet_holds(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    _, trace = story.write_story(tmp_path, rounds=1) if seed == 0 else (None, tmp_path / "job.bin")
    trace.touch()
    plan_file = tmp_path / "plan.toml"
    plan_file.write_text(f'traces = ["{trace}"]\nallocators = ["glibc", "jemalloc"]\nrounds = 2\n')
    plan = read_plan(plan_file, [])
    rows = _rows()
    for row in rows:
        row |= {"configuration": "default", "host": "h", "fleet": {
            "options": {}, "allocators": ["glibc", "jemalloc"], "baseline": "glibc", "lines": 6}}
        row["trace"]["sha256"] = plan.traces[0].sha256
    _mutate(rows, rng)
    output = results_factory.write(tmp_path / "fleet.jsonl", rows)
    try:
        with FleetResults(output, plan) as results:
            summary_text(plan, summarise(plan, results.rows), results.rows, notes_of(plan, results.rows))
    except HeaptapeError as error:
        assert str(error).count("\n") == 0


@pytest.mark.parametrize(("key", "value", "words"), [
    ("fragmentation", "x", "\"fragmentation\" to be an object, found a text (x)"), ("round", True, "\"round\" to be a whole number, found a truth value (True)"),
    ("alloc_time_ns", [1], "\"alloc_time_ns\" to be a number, found a list"), ("scale", "2", "\"scale\" to be a whole number"),
    ("failures", {"a": 10**30}, "\"failures.a\" to be a number of at most 2^64"), ("problem", "\ud800", "\"problem\" to be a text of whole characters"),
    ("timeline", {"time_ns": [1, 2], "rss_bytes": [1]}, "\"timeline.rss_bytes\" to have a value for each"), ("machine", {"thp": {}}, "\"machine.thp\" to be a text, found an object"),
    ("latency_ns", {"malloc": {"p50": "x"}}, "\"latency_ns.malloc.p50\" to be a number"), ("calls", {"malloc": 5}, "\"calls.malloc\" to be an object"),
])
def test_what_was_expected_and_what_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any, words: str,
) -> None:
    rows = _rows()
    rows[3][key] = value
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    assert main(["compare", str(results)]) == 3
    assert capsys.readouterr().err.startswith(f"heaptape compare: {results}:4: expected {words}")


def test_numbers_that_json_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "r.jsonl"
    for text in ("NaN", "Infinity", "1e999"):
        results.write_text("".join(json.dumps(row).replace('"failures": 0', f'"failures": {text}') + "\n" for row in _rows()))
        assert main(["compare", str(results)]) == 3
        said = capsys.readouterr().err
        assert said.startswith(f"heaptape compare: {results}:1: expected") and said.count("\n") == 1


def test_one_kind_of_file_for_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, trace = story.write_story(tmp_path, rounds=1)
    for arguments, words in (
        (["compare", str(trace)], f"{trace}: expected results, lines of JSON as heaptape replay -o writes them, found a trace"),
        (["report", str(trace), "-o", str(tmp_path / "o")], "found a trace"),
        (["compare", str(results), "--trace", str(results)], "expected a trace (HTAPETRC), found lines of JSON"),
        (["export", str(results), "-o", str(tmp_path / "o")], "found lines of JSON"),
    ):
        assert main(arguments) == 3
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1 and not (tmp_path / "o").exists()


def test_a_device_without_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results are read whole, but not before they look like some."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), limits[1]))  # else all of the machine's memory would go first
    try:
        for arguments in (["compare", "/dev/zero"], ["report", "/dev/zero", "-o", str(tmp_path / "o")]):
            assert main(arguments) == 3
            assert capsys.readouterr().err.endswith("/dev/zero: expected results, lines of JSON as heaptape replay -o writes them, found "
                                                    "bytes that are not text\n")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.thorough
def test_a_run_that_is_there_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file and its copy, by `compare *.jsonl` say: taken for more rounds they would resolve what is not."""
    results, copied, both = (results_factory.write(tmp_path / name, _rows()) for name in ("r.jsonl", "copy.jsonl", "both.jsonl"))
    both.write_bytes(results.read_bytes() * 2)
    count = len(_rows())
    assert main(["compare", "--json", str(results)]) == 0
    once = capsys.readouterr()
    assert once.err == ""
    for paths, reported in (([results, copied], f"{copied}: {count} runs are in {results} already: they count once"),
                        ([both], f"{both}: {count} runs are in it already: they count once")):
        assert main(["compare", "--json", *map(str, paths)]) == 0
        said = capsys.readouterr()
        assert said.out == once.out
        assert said.err == f"heaptape compare: warning: {reported}\n"
        page = tmp_path / "page.html"
        assert main(["report", "-q", *map(str, paths), "-o", str(page)]) == 0
        assert reported in page.read_text() and reported in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("lacks", [0, 1])
def test_classes_that_are_known_of_one_are_no_difference(tmp_path: Path, lacks: int) -> None:
    """The other's are not 0."""
    rows = _counted_rows()
    del rows[lacks]["counts"]["calls_by_size"][1]["instructions"]
    summary = summary_of(experiments(read_results(results_factory.write(tmp_path / "r.jsonl", rows + _rows())))[0], "glibc")
    found = differences(summary.experiment.runs, summary.comparison, "glibc")
    assert found and [change for change in found if change.figure == INSTRUCTIONS] == []
