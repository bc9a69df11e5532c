#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the replay's differences of CPU time against the real clock's, on a machine that drifts.

    bench/validity/clock.py [--build B] [--rounds N] NAME,...

Programs are those of programs.toml and splice.toml that start by a command, with their inputs for timing. Each is recorded once. Then, in
each round and in random order, one time pass of all allocators and two runs of the real program under each: whatever the machine
does meanwhile slows both. Prints medians of the rounds' differences to the first allocator, in ms, with their 95 % intervals, and of
`/bin/true`, which is added to what the replay predicts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import Prepared, prepare  # noqa: E402

from heaptape.results.comparison import estimate_saving  # noqa: E402

TRUE = ["/bin/true"]


def real_ms(argv: list[str], library: str, prepared: Prepared) -> float:
    """CPU time of one run, with its children's."""
    environment = prepared.who["env"] | ({"LD_PRELOAD": library} if library else {})
    with subprocess.Popen(argv, cwd=prepared.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{argv[0]}: status {process.returncode}")
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def replayed_ms(options: argparse.Namespace, trace: Path) -> dict[str, float]:
    """The time pass of each allocator."""
    results = trace.with_suffix(".jsonl")
    results.unlink(missing_ok=True)
    subprocess.run([options.build / "heaptape", "replay", "-q", "--pass", "time", "--rounds", "1", "--alloc", options.alloc, "-o", results, trace],
                   check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["allocator"]["name"]: row["alloc_time_ns"] / 1e6 for row in rows
            if row["pass"] == "time" and not row["control"] and row["alloc_time_ns"] is not None}


def record(options: argparse.Namespace, prepared: Prepared, argv: list[str]) -> Path:
    logs, trace = prepared.folder / "logs", prepared.folder / "clock.bin"
    subprocess.run([options.build / "heaptape", "record", "-q", "-o", logs, "--", *argv], check=True, stdout=subprocess.DEVNULL, **prepared.who)
    log = max(logs.glob("*.mraw"), key=lambda path: path.stat().st_size)
    subprocess.run([options.build / "heaptape", "convert", "-q", log, "-o", trace], check=True)
    return trace


def rounds_of(options: argparse.Namespace, prepared: Prepared, libraries: dict[str, str]) -> dict[str, list[dict[str, float]]]:
    """By what was run, a value of each allocator for each run."""
    argv = prepared.words[1:]
    trace = record(options, prepared, argv)
    found: dict[str, list[dict[str, float]]] = {"replay": [], "real": [], "true": []}
    for _ in range(options.rounds):
        turns = ["replay", "real", "real", "true"]
        random.shuffle(turns)
        for what in turns:
            if what == "replay":
                found[what].append(replayed_ms(options, trace))
                continue
            names = random.sample(list(libraries), len(libraries))
            found[what].append({name: real_ms(argv if what == "real" else TRUE, libraries[name], prepared) for name in names})
    return found


def table_lines(name: str, found: dict[str, list[dict[str, float]]], names: list[str]) -> list[str]:
    base, lines = names[0], []
    for other in names[1:]:
        startup = median(one[other] - one[base] for one in found["true"])
        real, replay = (estimate_saving(*(np.array([one[key] for one in found[what]]) for key in (other, base)))
                        for what in ("real", "replay"))
        predicted = replay.middle + startup
        lines.append(f"| {name} | {median(one[base] for one in found['real']):.0f} | {other} | {predicted:+.1f} | "
                     f"{real.middle:+.1f} [{real.ci_low:+.1f}, {real.ci_high:+.1f}] | {predicted / real.middle:.2f} |")
    return lines


def main() -> int:
    programs: dict[str, dict[str, Any]] = {}
    for name in ("programs.toml", "splice.toml"):
        programs |= tomllib.loads((ROOT / "bench" / "validity" / name).read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc", metavar="LIST")
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    parser.add_argument("names", metavar="NAME,...")
    options = parser.parse_args()
    options.build = options.build.resolve()
    listed = json.loads(subprocess.run([options.build / "heaptape", "replay", "--list", "--json", "--alloc", options.alloc], check=True,
                                       capture_output=True).stdout)
    libraries = {item["name"]: "" if item["kind"] == "glibc" else item["path"] for item in listed}
    print("| program | baseline, ms | allocator | predicted, ms | real, ms | predicted/real |\n| --- | ---: | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="heaptape-clock-") as scratch:
        for name in options.names.split(","):
            if "command" not in programs.get(name, {}):
                parser.error(f"{name}: no such program with a command")
            found = rounds_of(options, prepare(name, programs[name], Path(scratch), options.build), libraries)
            print("\n".join(table_lines(name, found, list(libraries))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
