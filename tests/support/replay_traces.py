# SPDX-License-Identifier: Apache-2.0
"""Small traces for tests of the replayer, written as text that convert imports."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tool_runner import Tools


def made(tools: Tools, folder: Path, *, events: int = 40_000, threads: int = 1) -> Path:
    """Mixed sizes and functions, posix_memalign among them, as bench/make_trace makes them."""
    trace = folder / f"made{events}x{threads}.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, str(events), "300", str(threads),
                   "3"])
    return trace


def imported(tools: Tools, trace: Path, text: str, form: str) -> Path:
    source = trace.with_suffix(".txt")
    source.write_text(text)
    tools.succeed([tools.heaptape, "convert", "--from", form, source, "-o", trace])
    return trace


def huge(tools: Tools, folder: Path, size: int = 1 << 40) -> Path:
    """One block of a TiB between two small ones."""
    return imported(tools, folder / "huge.bin",
                    f"3\n\nm 1 100\nm 2 {size}\nm 3 50\nf 2\nf 1\nf 3\n", "malloc_wrap")


def aligned(tools: Tools, folder: Path) -> Path:
    """Blocks of many sizes at alignments from 32 to 8192."""
    moments = Random(1)
    lines: list[str] = []
    live: list[int] = []
    for i in range(6000):
        if len(live) < 400 or moments.random() < 0.5:
            live.append((i + 1) << 20)
            alignment = 32 << moments.randrange(9)
            size = moments.choice([1, 24, 100, 256, 512, 1000, 1024, 3000, 9000, 70000])
            lines.append(f"1: memalign 0x{live[-1]:x} {alignment} {size}")
        else:
            lines.append(f"1: free 0x{live.pop(moments.randrange(len(live))):x}")
    return imported(tools, folder / "aligned.bin", "\n".join(lines) + "\n", "android")


def paused(tools: Tools, folder: Path) -> Path:
    """40 MB that are freed, then half a minute in which only bursts of 400 blocks come and go."""
    lines = [f"1: malloc 0x{i + 1:x}00000 20000 {i} {i + 1}" for i in range(2000)]
    lines += [f"1: free 0x{i + 1:x}00000 {10_000 + i} {10_001 + i}" for i in range(2000)]
    for burst in range(60):
        at = 500_000_000 * (burst + 1)
        lines += [f"1: malloc 0x{i + 1:x}0000 {700 + 8 * i} {at + i} {at + i + 1}"
                  for i in range(400)]
        lines += [f"1: free 0x{i + 1:x}0000 {at + 900 + i} {at + 901 + i}" for i in range(400)]
    return imported(tools, folder / "paused.bin", "\n".join(lines) + "\n", "android")


def independent(tools: Tools, folder: Path) -> Path:
    """Three threads that never share a block, a millisecond of trace time between their calls."""
    lines = []
    for i in range(300):
        for thread in (1, 2, 3):
            at = 3_000_000 * i + 1_000_000 * thread
            lines += [f"{thread}: malloc 0x{thread}0 500 {at} {at + 10}",
                      f"{thread}: free 0x{thread}0 {at + 500_000} {at + 500_010}"]
    return imported(tools, folder / "independent.bin", "\n".join(lines) + "\n", "android")


def rows(results: Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()]
