# SPDX-License-Identifier: Apache-2.0
"""Runs programs under recorders, in interleaved rounds, and keeps what each run used."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures.recorders import Recorder
from bench.programs.workloads import Unavailable, Workload

FOREIGN_VARIABLES = ("LD_PRELOAD", "GLIBC_TUNABLES", "PYTHONMALLOC", "MALLOC_CONF")
COUNTED_WORKLOADS = ("loop", "python")


@dataclass(frozen=True)
class Sample:
    """One run of one workload under one recorder."""

    cpu_ns: float
    wall_ns: float
    max_rss_bytes: int
    output_bytes: int
    lost_events: int


@dataclass
class Row:
    """What one recorder did to one workload."""

    samples: list[Sample] = field(default_factory=list)
    instructions_per_call: float | None = None


@dataclass
class Result:
    workload: Workload
    calls: int
    rows: dict[str, Row]
    # Recorders that can't record this workload, each with the reason.
    skipped: dict[str, str]


def clean_environment() -> dict[str, str]:
    """What the caller happens to have set must not record the runs, or change the allocator."""
    return {name: value for name, value in os.environ.items()
            if name not in FOREIGN_VARIABLES and not name.startswith(("MALLOC_", "LTTNG_"))}


def arguments(workload: Workload, recorder: Recorder, folder: Path) -> list[str]:
    """For measure_run and for valgrind's env: the program alone is to be preloaded."""
    variables = workload.environment | recorder.environment(folder)
    return [f"{name}={value}" for name, value in variables.items()] + recorder.command(workload, folder)


def bytes_on_disk(folder: Path) -> int:
    """Logs are sparse: what was written counts, not their apparent size."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


class Runner:
    """Runs programs, each with an output folder of its own that is gone afterwards."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.build, self.folder = build, folder

    def fresh_folder(self) -> Path:
        output = self.folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        return output

    def measure(self, workload: Workload, recorder: Recorder) -> Sample:
        output = self.fresh_folder()
        recorder.before_run(output)
        done = subprocess.run([self.build / "bench" / "measure_run",
                               *arguments(workload, recorder, output)],
                              env=clean_environment(), capture_output=True, check=True)
        used = json.loads(done.stdout)
        if used["status"]:
            sys.exit(f"record: {workload.command[0]} ended with status {used['status']} under "
                     f"{recorder.name}\n{done.stderr.decode(errors='replace')}")
        lost = recorder.after_run()
        sample = Sample(used["cpu_us"] * 1e3, used["wall_ns"], used["max_rss_kib"] * 1024,
                        bytes_on_disk(output), lost)
        shutil.rmtree(output)
        return sample

    def count_calls(self, workload: Workload, heaptape: Recorder) -> int:
        """Calls of all processes of one run, as heaptape's logs have them."""
        output = self.fresh_folder()
        subprocess.run([self.build / "bench" / "measure_run",
                        *arguments(workload, heaptape, output)],
                       env=clean_environment(), stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        calls, trace = 0, self.folder / "counted.bin"
        for log in output.glob("*.mraw"):
            subprocess.run([self.build / "heaptape", "convert", "-q", log, "-o", trace], check=True)
            said = subprocess.run([self.build / "heaptape", "info", "--json", trace], check=True,
                                  stdout=subprocess.PIPE)
            calls += json.loads(said.stdout)["events"]
        shutil.rmtree(output)
        if not calls:
            sys.exit(f"record: {workload.command[0]} makes no call that can be recorded")
        return calls

    def count_instructions(self, workload: Workload, recorder: Recorder) -> int | None:
        """None where the program does not run under valgrind with this recorder."""
        output = self.fresh_folder()
        counts = output / "callgrind.out"
        # valgrind would record itself if the recorder were in its own environment.
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}",
                               "env", *arguments(workload, recorder, output)],
                              env=clean_environment() | {"VALGRIND_OPTS": "--trace-children=yes"},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if done.returncode:
            return None
        totals = [int(line.split()[1]) for line in counts.read_text().splitlines()
                  if line.startswith(("summary:", "totals:"))]
        shutil.rmtree(output)
        return max(totals)


def schedule(names: list[str], rounds: int, rng: random.Random) -> list[list[str]]:
    """A random order, then its reverse, and so on: drift within two rounds falls on all alike."""
    orders: list[list[str]] = []
    while len(orders) < rounds:
        order = rng.sample(names, len(names))
        orders += [order, order[::-1]]
    return orders[:rounds]


def measure_group(runner: Runner, group: list[Workload], recorders: dict[str, Recorder],
                  heaptape: Recorder, rounds: int, rng: random.Random) -> list[Result]:
    """The workloads of a group take turns too, within each round."""
    results = []
    for workload in group:
        rows: dict[str, Row] = {}
        skipped: dict[str, str] = {}
        for name, recorder in recorders.items():
            try:
                recorder.check(workload)
                rows[name] = Row()
            except Unavailable as reason:
                skipped[name] = str(reason)
        results.append(Result(workload, runner.count_calls(workload, heaptape), rows, skipped))
    for number, order in enumerate(schedule(list(recorders), rounds, rng)):
        talk(f"{', '.join(w.name for w in group)}: round {number + 1} of {rounds}")
        for result in results:
            for name in order:
                if name in result.skipped:
                    continue
                result.rows[name].samples.append(runner.measure(result.workload, recorders[name]))
    return results


def count_group(runner: Runner, counted: list[Workload], results: list[Result],
                recorders: dict[str, Recorder], heaptape: Recorder) -> None:
    """Adds instructions per call to the results, from smaller runs of the same workloads."""
    for workload, result in zip(counted, results, strict=True):
        calls = runner.count_calls(workload, heaptape)
        talk(f"{workload.name}: counting instructions")
        untraced = runner.count_instructions(workload, recorders["untraced"])
        if untraced is None:
            sys.exit(f"record: {workload.name} does not run under valgrind")
        for name, row in result.rows.items():
            if name != "untraced" and recorders[name].counted:
                under = runner.count_instructions(workload, recorders[name])
                if under is not None:
                    row.instructions_per_call = (under - untraced) / calls


def talk(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
