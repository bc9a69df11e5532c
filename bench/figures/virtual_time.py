#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What allocators hold when pauses pass in virtual time, beside what they hold when they really pass.

    bench/figures/virtual_time.py [--build BUILD]

Two traces: 100 MB freed, then 30 seconds in which only a burst of 400 blocks of 0.7 to 4 KB comes and
goes ten times a second; and a recorded Python program with pauses (programs/pauses.py, 25 s). Every
allocator that is built replays each without waiting (none), in virtual and in real time; jemalloc once
more with its background thread, which gives memory back within the pauses. Medians of three runs, as
jemalloc lets chance have a say in when it decays: its mean moves by a tenth from run to run. Exit
status 1 if an end under virtual time is more than a tenth off that under real time, or took more than
2 s to get. Takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import product
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.figures.runs import clean_environment  # noqa: E402

from heaptape.base.text import table_lines  # noqa: E402

PACES = ("none", "virtual", "real")
RUNS = 3
STAGGER_S = 0.7
OFF_MAX, VIRTUAL_S_MAX = 0.10, 2.0
BYTES, BURSTS, BURST_BLOCKS = 100_000_000, 300, 400
HEADS = ["allocator", *(f"{figure} {column}" for figure in ("end, MB:", "mean:") for column in (*PACES, "off")), "virtual took", ""]


class Run(NamedTuple):
    """RSS, and how long the whole command took: the null replayer's run and the allocator's."""

    end_bytes: float
    mean_bytes: float
    wall_s: float


def burst_calls() -> Iterator[tuple[int, str]]:
    """Time and call, as Android's memory_replay writes them: the text with times that convert reads."""
    rng = random.Random(1)
    now_ns, address, filled = 0, 0x10000, 0
    live: list[int] = []

    def some_block() -> str:
        nonlocal address, filled
        size = rng.randint(700, 4000)
        address, filled = address + 4096, filled + size
        live.append(address)
        return f"malloc {address:#x} {size}"

    while filled < BYTES:
        yield now_ns, some_block()
        now_ns += 100
    while live:
        yield now_ns, f"free {live.pop(0):#x}"
        now_ns += 100
    for burst in range(BURSTS):
        at_ns = now_ns + burst * 100_000_000
        for i in range(BURST_BLOCKS):
            yield at_ns + i * 100, some_block()
        for i in range(BURST_BLOCKS):
            yield at_ns + (BURST_BLOCKS + i) * 100, f"free {live.pop(0):#x}"
    yield now_ns + BURSTS * 100_000_000, some_block()


def converted(build: Path, recorded: Path) -> Path:
    trace = recorded.with_suffix(".bin")
    subprocess.run([build / "heaptape", "convert", "-q", recorded, "-o", trace], check=True)
    return trace


def make_burst(build: Path, folder: Path) -> Path:
    text = folder / "burst.txt"
    text.write_text("".join(f"1: {call} {ns} {ns}\n" for ns, call in burst_calls()))
    return converted(build, text)


def record_pauses(build: Path, folder: Path) -> Path:
    program = ["/usr/bin/python3", ROOT / "bench" / "programs" / "pauses.py"]
    subprocess.run([build / "heaptape", "record", "-q", "-o", folder, "--", *program], check=True,
                   env=clean_environment() | {"PYTHONMALLOC": "malloc"})
    (log,) = folder.glob("*.mraw")
    return converted(build, log)


def replay(build: Path, trace: Path, alloc: str, pace: str) -> Run:
    begun = time.monotonic()
    done = subprocess.run([build / "replay", "-q", "--json", "--pass", "memory", "--rounds", "1", "--pace", pace, "--alloc", alloc, trace], check=True,
                          stdout=subprocess.PIPE, env=clean_environment())
    (found,) = json.loads(done.stdout)["allocators"]
    return Run(found["rss_end_bytes"]["median"], found["rss_mean_bytes"]["median"], time.monotonic() - begun)


def median(runs: list[Run]) -> Run:
    return Run(*map(statistics.median, zip(*runs, strict=True)))


def allocators(build: Path) -> list[str]:
    """As --alloc takes them."""
    listed = subprocess.run([build / "replay", "--list", "--alloc", "all"], check=True, text=True, stdout=subprocess.PIPE).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    return [*names, *["jemalloc:background_thread=1"] * ("jemalloc" in names)]


def show(title: str, rows: dict[str, dict[str, Run]]) -> bool:
    """Prints the table of a trace; whether all of it is as it should be."""
    cells, good = [HEADS], True
    for alloc, runs in rows.items():
        virtual, offs = runs["virtual"], []
        cell = [alloc]
        for figure in ("end_bytes", "mean_bytes"):
            offs.append(getattr(virtual, figure) / getattr(runs["real"], figure) - 1)
            cell += [*(f"{getattr(runs[pace], figure) / 1e6:.2f}" for pace in PACES), f"{offs[-1]:+.1%}"]
        fine = abs(offs[0]) <= OFF_MAX and virtual.wall_s <= VIRTUAL_S_MAX
        good = good and fine
        cells.append([*cell, f"{virtual.wall_s:.2f} s", "" if fine else "NOT AS IT SHOULD BE"])
    print("", title, *table_lines(cells, right=set(range(1, len(HEADS) - 1))), sep="\n")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    good = True
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(64) as pool:
        traces = {"100 MB freed, then 30 s of small bursts": make_burst(build, Path(name)),
                  "python3 programs/pauses.py, recorded": record_pauses(build, Path(name))}
        every = allocators(build)
        real: dict[tuple[Path, str], list[Future[Run]]] = {}
        for trace, alloc, _ in product(traces.values(), every, range(RUNS)):
            real.setdefault((trace, alloc), []).append(pool.submit(replay, build, trace, alloc, "real"))
            # Real time is mostly spent asleep, so all of it is spent at once; but not so that what is
            # no sleep comes at the same moment in all, and late.
            time.sleep(STAGGER_S)
        wait([run for runs in real.values() for run in runs])
        for title, trace in traces.items():
            rows = {alloc: {pace: median([replay(build, trace, alloc, pace) for _ in range(RUNS)]) for pace in ("none", "virtual")} for alloc in every}
            for alloc, runs in rows.items():
                runs["real"] = median([future.result() for future in real[trace, alloc]])
            good = show(title, rows) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
