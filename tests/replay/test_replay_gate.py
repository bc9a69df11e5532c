# SPDX-License-Identifier: Apache-2.0
"""The gate that needs no clock: conditions on exact counts, and baseline files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import toy_allocator
from tool_runner import Tools, run
from verbs_here import run_here

pytestmark = [pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
              pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")]

COUNT = ("--pass", "count", "--instructions", "-q")


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 calls on one thread."""
    path = tmp_path_factory.mktemp("gate") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "6000", "300", "1", "1", "1000"])
    return path


def counts_of(tools: Tools, trace: Path, alloc: str) -> dict:
    done = run([tools.replay_program, *COUNT, "--json", "--alloc", alloc, trace])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["counts"]


@pytest.fixture(scope="module")
def planted(tools: Tools, trace: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An allocator, and the same with 2 % more instructions."""
    folder = tmp_path_factory.mktemp("planted")
    plain = toy_allocator.toy_allocator(folder, "plain")
    counts = counts_of(tools, trace, f"toy={plain}")["toy"]
    frees = sum(item["calls"] for item in counts["calls_by_size"] if item["function"] == "free")
    nops = round(0.02 * counts["allocator"]["instructions"] * toy_allocator.EVERY / frees)
    return {"plain": plain, "slower": toy_allocator.toy_allocator(folder, "slower", nops=nops),
            "larger": toy_allocator.toy_allocator(folder, "larger", least_class=12)}


def gate(tools: Tools, trace: Path, old: Path, new: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
    return run([tools.replay_program, *COUNT, "--alloc", f"old={old},new={new}", "--baseline", "old", *more, trace])


@pytest.mark.thorough
def test_calls_by_size_add_up(tools: Tools, trace: Path) -> None:
    for counts in counts_of(tools, trace, "glibc").values():
        assert sum(item["instructions"] for item in counts["calls_by_size"]) == counts["allocator"]["instructions"]
        assert {item["function"] for item in counts["calls_by_size"]} <= counts["calls"].keys()
        for name, calls in counts["calls"].items():
            assert sum(item["calls"] for item in counts["calls_by_size"] if item["function"] == name) == calls


@pytest.mark.thorough
def test_two_percent_more_are_found(tools: Tools, trace: Path, planted: dict[str, Path]) -> None:
    condition = ("--fail-if", "instructions>1.01")
    found = gate(tools, trace, planted["plain"], planted["slower"], *condition)
    assert found.returncode == 4 and b"--fail-if instructions>1.01: new is at 1.02" in found.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("threads", "events", "live", "step_ns"), [
    (8, 6_000, 300, 1_000),
    (2, 4_000, 2, 100),
    (30, 4_000, 40, 0),  # all at the same moment
    (300, 3_000, 20, 100_000),  # threads that begin and end
    (12, 2_000, 100, 30_000_000),  # each op later than the window is wide
])
def test_several_threads_count_the_same_each_time(tools: Tools, tmp_path: Path, threads: int, events: int, live: int, step_ns: int) -> None:
    """Which free each other's blocks. In the order of the kernel they differ by 1 %."""
    trace = tmp_path / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, str(events), str(live), str(threads), "1", str(step_ns)])
    runs = [counts_of(tools, trace, "glibc,jemalloc") for _ in range(3)]
    recorded = json.loads(run([tools.build / "heaptape", "stats", "--json", trace]).stdout)["functions"]
    for name in ("glibc", "jemalloc"):
        assert len({run[name]["allocator"]["instructions"] for run in runs}) == 1
        assert all(runs[0][name]["calls"][op] >= recorded[op]["calls"] > 0 for op in ("malloc", "free", "realloc"))


@pytest.fixture(scope="module")
def exchange(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6,000 calls of eight threads that free each other's blocks."""
    path = tmp_path_factory.mktemp("exchange") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "6000", "300", "8", "1", "1000"])
    return path


@pytest.mark.slow
def test_twenty_gates_of_twenty_while_the_machine_is_loaded(tools: Tools, trace: Path, exchange: Path, planted: dict[str, Path]) -> None:
    load = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        counted = {counts_of(tools, trace, f"toy={planted['plain']}")["toy"]["allocator"]["instructions"] for _ in range(20)}
        assert len(counted) == 1
        assert len({counts_of(tools, exchange, "glibc")["glibc"]["allocator"]["instructions"] for _ in range(20)}) == 1
        right = [gate(tools, trace, planted["plain"], planted["slower"], "--fail-if", "instructions>1.01").returncode for _ in range(20)]
        wrong = [gate(tools, trace, planted["plain"], planted["plain"], "--fail-if", "instructions>1.01").returncode for _ in range(20)]
    finally:
        for process in load:
            process.kill()
            process.wait(timeout=10)
    assert right == [4] * 20 and wrong == [0] * 20


