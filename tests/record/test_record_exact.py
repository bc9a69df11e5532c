# SPDX-License-Identifier: Apache-2.0
"""What was recorded is what the program did: call for call, and count for count."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

import pytest

from safety_checks import compare, compare_mode
from test_record_reach import compile_c
from tool_runner import Tools, as_without_sites, between_markers, by_birth, read_tallies, tallies_in

ALLOCATORS = ["", "_jemalloc", "_tcmalloc", "_mimalloc"]


def assert_same_lines(printed: list[str], dumped: list[str]) -> None:
    """Fails with the first line that differs: a diff of a million lines is useless."""
    for number, (want, got) in enumerate(zip_longest(printed, dumped), 1):
        assert want == got, f"line {number} of {len(printed)}: made {want!r}, dumped {got!r}"


@pytest.mark.parametrize(("calls", "allocator"), [
    (100_000, ""), *(pytest.param(calls, allocator, marks=pytest.mark.thorough)
                     for calls, allocator in zip((1_000_000, 200_000, 200_000, 200_000), ALLOCATORS, strict=True))])
def test_every_call_is_dumped(tools: Tools, tmp_path: Path, calls: int, allocator: str) -> None:
    """A program that prints every call it makes, and the dump of its recording, line for line."""
    printed = tmp_path / "printed"
    recording = tools.preload([tools.target(f"calls_printed{allocator}"), printed, str(calls)],
                              tmp_path / "logs")
    assert recording.outcome.status == 0, recording.outcome.stderr
    assert recording.outcome.stdout == recording.outcome.stderr == b""
    assert len(recording.logs) == 1
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    lines = tools.dump(tmp_path / "t.bin")
    made = printed.read_text().splitlines()
    assert len(made) >= calls
    assert_same_lines(made, list(by_birth(between_markers(lines))))
    assert len(lines) == info["events"]


def test_counts_of_record_info_and_dump_agree(tools: Tools, tmp_path: Path) -> None:
    command = [tools.target("calls_printed"), tmp_path / "printed", "50000", "7"]
    recording = tools.record(command, tmp_path / "logs")
    reported = re.search(rb"recorded ([\d,]+) calls", recording.outcome.stderr)
    assert reported, recording.outcome.stderr
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    assert int(reported[1].replace(b",", b"")) == info["events"]
    dumped: dict[str, int] = {}
    for line in tools.dump(tmp_path / "t.bin"):
        name = line.split()[1].partition("(")[0]
        dumped[name] = dumped.get(name, 0) + 1
    assert dumped == {name: count for name, count in info["ops"].items() if count}


def test_no_address_in_dump_with_time(tools: Tools, tmp_path: Path) -> None:
    """With times a line has event, time and thread before the same call; times never go back."""
    recording = tools.preload([tools.target("calls_printed"), tmp_path / "printed", "2000"],
                              tmp_path / "logs")
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    timed = as_without_sites(tools.succeed([tools.heaptape, "dump", trace]).stdout.decode()).splitlines()
    words = [line.split(maxsplit=2) for line in timed]
    assert [int(w[0]) for w in words] == list(range(len(words)))
    times = [int(w[1]) for w in words]
    assert times == sorted(times) and times[-1] > times[0]
    assert [w[2] for w in words] == tools.dump(trace)


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_cpp_new_and_delete(tools: Tools, tmp_path: Path, allocator: str) -> None:
    """Every form of new is recorded once, whether the library builds it on malloc or not."""
    counts = tmp_path / "counts"
    recording = tools.preload([tools.target(f"cpp_new{allocator}"), counts], tmp_path / "logs")
    assert recording.outcome.status == 16, recording.outcome.stderr
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    # A size was asked for as often as counted, neither lost nor seen twice.
    assert tallies_in(tools.dump(tmp_path / "t.bin")) == read_tallies(counts)
    assert info["end_live_objects"] < 100
    # Aligned forms of libstdc++ are recorded as the function that they get memory from.
    forms = {"new": 3_011, "new[]": 3_000, "delete": 2_011, "delete[]": 2_000, "delete_sized": 1_000, "delete[]_sized": 1_000}
    if not allocator:
        assert {name: info["ops"].get(name) for name in forms} == forms


def test_allocator_with_some_forms_of_new(tools: Tools, tmp_path: Path) -> None:
    """The plain forms are the allocator's own, the others libstdc++'s and built on its functions."""
    counts = tmp_path / "counts"
    both = f"{tools.shim} {tools.targets / 'partial_new.so'}"
    recording = tools.preload([tools.target("cpp_new"), counts], tmp_path / "logs",
                              env={"LD_PRELOAD": both})
    assert recording.outcome.status == 16, recording.outcome.stderr
    tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    assert tallies_in(tools.dump(tmp_path / "t.bin")) == read_tallies(counts)


MIXES = """
#include <cstdlib>
#include <new>
int main() {
    for (int i = 0; i < 10; i++) {
        free(operator new(7041));
        operator delete(malloc(7042));
        operator delete(nullptr);
        operator delete(operator new(0), std::size_t(0));
    }
}
"""
REPLACES = """
#include <cstdlib>
#include <new>
static char pool[1 << 20];
static std::size_t used;
void *operator new(std::size_t size) { return pool + (used += (size + 15) / 16 * 16); }
void operator delete(void *) noexcept {}
int main() {
    for (int i = 0; i < 10; i++) {
        char *volatile many = new char[7043];
        if (many < pool || many >= pool + sizeof pool) return 1;
        delete[] many;
    }
}
"""


def test_new_of_libstdcxx_is_malloc(tools: Tools, tmp_path: Path) -> None:
    """A block may be made as one and freed as the other."""
    program = compile_c(tmp_path, MIXES, "-O0", "-fsized-deallocation", compiler="g++")
    [log] = tools.preload([program], tmp_path / "logs").logs
    tools.convert_clean(log, tmp_path / "t.bin")
    words = [line.split(maxsplit=1)[1].partition(" ")[0] for line in tools.dump(tmp_path / "t.bin")]
    counts = {word: words.count(word) for word in words}
    assert [counts.get(word, 0) for word in ("new(7041)", "malloc(7042)", "new(0)")] == [10, 10, 10], counts


@pytest.mark.thorough
def test_program_that_replaces_new(tools: Tools, tmp_path: Path) -> None:
    """The library's other forms lead to the program's own, which the recorder does not see."""
    program = compile_c(tmp_path, REPLACES, "-O0", compiler="g++")
    recording = tools.preload([program], tmp_path / "logs")
    assert recording.outcome.status == 0
    tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    assert "7043" not in " ".join(tools.dump(tmp_path / "t.bin"))


THROWS_FIRST = """
#include <new>
#include <cstddef>
#include <cstdint>
int main(void) {
    int failed = 0;
    volatile size_t huge = SIZE_MAX / 4;
    for (int i = 0; i < 10; i++) {
        try { operator delete(operator new(huge)); } catch (const std::bad_alloc &) { failed++; }
        try { operator delete[](operator new[](huge)); } catch (const std::bad_alloc &) { failed++; }
        failed += !operator new(huge, std::nothrow);
        operator delete(operator new(7040));
    }
    return failed;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("allocator", ["stdc++", "jemalloc", "tcmalloc_minimal"])
def test_new_that_throws_at_the_first_call(tools: Tools, tmp_path: Path, allocator: str) -> None:
    """Failed calls are recorded from the first on, and what succeeds later once each."""
    program = compile_c(tmp_path, THROWS_FIRST, "-Wl,--no-as-needed", f"-l{allocator}", compiler="g++")
    recording = tools.preload([program], tmp_path / "logs")
    assert recording.outcome.status == 30, recording.outcome.stderr
    tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    lines = tools.dump(tmp_path / "t.bin")
    assert sum("failed" in line for line in lines) == 30
    assert sum("(7040)" in line for line in lines) == 10


# ---- The edges of the malloc family, and calls as early and as late as there are.


@pytest.mark.parametrize("tunables", ["", "glibc.malloc.check=0", "glibc.malloc.tcache_count=0"])
def test_results_and_errno_are_as_without_the_recorder(tools: Tools, tmp_path: Path,
                                                       tunables: str) -> None:
    """Sizes of nothing and of everything, overflows, bad alignments, realloc to 0; usable sizes
    and mallinfo2; errno left alone by what succeeds and set by what fails."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("edge_calls"), counts],
                       env={"GLIBC_TUNABLES": tunables})
    outcome = compared.recording.outcome
    assert outcome.status == 120
    lines = outcome.stdout.decode().splitlines()
    assert "malloc(huge): NULL, errno 12" in lines and "malloc: a block, errno 4242" in lines
    assert "posix_memalign(3): 22, errno 4242" in lines
    compared.assert_whole(processes=1)


def test_earliest_calls(tools: Tools, tmp_path: Path) -> None:
    """An indirect function's resolver, preinit_array, a constructor."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("early_calls"), counts])
    assert compared.recording.outcome.status == 121
    assert compared.counted[7690] == 1
    compared.assert_whole(processes=1)
    assert tools.info(tmp_path / f"{compared.recording.logs[0].stem}.bin")["threads"] == 1


# ---- Programs whose handlers answer faults: the signals of a fault are never blocked by the recorder.


@pytest.mark.parametrize("depth", ["0", "1000", "2000", "3000", "3500"])
def test_start_on_a_stack_that_is_opened_by_faults(tools: Tools, tmp_path: Path, depth: str) -> None:
    """The first call of the process is made on a stack whose pages a handler opens."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed_first", depth, status=70)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_samples_on_stacks_that_are_opened_by_faults(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed", status=71)
    compared.assert_whole(processes=1)


def test_handler_of_a_fault_that_allocates(tools: Tools, tmp_path: Path) -> None:
    """How often the stack is opened depends on how much of it each call takes."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed", "allocates", status=71,
                            same_counts=False)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_program_that_notes_what_is_written(tools: Tools, tmp_path: Path) -> None:
    """All private memory is made read-only again and again, the recorder's with it; not what the
    kernel itself writes for libc."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "written", status=72,
                            env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
    compared.assert_whole(processes=1)
