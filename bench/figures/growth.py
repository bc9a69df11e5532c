#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cost of each step from a program to an answer grows with its calls, and with its live blocks.

    bench/figures/growth.py [--calls N,...] [--blocks N,...] [--budget TIME] [--build DIR] [-o FILE.csv]

bench/programs/many_calls.c runs with so many calls and 10,000 blocks, then with so many blocks and no further calls. A row has
a step's CPU time and peak RSS, its children's included, and the slope: by what power of the number the CPU time has grown since
the row before, 1: as much. Cures are not tried. Starting counts: slopes mean something from a second of CPU on.
--budget ends what begins after so long (default: 15m); larger numbers are left out then, and named. -o keeps the rows for pictures.py.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "analysis"))

from heaptape.base.arguments import duration  # noqa: E402
from heaptape.base.files import write_whole  # noqa: E402

LIVE_BLOCKS = 10_000


def steps(heaptape: Path, program: Path, calls: int, blocks: int, folder: Path) -> dict[str, list[object]]:
    """By name, the commands in the order in which each needs what those before have made."""
    trace, results = folder / "t.bin", folder / "r.jsonl"
    return {
        "alone": [program, calls, blocks],
        "record": [heaptape, "record", "-q", "--sites", "-o", folder / "logs", "--", program, calls, blocks],
        "convert": [heaptape, "convert", "-q", "--no-names", folder / "logs" / "log", "-o", trace],
        "stats": [heaptape, "stats", trace],
        "diff": [heaptape, "diff", trace, trace],
        "replay": [heaptape, "replay", "-q", "--alloc", "glibc", "--rounds", "1", "-o", results, trace],
        "report": [heaptape, "report", "-q", results, "-o", folder / "r.html"],
        "explain": [heaptape, "explain", "-q", "--budget", "0", "--alloc", "glibc", trace],
    }


def measured(measure_run: Path, command: Sequence[object]) -> tuple[float, float, float]:
    """CPU s, wall s, peak RSS in MB. Ends the program where the command fails."""
    done = subprocess.run([measure_run, *map(str, command)], stdout=subprocess.PIPE, text=True, check=True)
    used = json.loads(done.stdout)
    if used["status"]:
        sys.exit(f"growth.py: {' '.join(map(str, command))}: status {used['status']}")
    return used["cpu_us"] / 1e6, used["wall_ns"] / 1e9, used["max_rss_kib"] * 1024 / 1e6


def rising(text: str) -> list[int]:
    """Whole numbers above 0, each larger than the one before: 1e5,200000."""
    try:
        numbers = [int(float(one)) for one in text.split(",")]
    except (ValueError, OverflowError):
        numbers = []
    if not numbers or numbers[0] < 1 or any(one >= other for one, other in itertools.pairwise(numbers)):
        raise argparse.ArgumentTypeError(f"{text}: expected rising numbers such as 1e5,1e6")
    return numbers


def grow(build: Path, program: Path, axis: str, numbers: Sequence[int], ends_at: float, keep: Callable[[list[object]], object]) -> None:
    print(f"\n{axis}          step         CPU s    wall s   RSS MB  slope")
    before: dict[str, tuple[int, float]] = {}
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="heaptape-growth.") as name:
            folder = Path(name)
            calls, blocks = (number, min(number, LIVE_BLOCKS)) if axis == "calls" else (number, number)
            for step, command in steps(build / "heaptape", program, calls, blocks, folder).items():
                if time.monotonic() > ends_at:
                    print(f"left out for want of time: from {step} of {number:,} {axis} on")
                    return
                cpu_s, wall_s, rss_mb = measured(build / "bench/measure_run", command)
                if step == "record":
                    next((folder / "logs").glob("*.mraw")).rename(folder / "logs" / "log")
                old_number, old_cpu_s = before.get(step, (0, 0.0))
                slope = f"{math.log(cpu_s / old_cpu_s) / math.log(number / old_number):6.2f}" if old_cpu_s > 0 < cpu_s else ""
                print(f"{number:<14,} {step:8} {cpu_s:9.2f} {wall_s:9.2f} {rss_mb:8.1f} {slope}", flush=True)
                before[step] = number, cpu_s
                keep([axis, number, step, f"{cpu_s:.3g}", f"{wall_s:.3g}", f"{rss_mb:.4g}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=rising, default="1e5,1e6,1e7,1e8", metavar="N,...")
    parser.add_argument("--blocks", type=rising, default="1e4,1e5,1e6,1e7", metavar="N,...")
    parser.add_argument("--budget", type=duration, default="15m", metavar="TIME", help="begin nothing after so long, such as 90s or 15m")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE.csv")
    options = parser.parse_args()
    ends_at = time.monotonic() + options.budget
    if not (options.build / "bench/measure_run").exists():
        parser.error(f"--build {options.build}: expected a build with bench/measure_run in it")
    if options.output and not os.access(options.output.parent, os.W_OK):
        parser.error(f"-o {options.output}: no file can be made there")
    rows: list[list[object]] = [["axis", "number", "step", "cpu_s", "wall_s", "rss_mb"]]
    with tempfile.TemporaryDirectory(prefix="heaptape-growth.") as name:
        program = Path(name) / "many_calls"
        subprocess.run(["cc", "-O1", "-o", program, ROOT / "bench/programs/many_calls.c"], check=True)
        for axis, numbers in (("calls", options.calls), ("blocks", options.blocks)):
            grow(options.build.resolve(), program, axis, numbers, ends_at, rows.append)
    if options.output:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_whole(options.output, text.getvalue())


if __name__ == "__main__":
    main()
