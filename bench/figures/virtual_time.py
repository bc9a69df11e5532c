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
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACES = ("none", "virtual", "real")
RUNS = 3
STAGGER_S = 0.7
OFF_MAX, VIRTUAL_S_MAX = 0.10, 2.0
BYTES, BURSTS, BURST_BLOCKS = 100_000_000, 300, 400
FOREIGN_VARIABLES = ("LD_PRELOAD", "GLIBC_TUNABLES", "PYTHONMALLOC", "MALLOC_CONF")


@dataclass(frozen=True)
class Setting:
    allocator: str
    knobs: str = ""

    def title(self) -> str:
        return " ".join(filter(None, [self.allocator, self.knobs]))

    def alloc(self) -> str:
        return f"{self.allocator}={self.allocator}:{self.knobs}" if self.knobs else self.allocator


@dataclass(frozen=True)
class Run:
    end_bytes: float
    mean_bytes: float
    wall_s: float  # of the whole command: the null replayer's run and the allocator's


def environment(more: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    return kept | dict(more)


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


def make_burst(build: Path, folder: Path) -> Path:
    text, trace = folder / "burst.txt", folder / "burst.bin"
    with text.open("w") as out:
        out.writelines(f"1: {call} {ns} {ns}\n" for ns, call in burst_calls())
    subprocess.run([build / "heaptape", "convert", "-q", text, "-o", trace], check=True)
    return trace


def record_pauses(build: Path, folder: Path) -> Path:
    program = ["/usr/bin/python3", ROOT / "bench" / "programs" / "pauses.py"]
    trace = folder / "pauses.bin"
    subprocess.run([build / "heaptape", "record", "-q", "-o", folder, "--", *program], check=True,
                   env=environment((("PYTHONMALLOC", "malloc"),)))
    (log,) = folder.glob("*.mraw")
    subprocess.run([build / "heaptape", "convert", "-q", log, "-o", trace], check=True)
    return trace


def replay(build: Path, folder: Path, trace: Path, setting: Setting, pace: str, number: int) -> Run:
    results = folder / f"{trace.stem} {setting.title()} {pace} {number}.jsonl"
    begun = time.monotonic()
    subprocess.run([build / "replay", "-q", "--pass", "memory", "--rounds", "1", "--pace", pace,
                    "--alloc", setting.alloc(), "-o", results, trace], check=True,
                   stdout=subprocess.DEVNULL, env=environment())
    wall_s = time.monotonic() - begun
    row = json.loads(results.read_text().splitlines()[-1])
    return Run(row["rss_end_bytes"], row["rss_mean_bytes"], wall_s)


def median(runs: list[Run]) -> Run:
    return Run(*(statistics.median(getattr(run, name) for run in runs)
                 for name in ("end_bytes", "mean_bytes", "wall_s")))


def settings(build: Path) -> list[Setting]:
    listed = subprocess.run([build / "replay", "--list", "--alloc", "all"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    more = [Setting("jemalloc", "background_thread=1")]
    return [Setting(name) for name in names] + (more if "jemalloc" in names else [])


def off(virtual: float, real: float) -> float:
    return virtual / real - 1


def show(title: str, rows: dict[Setting, dict[str, Run]]) -> bool:
    """Prints the table of a trace; whether all of it is as it should be."""
    width = max(len(setting.title()) for setting in rows)
    print(f"\n{title}\n{'':{width}}  RSS at end (MB)                        mean RSS (MB)")
    print(f"{'allocator':{width}}  {'none':>7} {'virtual':>8} {'real':>7}   off      "
          f"{'none':>7} {'virtual':>8} {'real':>7}   off      virtual took")
    good = True
    for setting, runs in rows.items():
        none, virtual, real = (runs[pace] for pace in PACES)
        end_off = off(virtual.end_bytes, real.end_bytes)
        mean_off = off(virtual.mean_bytes, real.mean_bytes)
        fine = abs(end_off) <= OFF_MAX and virtual.wall_s <= VIRTUAL_S_MAX
        good = good and fine
        print(f"{setting.title():{width}}  {none.end_bytes / 1e6:7.2f} {virtual.end_bytes / 1e6:8.2f} "
              f"{real.end_bytes / 1e6:7.2f}  {end_off:+6.1%}    {none.mean_bytes / 1e6:7.2f} "
              f"{virtual.mean_bytes / 1e6:8.2f} {real.mean_bytes / 1e6:7.2f}  {mean_off:+6.1%}    "
              f"{virtual.wall_s:.2f} s{'' if fine else '  NOT AS IT SHOULD BE'}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    good = True
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(64) as pool:
        folder = Path(name)
        traces = {"100 MB freed, then 30 s of small bursts": make_burst(build, folder),
                  "python3 programs/pauses.py, recorded": record_pauses(build, folder)}
        every = settings(build)
        real: dict[tuple[Path, Setting], list[Future[Run]]] = {}
        for trace, setting, _ in product(traces.values(), every, range(RUNS)):
            runs = real.setdefault((trace, setting), [])
            runs.append(pool.submit(replay, build, folder, trace, setting, "real", len(runs)))
            # Real time is mostly spent asleep, so all of it is spent at once; but not so that what is
            # no sleep comes at the same moment in all, and late.
            time.sleep(STAGGER_S)
        wait([run for runs in real.values() for run in runs])
        for title, trace in traces.items():
            rows = {setting: {pace: median([replay(build, folder, trace, setting, pace, number)
                                            for number in range(RUNS)])
                              for pace in ("none", "virtual")} for setting in every}
            for setting, runs in rows.items():
                runs["real"] = median([future.result() for future in real[trace, setting]])
            good = show(title, rows) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
