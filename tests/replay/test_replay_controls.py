# SPDX-License-Identifier: Apache-2.0
"""Calls that control malloc: recorded, kept in the trace, and obeyed in replay by the allocator that they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quick_tier import quick
from tool_runner import Tools, is_forked, run

# A second thread trims and allocates nothing; a child begins with what its parent has set.
SOURCE = """
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { BLOCKS = 20000, SIZE = 1000 };
static void *blocks[BLOCKS];
static void fill_and_free(void) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS - 1; i++) free(blocks[i]);
}
static void *trim(void *unused) { printf("%d", malloc_trim(0)); return unused; }
int main(void) {
#ifdef CONTROLS
    printf("%d", mallopt(M_ARENA_MAX, 1));
    printf("%d", mallopt(M_TOP_PAD, 4096));
    printf("%d", mallopt(-77, 1));
    fill_and_free();
    pthread_t thread;
    pthread_create(&thread, NULL, trim, NULL);
    pthread_join(thread, NULL);
    free(blocks[BLOCKS - 1]);
    printf("%d", malloc_trim(1 << 20));
    struct mallinfo2 info = mallinfo2();
    printf("%d", info.arena > 0);
    fflush(stdout);
#else
    fill_and_free();
#endif
    pid_t child = fork();
    if (child == 0) { free(malloc(1)); _exit(0); }
    waitpid(child, NULL, 0);
    return 0;
}
"""
COUNTS = {"mallopt(M_ARENA_MAX)": 1, "mallopt(M_TOP_PAD)": 1, "mallopt(-77)": 1, "malloc_trim": 2, "mallinfo2": 1}


def record_controls(tools: Tools, folder: Path, name: str, flag: str) -> list[Path]:
    """Logs of the program, and of its child."""
    (folder / "program.c").write_text(SOURCE)
    tools.succeed(["gcc", "-O0", "-pthread", flag, "-o", folder / name, folder / "program.c"])
    recording = tools.record([folder / name], folder / f"{name}.logs")
    assert recording.outcome.stdout == run([folder / name]).stdout
    return sorted(recording.logs, key=is_forked)


@pytest.fixture(scope="module")
def traces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of the program that controls and of the same without; the first one's child."""
    folder, made = tmp_path_factory.mktemp("controls"), {}
    for name, flag in (("controls", "-DCONTROLS"), ("silent", "-DSILENT")):
        parent, child = record_controls(tools, folder, name, flag)
        made[name] = tools.convert(parent, folder / f"{name}.bin")
        made[f"{name} child"] = tools.convert(child, folder / f"{name}-child.bin")
    return made


def test_each_is_counted_by_name(tools: Tools, traces: dict[str, Path]) -> None:
    controls, silent = (tools.info(traces[name]) for name in ("controls", "silent"))
    assert controls["control_calls"] == COUNTS and "control_calls" not in silent
    assert controls["records"] == controls["events"] + sum(COUNTS.values())
    lines = tools.dump(traces["controls"])
    assert [line for line in lines if "mallopt" in line] == ["t0 mallopt(M_ARENA_MAX, 1)", "t0 mallopt(M_TOP_PAD, 4096)", "t0 mallopt(-77, 1)"]
    assert [line for line in lines if "malloc_trim" in line] == ["t1 malloc_trim(0)", "t0 malloc_trim(1048576)"]


def test_a_trace_without_any_needs_no_new_reader(traces: dict[str, Path]) -> None:
    assert traces["silent"].read_bytes()[12:16] == bytes(4)
    assert traces["controls"].read_bytes()[12:16] == b"\2\0\0\0"


