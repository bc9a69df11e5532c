#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Answers like `replay` with figures of a landscape that is known: for the tests of the search alone.

`haste` 0 to 9 (4 when left alone) makes it faster and larger, step by step, so that all its values are on the front.
`waste` makes it larger only. `odd` is refused when it is set; more than 9 digits in `wide` end it with a signal.
A trace of which more is "forked" is of a forked process. FAKE_REPLAY_STOP names a file: once it holds as many lines as the number behind it says, runs wait for ever; each run adds
a line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))
from fake_runner import serve
from judged_runs import MEMORY_LINE, TIME_LINE, context

KNOBS = [
    {"name": "haste", "type": "integer", "lowest": 0, "highest": 9, "search": [0, 9], "value": "4"},
    {"name": "waste", "type": "boolean", "value": "0", "search": True},
    {"name": "wide", "type": "integer", "lowest": -1, "highest": 10**13, "search": [-1, 10**13], "value": "10000"},
    {"name": "odd", "type": "word", "words": ["plain", "strange"], "value": "plain", "search": True},
    {"name": "risky", "type": "boolean", "value": "0", "search": None},
]


def chosen(part: str) -> tuple[str, dict[str, str]]:
    label, _, rest = part.partition("=")
    return label, dict(item.split("=") for item in rest.partition(":")[2].split(",")) if rest else {}


def split(names: str) -> list[str]:
    """Parts of --alloc: knobs follow what they belong to."""
    parts: list[str] = []
    for item in names.split(","):
        if parts and ":" in parts[-1] and ":" not in item:
            parts[-1] += f",{item}"
        else:
            parts.append(item)
    return parts


def figures(knobs: dict[str, str], rng: random.Random) -> tuple[float, float]:
    haste = int(knobs.get("haste", 4)) - 4
    wasted = 1.5 if knobs.get("waste") == "1" else 1.0
    return 1e8 * 0.9**haste * rng.uniform(0.99, 1.01), 5e7 * 1.2**haste * wasted


def wait_if_asked() -> None:
    name, _, count = os.environ.get("FAKE_REPLAY_STOP", "").partition(":")
    if name:
        with Path(name).open("a+") as file:
            file.write("run\n")
            file.seek(0)
            lines = len(file.readlines())
        if lines >= int(count):
            time.sleep(60)


def count(options: argparse.Namespace, configs: dict[str, dict[str, str]]) -> int:
    """The program takes 9 times the allocator's time besides, whatever the knobs."""
    if not Path(options.splice).exists():
        print(f"heaptape replay: {options.splice}: cannot open", file=sys.stderr)
        return 3
    ratios = {label: 0.9 + 0.1 * 0.9 ** (int(knobs.get("haste", 4)) - 4) for label, knobs in configs.items()}
    counts = {label: {"program_time": {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01}, "sampled": None}
              for label, ratio in ratios.items()}
    return serve(context(list(configs), plan={"time_pass": False, "memory_pass": False}), lambda _job: {},
                 lambda: {"failed": 0, "counts": counts, "print": {"counts": counts}})


def measure(options: argparse.Namespace, configs: dict[str, dict[str, str]]) -> int:
    rng, labels = random.Random(options.seed), list(configs)
    trace = {"path": options.trace, "sha256": "ab", "events": 1000}
    passes = ["time", "memory"] if getattr(options, "pass") == "both" else [getattr(options, "pass")]

    def turn(job: dict[str, Any]) -> dict[str, Any]:
        if job["warm_up"]:
            return {"cpu_ns": 1_000_000}
        if job["timed_follows"]:
            return {"failed": False}
        label = labels[(job["who"] - 1) % len(labels)] if job["who"] else "null"
        knobs, pass_name = configs.get(label, {}), "memory" if job["pass"] == "memory" else "time"
        time_ns, rss = figures(knobs, rng)
        environment = ["FAKE_CONF=" + ":".join(f"{name}={value}" for name, value in knobs.items())] if knobs else []
        found = {"alloc_time_ns": time_ns} if pass_name == "time" else {"rss_mean_bytes": rss, "rss_peak_bytes": 2 * rss, "rss_end_bytes": rss}
        line = {"schema": 1, "trace": trace, "round": job["round"], "allocator": {"name": label, "version": "1.0", "environment": environment},
                "control": job["who"] > len(labels), "seed": int(options.seed), "threads": "trace", "touch": "recorded", "pace": "virtual",
                "failures": 0, "pass": pass_name, **(TIME_LINE if pass_name == "time" else MEMORY_LINE), **found}
        if options.o and job["who"]:
            with Path(options.o).open("a") as out:
                out.write(json.dumps(line) + "\n")
        return {"problem": None, "line": line, "exact": {}}

    plan = {"rounds": int(options.rounds), "budget_ns": 0, "repeats_max": 1, "time_pass": "time" in passes, "memory_pass": "memory" in passes,
            "layouts": 1, "json": True, "quiet": True}
    made = context(labels, baseline=labels.index(options.baseline), plan=plan)
    return serve(replace(made, program=replace(made.program, forked=Path(options.trace).read_bytes()[4:] == b"forked")), turn)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--alloc")
    for name in ("--list", "--json", "-q"):
        parser.add_argument(name, action="store_true")
    for name in ("--baseline", "--rounds", "--pass", "--seed", "-o", "--budget", "--splice"):
        parser.add_argument(name)
    options = parser.parse_args()
    if options.list:
        built = options.alloc == "fake"
        print(json.dumps([{"name": options.alloc, "built": built, "version": "1.0", "build_id": "ab" * 10, "problem": None,
                           "knobs": [{"variable": "FAKE_CONF", **knob} for knob in KNOBS]}]))
        return 0
    if Path(options.trace).read_bytes()[:4] != b"good":
        print(f"heaptape replay: {options.trace}: offset 0: expected a trace", file=sys.stderr)
        return 3
    wait_if_asked()
    configs = dict(chosen(part) for part in split(options.alloc))
    for label, knobs in configs.items():
        if "odd" in knobs:
            print(f"heaptape replay: {label}: fake: odd is plain instead of {knobs['odd']}", file=sys.stderr)
            return 2
        if len(knobs.get("wide", "")) > 9:
            os.kill(os.getpid(), signal.SIGABRT)
    if options.splice:
        return count(options, configs)
    return measure(options, configs)


if __name__ == "__main__":
    sys.exit(main())
