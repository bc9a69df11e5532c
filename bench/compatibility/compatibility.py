#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs real programs with and without the recorder, and prints whether anything differs.

    bench/compatibility/compatibility.py [--build BUILD] [--only NAME,...] [--pairs N] [--sites] [-o FILE.md] [--json FILE]

Every program runs once through `heaptape record`, and N times each without and with the bare shim
in LD_PRELOAD, in turns. A row is green if output and exit status are the same in all these runs,
every log of every process converts, and no log has an anomaly. --keep DIR keeps logs that have one.
All take about 20 minutes. A new row is an entry in programs.py. Nothing is installed: where a program
is missing, its row says so; --packages lists the Debian packages that bring them all. Some of these
start a daemon; the table starts its own servers, on free loopback ports.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import json
import os
import platform
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.compatibility.programs import ONE_SHOT, SERVERS, Program
from bench.compatibility.run import (
    REPOSITORY,
    TIMEOUT_S,
    Bench,
    Run,
    find_program,
    orphans_become_ours,
)

PROGRAMS = [*ONE_SHOT, *SERVERS]
HEADER_FIELDS = {"parent_pid": 32, "state": 128, "stop_reason": 132}  # docs/reference/raw-log-format.md
STATE_STOPPED = 2


@dataclasses.dataclass
class Logs:
    """What the logs of one or more runs hold."""

    processes: int = 0
    calls: int = 0
    anomalies: int = 0
    foreign: int = 0  # frees of unknown blocks in processes that began with an exec
    foreign_forked: int = 0  # the same in forked children, which inherit blocks
    stopped: int = 0
    truncated: int = 0
    unconverted: int = 0
    complaints: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: Logs) -> None:
        for part in dataclasses.fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


@dataclasses.dataclass
class Row:
    name: str
    does: str
    verdict: str  # green, differs, in part, out of reach, or not installed
    version: str = ""
    note: str = ""
    same_output: bool = False
    same_status: bool = False
    status: int = 0
    output_sha256: str = ""
    slowdown: float = 0.0
    recorded: Logs = dataclasses.field(default_factory=Logs)  # the run through heaptape record
    all_logs: Logs = dataclasses.field(default_factory=Logs)  # of every run with the shim


def header_field(log: Path, name: str) -> int:
    with log.open("rb") as file:
        return struct.unpack_from("<I", file.read(256), HEADER_FIELDS[name])[0]


