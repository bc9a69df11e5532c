# SPDX-License-Identifier: Apache-2.0
"""Prints a history of small source files for `git fast-import`, always the same. Usage: make_history.py COMMITS"""

from __future__ import annotations

import random
import sys

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega".split()


def line(rng: random.Random) -> str:
    return f"    {rng.choice(WORDS)}({', '.join(rng.choices(WORDS, k=rng.randrange(4)))}) -> {rng.randrange(1000)};"


def change(lines: list[str], rng: random.Random) -> None:
    """Some lines are put in, some go, some change."""
    for _ in range(rng.randrange(1, 9)):
        place = rng.randrange(len(lines) + 1)
        match rng.randrange(3):
            case 0:
                lines[place:place] = [line(rng) for _ in range(rng.randrange(1, 12))]
            case 1 if len(lines) > 40:
                del lines[place:place + rng.randrange(1, 10)]
            case _:
                lines[place:place + 1] = [line(rng)]


def main() -> None:
    rng = random.Random(1991)
    files: dict[str, list[str]] = {}
    for number in range(int(sys.argv[1])):
        changed = set()
        if number < 60 or rng.random() < 0.1:
            path = f"{rng.choice(WORDS)}/{rng.choice(WORDS)}_{len(files)}.c"
            files[path] = [line(rng) for _ in range(rng.randrange(30, 400))]
            changed.add(path)
        for path in rng.sample(sorted(files), min(len(files), rng.randrange(1, 5))):
            change(files[path], rng)
            changed.add(path)
        text = f"Change {number}: {' '.join(rng.choices(WORDS, k=8))}\n"
        print(f"commit refs/heads/main\ncommitter Nobody <nobody@invalid> {1_577_836_800 + number * 3600} +0000\ndata {len(text)}\n{text}")
        for path in sorted(changed):
            content = "\n".join(files[path]) + "\n"
            print(f"M 100644 inline {path}\ndata {len(content)}\n{content}")


main()
