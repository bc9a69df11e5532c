#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what `heaptape explain` says that cures save of peak RSS against real runs with these cures.

    bench/validity/cures.py [--build B] [--only SET|NAME,...] [--budget 60s] [--most 3] [--rounds 5]

Of each program's cures that need no change of it, those that save most are given to `heaptape validate`. Servers are passed over.
Errors are in % of the real peak RSS. Memory alone is compared, so that a busy machine matters little. It takes a minute a program.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import PassedOver, Prepared, prepare, record, run_all, run_tool, validated  # noqa: E402
from bench.validity.validate import chosen_of_sets, read_programs  # noqa: E402

BASELINE = "glibc"


@dataclass(frozen=True)
class Pair:
    """What a cure saves, as explained and in reality: shares of the real peak RSS."""

    predicted: float
    low: float
    high: float
    real: float

    @property
    def held(self) -> bool:
        return self.low <= self.real <= self.high


def cures_of(prepared: Prepared, options: argparse.Namespace) -> list[dict[str, Any]]:
    """As `explain --json` has them, with an interval, the largest saving first."""
    _, trace = record(prepared, options.build)
    explained = json.loads(run_tool([options.build / "heaptape", "explain", "-q", "--json", "--alloc", BASELINE, "--budget", options.budget, trace], prepared.who))
    usable = [cure for cure in explained["cures"] or [] if cure["alloc"] and cure["ci_low"] is not None]
    return sorted(usable, key=lambda cure: -cure["saves_bytes"])[:options.most]


def compare(prepared: Prepared, options: argparse.Namespace) -> list[Pair]:
    """Prints a line for each cure."""
    cures = cures_of(prepared, options)
    if not cures:
        print("  no cure", flush=True)
        return []
    alloc = ",".join([BASELINE, *(cure["alloc"] for cure in cures)])
    real = validated(prepared, options.build, alloc, "--rounds", str(options.rounds))["allocators"]
    peaks = {item["name"]: item["memory"]["peak"]["real_bytes"] for item in real if "memory" in item}
    pairs = []
    for cure, item in zip(cures, real[1:], strict=True):
        if item["name"] not in peaks:
            print(f"  {cure['name']}: could not be run", flush=True)
            continue
        base = peaks[BASELINE]
        pair = Pair(*(cure[key] / base for key in ("saves_bytes", "ci_low", "ci_high")), 1 - peaks[item["name"]] / base)
        print(f"  {cure['name']:24} saves {pair.predicted:+7.1%} [{pair.low:+.1%}, {pair.high:+.1%}], really {pair.real:+7.1%} of {base / 1e6:.1f} MB"
              f"{'' if pair.held else ': not held'}", flush=True)
        pairs.append(pair)
    return pairs


def main() -> int:
    programs = read_programs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="programs,others", metavar="SET|NAME,...")
    parser.add_argument("--budget", default="60s", help="of explain, for each program")
    parser.add_argument("--most", type=int, default=3, help="cures of each program")
    parser.add_argument("--rounds", type=int, default=5, help="of real runs")
    options = parser.parse_args()
    options.build = options.build.resolve()
    pairs: list[Pair] = []

    def measure(name: str, program: dict[str, Any], scratch: Path) -> list[str]:
        if "start" in program:
            raise PassedOver("it is a server")
        print(f"{name}:", flush=True)
        pairs.extend(compare(prepare(name, program, scratch, options.build), options))
        return []

    fine = run_all(chosen_of_sets(parser, options.only, programs), programs, (), measure)
    if pairs:
        errors = [abs(pair.predicted - pair.real) for pair in pairs]
        print(f"{len(pairs)} cures: {statistics.median(errors):.1%} of peak RSS off in the median, {max(errors):.1%} at worst; "
              f"{sum(pair.held for pair in pairs)} held by the interval")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
