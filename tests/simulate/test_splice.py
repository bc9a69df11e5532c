"""record --accesses, and replay --pass count --splice: the program's own misses under another allocator, against the real
ones (heaptape count)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shared_folder import shared_folder
from tool_runner import Tools, run

LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.2.0"}
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


def real(tools: Tools, into: Path, mode: str, allocator: str) -> dict[str, Any]:
    library = LIBRARIES.get(allocator, "")
    tools.succeed([tools.heaptape, "count", "-q", "-o", into / "real.json", "--", tools.target("placement"), mode, "4"],
                  env={"LD_PRELOAD": library} if library else {})
    return json.loads((into / "real.json").read_text())["processes"][0]


def test_the_calls_are_those_that_the_recorder_sees(tools: Tools, folder: Path, tmp_path: Path) -> None:
    recorded = tools.record([tools.target("placement"), "list", "4"], tmp_path)
    trace = tools.convert(recorded.logs[0], tmp_path / "recorded.bin")
    assert tools.dump(folder / "list.bin") == tools.dump(trace)


def test_a_file_stays_small_where_each_access_is_of_another_block(tools: Tools, folder: Path, tmp_path: Path) -> None:
    accesses = real(tools, tmp_path, "list", "glibc")["program"]["accesses"]
    assert (folder / "list.acc").stat().st_size <= 3 * accesses


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
@pytest.mark.parametrize("allocator", ["jemalloc", "tcmalloc"])
def test_other_allocators_too(tools: Tools, folder: Path, tmp_path: Path, allocator: str) -> None:
    predicted, truth = spliced(tools, folder, "list", allocator)[allocator], real(tools, tmp_path, "list", allocator)
    assert predicted["program"]["l2_misses"] == pytest.approx(truth["program"]["l2_misses"], rel=0.05)
    assert predicted["program"]["dtlb_misses"] == pytest.approx(truth["program"]["dtlb_misses"], rel=0.15)


def cut(data: bytes) -> bytes:
    return data[:len(data) // 2]


def damaged(data: bytes) -> bytes:
    return data[:2000] + b"\xff" * 8 + data[2008:]


@pytest.mark.parametrize("change,expected", [
    (cut, "file cut short"), (damaged, "offset "), (lambda data: b"", "expected"), (lambda data: b"\0" * 4096, "expected")])
def test_bad_accesses_are_one_line(tools: Tools, folder: Path, tmp_path: Path, change, expected: str) -> None:
    bad, out = tmp_path / "bad.acc", tmp_path / "out.bin"
    bad.write_bytes(change((folder / "stride.acc").read_bytes()))
    done = run([tools.heaptape, "convert", bad, "-o", out])
    assert done.returncode == 3 and not out.exists()
    assert expected in done.stderr.decode() and str(bad) in done.stderr.decode() and done.stderr.count(b"\n") == 1
    done = run([tools.replay_program, "-q", "--pass", "count", "--alloc", "glibc", "--splice", bad, folder / "stride.bin"])
    assert done.returncode == 1 and str(bad) in done.stderr.decode()


def test_another_trace_is_refused(tools: Tools, folder: Path) -> None:
    done = run([tools.replay_program, "-q", "--pass", "count", "--alloc", "glibc", "--splice", folder / "list.acc",
                folder / "stride.bin"])
    assert done.returncode == 1 and b"expected" in done.stderr and b"the replay made" in done.stderr


@pytest.mark.parametrize("options", [["--splice", "x.acc"], ["--pass", "count", "-o", "x"],
                                     ["--pass", "count", "--wrap", "env"], ["--pass", "count", "--fail-if", "time>1"]])
def test_what_does_not_go_together(tools: Tools, folder: Path, options: list[str]) -> None:
    assert run([tools.replay_program, *options, folder / "stride.bin"]).returncode == 2
