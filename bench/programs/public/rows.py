# SPDX-License-Identifier: Apache-2.0
"""Python programs of bench/validity/public_cases.toml, chosen by name. They idle at their end and leave without cleaning up."""

import ctypes
import os
import sys
import time


def rows(count: int) -> list[dict[str, object]]:
    return [{"id": i, "name": f"customer {i}", "note": "x" * (i % 700)} for i in range(count)]


def trimmed() -> None:
    """Requests that make many objects; after each the heap is trimmed."""
    for _ in range(3):
        made = rows(25_000)
        kept.append(str(len(made)))
        made = []
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def frames() -> None:
    """Columns as byte strings, dropped; their labels stay."""
    for _ in range(4):
        columns = [bytes(40_000 + 37 * i) for i in range(400)]
        kept.extend(f"column {i} " * 20 for i in range(400))
        columns.clear()


def appended() -> None:
    """A buffer that is read piece by piece."""
    buffer = bytearray()
    for _ in range(900):
        buffer += bytes(b"y" * 40_000)
    kept.append(str(len(buffer)))


kept: list[str] = []
if __name__ == "__main__":
    {"trimmed": trimmed, "frames": frames, "appended": appended}[sys.argv[1]]()
    time.sleep(0.15)
    os._exit(0)
