# SPDX-License-Identifier: Apache-2.0
"""Libraries with an allocator compiled into them are named wherever the recorded heap explains little, with what turns it off."""

from __future__ import annotations

import json
from pathlib import Path

from heaptape.results.caution import caution
from heaptape.results.reader import read_results
from tool_runner import Tools, run

LIBRARY = """
#include <string.h>
#include <sys/mman.h>
void take(void) {
    char *got = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(got, 1, 32 << 20);
}
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*take)(void) = library ? (void (*)(void))dlsym(library, "take") : abort;
    free(malloc(5000));
    take();
    free(malloc(5000));
    return argc - 2;
}
"""


def test_they_are_named(tools: Tools, tmp_path: Path) -> None:
    """Loaded late, in everything that says that most of the memory is not from malloc."""
    for name, source in (("library", LIBRARY), ("program", PROGRAM)):
        (tmp_path / f"{name}.c").write_text(source)
    for library in ("libarrow.so.9", "_polars_runtime.abi3.so"):
        tools.succeed(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / library, tmp_path / "library.c"])
    tools.succeed(["gcc", "-O1", "-o", tmp_path / "program", tmp_path / "program.c", "-ldl"])
    expected = {"libarrow.so.9": "; libarrow.so.9 has an allocator of its own, which is not recorded: ARROW_DEFAULT_MEMORY_POOL=system makes it call malloc",
                "_polars_runtime.abi3.so": "; _polars_runtime.abi3.so has an allocator of its own, which is not recorded"}
    for library, words in expected.items():
        recording = tools.record([tmp_path / "program", tmp_path / library], tmp_path / f"logs-{library}")
        assert recording.outcome.status == 0 and f"{words}\n" in recording.outcome.stderr.decode()
        trace, results = tmp_path / f"{library}.bin", tmp_path / f"{library}.jsonl"
        converted = run([tools.heaptape, "convert", recording.logs[0], "-o", trace])
        assert converted.returncode == 0 and f"{words}\n" in converted.stderr.decode()
        assert f"{words}\n" in tools.succeed([tools.heaptape, "info", trace]).stdout.decode().splitlines(keepends=True)[0]
        replayed = tools.succeed([tools.replay_program, "--pass", "memory", "--rounds", "1", "--alloc", "glibc", "-o", results, trace])
        assert f"{words}\n" in replayed.stdout.decode().splitlines(keepends=True)[0] and words in replayed.stderr.decode()
        assert json.loads(results.read_text().splitlines()[0])["trace"]["inner_allocators"] == words[2:]
        assert caution(read_results(results)).endswith(f"{words}.")
