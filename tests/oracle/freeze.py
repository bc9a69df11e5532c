#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Freezes what replay, compare and report say now, and prints what differs from before. Usage: freeze.py [BUILD [NAME...]]

With names, of these scenarios only; with --show before them, prints what they are told in full and freezes nothing."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("support", "golden")), str(HERE.parent.parent / "analysis")]

import frozen  # noqa: E402
from asking import Oracle  # noqa: E402
from scenarios import scenarios  # noqa: E402


def main() -> None:
    words = sys.argv[1:]
    show = "--show" in words
    build, *names = [word for word in words if word != "--show"] or [str(HERE.parent.parent / "build")]
    said = frozen.load() if frozen.FILE.exists() else {}
    made: dict[str, frozen.Said] = {}
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(Path(build).resolve(), Path(folder))
        for name in names or scenarios():
            found = oracle.ask(scenarios()[name])
            made[name] = frozen.kept(name, found)
            if show:
                print("".join(f"=== {name}: {key}\n{text}" for key, text in found.items()))
            elif name in said and (difference := frozen.difference(name, said[name], found)):
                print(difference, flush=True)
    if not show:
        frozen.dump(said | made if names else made)


if __name__ == "__main__":
    main()
