# SPDX-License-Identifier: Apache-2.0
"""record --accesses, and replay --pass count --splice: the program's own misses under another allocator, against the real
ones (heaptape count)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from heaptape.results.program_time import program_times
from heaptape.results.reader import read_results
from shared_folder import shared_folder
from tool_runner import Tools, run

MODES = ("list", "stride")


@pytest.fixture(scope="module", autouse=True)
def simulation(tools: Tools) -> None:
    if not (tools.build / "valgrind" / "heaptape-amd64-linux").exists():
        pytest.skip("the simulation was not built: it takes the package valgrind, on x86-64")


@pytest.fixture(scope="module")
def folder(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MODE.acc and MODE.bin: calls and accesses of tests/targets/placement.c, and the trace of them."""

    def make(into: Path) -> None:
        for mode in MODES:
            tools.succeed([tools.heaptape, "record", "-q", "--accesses", "-o", into, "--", tools.target("placement"), mode, "4"])
            next(into.glob("malloc-footprint.*.acc")).rename(into / f"{mode}.acc")
            tools.convert(into / f"{mode}.acc", into / f"{mode}.bin")

    return shared_folder(tmp_path_factory, "accesses", make)


def spliced(tools: Tools, folder: Path, mode: str, *allocators: str) -> dict[str, Any]:
    done = tools.succeed([tools.replay_program, "--pass", "count", "--json", "--alloc", ",".join(allocators), "--splice",
                          folder / f"{mode}.acc", folder / f"{mode}.bin"])
    return json.loads(done.stdout)["counts"]


def real(tools: Tools, into: Path, mode: str, allocator: str, rounds: int = 4) -> dict[str, Any]:
    listed = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", allocator]).stdout)
    tools.succeed([tools.heaptape, "count", "-q", "-o", into / "real.json", "--", tools.target("placement"), mode, str(rounds)],
                  env={"LD_PRELOAD": listed[0]["path"]} if allocator != "glibc" else {})
    return json.loads((into / "real.json").read_text())["processes"][0]


@pytest.mark.thorough
def test_the_calls_are_those_that_the_recorder_sees(tools: Tools, folder: Path, tmp_path: Path) -> None:
    recorded = tools.record([tools.target("placement"), "list", "4"], tmp_path)
    trace = tools.convert(recorded.logs[0], tmp_path / "recorded.bin")
    assert tools.dump(folder / "list.bin") == tools.dump(trace)


@pytest.mark.thorough
def test_a_file_stays_small_where_each_access_is_of_another_block(tools: Tools, folder: Path, tmp_path: Path) -> None:
    accesses = real(tools, tmp_path, "list", "glibc")["program"]["accesses"]
    assert (folder / "list.acc").stat().st_size <= 3.2 * accesses


@pytest.mark.thorough
def test_a_shuffled_list_costs_what_it_really_costs(tools: Tools, folder: Path, tmp_path: Path) -> None:
    """The nodes under glibc are strewn as they were freed; under mimalloc they share pages."""
    counts = spliced(tools, folder, "list", "glibc", "mimalloc")
    for allocator, predicted in counts.items():
        truth = real(tools, tmp_path, "list", allocator)
        for part, key in (("program", "l1d_misses"), ("program", "l2_misses"), ("program", "dtlb_misses"),
                          ("allocator", "l2_misses")):
            assert predicted[part][key] == pytest.approx(truth[part][key], rel=0.05), (allocator, part, key)
        assert predicted["allocator"]["instructions"] == pytest.approx(truth["allocator"]["instructions"], rel=0.02)
    assert counts["mimalloc"]["program"]["dtlb_misses"] < counts["glibc"]["program"]["dtlb_misses"] / 10


@pytest.mark.thorough
def test_blocks_a_power_of_two_apart_collide(tools: Tools, folder: Path, tmp_path: Path) -> None:
    """Blocks of 60 KiB are 60 KiB apart under glibc, and 64 under mimalloc: all in one set of the TLB."""
    counts = spliced(tools, folder, "stride", "glibc", "mimalloc")
    reads = 4 * 200 * 64
    assert counts["glibc"]["program"]["dtlb_misses"] < reads / 50
    assert counts["mimalloc"]["program"]["dtlb_misses"] == pytest.approx(
        real(tools, tmp_path, "stride", "mimalloc")["program"]["dtlb_misses"], rel=0.05)
    assert counts["mimalloc"]["program"]["dtlb_misses"] > reads * 0.9
    # Whose misses they are.
    blocks = {block["size_low"]: block for block in counts["mimalloc"]["blocks"]}
    assert blocks[57344]["accesses"] >= reads


