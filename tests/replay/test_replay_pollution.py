# SPDX-License-Identifier: Apache-2.0
"""--pollute: what it evicts, how much a trace justifies, what results say of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Argument, Tools, run

AMOUNTS = ("pollution_bytes", "pollution_code_bytes", "pollution_pages")


def polluted(tools: Tools, trace: Path, folder: Path, *options: Argument) -> list[int]:
    results = folder / "results.jsonl"
    tools.succeed([tools.replay_program, "--pass", "time", "--rounds", "1", "--alloc", "glibc", *options, "-o", results, trace])
    row = replay_traces.rows(results)[-1]
    return [row[name] for name in AMOUNTS]


def of_gap(tools: Tools, folder: Path, gap_ns: int) -> list[int]:
    """What a trace justifies whose calls are so far apart."""
    trace = folder / f"{gap_ns}.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "2000", "100", "1", "1", str(gap_ns)])
    return polluted(tools, trace, folder, "--pollute", "trace")


@pytest.mark.thorough
def test_the_time_between_calls_decides(tools: Tools, tmp_path: Path) -> None:
    close, apart, far = (of_gap(tools, tmp_path, gap_ns) for gap_ns in (640, 64_000, 640_000_000))
    # A line of data each 50 ns, a line of code each 130 ns, a page each 300 ns.
    assert close == [13 * 64, 5 * 64, 2]
    assert apart == [1280 * 64, 492 * 64, 213]
    assert far == polluted(tools, tmp_path / "640.bin", tmp_path, "--pollute", "all")


def test_parts_are_recorded(tools: Tools, tmp_path: Path) -> None:
    trace = replay_traces.made(tools, tmp_path, events=1000)
    assert polluted(tools, trace, tmp_path, "--pollute", "data=64k,code=32,tlb=128") == [65536, 32768, 128]
    assert polluted(tools, trace, tmp_path, "--pollute", "64") == [65536, 0, 0]
    assert polluted(tools, trace, tmp_path) == [0, 0, 0]


@pytest.mark.parametrize("value", ("often", "data=", "cod=1", "data=1,,x", "tlb=1T"))
def test_other_words_are_bad_usage(tools: Tools, value: str) -> None:
    done = run([tools.replay_program, "--pollute", value, "trace.bin"])
    assert done.returncode == 2 and f"--pollute {value}: ".encode() in done.stderr and b"expected" in done.stderr


@pytest.mark.thorough
def test_code_and_pages_evict_the_allocators(tools: Tools, tmp_path: Path) -> None:
    """By the counts of the simulation: the time pass has a run without pollution, and one with it."""
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind here")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\ncase $HEAPTAPE_ALLOCATOR.$HEAPTAPE_PASS in glibc.time*) exec '
                       f'"{tools.build}/heaptape" count -q -o "{tmp_path}/$HEAPTAPE_PASS.json" -- "$@";;\nesac\nexec "$@"\n')
    wrapper.chmod(0o755)
    trace = Path(__file__).parents[2] / "traces" / "sqlite3-small.bin"
    polluted(tools, trace, tmp_path, "--pollute", "code=64k,tlb=4096", "--wrap", str(wrapper))

    def misses(name: str) -> dict[str, int]:
        [process] = json.loads((tmp_path / f"{name}.json").read_text())["processes"]
        return process["allocator"]
    without, with_it = misses("time"), misses("timed")
    assert with_it["instructions"] == without["instructions"]
    calls = 4456 // 256
    for kind, least in (("l1i_misses", 20), ("stlb_misses", 5)):
        assert with_it[kind] > without[kind] + least * calls