@pytest.mark.thorough
def test_one_function_and_one_size_class(tools: Tools, trace: Path, planted: dict[str, Path], tmp_path: Path) -> None:
    """As `compare` says of the same results, which also shows where they differ."""
    conditions = {"instructions[free]>1.02": "holds", "instructions[malloc]>1.0001": "refuted", "instructions[:100]>1.0001": "holds"}
    words = [word for text in conditions for word in ("--fail-if", text)]
    done = gate(tools, trace, planted["plain"], planted["slower"], *words, "--json", "-o", str(tmp_path / "r.jsonl"))
    assert done.returncode == 4
    assert {item["condition"]: item["outcome"] for item in json.loads(done.stdout)["fail_if"]} == conditions
    compared = run_here("compare", tmp_path / "r.jsonl", "--baseline", "old", "--json", *words, cwd=tmp_path)
    (found,) = json.loads(compared.stdout)
    assert compared.returncode == 4 and {item["condition"]: item["outcome"] for item in found["fail_if"]} == conditions
    first, *_ = found["differences"]
    assert first["figure"] == "instructions" and first["of"].startswith("free, ") and first["value"] > first["base"]
    assert sum(item["base"] for item in found["differences"]) <= counts_of(tools, trace, f"toy={planted['plain']}")["toy"]["allocator"]["instructions"]
    shown = run_here("compare", tmp_path / "r.jsonl", "--baseline", "old", cwd=tmp_path).stdout
    assert "largest differences" in shown and "allocator  instructions  vs old" in shown
    # A trace without such calls decides nothing.
    never = gate(tools, trace, planted["plain"], planted["slower"], "--fail-if", "instructions[valloc]>1.01")
    assert never.returncode == 5 and b"undecided: new: old has none of these" in never.stderr


@pytest.mark.thorough
def test_misses_and_faults(tools: Tools, trace: Path, planted: dict[str, Path]) -> None:
    done = run([tools.replay_program, "-q", "--pass", "count", "--alloc", f"old={planted['plain']},new={planted['larger']}", "--baseline", "old",
                "--fail-if", "faults>1.5", "--fail-if", "mapping_calls<0.1", trace])
    assert done.returncode == 4 and b"--fail-if faults>1.5: new is at" in done.stderr and b"mapping_calls" not in done.stderr


@pytest.mark.parametrize(("more", "said"), [
    (["--pass", "memory", "--fail-if", "instructions>1"], b"expected --instructions, or --pass count"),
    (["--instructions", "--fail-if", "faults>1"], b"expected --pass count, without --instructions"),
    (["--pass", "count", "--fail-if", "time>1"], b"expected the time pass"),
    (["--instructions", "--fail-if", "instructions[munmap]>1"], b"expected malloc, calloc"),
    (["--instructions", "--fail-if", "instructions[malloc:x]>1"], b"expected a size in bytes"),
    (["--instructions", "--fail-if", "instructions[]>1"], b"expected malloc, calloc"),
    (["--fail-if", "rss_peak[malloc]>1"], b"expected brackets after instructions only"),
    (["--baseline-file", "x.json", "--baseline", "glibc"], b"expected one of them"),
    (["--baseline-file", "x.json", "--fail-if", "time>1"], b"times of another run say nothing"),
    (["--pass", "time", "--write-baseline", "x.json"], b"expected a pass with figures"),
])
def test_what_nothing_could_decide_is_refused(tools: Tools, trace: Path, more: list[str], said: bytes) -> None:
    done = run([tools.replay_program, "--alloc", "glibc,jemalloc", *more, trace])
    assert done.returncode == 2 and said in done.stderr


@pytest.fixture(scope="module")
def baseline(tools: Tools, trace: Path, planted: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("baseline") / "baseline.json"
    tools.succeed([tools.replay_program, "-q", "--pass", "memory", "--instructions", "--alloc", f"toy={planted['plain']}", "--rounds", "6",
                   "--write-baseline", path, trace])
    return path


def against(tools: Tools, trace: Path, baseline: Path, library: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
    return run([tools.replay_program, "-q", "--pass", "memory", "--instructions", "--alloc", f"toy={library}", "--rounds", "6", "--json",
                "--baseline-file", baseline, "--fail-if", "instructions>1.01", "--fail-if", "rss_peak>1.05", *more, trace])


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "status", "said"), [
    ("plain", 0, b""), ("slower", 4, b"instructions>1.01: toy is at 1.02"), ("larger", 4, b"rss_peak>1.05: toy is at")])