@pytest.mark.thorough
def test_reads_beyond_a_block_are_its_own_and_null_is_freed(tools: Tools, tmp_path: Path) -> None:
    """String functions read whole vectors. What lies there under another allocator must not be read at the old address."""
    tools.succeed([tools.heaptape, "record", "-q", "--accesses", "-o", tmp_path, "--", tools.target("placement"), "beyond", "1"])
    next(tmp_path.glob("*.acc")).rename(tmp_path / "beyond.acc")
    tools.convert(tmp_path / "beyond.acc", tmp_path / "beyond.bin")
    predicted, truth = spliced(tools, tmp_path, "beyond", "mimalloc")["mimalloc"], real(tools, tmp_path, "beyond", "mimalloc", 1)
    assert predicted["program"]["faults"] == pytest.approx(truth["program"]["faults"], abs=50)
    assert predicted["calls"]["free"] == truth["calls"]["free"] == 40000
    assert predicted["allocator"]["instructions"] == pytest.approx(truth["allocator"]["instructions"], rel=0.02)


@pytest.mark.thorough
def test_a_program_goes_on_behind_an_instruction_that_valgrind_does_not_know(tools: Tools, tmp_path: Path) -> None:
    done = tools.succeed([tools.heaptape, "record", "-q", "--accesses", "-o", tmp_path, "--", tools.target("unknown_instruction")])
    assert done.stdout == b"went on\n"
    trace = tools.convert(next(tmp_path.glob("malloc-footprint.*.acc")), tmp_path / "trace.bin")
    assert any("malloc" in line and "100" in line for line in tools.dump(trace))


@pytest.mark.thorough
def test_the_librarys_operators_cost_what_they_cost(tools: Tools, tmp_path: Path) -> None:
    """Under glibc a program's new is libstdc++'s, around malloc."""
    command = [tools.target("cpp_new"), tmp_path / "counts", "20"]
    run([tools.heaptape, "record", "-q", "--accesses", "-o", tmp_path, "--", *command])  # it ends with a status of its own
    next(tmp_path.glob("*.acc")).rename(tmp_path / "new.acc")
    tools.convert(tmp_path / "new.acc", tmp_path / "new.bin")
    predicted = spliced(tools, tmp_path, "new", "glibc")["glibc"]
    run([tools.heaptape, "count", "-q", "-i", "-o", tmp_path / "real.json", "--", *command])
    (truth,) = json.loads((tmp_path / "real.json").read_text())["processes"]
    assert predicted["allocator"]["instructions"] == pytest.approx(truth["allocator"]["instructions"], rel=0.02)


