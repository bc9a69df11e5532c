"""Freed blocks that the recorder looks at: had the program just used them?"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tool_runner import Tools

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
    assert shares["cold"] < shares["warm"] - 0.25


def test_replay_reads_what_was_warm(tools: Tools, tmp_path: Path) -> None:
    trace = recorded(tools, tmp_path, "warm")[0]
    results = tmp_path / "r.jsonl"
    told = []
    for options in ((), ("--touch", "none"), ("--touch-free", "none")):
        rows = tools.replay(trace, "glibc", results, "--pass", "time", *options)
        told.append(next(row["touch_free"] for row in reversed(rows) if row["allocator"]["name"] == "glibc"))
    assert told == ["recorded", "none", "none"]


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
