# SPDX-License-Identifier: Apache-2.0
"""Big lists, dicts, bytes and arrays, as in a batch job that turns rows into columns and back.

Python's own pools have the small objects here, so malloc sees what is larger than 512 bytes: lists and dicts that grow
step by step, buffers, texts of a megabyte.

Usage: columns.py [BATCHES]
"""

from __future__ import annotations

import array
import hashlib
import random
import struct
import sys
import zlib

ROW = struct.Struct("<IdI20s")


def make_rows(rng: random.Random, count: int) -> list[tuple[int, float, int, bytes]]:
    return [(number, rng.random(), rng.randrange(5_000), b"%020d" % rng.getrandbits(60)) for number in range(count)]


def columns(rows: list[tuple[int, float, int, bytes]]) -> dict[str, array.array]:
    found = {"number": array.array("I"), "rate": array.array("d"), "group": array.array("I")}
    for number, rate, group, _ in rows:
        found["number"].append(number)
        found["rate"].append(rate)
        found["group"].append(group)
    return found


def run(batches: int) -> tuple[int, str]:
    rng = random.Random(5)
    groups: dict[int, list[float]] = {}
    kept: list[bytes] = []
    digest = hashlib.sha256()
    for batch in range(batches):
        rows = make_rows(rng, 20_000 + 4_000 * (batch % 5))
        packed = bytearray()
        for row in rows:
            packed += ROW.pack(*row)
        squeezed = zlib.compress(packed, 1)
        kept.append(squeezed)
        if len(kept) > 6:
            kept.pop(rng.randrange(4))
        for number, rate, group, _ in ROW.iter_unpack(zlib.decompress(squeezed)):
            groups.setdefault(group, []).append(rate)
        table = columns(rows)
        text = ",".join(map(str, table["number"])) + "".join(f"{rate:.3f} " for rate in table["rate"])
        digest.update(text.encode())
        if batch % 4 == 3:  # now and then what has piled up is summed and dropped
            digest.update(struct.pack("<d", sum(map(sum, groups.values()))))
            groups = {}
    return sum(map(len, kept)), digest.hexdigest()


if __name__ == "__main__":
    print(*run(int(sys.argv[1]) if len(sys.argv) > 1 else 14))
