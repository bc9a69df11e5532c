"""Freed blocks that the recorder looks at: had the program just used them?"""

from __future__ import annotations

import platform
import struct
from pathlib import Path

import pytest

from tool_runner import Tools, run

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="other cycle counters are too coarse")

FREES = 400_000


def recorded(tools: Tools, folder: Path, how: str) -> tuple[Path, dict]:
    recording = tools.preload([tools.target("free_temperature"), how], folder / how)
    assert recording.outcome.status == 0, recording.outcome.stderr
    trace = folder / f"{how}.bin"
    return trace, tools.convert_clean(recording.logs[0], trace)


def test_warm_and_cold_blocks_are_told_apart(tools: Tools, tmp_path: Path) -> None:
    shares = {}
    for how in ("warm", "cold"):
        info = recorded(tools, tmp_path, how)[1]
        # One free in a hundred or so: enough to tell, too few to cost.
        assert FREES / 400 < info["freed_looked_at"] < FREES / 20
        shares[how] = info["freed_warm"] / info["freed_looked_at"]
    assert shares["warm"] > 0.8
    assert shares["cold"] < shares["warm"] - 0.1


def test_replay_reads_what_was_warm(tools: Tools, tmp_path: Path) -> None:
    trace = recorded(tools, tmp_path, "warm")[0]
    results = tmp_path / "r.jsonl"
    told = []
    for options in ((), ("--touch", "none"), ("--touch-free", "none")):
        rows = tools.replay(trace, "glibc", results, "--pass", "time", *options)
        told.append(next(row["touch_free"] for row in reversed(rows) if row["allocator"]["name"] == "glibc"))
    assert told == ["recorded", "none", "none"]


def test_sizes_that_were_asked_before_a_free(tools: Tools, tmp_path: Path) -> None:
    """The allocator fetches what lies beside the block then, and not the program. Replay asks as often."""
    trace, info = recorded(tools, tmp_path, "asked")
    asked = info["freed_as_asked"]
    assert FREES / 400 < asked < FREES / 20 and info["freed_looked_at"] < asked / 20
    counts = tmp_path / "counts"
    counts.write_bytes(bytes(8 * 6))
    command = [tools.replay_program, "-q", "--alloc", f"checking={tools.target('checking_malloc.so')}",
               "--rounds", "1", "--pass", "time", trace]
    done = run(command, env={"CHECKING_COUNTS": str(counts)})
    assert done.returncode == 0, done.stderr
    frees, sizes = struct.unpack("6Q", counts.read_bytes())[3::2]
    # The accounting pass of the allocator's own sizes asks once for each allocation.
    assert 0.5 * frees < sizes < 1.5 * frees


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