def test_a_baseline_file_takes_the_place_of_another_library(
        tools: Tools, trace: Path, planted: dict[str, Path], baseline: Path, name: str, status: int, said: bytes) -> None:
    done = against(tools, trace, baseline, planted[name])
    assert done.returncode == status, done.stderr
    assert said in done.stderr and str(baseline).encode() in (done.stderr or str(baseline).encode())
    figures = {item["figure"]: item for item in json.loads(done.stdout)["against_file"]["figures"]}
    assert 0.99 < figures["rss_end"]["ratio"] if name == "larger" else 0.95 < figures["rss_end"]["ratio"] < 1.05


def changed(baseline: Path, folder: Path, *keys: str | int, value: object) -> Path:
    whole = json.loads(baseline.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path = folder / "changed.json"
    path.write_text(json.dumps(whole))
    return path


@pytest.mark.parametrize(("keys", "value", "said"), [
    (("trace", "sha256"), "0" * 64, "trace.sha256: expected "),
    (("machine", "page_bytes"), 1, "machine.page_bytes: expected "),
    (("machine", "libc"), "glibc 1.0", 'found "glibc 1.0"'),
    (("settings", "touch"), "all", 'settings.touch: expected "recorded", as this run has, found "all"'),
    (("version",), 9, "version: expected 1, found 9"),
    (("format",), "other", 'format: expected "heaptape-baseline", found "other"'),
    (("allocators",), {"a": {}, "b": {}}, "allocators: expected an entry toy, or a single one, found neither"),
    (("allocators", "toy", "rss_peak_bytes"), [536576, "x"], 'allocators.toy.rss_peak_bytes: expected numbers of bytes, found "x"'),
    (("allocators", "toy", "rss_peak_bytes"), [536576, 536576, 12], "rss_peak_bytes: expected rounds within 4 times of their median, 536576, found 12"),
    (("allocators", "toy", "counts", "allocator", "instructions"), -5, "toy.counts.allocator.instructions: expected a count, found -5"),
    (("allocators", "toy", "counts", "calls_by_size", 0, "calls"), -1, "toy.counts.calls_by_size.0.calls: expected a count, found -1"),
    (("allocators", "toy", "rss_end_bytes"), 1, "allocators.toy.rss_end_bytes: expected a list, found 1"),
    (("allocators", "toy", "counts"), None, "--fail-if instructions>1.01: expected figures for it, found none"),
])
def test_a_baseline_file_of_something_else_is_refused(
        tools: Tools, trace: Path, planted: dict[str, Path], baseline: Path, tmp_path: Path, keys: tuple[str | int, ...], value: object, said: str) -> None:
    path = changed(baseline, tmp_path, *keys, value=value)
    done = against(tools, trace, path, planted["plain"])
    assert done.returncode == 3 and done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"heaptape replay: {path}: ") and said in line


@pytest.mark.parametrize("name", ["t.bin", "link", "results.jsonl"])
def test_a_baseline_is_not_written_over_the_trace_or_the_results(tools: Tools, trace: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copy(trace, tmp_path / "t.bin"))
    (tmp_path / "link").symlink_to(copy)
    done = run([tools.replay_program, "--pass", "count", "--instructions", "--alloc", "glibc", "-o", "results.jsonl", "--write-baseline", tmp_path / name
                if name != "results.jsonl" else name, copy], cwd=tmp_path)
    assert done.returncode == 2 and b"--write-baseline: " in done.stderr and b"would be overwritten" in done.stderr
    assert copy.read_bytes() == trace.read_bytes() and not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(("name", "why"), [("no/such/b.json", "No such file or directory"), (".", "Is a directory"), ("", "No such file or directory")])
def test_a_baseline_that_cannot_be_written_is_refused_at_once(tools: Tools, tmp_path: Path, name: str, why: str) -> None:
    """Before the trace is read: there is none."""
    done = run([tools.replay_program, "--pass", "memory", "--alloc", "glibc", "--write-baseline", name, "absent.bin"], cwd=tmp_path)
    assert (done.returncode, done.stderr.decode()) == (1, f"heaptape replay: {name}: cannot be created: {why}\n")
    assert not list(tmp_path.iterdir())


def test_a_baseline_on_a_full_device(tools: Tools, trace: Path) -> None:
    """One line: the comparison has been printed."""
    done = run([tools.replay_program, "-q", "--pass", "memory", "--rounds", "2", "--alloc", "glibc", "--write-baseline", "/dev/full", trace])
    assert (done.returncode, done.stderr) == (1, b"heaptape replay: /dev/full: cannot be written: No space left on device\n")
    assert done.stdout


def test_a_damaged_baseline_file(tools: Tools, trace: Path, planted: dict[str, Path], baseline: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(baseline.read_bytes()[:300])
    done = against(tools, trace, path, planted["plain"])
    assert done.returncode == 3 and f"{path}: offset ".encode() in done.stderr and done.stderr.count(b"\n") == 1
    done = against(tools, trace, tmp_path / "none.json", planted["plain"])
    assert done.returncode == 3 and b"none.json: cannot be read: No such file or directory" in done.stderr
