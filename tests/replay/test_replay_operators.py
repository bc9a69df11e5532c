# SPDX-License-Identifier: Apache-2.0
"""operator new and delete, with the block's size or without, are replayed by the function that a program would call: the
allocator's own, or libstdc++'s."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dump_lines import events_of
from quick_tier import quick
from tool_runner import Tools, run

SOURCE = """
#include <cstddef>
#include <new>
struct small { char bytes[40]; };
struct alignas(64) aligned { char bytes[128]; };
int main() {
    small *one[64] = {};
    aligned *other[64] = {};
    for (int i = 0; i < 4000; i++) {
        int k = i * 31 % 64;
        delete one[k];
        one[k] = new small;
        delete other[k];
        other[k] = new aligned;
        // Of another size than it has, which some allocators forgive and the replay must not repeat.
        if (i % 100 == 0) ::operator delete(::operator new(24), std::size_t(20));
    }
}
"""
LARGE = """
#include <new>
int main() {
    void *blocks[30];
    for (void *&block : blocks) block = operator new(100 << 20);
    for (void *block : blocks) operator delete(block);
}
"""
# An allocator in whose process no library can be loaded.
LONELY = """
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
void *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    return (*block = __libc_memalign(alignment, size)) ? 0 : 12;
}
void *dlopen(const char *name, int flags) { return NULL; }
"""
SIZED = r"operator delete(\[\])?\(void\*, unsigned long\)"
ALIGNED = r"operator delete(\[\])?\(void\*, unsigned long, std::align_val_t\)"
# What serves them: of a trace recorded under mimalloc, and under glibc, where aligned ones are calls of malloc's family.
OWN = [("mimalloc", "tcmalloc", [SIZED, ALIGNED]), ("mimalloc", "jemalloc", ["sdallocx", ALIGNED]),
       ("glibc", "tcmalloc", [SIZED]), ("glibc", "jemalloc", [SIZED]),
       ("glibc", "glibc", [r"operator new\(unsigned long\) \[.*libstdc\+\+", SIZED + r" \[.*libstdc\+\+"])]


@pytest.fixture(scope="module")
def traces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Recorded under an allocator whose operators are its own, and under glibc, which has none."""
    folder, made = tmp_path_factory.mktemp("sized"), {}
    library = run(["gcc", "-print-file-name=libmimalloc.so"]).stdout.decode().strip()
    if not Path(library).is_absolute():
        pytest.skip("mimalloc is not installed")
    (folder / "sized.cpp").write_text(SOURCE)
    for name, libraries in (("mimalloc", ["-Wl,--no-as-needed", library]), ("glibc", [])):
        tools.succeed(["g++", "-std=c++17", "-O0", "-fsized-deallocation", "-Wno-sized-deallocation", "-o", folder / name,
                       folder / "sized.cpp", *libraries])
        [log] = tools.preload([folder / name], folder / f"{name}.logs").logs
        made[name] = tools.convert(log, folder / f"{name}.bin")
    return made


@pytest.mark.thorough
def test_they_are_recorded_as_what_they_are(tools: Tools, traces: dict[str, Path]) -> None:
    # libstdc++'s aligned operators call one function or the other, as its version has it.
    for name, aligned in (("mimalloc", {"delete_sized_aligned"}), ("glibc", {"aligned_alloc", "posix_memalign"})):
        ops = tools.info(traces[name])["ops"]
        assert ops["delete_sized"] == 4_000 - 64 + 40 and ops["new"] == 4_000 + 40
        assert sum(ops.get(function, 0) for function in aligned) in (4_000 - 64, 4_000)
        assert sum(event.function == "delete_sized" and event.size == 20 for event in events_of(tools, traces[name])) == 40


# Quick: one whose operators are its own.
@pytest.mark.parametrize("allocator", quick(["tcmalloc"], ["glibc", "jemalloc", "mimalloc", "tcmalloc"]))
def test_blocks_stay_whole(tools: Tools, traces: dict[str, Path], allocator: str) -> None:
    if not (tools.build / f"replay-{allocator}").exists():
        pytest.skip(f"replay-{allocator} was not built")
    if not tools.is_sound(allocator):
        pytest.skip(f"blocks of this {allocator} overlap")
    for trace in traces.values():
        done = run([tools.build / "replay", "-q", "--pass", "verify", "--threads", "1", "--alloc", allocator, trace])
        assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "allocator", "wanted"), OWN)
def test_the_functions_of_a_program_serve_them(tools: Tools, traces: dict[str, Path], tmp_path: Path, name: str,
                                               allocator: str, wanted: list[str]) -> None:
    if not shutil.which("callgrind_annotate") or not (tools.build / f"replay-{allocator}").exists():
        pytest.skip(f"valgrind or replay-{allocator} is not there")
    counts = tmp_path / "callgrind"
    wrap = f"valgrind -q --tool=callgrind --callgrind-out-file={counts}.$HEAPTAPE_ALLOCATOR.%p --toggle-collect=ht_engine_run"
    tools.succeed([tools.build / "replay", "-q", "--rounds", "1", "--pass", "time", "--alloc", allocator, "--wrap", wrap,
                   traces[name]], timeout=300)
    called = b"".join(run(["callgrind_annotate", "--threshold=100", path]).stdout
                      for path in tmp_path.glob(f"callgrind.{allocator}.*")).decode()
    assert all(re.search(function, called) for function in wanted), called


@pytest.mark.parametrize("allocator", quick(["glibc", "jemalloc"], ["glibc", "jemalloc", "mimalloc", "tcmalloc"]))
def test_a_new_without_memory_fails_as_malloc_does(tools: Tools, tmp_path: Path, allocator: str) -> None:
    """It throws, or aborts, in a program; no exception goes through the replay."""
    if not (tools.build / f"replay-{allocator}").exists():
        pytest.skip(f"replay-{allocator} was not built")
    (tmp_path / "large.cpp").write_text(LARGE)
    tools.succeed(["g++", "-O0", "-o", tmp_path / "large", tmp_path / "large.cpp"])
    [log] = tools.preload([tmp_path / "large"], tmp_path / "logs").logs
    trace = tools.convert(log, tmp_path / "t.bin")
    done = run([tools.build / "replay", "-q", "--alloc", allocator, "--rounds", "1", "--pass", "time", "--touch", "none",
                "--wrap", f"prlimit --as={2 << 30}", trace])
    assert re.search(rb"\d+ calls? failed, but not when recorded; the first: operator new of 104857600 bytes", done.stderr)


@pytest.mark.thorough
def test_without_libstdcxx_they_are_malloc_and_free(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "lonely.c").write_text(LONELY)
    tools.succeed(["gcc", "-shared", "-fPIC", "-o", tmp_path / "lonely.so", tmp_path / "lonely.c"])
    done = run([tools.build / "replay", "-q", "--json", "--rounds", "1", "--pass", "time",
                "--alloc", f"glibc,lonely={tmp_path / 'lonely.so'}", traces["glibc"]])
    found = [w["message"] for w in json.loads(done.stdout)["warnings"] if w["kind"] == "no_cxx_library"]
    assert done.returncode == 0, done.stderr
    assert found == ["libstdc++.so.6 cannot be loaded: operator new and delete of lonely are replayed as malloc and free"]
