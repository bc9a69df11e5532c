# SPDX-License-Identifier: Apache-2.0
"""Libraries by path that do not serve every call: one line says which function is missing, or which library serves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Tools, run

FUNCTIONS = ["malloc", "calloc", "realloc", "free", "posix_memalign"]
# Hands out the next bytes; each function can be left out.
SOURCE = """
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
static _Alignas(4096) char memory[64 << 20];
static size_t used;
static void *take(size_t size, size_t alignment) {
    used = (used + alignment - 1) / alignment * alignment + size;
    return used <= sizeof memory ? memory + used - size : NULL;
}
#ifndef WITHOUT_malloc
void *malloc(size_t size) { return take(size, 16); }
#endif
#ifndef WITHOUT_calloc
void *calloc(size_t count, size_t size) { return take(count * size, 16); }
#endif
#ifndef WITHOUT_realloc
void *realloc(void *block, size_t size) {
    char *moved = take(size, 16);
    size_t most = memory + used - (char *)block;
    if (block && moved) memcpy(moved, block, size < most ? size : most);
    return moved;
}
#endif
#ifndef WITHOUT_free
void free(void *block) { (void)block; }
#endif
#ifndef WITHOUT_posix_memalign
int posix_memalign(void **block, size_t alignment, size_t size) { return (*block = take(size, alignment)) ? 0 : 12; }
#endif
"""


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("trace"), events=4000)


@pytest.fixture
def built(tools: Tools, tmp_path: Path) -> Callable[..., Path]:
    def build(name: str, *more: str | Path) -> Path:
        source, library = tmp_path / "bytes.c", tmp_path / f"{name}.so"
        source.write_text(SOURCE)
        tools.succeed(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", source, "-o", library, *more])
        return library

    return build


def test_a_library_that_lacks_a_function_is_refused(tools: Tools, trace: Path, built: Callable[..., Path]) -> None:
    specs = [f"{name}={built(name, f'-DWITHOUT_{name}')}" for name in FUNCTIONS]
    done = run([tools.replay_program, "--alloc", ",".join(specs), "--rounds", "1", "-q", trace])
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[:len(FUNCTIONS)] == [
        f"heaptape replay: {name}: it has no {name}: calls would go to glibc's" for name in FUNCTIONS]


def test_a_function_that_a_needed_library_has_is_not_its_own(tools: Tools, trace: Path,
                                                             built: Callable[..., Path]) -> None:
    whole = built("whole")
    part = built("part", "-DWITHOUT_posix_memalign", whole, f"-Wl,-rpath,{whole.parent}", "-Wl,--no-as-needed")
    done = run([tools.replay_program, "--alloc", f"part={part}", "--rounds", "1", "-q", trace])
    assert done.returncode == 1
    assert "heaptape replay: part: it has no posix_memalign: calls would go to glibc's" in done.stderr.decode().splitlines()


def test_who_else_serves_is_said(tools: Tools, trace: Path, built: Callable[..., Path], tmp_path: Path) -> None:
    """The dynamic linker takes a function of another version for no such function, and ignores what is no library."""
    versions, text = tmp_path / "versions", tmp_path / "text.so"
    versions.write_text("OTHER_1 { global: *; };\n")
    text.write_text("no library\n")
    other = built("other", f"-Wl,--version-script={versions}")
    done = run([tools.replay_program, "--alloc", f"other={other},text={text}", "--rounds", "1", "-q", trace])
    assert done.returncode == 1
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("heaptape replay: ")][:2]
    assert lines[0].startswith("heaptape replay: other: malloc is from /")
    assert lines[0].endswith("/libc.so.6, not from the chosen library")
    assert lines[1].startswith("heaptape replay: text: malloc is from /")
    assert lines[1].endswith("/libc.so.6: the chosen library could not be loaded")


@pytest.mark.thorough
def test_usable_sizes_are_only_the_servers_own(tools: Tools, trace: Path, built: Callable[..., Path],
                                               tmp_path: Path) -> None:
    """glibc's malloc_usable_size would read what is before the block."""
    whole = built("whole")
    rows = tools.replay(trace, f"bytes={whole},glibc", tmp_path / "r.jsonl", "--pass", "memory")
    slop = {name: [row["slop_bytes"] for row in rows if row["allocator"]["name"] == name] for name in ("bytes", "glibc")}
    assert {row["allocator"]["path"] for row in rows if row["allocator"]["name"] == "bytes"} == {str(whole)}
    # Of glibc's rows one is the control's, which has none.
    assert slop["bytes"] == [None] and any(slop["glibc"])
