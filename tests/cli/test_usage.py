# SPDX-License-Identifier: Apache-2.0
"""Help, usage errors, and exit statuses, alike for every verb."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool_runner import Tools, run

VERBS = ["record", "convert", "info", "dump", "slice", "extend", "share", "lint", "stats", "replay"]


@pytest.mark.parametrize("words", [
    [],
    ["no-such-verb"],
    ["--no-such-option"],
    *([verb] for verb in VERBS),
    *([verb, "--no-such-option"] for verb in VERBS),
    ["convert", "a.mraw", "-o"],
    ["record", "--"],
    ["replay", "--alloc", "glibc"],
    ["replay", "--alloc", "no-such-allocator", "t.bin"],
    ["replay", "--alloc", "glibc", "--rounds", "many", "t.bin"],
    ["replay", "--alloc", "glibc", "--pass", "sideways", "t.bin"],
], ids=" ".join)
def test_bad_usage(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    done = run([tools.heaptape, *words], cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == b""
    assert done.stderr.strip()
    assert list(tmp_path.iterdir()) == []


def test_talk_is_on_stderr(tools: Tools, tmp_path: Path) -> None:
    """stdout is for results: convert has none, so that a pipeline sees only what it asked for."""
    recording = tools.preload([tools.target("exit_quick"), tmp_path / "counts"], tmp_path / "logs")
    done = run([tools.heaptape, "convert", recording.logs[0], "-o", tmp_path / "t.bin"])
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"events" in done.stderr and b"replay" in done.stderr
    assert b"\x1b" not in done.stderr and b"\r" not in done.stderr  # no terminal, no redraws
    quiet = run([tools.heaptape, "convert", "-q", recording.logs[0], "-o", tmp_path / "t.bin"])
    assert quiet.returncode == 0 and quiet.stdout == quiet.stderr == b""


def test_recorded_program_not_found(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "record", "-o", tmp_path, "--", "no-such-program"])
    assert done.returncode not in (0, 3)
    assert b"no-such-program" in done.stderr
    assert list(tmp_path.iterdir()) == []
