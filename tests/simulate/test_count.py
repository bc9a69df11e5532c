# SPDX-License-Identifier: Apache-2.0
"""heaptape count: exact counts, each where it belongs, whatever the program does."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tool_runner import Argument, Tools, run

MISSES = ("l1d_misses", "l2_misses", "l1i_misses", "dtlb_misses", "stlb_misses", "faults")


@pytest.fixture(scope="module", autouse=True)
def simulation(tools: Tools) -> None:
    if not (tools.build / "valgrind" / "heaptape-amd64-linux").exists():
        pytest.skip("the simulation was not built: it takes the package valgrind, on x86-64")


def counted(tools: Tools, folder: Path, *words: Argument, status: int = 0,
            **environment: str) -> list[dict[str, Any]]:
    output = folder / "counts.json"
    done = run([tools.heaptape, "count", "-o", output, *words], env=environment)
    assert done.returncode == status, done.stderr.decode()
    return json.loads(output.read_text())["processes"]


def test_counts_repeat_and_add_up(tools: Tools, tmp_path: Path) -> None:
    mapped = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=32768"}
    first, second = (counted(tools, tmp_path, "--", tools.target("placement"), "stride", "1", **mapped) for _ in range(2))
    assert len(first) == 1
    for process in (first[0], second[0]):
        del process["pid"], process["parent_pid"]
    assert first == second
    [process] = first
    parts = [process[name] for name in ("program", "allocator", "loader")]
    assert sum(part["instructions"] for part in parts) == process["instructions"]
    assert all(part[key] <= part["accesses"] for part in parts for key in MISSES if key not in ("l1i_misses", "faults"))
    # 64 blocks of 60 KiB are read 200 times; the allocator has its own work, and all its faults are first touches.
    assert process["calls"]["malloc"] >= 64
    assert process["program"]["accesses"] > 64 * 200
    assert 64 <= process["program"]["faults"] + process["allocator"]["faults"] < 500
    # Each block is a mapping; besides, the heap begins.
    assert 64 <= process["allocator"]["mapping_calls"] <= 68
    assert process["program"]["mapping_calls"] == process["loader"]["mapping_calls"] == 0


BRANCHES = r"""
#include <stdlib.h>
#define BRANCH(bit) __asm__ volatile("test %0, %0\n jz 1f\n nop\n1:" :: "r"(bit) : "cc")
void *malloc(size_t bytes) {
    static unsigned long state = 1, pattern;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        BRANCH(RANDOM ? state >> 63 : ++pattern % 3 == 0);
    }
    return NULL;
}
int main(void) {
    for (int i = 0; i < 50; i++) if (malloc(1000)) return 1;
    return 0;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("random", "least", "most"), [(1, 0.47, 0.53), (0, 0.0, 0.05)])
