# SPDX-License-Identifier: Apache-2.0
"""malloc_usable_size: recorded, kept in a trace for next to nothing, and replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test_replay_threads import checking
from tool_runner import Tools, is_forked, run

# Like Redis' zmalloc and Ruby's xfree: each block is asked for its size when it comes and before it goes.
SOURCE = """
#include <malloc.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef ASKS
#define ask malloc_usable_size
#else
#define ask(block) 0
#endif
enum { BLOCKS = 20000, LIVE = 64 };
int main(void) {
    void *held[LIVE] = {0};
    size_t sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        void **place = &held[i * 31 % LIVE];
        if (*place) sum += ask(*place);
        free(*place);
        *place = malloc((size_t)(24 + i * 37 % 500));
        sum += ask(*place);
        if (i % 4 == 0) {
            sum += ask(*place);
            *place = realloc(*place, 700);
            sum += ask(*place);
        }
    }
    pid_t child = fork();
    if (child == 0) {
        sum += ask(held[0]) + ask(held[1]) + ask(NULL);
        free(malloc(sum % 9 + 1));
        return 0;
    }
    waitpid(child, NULL, 0);
    return 0;
}
"""
BLOCKS, LIVE = 20_000, 64
ASKED = BLOCKS - LIVE + BLOCKS + 2 * (BLOCKS // 4)


@pytest.fixture(scope="module")
def traces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of the program that asks and of the same without: parent, child, child without its parent's log."""
    folder, made = tmp_path_factory.mktemp("queries"), {}
    source = folder / "program.c"
    source.write_text(SOURCE)
    for name, flag in (("asks", "-DASKS"), ("silent", "-DSILENT")):
        tools.succeed(["gcc", "-O0", flag, "-o", folder / name, source])
        parent, child = sorted(tools.record([folder / name], folder / f"{name}.logs").logs, key=is_forked)
        made[name] = tools.convert(parent, folder / f"{name}.bin")
        made[f"{name} child"] = tools.convert(child, folder / f"{name}-child.bin")
        made[f"{name} orphan"] = tools.convert(child, folder / f"{name}-orphan.bin", "--no-parent")
    return made


def test_each_is_counted(tools: Tools, traces: dict[str, Path]) -> None:
    asks, silent = (tools.info(traces[name]) for name in ("asks", "silent"))
    assert asks["ops"].pop("malloc_usable_size") == ASKED
    assert asks["ops"] == silent["ops"] and asks["events"] == silent["events"] + ASKED
    assert "foreign_queries" not in asks
    assert tools.info(traces["asks child"])["ops"]["malloc_usable_size"] == 2
    orphan = tools.info(traces["asks orphan"])
    assert orphan["foreign_queries"] == 2 and "malloc_usable_size" not in orphan["ops"]


def test_a_trace_without_any_needs_no_new_reader(traces: dict[str, Path]) -> None:
    assert traces["silent"].read_bytes()[12:16] == bytes(4)
    assert traces["asks"].read_bytes()[12:16] == b"\1\0\0\0"


def test_a_slice_keeps_those_of_its_blocks(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    last = tools.info(traces["asks"])["events"] - 20_000
    tools.succeed([tools.build / "heaptape", "slice", traces["asks"], "-o", tmp_path / "s.bin", "--from-event", last])
    wanted = sum("malloc_usable_size" in line for line in tools.dump(traces["asks"])[last:])
    assert tools.info(tmp_path / "s.bin")["ops"]["malloc_usable_size"] == wanted > 5_000


@pytest.mark.thorough
def test_each_is_asked_again(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    runs = tools.replay(traces["asks"], "glibc", tmp_path / "r.jsonl", "--pass", "time")
    assert all(one["calls"]["malloc_usable_size"]["count"] == ASKED and not one["failures"] for one in runs)
    done = tools.succeed([tools.build / "replay", "-q", "--verify", "--alloc", "glibc", traces["asks"]])
    assert b"violation" not in done.stdout


@pytest.mark.thorough
def test_an_allocator_that_has_none_skips_them(tools: Tools, traces: dict[str, Path]) -> None:
    for name, wanted in (("asks", 1), ("silent", 0)):
        done = run([tools.build / "replay", "-q", "--json", "--rounds", "1", "--pass", "time",
                    "--alloc", f"{checking(tools)},glibc", traces[name]])
        assert done.returncode == 0, done.stderr
        found = [w["message"] for w in json.loads(done.stdout)["warnings"] if w["kind"] == "skipped_queries"]
        assert len(found) == wanted
        assert not found or found[0].startswith(f"checking has no malloc_usable_size: {ASKED:,} calls of it were skipped")