def read_log(heaptape: Path, log: Path, trace: Path) -> Logs:
    """What one log holds, by heaptape convert and info."""
    found = Logs(processes=1)
    converted = subprocess.run([heaptape, "convert", "-q", "-l", "fast", log, "-o", trace],
                               capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if converted.returncode:
        found.unconverted = 1
        found.complaints.append(f"{log.name}: {converted.stderr.strip()}")
        return found
    facts = json.loads(subprocess.run([heaptape, "info", "--json", trace], capture_output=True,
                                     check=True, timeout=TIMEOUT_S).stdout)
    found.calls, found.anomalies = facts["events"], facts["anomalies"]
    forked = header_field(log, "parent_pid") != 0
    setattr(found, "foreign_forked" if forked else "foreign", facts["foreign_frees"])
    found.truncated = int(facts["truncated"])
    found.stopped = int(header_field(log, "state") == STATE_STOPPED)
    if found.stopped:
        found.complaints.append(f"{log.name}: stopped, {header_field(log, 'stop_reason')}")
    if found.anomalies or found.truncated or found.foreign:
        found.complaints.append(
            f"{log.name}: {found.anomalies} anomalies, {found.foreign} foreign frees"
            f"{', truncated' if found.truncated else ''}: {facts['command'][:100]}")
    return found


def read_logs(bench: Bench, keep: Path | None) -> Logs:
    found = Logs()
    for log in sorted(bench.logs.glob("*.mraw")):
        one = read_log(bench.heaptape, log, bench.folder / "trace.bin")
        if one.complaints and keep:
            keep.mkdir(parents=True, exist_ok=True)
            target = keep / f"{re.sub('[^a-z0-9]+', '-', bench.program.name)}-{time.time_ns()}.mraw"
            subprocess.run(["cp", "--sparse=always", log, target], check=True)
            one.complaints = [f"{line} -> {target}" for line in one.complaints]
        found.add(one)
    return found


def version_of(bench: Bench) -> str:
    done = subprocess.run(bench.program.version, env=bench.environment(), capture_output=True,
                          text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    match = re.search(r"\d+(\.\d+)+\w*", done.stdout + done.stderr)
    return match[0] if match else ""


def describe_difference(plain: Run, other: Run, how: str) -> str:
    if other.timed_out:
        return f"hung under {how}"
    if other.left_running != plain.left_running:
        return f"{other.left_running} left running under {how}, {plain.left_running} without"
    if other.status != plain.status:
        return f"status {other.status} under {how}, {plain.status} without"
    lines = zip(plain.output.splitlines() + [b""], other.output.splitlines() + [b""], strict=False)
    first = next(((a, b) for a, b in lines if a != b), (b"", b""))
    return f"output under {how}: {first[1][:80]!r}, without: {first[0][:80]!r}"


def measure(program: Program, options: argparse.Namespace) -> Row:
    """Runs one program often enough to fill its row."""
    row = Row(program.name, program.does, "green", note=program.note)
    missing = [name for name in program.needs if not find_program(name)]
    if missing:
        row.verdict, row.note = "not installed", f"{', '.join(missing)} missing"
        return row
    with tempfile.TemporaryDirectory(prefix="compatibility-") as folder:
        try:
            bench = Bench(program, options.build, Path(folder), options.sites)
        except subprocess.CalledProcessError:
            row.verdict, row.note = "differs", "the preparation failed, without the shim"
            return row
        row.version = version_of(bench)
        runs: list[tuple[str, Run]] = []
        ways = [*(["record"] if not program.out_of_reach else []), *["none", "preload"] * options.pairs]
        for way in ways:
            runs.append((way, bench.run(way)))
            if way != "none":
                logs = read_logs(bench, options.keep)
                row.all_logs.add(logs)
                row.recorded = logs if way == "record" else row.recorded
    judge(row, program, runs)
    return row


def judge(row: Row, program: Program, runs: Sequence[tuple[str, Run]]) -> None:
    alone = [run for way, run in runs if way == "none"]
    first = alone[0]
    row.status, row.output_sha256 = first.status, hashlib.sha256(first.output).hexdigest()
    row.same_output = all(run.output == first.output for _, run in runs)
    row.same_status = all(run.status == first.status for _, run in runs)
    under = [run for way, run in runs if way == "preload"]
    row.slowdown = statistics.median(b.cpu_s / max(a.cpu_s, 0.01) for a, b in zip(alone, under, strict=True))
    logs, remarks = row.all_logs, []
    if different := [(way, run) for way, run in runs if run.outcome() != first.outcome()]:
        remarks.append(describe_difference(first, different[0][1], f"'{different[0][0]}'"))
    if (first.status, first.left_running) != (program.status, 0):
        remarks.append(f"failed without the shim, status {first.status}")
    if logs.unconverted:
        remarks.append(f"{logs.unconverted} of {logs.processes} logs not converted")
    if remarks or not (logs.processes or program.out_of_reach):
        row.verdict = "differs"
        row.note = "; ".join([*(remarks or ["no log was written"]), *filter(None, [row.note])])
    elif not logs.processes:
        row.verdict, row.note = "out of reach", program.out_of_reach
    elif program.in_part:
        row.verdict, row.note = "in part", program.in_part
    elif logs.anomalies:
        row.verdict, row.note = "differs", f"{logs.anomalies} anomalies"


def figures(row: Row) -> dict[str, object]:
    """A line of the table of figures."""
    logs, recorded = row.all_logs, row.recorded
    line: dict[str, object] = {"program": row.name, "version": row.version, "what": row.does, "verdict": row.verdict}
    if row.verdict != "not installed":
        line |= {"output": "same" if row.same_output else "differs", "status": row.status if row.same_status else "differs",
                 "processes": recorded.processes, "calls": recorded.calls, "anomalies": logs.anomalies,
                 "foreign_frees": logs.foreign, "in_forked_children": logs.foreign_forked, "stopped": logs.stopped,
                 "truncated": logs.truncated, "cpu_time_ratio": f"{row.slowdown:.2f}"}
    return line | {"note": row.note}


COLUMNS = ["program", "version", "what", "verdict", "output", "status", "processes", "calls", "anomalies", "foreign_frees",
           "in_forked_children", "stopped", "truncated", "cpu_time_ratio", "note"]


def write_figures(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(figures, rows))


def libc_version() -> str:
    return " ".join(platform.libc_ver())


def document(rows: Sequence[Row], options: argparse.Namespace, table: str) -> str:
    green = [row for row in rows if row.verdict == "green"]
    pairs, how = options.pairs, " --sites" if options.sites else ""
    present = sum(row.verdict != "not installed" for row in rows)
    lines = [
        "# Compatibility", "",
        f"{len(green)} of {present} programs are green. `bench/compatibility/compatibility.py{how}` wrote this page, on Linux "
        f"{'.'.join(platform.release().split('.')[:2])}, {libc_version()}, {os.cpu_count()} cores. "
        f"[{table}]({table}) has all figures.", "",
        f"Each program runs once under `heaptape record{how}`, and {pairs} times each without and with the bare shim in `LD_PRELOAD`, in turns.", "",
        "- **green**: output and exit status are the same in all runs, and no log has an anomaly. Programs print checksums of their results.",
        "- **in part**, **out of reach**: some or all calls cannot be recorded. The program itself runs correctly.",
        "- `processes` and `calls` count the run under `record`, other columns all recorded runs. `foreign_frees` are frees of blocks of unknown origin.",
        f"- In brackets: CPU time with the bare shim over that without (`cpu_time_ratio`), the median of {pairs} pairs. In short processes most of it "
        "is creating the logs.", "",
        "**Green**: " + ", ".join(f"{row.name} {row.version} (×{row.slowdown:.2f})" for row in green) + ".", "",
        "| program | verdict | note |", "| --- | --- | --- |",
        *(f"| {row.name} | {row.verdict} | {row.note.replace('|', chr(92) + '|')} |" for row in rows if row.note or row.verdict != "green"), ""]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real programs with and without the recorder.")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build")
    parser.add_argument("--only", help="names of programs, separated by commas")
    parser.add_argument("--pairs", type=int, default=3, help="runs without and with the bare shim")
    parser.add_argument("--sites", action="store_true", help="record call sites too")
    parser.add_argument("-o", "--output", type=Path, help="write the page here, and the figures beside it as CSV")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--keep", type=Path, help="keep logs with anything odd in this folder")
    parser.add_argument("--packages", action="store_true",
                        help="list the Debian packages that the whole table needs, and end")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [p.name for p in PROGRAMS]
    unknown = set(names) - {p.name for p in PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    if options.pairs < 1:
        parser.error("--pairs must be at least 1")
    options.programs = [p for p in PROGRAMS if p.name in names]
    options.build = options.build.resolve()
    return options


def main() -> None:
    options = parse()
    if options.packages:
        print(*sorted({name for program in PROGRAMS for name in program.packages}))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers are stopped on the way out
    rows = []
    with orphans_become_ours():
        for program in options.programs:
            row = measure(program, options)
            rows.append(row)
            print(*figures(row).values(), sep=", ", flush=True)
            for line in row.all_logs.complaints[:10]:
                print(f"    {line}", file=sys.stderr)
    if options.output:
        table = options.output.with_suffix(".csv")
        write_figures(table, rows)
        options.output.write_text(document(rows, options, table.name))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    sys.exit(any(row.verdict == "differs" for row in rows))


if __name__ == "__main__":
    main()
