#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak RSS of a program under other releases of glibc: predicted from one recording, and real, run by those loaders.

    other_glibc.py [--rounds 5] [--library-path FOLDERS] LOADER... -- PROGRAM [ARGUMENT...]

The program is recorded under this system's glibc. Its real runs are in random order, as `LOADER --library-path FOLDERS PROGRAM`,
where the loader's own folder comes first; peak RSS is the highest RssAnon that was seen, or VmHWM without file pages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("HEAPTAPE_BUILD", Path(__file__).resolve().parents[2] / "build"))


def peak(command: list[str]) -> float:
    """In MB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    highest = 0
    with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as status:
        while process.poll() is None:
            status.seek(0)
            try:
                found = {line.split(":")[0]: line.split()[1] for line in status if line.startswith(("VmHWM", "RssAnon", "RssFile"))}
            except ProcessLookupError:
                break
            if len(found) == 3:
                highest = max(highest, int(found["RssAnon"]), int(found["VmHWM"]) - int(found["RssFile"]))
            time.sleep(0.001)
    if process.wait():
        raise SystemExit(f"{command}: status {process.returncode}")
    return highest * 1024 / 1e6


def recorded(command: list[str], folder: Path) -> Path:
    """The trace of the process with the largest log."""
    subprocess.run([BUILD / "heaptape", "record", "-q", "-o", folder / "logs", "--", *command], check=True, stdout=subprocess.DEVNULL)
    log = max((folder / "logs").iterdir(), key=lambda path: path.stat().st_size)
    subprocess.run([BUILD / "heaptape", "convert", "-q", log, "-o", folder / "trace.bin"], check=True, stdout=subprocess.DEVNULL)
    return folder / "trace.bin"


def predicted(trace: Path, loaders: list[Path], rounds: int) -> list[float]:
    """In MB, the first that of this system's glibc."""
    names = ["glibc", *(f"release{number}=glibc@{loader}" for number, loader in enumerate(loaders))]
    said = subprocess.run([BUILD / "replay", "-q", "--json", "--pass", "memory", "--rounds", str(rounds), "--alloc", ",".join(names), trace],
                          check=True, capture_output=True).stdout
    return [one["process_rss_peak_bytes"]["median"] / 1e6 for one in json.loads(said)["allocators"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--library-path", default="/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu", help="where the program's other libraries are")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if "--" not in options.words:
        parser.error("expected LOADER... -- PROGRAM")
    at = options.words.index("--")
    loaders, command = [Path(word).resolve() for word in options.words[:at]], options.words[at + 1:]
    ways = [command, *([str(loader), "--library-path", f"{loader.parent}:{options.library_path}", *command] for loader in loaders)]
    with tempfile.TemporaryDirectory() as folder:
        guesses = predicted(recorded(command, Path(folder)), loaders, options.rounds)
    real: list[list[float]] = [[] for _ in ways]
    for _ in range(options.rounds):
        for number in random.sample(range(len(ways)), len(ways)):
            real[number].append(peak(ways[number]))
    for name, guess, found in zip(["this system's", *map(str, loaders)], guesses, real, strict=True):
        middle = statistics.median(found)
        print(f"{name}: predicted {guess:.2f} MB, real {middle:.2f} [{min(found):.2f}, {max(found):.2f}], error {100 * (guess / middle - 1):+.1f} %")


if __name__ == "__main__":
    main()