def test_settings_hold_in_a_child_and_in_a_slice(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    set_before = ["t0 mallopt(M_ARENA_MAX, 1)", "t0 mallopt(M_TOP_PAD, 4096)"]
    assert [line for line in tools.dump(traces["controls child"]) if "mallopt" in line] == set_before
    tools.succeed([tools.heaptape, "slice", traces["controls"], "-o", tmp_path / "s.bin", "--from-event", "1000"])
    lines = tools.dump(tmp_path / "s.bin")
    first = next(number for number, line in enumerate(lines) if "inherit" not in line)
    assert lines[first:first + 2] == set_before and sum("mallopt" in line for line in lines) == 2


def test_the_allocator_that_they_belong_to_obeys(tools: Tools, traces: dict[str, Path]) -> None:
    """The last block holds the heap's end until it goes: only a trim gives the rest back."""
    done = run([tools.replay_program, "-q", "--json", "--rounds", "1", "--pass", "memory", "--alloc", "glibc,jemalloc", traces["controls"]])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    glibc, jemalloc = (item["rss_end_bytes"]["median"] for item in found["allocators"])
    assert glibc < 2e6 < jemalloc
    obeyed = {item["name"]: item["obeyed_by"] for item in found["control_calls"] if item["obeyed_by"]}
    assert obeyed == {name: ["glibc"] for name in COUNTS if name not in ("mallopt(-77)", "mallinfo2")}


def test_the_answer_says_who_obeys(tools: Tools, traces: dict[str, Path]) -> None:
    told = tools.succeed([tools.replay_program, "-q", "--rounds", "1", "--pass", "memory", "--alloc", "glibc,jemalloc", traces["controls"]]).stdout
    assert b"the program calls mallopt(M_ARENA_MAX) once, mallopt(M_TOP_PAD) once, malloc_trim 2 times: glibc alone obeys\n" in told


@pytest.mark.thorough
def test_verification_and_other_passes_run_over_them(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    done = tools.succeed([tools.replay_program, "-q", "--verify", "--rounds", "1", "--alloc", "glibc,jemalloc", traces["controls"]])
    assert b"violation" not in done.stdout
    for more in ("--threads=1", "--scale=2", "--threads=1 --scale=2"):
        tools.succeed([tools.replay_program, "-q", "--rounds", "1", "--alloc", "glibc", *more.split(), traces["controls"], "-o", tmp_path / "r.jsonl"])


OTHERS = """
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
int mallctl(const char *, void *, size_t *, void *, size_t);
int mallctlnametomib(const char *, size_t *, size_t *);
int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);
void mi_collect(bool force);
void MallocExtension_ReleaseFreeMemory(void);
enum { BLOCKS = 20000, SIZE = 1000 };
static void *blocks[BLOCKS];
int main(void) {
#ifdef jemalloc
    ssize_t never = -1;
    if (mallctl("arenas.dirty_decay_ms", NULL, NULL, &never, sizeof never)) return 1;
    if (mallctl("arena.0.dirty_decay_ms", NULL, NULL, &never, sizeof never)) return 2;
#endif
    for (int i = 0; i < BLOCKS; i++) blocks[i] = memset(malloc(SIZE), 1, SIZE);
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
#ifdef jemalloc
    size_t mib[3], words = 3;
    if (mallctlnametomib("arena.0.purge", mib, &words)) return 3;
    mib[1] = 4096;
    if (mallctlbymib(mib, words, NULL, NULL, NULL, 0)) return 4;
#elif defined mimalloc
    mi_collect(true);
#else
    MallocExtension_ReleaseFreeMemory();
#endif
    return 0;
}
"""
OTHERS_CALLS = {"jemalloc": {"mallctl(arenas.dirty_decay_ms)": 1, "mallctl(arena.N.dirty_decay_ms)": 1, "mallctl(arena.N.purge)": 1},
                "mimalloc": {"mi_collect": 1}, "tcmalloc": {"MallocExtension_ReleaseFreeMemory": 1}}


@pytest.mark.parametrize("allocator", quick(["jemalloc"], ["jemalloc", "mimalloc", "tcmalloc"]))
def test_other_allocators_obey_their_own(tools: Tools, tmp_path: Path, allocator: str) -> None:
    if not (Path("/usr/lib/x86_64-linux-gnu") / f"lib{allocator}.so").exists():
        pytest.skip(f"{allocator} is not installed to link with")
    (tmp_path / "program.c").write_text(OTHERS)
    tools.succeed(["gcc", "-O0", f"-D{allocator}", "-o", tmp_path / "program", tmp_path / "program.c", f"-l{allocator}"])
    recording = tools.record([tmp_path / "program"], tmp_path / "logs")
    assert recording.outcome.status == 0, recording.outcome.stderr
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    assert tools.info(trace)["control_calls"] == OTHERS_CALLS[allocator]
    done = run([tools.replay_program, "-q", "--json", "--rounds", "1", "--pass", "memory", "--alloc", f"{allocator},glibc", trace])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(item["obeyed_by"] == [allocator] for item in found["control_calls"])
    assert found["allocators"][0]["rss_end_bytes"]["median"] < found["allocators"][0]["rss_peak_bytes"]["median"] / 2


@pytest.mark.thorough
def test_those_of_a_linked_in_allocator(tools: Tools, tmp_path: Path) -> None:
    """They are hooked; mallctlbymib takes too many arguments."""
    library = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.a")
    if not library.exists():
        pytest.skip("jemalloc is not installed to link in")
    (tmp_path / "program.c").write_text(OTHERS)
    tools.succeed(["gcc", "-O0", "-Djemalloc", "-o", tmp_path / "program", tmp_path / "program.c", library, "-lpthread", "-lm", "-ldl", "-lstdc++"])
    recording = tools.record([tmp_path / "program"], tmp_path / "logs")
    assert recording.outcome.status == 0 and b"functions of jemalloc" in recording.outcome.stderr
    found = tools.info(tools.convert(recording.logs[0], tmp_path / "t.bin"))["control_calls"]
    assert found == {"mallctl(arenas.dirty_decay_ms)": 1, "mallctl(arena.N.dirty_decay_ms)": 1}


ASKS = """
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
void mi_collect(bool force);
int main(void) {
    free(malloc(7));
    mi_collect(true);
    puts(mallctl ? "jemalloc" : "no jemalloc");
    return 0;
}
"""


@pytest.mark.thorough
def test_no_allocator_seems_to_be_there(tools: Tools, tmp_path: Path) -> None:
    """A program that calls one allocator's functions, and asks by a weak symbol whether another one is there."""
    if not Path("/usr/lib/x86_64-linux-gnu/libmimalloc.so").exists():
        pytest.skip("mimalloc is not installed to link with")
    (tmp_path / "program.c").write_text(ASKS)
    tools.succeed(["gcc", "-O0", "-o", tmp_path / "program", tmp_path / "program.c", "-lmimalloc"])
    assert tools.record([tmp_path / "program"], tmp_path / "logs").outcome.stdout == run([tmp_path / "program"]).stdout == b"no jemalloc\n"
