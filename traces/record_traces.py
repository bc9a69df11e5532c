#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the traces of this folder anew, each by its recipe in recipes/recipes.sh.

    traces/record_traces.py [--build BUILD] -o DIR [NAME...]

leaves NAME.bin in DIR, the trace of the process of the recipe's program that made the most calls,
and prints of which package and version that program is. Everything runs in WORK, a folder that
tells nothing of whose machine this is, because command lines and the shim's path get into a
trace. Events differ a little from one recording to the next where several threads or processes run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = Path("/tmp/corpus")
TIMEOUT_S = 300


@dataclass(frozen=True)
class Recipe:
    program: str  # name of the command that the trace is of
    package: str  # of Debian; what else a recipe needs is in `more`
    more: tuple[str, ...] = ()
    unprivileged: bool = False  # refuses to run as root


RECIPES = {
    "cc1": Recipe("cc1", "gcc-12", ("cpp-12",)),
    "cpython": Recipe("python3", "python3.11"),
    "git-log": Recipe("git", "git"),
    "git-pack": Recipe("git", "git"),
    "node": Recipe("node", "nodejs"),
    "perl": Recipe("perl", "perl"),
    "postgres": Recipe("postgres", "postgresql-15", unprivileged=True),
    "python-threads": Recipe("python3", "python3.11"),
    "redis": Recipe("redis-server", "redis-tools"),
    "ruby": Recipe("ruby", "ruby3.1"),
    "sqlite3": Recipe("sqlite3", "sqlite3"),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def versions(recipe: Recipe) -> str:
    """Packages and their versions; without Debian's tools, only that nobody knows."""
    try:
        asked = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Package} ${Version}\n", recipe.package, *recipe.more],
            capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "of an unknown version"
    return ", ".join(asked.stdout.splitlines()) or f"{recipe.package} is not installed as a package"


def set_up(build: Path) -> None:
    try:
        WORK.mkdir()
    except FileExistsError:
        sys.exit(f"record_traces.py: {WORK} is there: is another recording under way? If not, remove it")
    (WORK / "bin").mkdir()
    for file in ("heaptape", "libmalloc_wrap.so", "libmalloc_wrap_full.so"):
        shutil.copy(build / file, WORK / "bin")
    shutil.copytree(HERE / "recipes", WORK / "files")


def run_recipe(name: str, recipe: Recipe) -> Path:
    """Runs it in an empty folder; the folder with its logs."""
    folder, logs = WORK / name, WORK / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    for made in (folder, logs):
        made.mkdir()
        made.chmod(0o777 if recipe.unprivileged else 0o755)
    environment = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder), "LC_ALL": "C.UTF-8",
        "TZ": "UTC", "SOURCE": str(HERE.parent), "FILES": str(WORK / "files"),
        "BIN": str(WORK / "bin"), "LOGS": str(logs), "PORT": str(free_port()),
    }
    command = ["bash", "-eu", str(WORK / "files" / "recipes.sh"), name]
    if recipe.unprivileged and os.getuid() == 0:
        command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=TIMEOUT_S,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return logs


def convert(log: Path, build: Path, trace: Path) -> dict[str, Any]:
    heaptape = build / "heaptape"
    subprocess.run([heaptape, "convert", "-q", "--level", "max", log, "-o", trace], check=True)
    info = subprocess.run([heaptape, "info", "--json", trace], check=True, capture_output=True)
    reported: dict[str, Any] = json.loads(info.stdout)
    return reported


def keep_most_calls(name: str, recipe: Recipe, logs: Path, build: Path, target: Path) -> str:
    """Makes the trace of the recipe's program with the most calls; a line about it."""
    best: dict[str, Any] = {"events": -1}
    trace, tried = target / f"{name}.bin", logs / "tried.bin"
    for log in sorted(logs.glob("*.mraw")):
        reported = convert(log, build, tried)
        if os.path.basename(reported["command"].split()[0]).rstrip(":") != recipe.program:
            continue
        if reported["events"] > best["events"]:
            best = reported
            shutil.copy(tried, trace)
    if best["events"] < 0:
        sys.exit(f"record_traces.py: {name}: no log of {recipe.program}")
    return (f"{name}: {best['events']:,} events, {best['threads']} threads, peak "
            f"{best['peak_live_bytes'] / 1e6:.2f} MB, {best['file_bytes']:,} bytes; {versions(recipe)}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Records the traces of this folder anew.")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECIPES))
    options = parser.parse_args()
    if unknown := set(options.names) - set(RECIPES):
        parser.error(f"no recipe for {', '.join(sorted(unknown))}")
    return options


def main() -> None:
    options = parse()
    build = options.build.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    set_up(build)
    try:
        for name in options.names or RECIPES:
            logs = run_recipe(name, RECIPES[name])
            print(keep_most_calls(name, RECIPES[name], logs, build, options.output), flush=True)
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
