# SPDX-License-Identifier: Apache-2.0
"""A file of results with a line of JSON for each program, which goes on after any end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.validity.run import Failed, PassedOver

Measure = Callable[[str, dict[str, Any], Path, argparse.Namespace], tuple[dict[str, Any], list[dict[str, Any]]]]
"""Of a program's name, itself, an empty folder and the options: what is kept, and its allocators, each with a `problem` or None."""


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """By program the last line that there is. A line that was cut short is as if it were not there."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except ValueError:
            print(f"{path}: a line that is no JSON is passed over", file=sys.stderr)
            continue
        found[result["name"]] = result
    return found


def append(path: Path, result: dict[str, Any]) -> None:
    """A line that was cut short before must not swallow this one."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(result, separators=(",", ":")).encode() + b"\n")


def run_all(options: argparse.Namespace, programs: dict[str, dict[str, Any]], path: Path, measure: Measure) -> bool:
    """Measures those of options.names that the results lack, or all, with options.again. Whether every one that is installed could be
    measured."""
    fine, done = True, read_results(path)
    for name in options.names:
        if name in done and not options.again:
            print(f"{name}: is there already", file=sys.stderr)
            continue
        began = time.monotonic()
        # Others must be able to read what is in there, where a server will not run as root.
        with tempfile.TemporaryDirectory(prefix="heaptape-programs-") as scratch:
            try:
                result, allocators = measure(name, programs[name], Path(scratch), options)
            except PassedOver as why:
                print(f"{name}: passed over, {why}", file=sys.stderr)
                continue
            except Failed as why:
                print(f"{name}: failed, {why}", file=sys.stderr)
                fine = False
                continue
        elapsed_s = time.monotonic() - began
        append(path, {"name": name, "elapsed_s": round(elapsed_s, 1), **result})
        worst = [item["problem"] for item in allocators if item["problem"]]
        fine = fine and not worst
        print(f"{name}: {elapsed_s:.0f} s{': ' + worst[0] if worst else ''}", file=sys.stderr, flush=True)
    return fine
