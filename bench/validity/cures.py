#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies what `heaptape explain` proposes to the real programs of cures.toml, and holds the saving against the predicted one.

    bench/validity/cures.py [--build B] [--only NAME,...] [--rounds N]

By `heaptape validate` the program is recorded; `heaptape explain` replays its cures; `heaptape validate` runs the program with the
best two of them that are not a change of the program. Peak RSS of the real process, medians of the rounds. Prints a table.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import Failed, Prepared, chosen, prepare, run_all, run_json, validated  # noqa: E402

PROGRAMS = ROOT / "bench" / "validity" / "cures.toml"
BUDGET = "30s"
CURES = 2
SPARE = {"glibc": "arena_max=1", "jemalloc": "narenas=1"}
"""What the program is recorded beside, as `validate` takes two allocators or more."""


def _real_peaks(prepared: Prepared, options: argparse.Namespace, alloc: str, *how: str) -> dict[str, float]:
    found = validated(prepared, options.build, alloc, "--baseline", prepared.program["baseline"], *how)
    return {item["name"]: item["memory"]["peak"]["real_bytes"] for item in found["allocators"] if not item["problem"]}


def _best(explained: dict[str, Any]) -> list[dict[str, Any]]:
    """The largest savings by another allocator or setting, the largest by a setting among them."""
    usable = [cure for cure in explained["cures"] if cure["alloc"] and cure["ci_low"] > 0]
    settings = [cure for cure in usable if cure["alloc"].startswith(explained["allocator"]["name"] + ":")]
    return sorted(usable, key=lambda cure: (cure not in settings[:1], -cure["saves_bytes"]))[:CURES]


def measure(name: str, program: dict[str, Any], scratch: Path, options: argparse.Namespace) -> list[str]:
    """A row for each cure. Raises PassedOver and Failed."""
    prepared, base = prepare(name, program, scratch, options.build), program["baseline"]
    kept = prepared.folder / "kept"
    _real_peaks(prepared, options, f"{base},{base}:{SPARE[base]}", "--rounds", "2", "--replay-rounds", "2", "--keep", str(kept))
    explained = run_json([options.build / "heaptape", "explain", "-q", "--json", "--alloc", base, "--budget", BUDGET, kept / "trace.bin"], prepared.who)
    cures = _best(explained)
    if not cures:
        raise Failed(f"verdict {explained['verdict']}: no cure saves anything")
    real = _real_peaks(prepared, options, ",".join([base, *(f"cure{i}={cure['alloc']}" for i, cure in enumerate(cures))]),
                       "--rounds", str(options.rounds), "--replay-rounds", "2")
    rows = []
    for i, cure in enumerate(cures):
        saved = real[base] - real[f"cure{i}"]
        rows.append(f"| {name} | {explained['verdict']} | `{cure['alloc']}` | {real[base] / 1e6:.1f} | {cure['saves_bytes'] / 1e6:.1f} | {saved / 1e6:.1f} | "
                    f"{(cure['saves_bytes'] - saved) / real[base]:+.1%} |")
    return rows


def main() -> int:
    programs: dict[str, dict[str, Any]] = tomllib.loads(PROGRAMS.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(programs)}")
    parser.add_argument("--rounds", type=int, default=5, help="of the real program (default: 5)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    print("| program | verdict | cure | peak RSS, MB | predicted saving, MB | real saving, MB | difference, of RSS |\n| --- | --- | --- | --: | --: | --: | --: |")

    def measured(name: str, program: dict[str, Any], scratch: Path) -> list[str]:
        print("\n".join(measure(name, program, scratch, options)), flush=True)
        return []

    return 0 if run_all(chosen(parser, options.only, programs), programs, (), measured) else 1


if __name__ == "__main__":
    sys.exit(main())
