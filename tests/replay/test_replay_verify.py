# SPDX-License-Identifier: Apache-2.0
"""`heaptape replay --verify`: allocators that are wrong on purpose are caught, each by what is wrong with it,
and those that are right pass."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from quick_tier import quick

import replay_traces
from tool_runner import Tools, run

REAL = ("glibc", "jemalloc", "mimalloc", "tcmalloc")

# Fault, its name in results, and what the line about it must say.
FAULTS = [
    ("overlap", "overlap", "begins 16 bytes into the live block"),
    ("misaligned", "alignment", "found it at a multiple of 16 only"),
    ("misaligned_malloc", "alignment", "at a multiple of 16, found it at a multiple of 8 only"),
    ("dirty", "zeros", "found 0x01 at byte"),
    ("realloc_tail", "not_kept", "not kept by realloc"),
    ("short_usable", "usable_size", "by malloc_usable_size"),
    ("long_usable", "changed", "which malloc_usable_size gives beyond the"),
    ("scribble", "changed", "changed meanwhile"),
    ("fails", "failed", "found NULL"),
]


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("verify"))


@pytest.fixture(scope="module")
def threads_trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("verify"), threads=4)


def verify(tools: Tools, trace: Path, fault: str, results: Path,
           *more: str) -> tuple[subprocess.CompletedProcess[bytes], dict]:
    """The faulty allocator verified: what was said, and the row of results."""
    done = run([tools.replay_program, "--alloc", f"faulty={tools.target('faulty_malloc.so')}",
                "--pass", "verify", trace, "-o", results, *more], env={"FAULTY_MALLOC": fault})
    row, = replay_traces.rows(results)
    return done, row


def real_allocators(tools: Tools) -> str:
    listed = tools.succeed([tools.replay_program, "--list"]).stdout.decode().splitlines()
    return ",".join(name for name in (line.split()[0] for line in listed) if name in REAL and tools.is_sound(name))


@pytest.fixture(scope="module")
def caught(tools: Tools, threads_trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[subprocess.CompletedProcess[bytes], dict]]:
    """What is said of a fault with options, verified once."""
    @functools.cache
    def of(fault_and_options: str) -> tuple[subprocess.CompletedProcess[bytes], dict]:
        fault, *options = fault_and_options.split()
        return verify(tools, threads_trace, fault, tmp_path_factory.mktemp("caught") / "r.jsonl", *options)
    return of


# The torture of one thread takes half the time, or less.
@pytest.mark.parametrize("case, kind, words", quick(
    ["dirty --threads 1"],
    [(fault + options, kind, words) for fault, kind, words in FAULTS for options in ("", " --threads 1", " --decoded-memory 1")]))
def test_each_fault_is_caught(caught: Callable[[str], tuple[subprocess.CompletedProcess[bytes], dict]], case: str, kind: str, words: str) -> None:
    done, row = caught(case)
    assert done.returncode == 1 and done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert words in lines[0] and lines[0].startswith("heaptape replay: faulty: verify: event "), lines
    assert row["pass"] == "verify"
    # A block may be scribbled on while another thread's realloc moves it.
    told_of_trace = [text for text in row["violations_told"] if not text.startswith("torture, ")]
    others = case == "scribble"
    assert case.split()[0] != "dirty" or told_of_trace != row["violations_told"]  # by the torture as well
    assert kind in row["violation_kinds"] and (others or all(words in text for text in told_of_trace))
    assert row["violations"] == sum(row["violation_kinds"].values()) > 0
    # The fault may crash the torture, of which a line says so.
    assert row["failures"] > 0 and ("violations" in row["problem"] or f"verify: {row['problem']}" in done.stderr.decode())
    assert lines[0] == f"heaptape replay: faulty: verify: {row['violations_told'][0]}"
    # Five are printed, the rest is counted. The torture's come after the trace's: the first of each kind in each part.
    assert [line for line in lines if " verify: event " in line] == [f"heaptape replay: faulty: verify: {text}" for text in told_of_trace[:5]]
    assert any(line.endswith(f" {row['violations']:,} violations") for line in lines) == (row["violations"] > min(5, len(row["violations_told"])))
    assert lines[-1].startswith("faulty: not exercised: ")


def test_the_event_is_the_dumps(tools: Tools, threads_trace: Path,
                                caught: Callable[[str], tuple[subprocess.CompletedProcess[bytes], dict]]) -> None:
    """The printed number is that of the event in the trace."""
    _, row = caught("dirty --threads 1")
    assert row["violations"] > 2
    dump = tools.dump(threads_trace)  # a line an event
    for text in (text for text in row["violations_told"] if text.startswith("event ")):
        number, size = int(text.split()[1]), int(text.split(": expected ")[1].split()[0])
        count, each = dump[number].split("calloc(")[1].split(")")[0].split(",")
        assert int(count) * int(each) == size, (text, dump[number])


@pytest.mark.thorough
def test_a_race_needs_threads(tools: Tools, threads_trace: Path, tmp_path: Path) -> None:
    """A fault that only threads bring out is found by a replay with threads, and by no other."""
    done, row = verify(tools, threads_trace, "race", tmp_path / "r.jsonl")
    assert done.returncode == 1 and row["violation_kinds"]["overlap"] > 0
    done, row = verify(tools, threads_trace, "race", tmp_path / "one.jsonl", "--threads", "1")
    assert not row["violation_kinds"].get("overlap")  # that it does not use memory again shows without threads, too


@pytest.mark.thorough
def test_without_fault_it_passes(tools: Tools, trace: Path, tmp_path: Path) -> None:
    done, row = verify(tools, trace, "none", tmp_path / "r.jsonl")
    assert done.returncode == 0
    assert row["violations"] == 0 and row["problem"] is None and row["failures"] == 0
    against, found, tortured, left_out = done.stderr.decode().splitlines()
    assert "no violation, but against the standards: no EINVAL for " in against and against.endswith(" by posix_memalign")
    assert found.startswith("faulty: no fault found in the 40,000 calls of this trace: ")
    assert re.findall(r"[\d,]+ blocks of (\w+)", found) == ["malloc", "calloc", "realloc", "posix_memalign"]
    assert ", on 1 thread; blocks checked " in found
    assert tortured.startswith("faulty: nor in a torture of ")
    assert "malloc, calloc, realloc, posix_memalign, aligned_alloc, memalign, malloc_usable_size; up to " in tortured
    assert left_out.startswith("faulty: not exercised: valloc, pvalloc, reallocarray, operator new, operator new[], aligned operator new (it has none)")
    torture = row["torture"]
    # Each part has so much CPU time: a slow machine does not get through all of the one that goes step by step.
    assert set(torture["parts_left_out"]) <= {"threads stopped anywhere"} and torture["largest_alignment"] == 2 << 20 and torture["threads_at_once"] > 100
    assert torture["cross_thread_frees"] > 1000 and torture["reallocs_moved"] > 1000 < torture["reallocs_in_place"]
    assert f" {row['not_exercised']}" in left_out and row["verified_blocks"]["posix_memalign"] > 0


def test_what_was_not_exercised_depends_on_the_options(tools: Tools, tmp_path: Path) -> None:
    lines = ["3", "", "m 1 100", "c 2 3 700", "f 1", "f 2"]
    trace = replay_traces.imported(tools, tmp_path / "few.bin", "\n".join(lines) + "\n", "malloc_wrap")
    done = tools.succeed([tools.replay_program, "--alloc", "glibc", "--pass", "verify", "--threads", "1", trace])
    found, tortured, left_out = done.stderr.decode().splitlines()
    assert ": 1 block of malloc, 1 block of calloc, up to 2,100 bytes, alignments up to 16, on 1 thread; " in found
    assert " at once" not in tortured and ", fork, want of memory, " in tortured
    assert ", several threads (--threads 1), " in left_out and "races" not in left_out


# Faults of an allocator that is right otherwise, and what must be said of each: most do not show in a trace.
WRONG = [
    ("edge", "usable_size", "expected a usable size of at least"),
    ("usable_page", None, "killed by"),
    ("memalign_64k", "alignment", "at a multiple of 131072, found it at a multiple of 65536 only"),
    ("valloc", "alignment", "(valloc) at a multiple of 4096"),
    ("calloc_kept", "zeros", "bytes of zeros (calloc)"),
    ("product_32", "given", "expected NULL for"),
    ("size_32", None, "torture, calls that must fail: "),
    ("realloc_aligned", "not_kept", "not kept by realloc"),
    ("realloc_failed", None, "torture, calls that must fail: "),
    ("count_16", "overlap", "begins 0 bytes into the live block"),
    ("lead", "not_used_again", "were freed and made again, memory grew by"),
    ("one_in_16", "not_used_again", "were freed and made again, memory grew by"),
    ("foreign", "not_used_again", "were freed and made again, memory grew by"),
    ("ended", None, "torture, threads"),
    ("race_kept", None, "torture, threads"),
    ("race_realloc", None, "torture, "),
    ("shared", None, "a forked process was killed by"),
    ("no_memory", "ended", "torture, want of memory: a forked process was killed by"),
    ("deadlock", None, "hung without CPU time for 10 s"),
    ("circle", None, "killed by SIG"),
]
OF_THREADS = ("foreign", "ended", "race_kept", "race_realloc")


@pytest.mark.parametrize("fault, kind, words", quick(["one_in_16"], WRONG))
def test_the_torture_finds(tools: Tools, tmp_path: Path, fault: str, kind: str | None, words: str) -> None:
    """With a trace of five calls."""
    trace = replay_traces.imported(tools, tmp_path / "few.bin", "3\n\nm 1 100\nc 2 3 700\nf 1\n", "malloc_wrap")
    threads = [] if fault in OF_THREADS else ["--threads", "1"]
    for attempt in range(3 if threads == [] else 1):  # on a busy machine a race may not come about
        results = tmp_path / f"{attempt}.jsonl"
        done = run([tools.replay_program, "--alloc", f"wrong={tools.target('wrong_malloc.so')}", "--pass", "verify", "-v", trace,
                    "-o", results, *threads], env={"WRONG_MALLOC": fault})
        if done.returncode:
            break
    row, = replay_traces.rows(results)
    assert done.returncode == 1 and words in done.stderr.decode(), done.stderr
    assert kind is None or kind in row["violation_kinds"]


@pytest.mark.thorough
def test_an_allocator_without_that_fault_passes(tools: Tools, trace: Path) -> None:
    done = tools.succeed([tools.replay_program, "--alloc", f"wrong={tools.target('wrong_malloc.so')}", "--pass", "verify", trace])
    assert b"against the standards" in done.stderr or b"nor in a torture of" in done.stderr


def test_a_crash_keeps_what_was_found(tools: Tools, trace: Path, tmp_path: Path) -> None:
    done, row = verify(tools, trace, "abort", tmp_path / "r.jsonl")
    assert done.returncode == 1
    assert "SIGABRT" in row["problem"] and b"verify: killed by" in done.stderr


# Quick: those but glibc, which passes above, and tcmalloc, which does in test_replay_operators.py.
@pytest.mark.parametrize("names, options", quick(
    ["jemalloc,mimalloc"], [("jemalloc,mimalloc", "--threads 1"), ("all", ""), ("all", "--threads 1 --decoded-memory 1")]))
def test_real_allocators_pass(tools: Tools, threads_trace: Path, names: str, options: str) -> None:
    tried = [name for name in real_allocators(tools).split(",") if names == "all" or name in names.split(",")]
    if not tried:
        pytest.skip("none of them is installed")
    done = tools.succeed([tools.replay_program, "--alloc", ",".join(tried), "--pass", "verify", threads_trace, *options.split()])
    assert done.stderr.count(b": no fault found in the 40,000 calls of this trace: ") == len(tried)


@pytest.mark.thorough
def test_verify_before_the_rounds(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """--verify adds one run of each allocator and leaves the others as they are."""
    results = tmp_path / "r.jsonl"
    done = tools.succeed([tools.replay_program, "--alloc", "glibc", "--verify", "--rounds", "1",
                          trace, "-o", results])
    rows = replay_traces.rows(results)
    assert rows[0]["pass"] == "verify" and rows[0]["violations"] == 0
    assert {row["pass"] for row in rows[1:]} == {"time", "memory"}
    assert all(row["violations"] is None for row in rows[1:])
    assert b"glibc" in done.stdout


@pytest.mark.thorough
def test_alignments(tools: Tools, tmp_path: Path) -> None:
    """mimalloc 2.0.9 misaligns blocks for alignments of 256 to 1024, which is known of it; others are right."""
    trace = replay_traces.aligned(tools, tmp_path)
    results = tmp_path / "r.jsonl"
    tools.succeed([tools.replay_program, "--alloc", real_allocators(tools), "--pass", "verify", trace,
                   "-o", results])
    for row in replay_traces.rows(results):
        allocator = row["allocator"]
        assert row["violations"] == 0, row["violations_told"]
        if (allocator["name"], allocator["version"]) == ("mimalloc", "2.0.9"):
            assert row["known_failures"] > 0
            assert row["known_faults"] == ["Some blocks of alignments from 256 to 1024 are aligned to less."]
        else:
            assert row["known_failures"] == 0 and row["known_faults"] == []


@pytest.mark.thorough
def test_large_blocks_are_checked_at_their_edges(tools: Tools, tmp_path: Path) -> None:
    """Blocks of many pages, among them calloc's, through realloc in both directions."""
    lines, sizes = ["9", ""], [70_000, 1 << 20, 5 << 20, 65_536, 65_535, 100]
    for first in sizes * 3:
        for second in sizes:
            lines += [f"c 1 1 {first}", f"r 1 1 {second}", f"m 2 {second}", f"r 2 2 {first}",
                      "f 1", "f 2"]
    trace = replay_traces.imported(tools, tmp_path / "large.bin", "\n".join(lines) + "\n",
                                   "malloc_wrap")
    tools.succeed([tools.replay_program, "--alloc", real_allocators(tools), "--pass", "verify",
                   trace])
    done, row = verify(tools, trace, "realloc_tail", tmp_path / "r.jsonl")
    assert done.returncode == 1 and row["violation_kinds"].keys() == {"not_kept"}
