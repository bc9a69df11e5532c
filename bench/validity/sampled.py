#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds sampled recordings of accesses against whole ones: how long they take, and what both predict of the program's time.

    bench/validity/sampled.py [--build B] [--only NAME,...] [--pairs 5] [--alloc LIST] [--no-splice]

Of programs of programs.toml, with their inputs for --count. Each pair runs the program alone, recorded whole and recorded sampled, one
after the other; printed are medians of the ratios of CPU time, so that a busy machine matters little. Errors are in % of the program's time.
It takes 20 minutes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import (  # noqa: E402
    Prepared,
    chosen,
    made_brief,
    prepare,
    record,
    run_all,
    run_json,
    run_tool,
)

HOW: dict[str, list[str]] = {"whole": ["--accesses"], "sampled": ["--accesses", "--sampled"]}


def _cpu_s(command: list[Any], prepared: Prepared) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_tool(command, prepared.who)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _times(prepared: Prepared, options: argparse.Namespace) -> str:
    """Medians over the pairs."""
    alone_s: list[float] = []
    ratios: dict[str, list[float]] = {how: [] for how in HOW}
    for _ in range(options.pairs):
        alone_s.append(_cpu_s(prepared.words[1:], prepared))
        for how, words in HOW.items():
            logs = prepared.folder / how
            for old in logs.glob("*"):
                old.unlink()
            ratios[how].append(_cpu_s([options.build / "heaptape", "record", "-q", *words, "-o", logs, *prepared.words], prepared) / alone_s[-1])
    return f"{statistics.median(alone_s):.2f} s alone" + "".join(
        f"; {how} × {statistics.median(found):.0f}, {max(path.stat().st_size for path in (prepared.folder / how).glob('*.acc')) / 1e6:.0f} MB"
        for how, found in ratios.items())


def _spliced(prepared: Prepared, options: argparse.Namespace, how: str) -> dict[str, Any]:
    accesses, trace = record(prepared, options.build, *HOW[how])
    command = [options.build / "replay", "-q", "--json", "--pass", "count", "--alloc", options.alloc, "--splice", accesses, trace]
    counts: dict[str, Any] = run_json(command, prepared.who)["counts"]
    return counts


def _print_errors(prepared: Prepared, options: argparse.Namespace) -> list[float]:
    whole, sampled = (_spliced(prepared, options, how) for how in HOW)
    errors = []
    for name in list(whole)[1:]:
        one, other = (100 * (counts[name]["program_time"]["ratio"] - 1) for counts in (whole, sampled))
        time = sampled[name]["program_time"]
        errors.append(abs(other - one))
        print(f"  {name:9} whole {one:+6.2f} %   sampled {other:+6.2f} % [{100 * (time['ratio_low'] - 1):+.2f}, {100 * (time['ratio_high'] - 1):+.2f}], "
              f"{sampled[name]['sampled']['bursts']} bursts   off by {other - one:+.2f}", flush=True)
    return errors


def main() -> int:
    programs: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "bench" / "validity" / "programs.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", default="cc1,xsltproc,python-json,perl-hashes,gawk", metavar="NAME,...")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc", metavar="LIST")
    parser.add_argument("--full", action="store_true", help="the inputs for times, ten times as long")
    parser.add_argument("--no-splice", action="store_true", help="times alone")
    options = parser.parse_args()
    options.build = options.build.resolve()
    errors: list[float] = []

    def measure(name: str, program: dict[str, Any], scratch: Path) -> list[str]:
        prepared = prepare(name, program if options.full else made_brief(program), scratch, options.build)
        print(f"{name}: {_times(prepared, options)}", flush=True)
        errors.extend([] if options.no_splice else _print_errors(prepared, options))
        return []

    fine = run_all(chosen(parser, options.only, programs), programs, (), measure)
    if errors:
        print(f"off by {statistics.median(errors):.2f} % of the program's time, median of {len(errors)}; at most {max(errors):.2f}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
