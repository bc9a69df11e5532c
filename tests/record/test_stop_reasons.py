# SPDX-License-Identifier: Apache-2.0
"""Why a recording ended, as its header says: printed by convert and kept in the trace."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tool_runner import Tools, run

CHUNKS_END, STATE = 112, 128  # offsets in the header, docs/reference/raw-log-format.md
HEADER_BYTES = 16384
STOPPED, EXITED, PAUSED = 2, 3, 4


def with_state(repository: Path, folder: Path, state: int, reason: int, errno: int = 0,
               calls: bool = True) -> Path:
    """A log with another end, or with nothing but its header."""
    log = bytearray((repository / "tests" / "golden" / "sqlite3.mraw").read_bytes())
    struct.pack_into("<III", log, STATE, state, reason, errno)
    if not calls:
        struct.pack_into("<Q", log, CHUNKS_END, HEADER_BYTES)
        del log[HEADER_BYTES:]
    path = folder / "log.mraw"
    path.write_bytes(log)
    return path


@pytest.mark.parametrize("reason,errno,words", [
    (1, 28, "no space: No space left on device"),
    (2, 0, "size limit"),
    (3, 0, "the program forbade system calls (seccomp)"),
    (7, 2, "the program made more calls after its exit than the log had room for, and it could not grow: No such file or directory"),
    (77, 0, "unknown reason 77"),
])
def test_ended_early(tools: Tools, repository: Path, tmp_path: Path, reason: int, errno: int,
                     words: str) -> None:
    log = with_state(repository, tmp_path, STOPPED, reason, errno)
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    warnings = [line for line in done.stderr.decode().splitlines() if "warning" in line]
    assert len(warnings) == 1 and f"stopped early ({words}" in warnings[0]
    assert tools.info(tmp_path / "t.bin")["context"]["stopped"].startswith(words)
    assert words in tools.succeed([tools.heaptape, "info", tmp_path / "t.bin"]).stdout.decode()


def test_ended_by_ctl_is_no_warning(tools: Tools, repository: Path, tmp_path: Path) -> None:
    log = with_state(repository, tmp_path, STOPPED, 4)
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert b"warning" not in done.stderr
    assert tools.info(tmp_path / "t.bin")["context"]["stopped"] == "ended by heaptape ctl"


@pytest.mark.parametrize("state,reason,words", [
    (PAUSED, 0, "paused throughout"),
    (STOPPED, 4, "heaptape ctl ended the recording before the first one"),
    (EXITED, 0, "expected at least one call, found none"),
])
def test_without_a_call(tools: Tools, repository: Path, tmp_path: Path, state: int, reason: int,
                        words: str) -> None:
    log = with_state(repository, tmp_path, state, reason, calls=False)
    done = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert done.returncode == 3
    said = done.stderr.decode().splitlines()
    assert len(said) == 1 and "expected at least one call" in said[0] and words in said[0]
    assert not (tmp_path / "t.bin").exists()
