# SPDX-License-Identifier: Apache-2.0
"""madvise of heap memory: recorded as bytes of a block, and replayed on the same bytes of the replay's block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tool_runner import Tools, run

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { BYTES = 16 << 20, WRITTEN = 4 << 20, HUGE = 2 << 20, PAGE = 4096 };
int main(int argc, char **argv) {
    char *block = NULL;
    if (posix_memalign((void **)&block, HUGE, BYTES)) return 1;
    if (argc > 1 && !strcmp(argv[1], "huge")) {
        if (madvise(block, BYTES, MADV_HUGEPAGE)) return 2;
        for (size_t i = 0; i < BYTES; i += HUGE) block[i] = 1;
    } else {
        memset(block, 1, BYTES);
        if (madvise(block, BYTES, MADV_DONTNEED)) return 3;
        if (madvise(block + 1, PAGE, MADV_DONTNEED) == 0) return 4;
        usleep(20000);
        memset(block, 1, WRITTEN);
        if (block[WRITTEN] != 0) return 5;
    }
    free(malloc(100));
    return 0;
}
"""
BYTES, WRITTEN = 16 << 20, 4 << 20


def record(tools: Tools, folder: Path, mode: str) -> Path:
    (folder / "program.c").write_text(SOURCE)
    tools.succeed(["gcc", "-O0", "-o", folder / "program", folder / "program.c"])
    alone, recording = run([folder / "program", mode]), tools.record([folder / "program", mode], folder / "logs")
    assert (recording.outcome.status, recording.outcome.stdout) == (alone.returncode, alone.stdout) == (0, b"")
    return tools.convert(recording.logs[0], folder / "t.bin")


def memory_of(tools: Tools, trace: Path, folder: Path) -> list[dict]:
    """Lines of results of the memory pass, the null replayer's left out."""
    lines = tools.replay(trace, "glibc,jemalloc", folder / "r.jsonl", "--pass", "memory")
    return [line for line in lines if line["allocator"]["name"] != "null"]


def test_what_is_given_back_is_gone_and_what_is_written_again_is_there(tools: Tools, tmp_path: Path) -> None:
    trace = record(tools, tmp_path, "empty")
    assert tools.info(trace)["control_calls"] == {"madvise(MADV_DONTNEED)": 1}
    slot = next(line.split("= ")[1] for line in tools.dump(trace) if "posix_memalign" in line)
    advised = [line for line in tools.dump(trace) if "madvise" in line]
    assert f"t0 madvise({slot}, 0, {BYTES}, MADV_DONTNEED)" in advised
    assert trace.read_bytes()[12:16] == b"\2\0\0\0"
    for line in memory_of(tools, trace, tmp_path):
        assert 0.98 * BYTES <= line["rss_peak_bytes"] < 1.2 * BYTES
        assert 0.98 * WRITTEN <= line["rss_end_bytes"] < 2 * WRITTEN


@pytest.mark.thorough
def test_huge_pages_are_asked_for_before_anything_is_written(tools: Tools, tmp_path: Path) -> None:
    if "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
        pytest.skip("transparent huge pages are turned off (/sys/kernel/mm/transparent_hugepage/enabled)")
    trace = record(tools, tmp_path, "huge")
    for line in memory_of(tools, trace, tmp_path):
        if line["anon_huge_peak_bytes"] == 0:
            pytest.skip("the kernel has no huge page free")
        assert line["anon_huge_peak_bytes"] >= BYTES // 2


@pytest.mark.thorough
def test_verification_and_a_slice(tools: Tools, tmp_path: Path) -> None:
    trace = record(tools, tmp_path, "empty")
    done = tools.succeed([tools.replay_program, "-q", "--verify", "--rounds", "1", "--alloc", "glibc,jemalloc", trace])
    assert b"violation" not in done.stdout
    tools.succeed([tools.heaptape, "slice", trace, "-o", tmp_path / "s.bin", "--from-event", "1"])
    assert sum("madvise" in line for line in tools.dump(tmp_path / "s.bin")) == sum("madvise" in line for line in tools.dump(trace))