def test_branches_that_nobody_can_predict(tools: Tools, tmp_path: Path, random: int, least: float, most: float) -> None:
    """50,000 of them, within calls of malloc."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    program = tmp_path / "program"
    subprocess.run(["gcc", "-O0", "-fno-builtin", f"-DRANDOM={random}", "-x", "c", "-", "-o", program], input=BRANCHES, text=True, check=True, timeout=60)
    [process] = counted(tools, tmp_path, "--", program)
    assert process["allocator"]["branches"] >= 50_000
    assert least <= process["allocator"]["branch_misses"] / 50_000 <= most
    assert process["program"]["branches"] >= 50 and process["program"]["branch_misses"] < 500


@pytest.mark.thorough
def test_time_and_usage_are_the_same_in_each_run(tools: Tools) -> None:
    first, second = (run([tools.heaptape, "count", "-q", "-i", "--", tools.target("clocks")]) for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout and first.stdout.split()[0] == b"1700000000"
    assert run([tools.heaptape, "count", "-q", "-i", "--real-clock", "--", tools.target("clocks")]).stdout != first.stdout


@pytest.mark.thorough
def test_waits_end_and_take_their_time(tools: Tools) -> None:
    """Until a time of the virtual clock, which the kernel does not know, too."""
    first, second = (run([tools.heaptape, "count", "-q", "-i", "--", tools.target("waits")], timeout=60) for _ in range(2))
    assert first.returncode == 0, first.stdout
    assert first.stdout == second.stdout and set(first.stdout.split()) == {b"10"}


@pytest.mark.thorough
def test_the_allocator_is_the_preloaded_one(tools: Tools, tmp_path: Path) -> None:
    """The null allocator's malloc takes some ten instructions, glibc's some hundred."""
    words = ["-i", "--", tools.target("placement"), "list", "1"]
    [glibc] = counted(tools, tmp_path, *words)
    [null] = counted(tools, tmp_path, *words, LD_PRELOAD=str(tools.build / "libheaptape_null.so"))
    assert glibc["calls"] == null["calls"]
    assert null["allocator"]["instructions"] < glibc["allocator"]["instructions"] / 3
    assert abs(glibc["program"]["instructions"] - null["program"]["instructions"]) < 10_000


def test_forked_children_and_threads_have_their_own(tools: Tools, tmp_path: Path) -> None:
    processes = counted(tools, tmp_path, "-i", "--", tools.target("fork_children"), status=5)
    for process in processes:
        parts = [process[name]["instructions"] for name in ("program", "allocator", "loader")]
        assert all(0 <= part <= process["instructions"] for part in parts)
        assert sum(parts) == process["instructions"]
        # That of the program itself began with the start of a program.
        assert process["forked"] == any(other["pid"] == process["parent_pid"] for other in processes)


@pytest.mark.thorough
def test_a_program_that_a_forked_child_starts_is_none(tools: Tools, tmp_path: Path) -> None:
    processes = counted(tools, tmp_path, "-i", "--", "/bin/sh", "-c", "(exit 0); /bin/true; :")
    assert sorted((process["command"].split()[0], process["forked"]) for process in processes) == [
        ("/bin/sh", False), ("/bin/sh", True), ("/bin/true", False)]


@pytest.mark.parametrize("words,status", [
    (["/no/such/program"], 127),
    (["/etc/passwd"], 126),
    (["/bin/sh", "-c", "exit 7"], 7),
    (["/bin/sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
])
def test_the_status_is_the_programs(tools: Tools, words: list[str], status: int) -> None:
    assert run([tools.heaptape, "count", "-i", "-q", "--", *words]).returncode == status


def test_what_it_cannot_do_is_one_line(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "count", "--", "/bin/true"], env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr == b"heaptape count: valgrind is not installed: apt-get install valgrind\n"
    output = tmp_path / "no" / "such" / "folder"
    done = run([tools.heaptape, "count", "-i", "-q", "-o", output, "--", "/bin/echo", "it ran"])
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.decode() == f"heaptape count: {output}: cannot create: No such file or directory\n"
    assert run([tools.heaptape, "count"]).returncode == 2
    done = run([tools.heaptape, "count", "-i", "--", "/no/such/program"])
    assert done.stderr.count(b"\n") == 1 and b"/no/such/program" in done.stderr


@pytest.mark.thorough
def test_nothing_is_left_in_the_temporary_folder(tools: Tools, tmp_path: Path) -> None:
    run([tools.heaptape, "count", "-i", "-q", "--", "/bin/true"], env={"TMPDIR": str(tmp_path)})
    assert os.listdir(tmp_path) == []


@pytest.mark.thorough
def test_an_allocator_that_aborts_under_valgrind_is_refused_in_a_line(tools: Tools) -> None:
    """scudo reserves more addresses than valgrind has. The others are counted."""
    listed = json.loads(tools.succeed([tools.replay_program, "--list", "--json"]).stdout)
    scudo = next((one for one in listed if one["name"].startswith("scudo") and one["built"]), None)
    if not scudo:
        pytest.skip("no scudo here")
    trace = Path(__file__).parents[2] / "traces" / "sqlite3-small.bin"
    done = run([tools.replay_program, "--json", "--pass", "count", "--alloc", f"glibc,{scudo['name']}", trace])
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1 and line.startswith(f"heaptape replay: {scudo['name']}: --pass count: It aborts under valgrind: it reserves 180 GB")
    counts = json.loads(done.stdout)["counts"]
    assert counts["glibc"]["time"]["instructions"] > 0 and scudo["name"] not in counts


@pytest.mark.thorough
@pytest.mark.parametrize("more", [(), ("--decoded-memory", "1")])
def test_what_a_process_inherited_is_no_call_of_its_own(tools: Tools, tmp_path: Path, more: tuple[str, ...]) -> None:
    trace, part = Path(__file__).parents[2] / "traces" / "sqlite3-small.bin", tmp_path / "part.bin"
    tools.succeed([tools.heaptape, "slice", "-q", trace, "-o", part, "--from-time", "540us"])
    about = tools.info(part)
    assert about["inherited_objects"] > 100
    done = tools.succeed([tools.replay_program, "-q", "--json", "--pass", "count", "--instructions", "--alloc", "glibc", *more, part])
    calls = json.loads(done.stdout)["counts"]["glibc"]["calls"]
    assert sum(calls.values()) == about["events"]
