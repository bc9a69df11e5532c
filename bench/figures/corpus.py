#!/usr/bin/env python3
"""Records and converts the corpus of real programs that bench/figures/encoding_corpus.toml lists.

    bench/figures/corpus.py [--build BUILD] [--only NAME,...] FOLDER

leaves NAME.mraw, the log of the process with the most calls, and NAME.bin, its trace at the default
level, in FOLDER. A program that is not installed is passed over and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.compatibility.compatibility import PROGRAMS
from bench.compatibility.run import REPOSITORY, Bench, find_program, orphans_become_ours
from bench.programs.workloads import FULL, make_group

RECIPES = REPOSITORY / "bench" / "figures" / "encoding_corpus.toml"


class NotInstalled(Exception):
    """A program of the corpus is missing here."""


def record_program(name: str, build: Path, folder: Path) -> Path:
    """Runs a row of the compatibility table; the folder that then holds its logs."""
    program = next(program for program in PROGRAMS if program.name == name)
    if missing := [needed for needed in program.needs if not find_program(needed)]:
        raise NotInstalled(f"{', '.join(missing)} missing")
    bench = Bench(program, build, folder)
    bench.run("record")
    return bench.logs


def record_workload(name: str, build: Path, folder: Path) -> Path:
    """Runs one of the programs that recorders are measured with; the folder with its logs."""
    workload = make_group(name, build, FULL, folder)[0]
    logs = folder / "logs"
    logs.mkdir()
    subprocess.run(
        [build / "heaptape", "record", "-q", "-o", logs, "--", *workload.command],
        env=os.environ | workload.environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return logs


def convert(log: Path, build: Path, trace: Path) -> dict[str, Any]:
    subprocess.run([build / "heaptape", "convert", "-q", log, "-o", trace], check=True)
    facts: dict[str, Any] = json.loads(
        subprocess.run(
            [build / "heaptape", "info", "--json", trace], check=True, capture_output=True
        ).stdout
    )
    return facts


def keep_largest(name: str, executable: str, logs: Path, build: Path, target: Path) -> str:
    """Converts the largest log of the executable and copies it; a line that says what it is."""
    raw, trace = target / f"{name}.mraw", target / f"{name}.bin"
    for log in sorted(logs.glob("*.mraw"), key=lambda log: -log.stat().st_blocks):
        # Where it was recorded, so that a child's parent is found beside it.
        facts = convert(log, build, trace)
        if executable in ("", os.path.basename(facts["command"].split()[0])):
            subprocess.run(["cp", "--sparse=always", log, raw], check=True)
            return (
                f"{name}: {facts['events']:,} events, {facts['threads']} threads, "
                f"{facts['bytes_per_event']:.2f} bytes per event: {facts['command'][:60]}"
            )
    trace.unlink(missing_ok=True)
    return f"{name}: passed over, no log of {executable}"


def make_one(name: str, recipe: dict[str, str], build: Path, target: Path) -> str:
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        try:
            if "program" in recipe:
                logs = record_program(recipe["program"], build, Path(scratch))
            else:
                logs = record_workload(recipe["workload"], build, Path(scratch))
        except NotInstalled as missing:
            return f"{name}: passed over, {missing}"
        return keep_largest(name, recipe.get("executable", ""), logs, build, target)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Records the corpus of real programs.")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    parser.add_argument("--only", help="names of the corpus, separated by commas")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.recipes = tomllib.loads(RECIPES.read_text())
    names = options.only.split(",") if options.only else list(options.recipes)
    if unknown := set(names) - set(options.recipes):
        parser.error(f"not in the corpus: {', '.join(sorted(unknown))}")
    options.names = names
    return options


def main() -> None:
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    with orphans_become_ours():
        for name in options.names:
            print(make_one(name, options.recipes[name], options.build, options.folder), flush=True)


if __name__ == "__main__":
    main()
