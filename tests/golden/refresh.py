#!/usr/bin/env python3
"""Writes the damaged files and what must be said of each. Usage: tests/golden/refresh.py [BUILD]"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BAD = HERE / "bad"


def patched(content: bytes, offset: int, new: bytes) -> bytes:
    return content[:offset] + new + content[offset + len(new) :]


def damaged() -> dict[str, bytes]:
    trace, raw = (HERE / "sqlite3.bin").read_bytes(), (HERE / "sqlite3.mraw").read_bytes()
    # Behind the context section come the events.
    events_section = 64 + 48 + struct.unpack_from("<I", trace, 64 + 8)[0]
    return {
        "empty.bin": b"",
        "magic.bin": patched(trace, 0, b"NOTTRACE"),
        "newer.bin": patched(trace, 8, b"\x09\x00\x09\x00"),
        "feature.bin": patched(trace, 12, b"\x04"),
        "header.bin": trace[:40],
        "payload.bin": patched(trace, len(trace) // 2, b"\xff" * 16),
        "section.bin": patched(trace, events_section, b"XXXX"),
        "cut.bin": trace[: len(trace) // 2],
        "empty.mraw": b"",
        "magic.mraw": patched(raw, 0, b"NOTALOG!"),
        "newer.mraw": patched(raw, 8, b"\x09\x00\x09\x00"),
        "clock.mraw": patched(raw, 56, b"\x63"),
        "window.mraw": patched(raw, 16384, b"XXXX"),
        "index.mraw": patched(raw, 16384 + 12, b"\x05"),
        "record.mraw": patched(raw, 16384 + 64, b"\x09\x11\x11\x11"),
        "cut.mraw": raw[: len(raw) // 2],
    }


def verdict(build: Path, path: Path, output: Path) -> tuple[int, str]:
    """Exit status and stderr, with paths cut to names. output: where nothing may appear."""
    command = ["dump", path] if path.suffix == ".bin" else ["convert", "-q", path, "-o", output]
    done = subprocess.run([build / "heaptape", *command], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.replace(f"{path.parent}/", "")


def main() -> None:
    build = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "build"
    BAD.mkdir(exist_ok=True)
    for name, content in damaged().items():
        path = BAD / name
        path.write_bytes(content)
        status, said = verdict(build, path, BAD / "never.bin")
        (BAD / f"{name}.expected").write_text(f"{status}\n{said}")


if __name__ == "__main__":
    main()
