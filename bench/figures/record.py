#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs a program, beside other recorders and in the same run.

    bench/figures/record.py [--workload loop,cc1,python,threads,cross] [--recorders NAME,...] [--json FILE]
    bench/figures/record.py --recorder 'before=MALLOC_WRAP_OUT={} /path/libmalloc_wrap.so' [OPTION...]
    bench/figures/record.py --recorder 'verb=build/heaptape record -q -o {}/log --' [OPTION...]
    bench/figures/record.py [OPTION...] -- PROGRAM [ARGUMENT...]

What is not installed here, or can't record a workload, is skipped, and one line says why. --recorder
names any other by path: variables, then a library to preload or the words that come before the
program; {} stands for the folder that its output goes to.

Every round runs each recorder once, in an order drawn anew for every second round and reversed in
the round after it; each run is compared with the untraced run of its round. CPU time is that of the
user and the system, of the process and the children that it waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import recorders as all_recorders
from bench.figures.cost_table import figures, print_table, print_thread_ratios, thread_ratios
from bench.figures.recorders import Recorder
from bench.figures.runs import COUNTED_WORKLOADS, Runner, count_group, measure_group, talk
from bench.programs import workloads as all_workloads
from bench.programs.workloads import Unavailable, Workload


def file_system(folder: Path) -> str:
    said = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                          check=False)
    return said.stdout.strip() or "unknown"


def find_recorders(options: argparse.Namespace,
                   stack: ExitStack) -> tuple[dict[str, Recorder], dict[str, str]]:
    found: dict[str, Recorder] = {}
    skipped: dict[str, str] = {}
    for name in options.recorders:
        try:
            found[name] = all_recorders.make_recorder(name, options.build)
            stack.callback(found[name].close)
        except Unavailable as reason:
            skipped[name] = str(reason)
    for label, words in options.recorder:
        try:
            found[label] = all_recorders.Named(label, words)
        except Unavailable as reason:
            skipped[label] = str(reason)
    return found, skipped


def labelled_recorder(text: str) -> tuple[str, str]:
    label, _, words = text.partition("=")
    try:
        complete = bool(label and shlex.split(words))
    except ValueError:
        complete = False
    if not complete:
        raise argparse.ArgumentTypeError(f"{text!r} is no LABEL=LIBRARY or LABEL=COMMAND")
    if label in all_recorders.NAMES:
        raise argparse.ArgumentTypeError(f"{label!r} is the name of a recorder")
    return label, words


def names_from(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return names
    return parse


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="What recording costs a program, recorder beside recorder.")
    parser.add_argument("--build", type=Path,
                        default=Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--workload", type=names_from(all_workloads.NAMES), metavar="NAME,...",
                        help=f"of {', '.join(all_workloads.NAMES)} (default: the first three)")
    parser.add_argument("--recorders", type=names_from(all_recorders.NAMES), metavar="NAME,...",
                        default=list(all_recorders.NAMES),
                        help=f"of {', '.join(all_recorders.NAMES)} (default: all; untraced always "
                             "runs)")
    parser.add_argument("--recorder", type=labelled_recorder, action="append", default=[],
                        metavar="LABEL=WORDS",
                        help="measure this one too: [NAME=VALUE...] and LIBRARY.so or COMMAND; {} is the output folder")
    parser.add_argument("--pairs", type=int, help="rounds (default: 15, with --quick 3)")
    parser.add_argument("--quick", action="store_true",
                        help="small workloads: says whether it works")
    parser.add_argument("--callgrind", action="store_true",
                        help=f"count instructions too ({', '.join(COUNTED_WORKLOADS)})")
    parser.add_argument("--seed", type=int, help="of the order of runs (default: drawn)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"),
                        help="where recorders write (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE",
                        help="write everything, samples included")
    parser.add_argument("command", nargs="*", metavar="PROGRAM", help="measure this program")
    options = parser.parse_args()
    if options.pairs is None:
        options.pairs = 3 if options.quick else 15
    if options.pairs < 1:
        parser.error("--pairs must be positive")
    if options.callgrind and not shutil.which("valgrind"):
        parser.error("--callgrind needs valgrind")
    if options.workload is None:
        options.workload = [] if options.command else ["loop", "cc1", "python"]
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    options.recorders = ["untraced"] + [n for n in options.recorders if n != "untraced"]
    return options


def make_groups(options: argparse.Namespace,
                folder: Path) -> tuple[dict[str, list[Workload]], dict[str, str]]:
    sizes = all_workloads.QUICK if options.quick else all_workloads.FULL
    groups: dict[str, list[Workload]] = {}
    skipped: dict[str, str] = {}
    for name in options.workload:
        try:
            groups[name] = all_workloads.make_group(name, options.build, sizes, folder)
        except Unavailable as reason:
            skipped[name] = str(reason)
    if options.command:
        inherited = {name: os.environ[name] for name in ("PYTHONMALLOC",) if name in os.environ}
        name = Path(options.command[0]).name
        groups["program"] = [Workload(name, options.command, inherited)]
    return groups, skipped


def run_all(options: argparse.Namespace, folder: Path, stack: ExitStack) -> dict[str, Any]:
    recorders, skipped = find_recorders(options, stack)
    heaptape = all_recorders.make_recorder("heaptape", options.build)
    groups, skipped_workloads = make_groups(options, folder)
    runner, rng = Runner(options.build, folder), random.Random(options.seed)
    report: dict[str, Any] = {
        "pairs": options.pairs, "seed": options.seed, "quick": options.quick,
        "kernel": os.uname().release, "file_system": file_system(folder),
        "recorders": {name: recorder.how for name, recorder in recorders.items()},
        "skipped": skipped | skipped_workloads, "workloads": [], "threads": {}}
    print(f"{options.pairs} rounds, seed {options.seed}; output on {report['file_system']}")
    for name, how in report["recorders"].items():
        print(f"  {name:13} {how}")
    for name, reason in report["skipped"].items():
        print(f"  {name:13} skipped: {reason}")
    for name, group in groups.items():
        results = measure_group(runner, group, recorders, heaptape, options.pairs, rng)
        if options.callgrind and name in COUNTED_WORKLOADS:
            sizes = all_workloads.QUICK if options.quick else all_workloads.COUNTED
            counted = all_workloads.make_group(name, options.build, sizes, folder)
            count_group(runner, counted, results, recorders, heaptape)
        talk("")
        for result in results:
            table = {recorder: figures(result, recorder, options.seed) for recorder in result.rows}
            print_table(result, table)
            report["workloads"].append({"name": result.workload.name,
                                        "command": result.workload.command,
                                        "calls": result.calls, "recorders": table,
                                        "skipped": result.skipped})
        if len(results) > 1:
            ratios = thread_ratios(results, options.seed)
            print_thread_ratios(ratios, results[0].workload.name)
            report["threads"] |= ratios
        sys.stdout.flush()
    return report


def main() -> None:
    options = parse_options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="heaptape-bench.", dir=options.folder)))
        report = run_all(options, folder, stack)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
