#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged files, and the message that each must provoke: writes these to bad.txt. Usage: tests/golden/refresh.py [BUILD]

A reader's new message needs a damaged file, in broken_traces.py or broken_logs.py: a test compares the messages in the sources with
those that the files cause."""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
MESSAGES = HERE / "bad.txt"  # a line for each file: its name, the exit status, what stderr says
CHILD = "child.mraw"  # a sound log, whose parents are not
sys.path.insert(0, str(HERE))

import broken_logs  # noqa: E402
import broken_traces  # noqa: E402


def patched(content: bytes, offset: int, new: bytes) -> bytes:
    return content[:offset] + new + content[offset + len(new) :]


@cache
def damaged() -> dict[str, bytes]:
    trace, raw = (HERE / "sqlite3.bin").read_bytes(), (HERE / "sqlite3.mraw").read_bytes()
    # Behind the context section come the events.
    events_section = 64 + 48 + struct.unpack_from("<I", trace, 64 + 8)[0]
    return {
        "empty.bin": b"",
        "magic.bin": patched(trace, 0, b"NOTTRACE"),
        "older.bin": patched(trace, 8, b"\x01\x00\x01\x00"),
        "newer.bin": patched(trace, 8, b"\x09\x00\x09\x00"),
        "feature.bin": patched(trace, 12, b"\x08"),
        "group.bin": patched(trace, 12, b"\x04"),
        "header.bin": trace[:40],
        "short.bin": b"this is no trace",
        "results.bin": b'{"schema": 1}\n',
        "payload.bin": patched(trace, len(trace) // 2, b"\xff" * 16),
        "section.bin": patched(trace, events_section, b"XXXX"),
        "cut.bin": trace[: len(trace) // 2],
        "empty.mraw": b"",
        "magic.mraw": patched(raw, 0, b"NOTALOG!"),
        "newer.mraw": patched(raw, 8, b"\x09\x00\x09\x00"),
        "clock.mraw": patched(raw, 56, b"\x63"),
        "chunk.mraw": patched(raw, 16384, b"XXXX"),
        "index.mraw": patched(raw, 16384 + 12, b"\x05"),
        "record.mraw": patched(raw, 16384 + 64, b"\x0d\x11\x11\x11"),
        "cut.mraw": raw[: len(raw) // 2],
        "calls-ended.mraw": patched(broken_logs.log(broken_logs.chunk(broken_logs.SOUND)), broken_logs.ENDED_CALLS_OFFSET, b"\x05"),
        "raw-log.bin": broken_logs.log(),
        "trace.mraw": broken_traces.whole([]),
        **broken_traces.broken(),
        **broken_logs.broken(),
    }


def command_for(build: Path, path: Path, output: Path) -> list[str | Path]:
    """The program that meets the damage, by the first word of the file's name."""
    convert = [build / "heaptape", "convert", "-q", "-o", output]
    match path.name.split("-")[0], path.suffix:
        case "replay", ".bin":
            return [build / "replay", "--alloc", "null", "--rounds", "1", path, "-o", output]
        case "info", ".bin":
            return [build / "heaptape", "info", "--json", path]
        case _, ".bin":
            return [build / "heaptape", "dump", path]
        case "parent", ".mraw":
            child = path.with_name(CHILD)
            child.write_bytes(broken_logs.child())
            return [*convert, child, "--parent", child if path.name == "parent-itself.mraw" else path]
        case "orphan.mraw", ".mraw":
            return [*convert, path, "--parent", path]
    return [*convert, path]


def write(folder: Path, name: str) -> Path:
    """The damaged file of that name in the folder."""
    path = folder / name
    path.write_bytes(damaged()[name])
    return path


def verdict(build: Path, name: str, output: Path) -> tuple[int, str]:
    """Exit status and stderr, with paths cut to names. output: where nothing may appear, or what could be read."""
    with tempfile.TemporaryDirectory() as folder:
        command = command_for(build, write(Path(folder), name), output)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stderr.replace(f"{folder}/", "")


def messages() -> dict[str, tuple[int, str]]:
    """What verdict must say of each damaged file, by its name."""
    rows = [line.split(" ", 2) for line in MESSAGES.read_text().splitlines()]
    return {name: (int(status), f"{said}\n") for name, status, said in rows}


def main() -> None:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "build"
    with tempfile.TemporaryDirectory() as folder, MESSAGES.open("w") as kept:
        for name in sorted(damaged()):
            status, said = verdict(build, name, Path(folder) / "output")
            kept.write(f"{name} {status} {said}")


if __name__ == "__main__":
    main()