def test_several_threads_go_on_in_the_recorded_order(tools: Tools, tmp_path: Path) -> None:
    """Each call is held against the recorded one, so that another order would be refused. It repeats."""
    command = [tools.target("threads_exchange"), tmp_path / "counts", "3000", "4", "1"]
    tools.succeed([tools.heaptape, "record", "-q", "--accesses", "-o", tmp_path, "--", *command])
    next(tmp_path.glob("*.acc")).rename(tmp_path / "threads.acc")
    tools.convert(tmp_path / "threads.acc", tmp_path / "threads.bin")
    info = json.loads(tools.succeed([tools.heaptape, "info", "--json", tmp_path / "threads.bin"]).stdout)
    assert info["threads"] == 5
    first, again = (spliced(tools, tmp_path, "threads", "mimalloc", "glibc") for _ in range(2))
    for allocator in first:
        assert all(first[allocator][part] == again[allocator][part] for part in ("allocator", "program"))
    assert sum(first["glibc"]["calls"].values()) == info["events"]
    assert first["glibc"]["program"]["instructions"] == first["mimalloc"]["program"]["instructions"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc"])
def test_other_allocators_too(tools: Tools, folder: Path, tmp_path: Path, allocator: str) -> None:
    predicted, truth = spliced(tools, folder, "list", allocator)[allocator], real(tools, tmp_path, "list", allocator)
    assert predicted["program"]["l2_misses"] == pytest.approx(truth["program"]["l2_misses"], rel=0.05)
    assert predicted["program"]["dtlb_misses"] == pytest.approx(truth["program"]["dtlb_misses"], rel=0.15)


def sampled(tools: Tools, into: Path, *words: str) -> dict[str, Any]:
    """Bursts nearer to one another than `record --sampled` has them, so that a short program has enough."""
    tools.succeed(["valgrind", "--tool=heaptape", "-q", "--sampled=yes", "--between=65536", f"--record={into}/sampled.acc",
                   tools.target("placement"), *words], env={"VALGRIND_LIB": str(tools.build / "valgrind")})
    tools.convert(into / "sampled.acc", into / "sampled.bin")
    return spliced(tools, into, "sampled", "glibc", "mimalloc")


@pytest.mark.thorough
def test_near_misses_are_extrapolated_from_bursts(tools: Tools, tmp_path: Path) -> None:
    counts, reads = sampled(tools, tmp_path, "stride", "60"), 60 * 200 * 64
    assert counts["mimalloc"]["program"]["dtlb_misses"] == pytest.approx(reads, rel=0.05)
    assert counts["glibc"]["program"]["dtlb_misses"] < reads / 50
    for allocator in counts.values():
        groups = allocator["sampled"]["groups"]
        assert 8 <= len(groups) == allocator["sampled"]["bursts"] and sum(group["accesses"] for group in groups) >= 8 * 65536
        assert allocator["program"]["accesses"] > 2 * reads


@pytest.mark.thorough
def test_a_sample_costs_what_the_whole_costs(tools: Tools, tmp_path: Path) -> None:
    """Far misses are those of the whole run; near ones are extrapolated."""
    for allocator, predicted in sampled(tools, tmp_path, "list", "20").items():
        truth = real(tools, tmp_path, "list", allocator, 20)
        for part, key, near in (("program", "l2_misses", 0.05), ("allocator", "l2_misses", 0.05), ("program", "l1d_misses", 0.2),
                                ("program", "dtlb_misses", 0.2)):
            assert predicted[part][key] == pytest.approx(truth[part][key], rel=near), (allocator, part, key)
        assert predicted["allocator"]["instructions"] == pytest.approx(truth["allocator"]["instructions"], rel=0.02)


@pytest.mark.thorough
def test_a_short_program_is_not_sampled(tools: Tools, tmp_path: Path) -> None:
    tools.succeed([tools.heaptape, "record", "-q", "--accesses", "--sampled", "-o", tmp_path, "--", tools.target("placement"), "stride", "1"])
    next(tmp_path.glob("*.acc")).rename(tmp_path / "short.acc")
    tools.convert(tmp_path / "short.acc", tmp_path / "short.bin")
    assert_refused(tools, tmp_path / "short.acc", tmp_path / "short.bin", "expected 8 bursts or more, found 0")
    assert run([tools.heaptape, "record", "--sampled", "--", "true"]).returncode == 2


def test_a_later_version_is_refused(tools: Tools, folder: Path, tmp_path: Path) -> None:
    later, whole = tmp_path / "later.acc", (folder / "stride.acc").read_bytes()
    later.write_bytes(whole[:8] + (3).to_bytes(4, "little") * 2 + whole[16:])
    assert_refused(tools, later, folder / "stride.bin", "accesses of version 1 or 2, found 3")
    done = run([tools.heaptape, "convert", later, "-o", tmp_path / "out.bin"])
    assert done.returncode == 3 and b"offset 12: expected accesses of version 1 or 2, found 3" in done.stderr


def cut(data: bytes) -> bytes:
    return data[:len(data) // 2]


def damaged(data: bytes) -> bytes:
    return data[:2000] + b"\xff" * 16 + data[2016:]  # more than any varint has


@pytest.mark.parametrize("change,expected", [
    (cut, "file cut short"), (damaged, "offset "), (lambda data: b"", "expected"), (lambda data: b"\0" * 4096, "expected")])
def test_bad_accesses_are_one_line(tools: Tools, folder: Path, tmp_path: Path, change, expected: str) -> None:
    bad, out = tmp_path / "bad.acc", tmp_path / "out.bin"
    bad.write_bytes(change((folder / "stride.acc").read_bytes()))
    done = run([tools.heaptape, "convert", bad, "-o", out])
    assert done.returncode == 3 and not out.exists()
    assert expected in done.stderr.decode() and str(bad) in done.stderr.decode() and done.stderr.count(b"\n") == 1
    assert_refused(tools, bad, folder / "stride.bin", "" if expected == "expected" else expected)


def assert_refused(tools: Tools, accesses: Path, trace: Path, expected: str) -> None:
    """In one line, before anything is simulated."""
    done = run([tools.replay_program, "-q", "--pass", "count", "--alloc", "glibc", "--splice", accesses, trace])
    assert done.returncode == 3 and not done.stdout and done.stderr.count(b"\n") == 1
    assert done.stderr.decode().startswith(f"heaptape replay: {accesses}: ") and expected in done.stderr.decode()


def test_a_missing_file_is_one_line(tools: Tools, folder: Path, tmp_path: Path) -> None:
    assert_refused(tools, tmp_path / "none.acc", folder / "stride.bin", "cannot open: No such file or directory")
    assert_refused(tools, folder / "stride.bin", folder / "stride.bin", "offset 0: expected accesses")


def test_another_trace_is_refused(tools: Tools, folder: Path) -> None:
    assert_refused(tools, folder / "list.acc", folder / "stride.bin", "allocations, found")


@pytest.mark.thorough
def test_results_are_kept_for_compare(tools: Tools, folder: Path, tmp_path: Path) -> None:
    """The same ratio and interval as in the table that replay prints."""
    results = tmp_path / "r.jsonl"
    tools.succeed([tools.replay_program, "-q", "--pass", "count", "--alloc", "glibc,mimalloc", "--splice", folder / "stride.acc",
                   "-o", results, folder / "stride.bin"])
    _, other = program_times(read_results(results), "glibc")
    kept = json.loads(results.read_text().splitlines()[1])["counts"]["program_time"]
    assert (other.ratio.ratio, other.ratio.ci_low, other.ratio.ci_high) == pytest.approx(
        (kept["ratio"], kept["ratio_low"], kept["ratio_high"]), rel=1e-6)
    assert other.blocks and other.share("program", "TLB") > 0


@pytest.mark.parametrize("options", [["--splice", "x.acc"], ["--pass", "count", "--wrap", "env"], ["--pass", "count", "--fail-if", "time>1"]])
def test_what_does_not_go_together(tools: Tools, folder: Path, options: list[str]) -> None:
    assert run([tools.replay_program, *options, folder / "stride.bin"]).returncode == 2
