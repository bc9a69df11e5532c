# SPDX-License-Identifier: Apache-2.0
"""Freed blocks that the recorder probes: had the program just used them?"""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest

from test_record_reach import compile_c
from tool_runner import Tools, run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="other cycle counters are too coarse")

FREES = 400_000
DELETES = 200_000
# delete with the size, free_sized and a large block now and then, which alone is to be probed.
DELETES_SIZED = """
#include <new>
#include <cstddef>
#include <cstdlib>
extern "C" void free_sized(void *, size_t) __attribute__((weak));
int main(int argc, char **argv) {
    int large = argc > 1 ? atoi(argv[1]) : 0;
    // What begins a page is not probed: the first block of an allocator's.
    void *volatile first[2] = {operator new(48), malloc(56)};
    for (int i = 0; i < 100000; i++) {
        operator delete(operator new(48), size_t{48});
        if (free_sized) free_sized(malloc(56), 56);
    }
    for (int i = 0; i < large; i++) {
        operator delete(operator new(200000), size_t{200000});
        if (free_sized) free_sized(malloc(200000), 200000);
    }
    (void)first;
}
"""


def recorded(tools: Tools, folder: Path, how: str) -> tuple[Path, dict]:
    recording = tools.preload([tools.target("free_temperature"), how], folder / how)
    assert recording.outcome.status == 0, recording.outcome.stderr
    trace = folder / f"{how}.bin"
    return trace, tools.convert_clean(recording.logs[0], trace)


@pytest.mark.thorough
def test_warm_and_cold_blocks_are_distinguished(tools: Tools, tmp_path: Path) -> None:
    def share(how: str, folder: Path) -> float:
        folder.mkdir(exist_ok=True)
        info = recorded(tools, folder, how)[1]
        # One free in a hundred or so: enough for the figure, too few to cost.
        assert FREES / 400 < info["freed_looked_at"] < FREES / 20
        return info["freed_warm"] / info["freed_looked_at"]

    warm = share("warm", tmp_path)
    assert warm > 0.8
    # On a busy processor many cold blocks pass for warm.
    assert any(share("cold", tmp_path / str(number)) < warm - 0.25 for number in range(6))


@pytest.mark.thorough
def test_replay_reads_what_was_warm(tools: Tools, tmp_path: Path) -> None:
    trace = recorded(tools, tmp_path, "warm")[0]
    results = tmp_path / "r.jsonl"
    reported = []
    for options in ((), ("--touch", "none"), ("--touch-free", "none")):
        rows = tools.replay(trace, "glibc", results, "--pass", "time", *options)
        reported.append(next(row["touch_free"] for row in reversed(rows) if row["allocator"]["name"] == "glibc"))
    assert reported == ["recorded", "none", "none"]


@pytest.fixture
def deletes(tmp_path: Path) -> Path:
    """A program of tcmalloc's, whose operators are its own."""
    return compile_c(tmp_path, DELETES_SIZED, "-Wl,--no-as-needed", "-ltcmalloc_minimal", compiler="g++")


def test_frees_by_other_names_are_probed(tools: Tools, tmp_path: Path, deletes: Path) -> None:
    recording = tools.preload([deletes], tmp_path / "logs")
    info = tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    assert info["ops"]["free_sized"] == DELETES / 2 and info["ops"]["delete_sized"] >= DELETES / 2
    assert DELETES / 400 < info["freed_looked_at"] < DELETES / 10


@pytest.mark.thorough  # valgrind
@pytest.mark.parametrize("large", [0, 50])
def test_no_lock_is_taken_for_small_blocks(tools: Tools, tmp_path: Path, deletes: Path, large: int) -> None:
    """The table of large blocks, which has a lock, is asked only where a block may be one."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    counts = tmp_path / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}", "--trace-children=yes", "env",
               f"LD_PRELOAD={tools.build / 'libmalloc_wrap_named.so'}", f"MALLOC_WRAP_OUT={tmp_path}", deletes, str(large)]
    assert run(command, timeout=300).returncode == 0
    profile = counts.read_text()
    number = re.search(r"\((\d+)\) forget_large$", profile, re.MULTILINE)
    assert number or not large
    calls = re.findall(rf"^cfn=\({number[1]}\).*\ncalls=(\d+)", profile, re.MULTILINE) if number else []
    # Of those that are large, where the budget of their measurements allowed it.
    assert large // 50 <= sum(map(int, calls)) <= 2 * large


@pytest.mark.thorough
def test_a_slice_keeps_what_was_seen(tools: Tools, tmp_path: Path) -> None:
    trace, whole = recorded(tools, tmp_path, "warm")
    part = tmp_path / "part.bin"
    tools.succeed([tools.heaptape, "slice", trace, "-o", part, "--from-event", "1000"])
    assert tools.info(part)["freed_warm"] == whole["freed_warm"]


def test_guarded_blocks(tools: Tools, tmp_path: Path) -> None:
    """Blocks whose first page nobody may read are freed as without the recorder."""
    command = [tools.target("free_temperature"), "guarded"]
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome.status == 0, recording.outcome.stderr
