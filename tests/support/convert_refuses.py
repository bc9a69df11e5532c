# SPDX-License-Identifier: Apache-2.0
"""Inputs for convert, and the one line that it says of those that it refuses."""

from __future__ import annotations

from pathlib import Path

from tool_runner import Tools, run

A_CALL = b"1: malloc 0x1000 16\n"  # as Android has it


def refused(tools: Tools, *arguments: str | Path, status: int = 3, stdin: bytes = b"") -> str:
    """The one line that convert says when it refuses."""
    done = run([tools.heaptape, "convert", *arguments], stdin=stdin)
    said = done.stderr.decode()
    assert done.returncode == status, said
    assert done.stdout == b""
    assert len(said.splitlines()) == 1, said
    return said


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
