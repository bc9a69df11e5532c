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
from pathlib import Path

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
    kinds = ("instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", "l2_miss", "dtlb_miss", "stlb_miss", "fault", "mapping_call")
    costs = {kind: {"latency_ns": 1, "low_ns": 1, "high_ns": 1} for kind in kinds}
    with Path(options.o).open("a") as out:
        for label, knobs in configs.items():
            parts = {"allocator": 1e8 * 0.9 ** (int(knobs.get("haste", 4)) - 4), "program": 9e8}
            counts = {part: {"modelled_ns": dict.fromkeys(kinds, 0) | {"instruction": ns}} for part, ns in parts.items()}
            out.write(json.dumps({"schema": 1, "trace": {"path": options.trace, "sha256": "ab"}, "allocator": {"name": label}, "round": 0,
                                  "pass": "count", "counts": counts | {"costs": costs, "program_time": {"ns": sum(parts.values())}}}) + "\n")
    return 0


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
    rng = random.Random(options.seed)
    with Path(options.o).open("a") as out:
        for number in range(int(options.rounds)):
            for label, control in [*((label, False) for label in configs), (options.baseline, True)]:
                knobs = configs[label]
                time_ns, rss = figures(knobs, rng)
                environment = ["FAKE_CONF=" + ":".join(f"{name}={value}" for name, value in knobs.items())] if knobs else []
                trace = {"path": options.trace, "sha256": "ab", "events": 1000, "forked": Path(options.trace).read_bytes()[4:] == b"forked"}
                common = {"schema": 1, "trace": trace, "round": number,
                          "allocator": {"name": label, "version": "1.0", "environment": environment}, "control": control,
                          "seed": int(options.seed), "threads": "trace", "touch": "recorded", "pace": "virtual", "failures": []}
                if getattr(options, "pass") in ("both", "time"):
                    out.write(json.dumps(common | {"pass": "time", "alloc_time_ns": time_ns}) + "\n")
                if getattr(options, "pass") in ("both", "memory"):
                    out.write(json.dumps(common | {"pass": "memory", "rss_mean_bytes": rss, "rss_peak_bytes": 2 * rss,
                                                   "rss_end_bytes": rss}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
