#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds replays against many real programs: runs `heaptape validate` for each that programs.toml lists.

    bench/validity/validate.py [--programs FILE.toml] [--build B] [--only NAME,...] [--alloc LIST] [--rounds N] [-o results.jsonl] [--again]
    bench/validity/validate.py --count|--instructions [--only NAME,...] [--counts FILE]
    bench/validity/validate.py -o results.jsonl --no-run [--page docs/method/validity.md] [--tables DIR]

Appends a line of JSON for each program to the results; one that is there already is passed over, unless --again, so
that what was interrupted goes on. A program that is not installed is named and passed over. Then prints, of all that
the results hold, the totals; --page writes the page, --tables a drawing for each program and tables of all figures.
Without results of timed runs the page is made of the tables that are there. With --count or --instructions what is
counted goes into a file of its own. Timed runs want a quiet machine: CPU times are compared.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.curves import draw_curves, few_points  # noqa: E402
from bench.validity.page import page, totals_table  # noqa: E402
from bench.validity.resumed import read_results, run_all  # noqa: E402
from bench.validity.run import chosen, count_one, validate_one  # noqa: E402
from bench.validity.splice_page import SPLICED  # noqa: E402
from bench.validity.tables import read_tables, tables_of, write_tables  # noqa: E402

from heaptape.base.files import write_whole  # noqa: E402

COUNTS = ROOT / "docs" / "method" / "validity" / "counts.jsonl"
PROGRAMS = ROOT / "bench" / "validity" / "programs.toml"
KEYS = {"does", "needs", "setup", "command", "start", "ready", "load", "stop", "process", "unprivileged", "env", "note", "count",
        "count_note"}


def read_programs(path: Path = PROGRAMS) -> dict[str, dict[str, Any]]:
    programs: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
    for name, program in programs.items():
        if unknown := set(program) - KEYS:
            sys.exit(f"{path}: {name}: unknown: {', '.join(sorted(unknown))}")
        if ("command" in program) == ("start" in program):
            sys.exit(f"{path}: {name}: either a command or a server's start expected")
    return programs


def _timed(*program: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document, curves = validate_one(*program)
    return {"validation": document, "curves": few_points(curves)}, document["allocators"]


def _counted(*program: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    document = count_one(*program)
    return document, document["allocators"]


def parse(programs: dict[str, dict[str, Any]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="FILE.toml", help="that are listed there (programs.toml)")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(programs)}")
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc", metavar="LIST")
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="of real runs and of replays (12)")
    parser.add_argument("--replay-rounds", type=int, metavar="N", help="of replays, where not as many")
    parser.add_argument("-o", "--output", type=Path, default=Path("validity.jsonl"), metavar="FILE")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--count", action="store_true", help="count exactly, by heaptape validate --count, instead of timing")
    how.add_argument("--instructions", action="store_true", help="the same, of instructions alone")
    parser.add_argument("--counts", type=Path, default=COUNTS, metavar="FILE", help=f"of --count ({COUNTS.relative_to(ROOT)})")
    parser.add_argument("--again", action="store_true", help="measure also what the results have already")
    parser.add_argument("--no-run", action="store_true", help="only print and write what the results hold")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write the page about it")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="write drawings and CSV files of all figures of timed runs")
    options = parser.parse_args()
    options.names = chosen(parser, options.only, programs)
    if options.rounds < 2 or (options.replay_rounds or 1) < 1:
        parser.error("--rounds: expected two or more; --replay-rounds: one or more")
    options.build, options.counted = options.build.resolve(), options.count or options.instructions
    return options


def main() -> int:
    listed = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    listed.add_argument("--programs", type=Path, default=PROGRAMS)
    programs = read_programs(listed.parse_known_args()[0].programs)
    options = parse(programs)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the scratch folders go on the way out
    fine = options.no_run or (run_all(options, programs, options.counts, _counted) if options.counted else
                              run_all(options, programs, options.output, _timed))
    timed, counted = ([found[name] for name in programs if name in found and name in options.names]
                      for found in (read_results(options.output), read_results(options.counts)))
    if not timed and not counted:
        print("validate: there are no results", file=sys.stderr)
        return 1
    beside = options.tables or COUNTS.parent
    tables = tables_of(timed, programs) if timed else read_tables(beside)
    if timed and options.tables:
        draw_curves(timed, options.tables)
        write_tables(tables, options.tables)
    if options.page:
        write_whole(options.page, page(tables, counted, list(read_results(SPLICED).values()), programs, beside, options.page.resolve().parent))
    print(totals_table(tables, counted))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
