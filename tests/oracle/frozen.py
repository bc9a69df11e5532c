# SPDX-License-Identifier: Apache-2.0
"""What the scenarios have been told: one compressed file, whose size is kept small. Texts of a table are there in full; of what
is long, for some scenarios only, for the others its digest."""

from __future__ import annotations

import difflib
import hashlib
import json
import lzma
import zlib
from pathlib import Path

FILE = Path(__file__).with_name("said.json.xz")
Said = dict[str, str]
# One in so many scenarios has it in full.
FULL_ONE_IN = {"json": 2, "page": 4, "results": 10}


def kind_of(key: str) -> str:
    """Answers have a number and words; files have a name."""
    if " " not in key:
        return "results" if key.endswith((".jsonl", ".snapshots")) else "text"
    return "page" if key.endswith(" page") else "json" if "--json" in key else "text"


def digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}\n"


def kept(name: str, said: Said) -> Said:
    """As it is frozen."""
    number = zlib.crc32(name.encode())
    return {key: text if len(text) < 200 or number % FULL_ONE_IN.get(kind_of(key), 1) == 0 else digest(text) for key, text in said.items()}


def load() -> dict[str, Said]:
    return json.loads(lzma.decompress(FILE.read_bytes()))


def dump(said: dict[str, Said]) -> None:
    text = json.dumps(dict(sorted(said.items())), indent=0)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def difference(name: str, frozen: Said, found: Said) -> str:
    """A unified diff of everything that the scenario is told; empty where it is the same. found: in full."""
    lines: list[str] = []
    shown = kept(name, found)
    for key in [*frozen, *(key for key in shown if key not in frozen)]:
        before, now = frozen.get(key, ""), shown.get(key, "")
        if before == now:
            continue
        lines += difflib.unified_diff(before.splitlines(), now.splitlines(), f"{name}: {key}: frozen", f"{name}: {key}: now", lineterm="")
    return "\n".join(lines)
