#!/usr/bin/env python3
"""Holds extensions of recordings against longer recordings: RSS and its slope at the end, under several allocators.

    bench/validity/extend.py [--build B] [--only NAME,...] [--seconds 3600] [--alloc LIST] [--keep FOLDER] [--trace NAME=FILE]...

Records each server of extend.toml for so long (or takes the trace of it), cuts it off behind the stretch, extends that to the
trace's length, and replays both. Of RSS the mean of the last tenth of the time is compared. --keep leaves the traces there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.validity.run import (  # noqa: E402
    LIMIT_S,
    SETUP_LIMIT_S,
    Failed,
    PassedOver,
    Prepared,
    chosen,
    last_line,
    prepare,
    run_to_end,
)

READY_S = 30


def _shell(script: str, prepared: Prepared, limit_s: float) -> None:
    status, _, said = run_to_end(["bash", "-eu", "-c", script], limit_s, prepared.who)
    if status:
        raise Failed(last_line(said))


def _await_ready(prepared: Prepared) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            _shell(prepared.program.get("ready", "sleep 2"), prepared, READY_S)
            return
        except Failed:
            time.sleep(0.2)
    raise Failed(f"it was not ready after {READY_S} s")


def record(name: str, program: dict[str, Any], scratch: Path, options: argparse.Namespace) -> Path:
    """The trace of the process that made most calls."""
    prepared = prepare(name, program, scratch, options.build)
    prepared.who["env"]["SECONDS"] = str(options.seconds)
    command = [options.build / "heaptape", "record", "-q", "-o", prepared.folder / "logs", "--", "bash", "-c", program["start"]]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **prepared.who)
    try:
        _await_ready(prepared)
        # SECONDS is a variable of bash's own.
        load = program["load"].replace("$SECONDS", str(options.seconds))
        _shell(load, prepared, options.seconds + SETUP_LIMIT_S)
        if "stop" in program:
            _shell(program["stop"], prepared, SETUP_LIMIT_S)
        else:
            server.send_signal(signal.SIGTERM)
        server.wait(SETUP_LIMIT_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    logs = sorted((prepared.folder / "logs").glob("*.mraw"), key=lambda path: path.stat().st_blocks)
    if not logs:
        raise Failed("nothing was recorded")
    trace = (options.keep or scratch) / f"{name}.bin"
    _heaptape(options, "convert", "-q", logs[-1], "-o", trace)
    return trace


def _heaptape(options: argparse.Namespace, *words: Any) -> str:
    done = subprocess.run([str(word) for word in (options.build / "heaptape", *words)], capture_output=True, text=True, check=False,
                          timeout=LIMIT_S)
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    return done.stdout


def replayed(trace: Path, folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    results = folder / f"{trace.stem}.jsonl"
    _heaptape(options, "replay", "-q", "--pass", "memory", "--rounds", options.rounds, "--alloc", options.alloc, "-o", results, trace)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {line["allocator"]["name"]: line for line in lines if not line["control"] and line["allocator"]["name"] != "null"}


def rss_at_end(line: dict[str, Any]) -> tuple[float, float]:
    """Mean RSS of the last tenth of the time, and the slope of its second half in bytes per hour."""
    at, rss = (np.array(line["timeline"][key], float) for key in ("time_ns", "rss_bytes"))
    end = at[-1]
    grid = np.linspace(end / 2, end, 500)
    level = np.interp(grid, at, rss)
    return float(level[grid > 0.9 * end].mean()), float(np.polyfit(grid / 3600e9, level, 1)[0])


def compare(name: str, trace: Path, program: dict[str, Any], folder: Path, options: argparse.Namespace) -> list[float]:
    """Prints the errors, and returns those of RSS."""
    info = json.loads(_heaptape(options, "info", "--json", trace))
    to_s = min(float(options.seconds), info["duration_ns"] / 1e9 * 0.99)
    cut, long, full = (folder / f"{name}-{part}.bin" for part in ("cut", "long", "full"))
    _heaptape(options, "slice", "-q", trace, "--to-time", f"{program['until'] + 1}s", "-o", cut)
    said = json.loads(_heaptape(options, "extend", cut, "--json", "--from", f"{program['from']}s", "--until", f"{program['until']}s", "--to",
                                f"{to_s}s", "-o", long))
    _heaptape(options, "slice", "-q", trace, "--to-time", f"{to_s}s", "-o", full)
    predicted, real = (replayed(which, folder, options) for which in (long, full))
    print(f"{name}: {said['from_ns'] / 1e9:.0f} to {said['until_ns'] / 1e9:.0f} s, {said['loops']} times, to {to_s:.0f} s; "
          f"{said['freed_objects']:,} freed, {said['made_objects']:,} made, "
          f"{said['unmatched_freed'] + said['unmatched_made']:,} without a partner; live bytes then between "
          f"{said['live_to_low_bytes'] / 1e6:.1f} and {said['live_to_high_bytes'] / 1e6:.1f} MB", flush=True)
    errors = []
    for allocator, line in real.items():
        if allocator not in predicted:
            continue
        (rss, slope), (of_real, slope_of_real) = rss_at_end(predicted[allocator]), rss_at_end(line)
        errors.append(rss / of_real - 1)
        print(f"  {allocator:10} RSS {rss / 1e6:7.2f} MB, of the recording {of_real / 1e6:7.2f} ({errors[-1]:+.1%}); "
              f"at the very end {predicted[allocator]['rss_end_bytes'] / line['rss_end_bytes'] - 1:+.1%}; "
              f"slope {slope / 1e6:+.2f} MB/hour, of the recording {slope_of_real / 1e6:+.2f}", flush=True)
    return errors


def main() -> int:
    programs = tomllib.loads((ROOT / "bench" / "validity" / "extend.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alloc", default="glibc,jemalloc,tcmalloc,mimalloc")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=FILE")
    options = parser.parse_args()
    options.build = options.build.resolve()
    traces = dict(word.split("=", 1) for word in options.trace)
    names = list(traces) or chosen(parser, options.only, programs)
    errors: list[float] = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as scratch:
        for name in names:
            try:
                trace = Path(traces[name]) if name in traces else record(name, programs[name], Path(scratch), options)
                errors += compare(name, trace, programs[name], Path(scratch), options)
            except (Failed, PassedOver) as problem:
                print(f"{name}: {problem}")
    if errors:
        sizes = [abs(error) for error in errors]
        print(f"RSS of {len(errors)} pairs: {statistics.median(sizes):.1%} off in the median, {max(sizes):.1%} at worst")
    return 0 if errors else 1


if __name__ == "__main__":
    sys.exit(main())
