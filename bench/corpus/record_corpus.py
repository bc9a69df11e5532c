#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records and converts the corpus of real programs that corpus.toml lists, and writes a plan for `heaptape fleet`.

    bench/corpus/record_corpus.py [--build BUILD] [--corpus FILE] [--only GROUP|NAME,...] [--logs] [--share] [--again] FOLDER

leaves NAME.bin in FOLDER, the trace of the process with the largest log, corpus.jsonl with what is in each, and
corpus.toml, the plan over all that FOLDER has; with --logs also NAME.mraw; with --share the folder shared, for others: copies without
names (`heaptape share`), the plan, and README.md, which puts them under CC0. What FOLDER has already is kept, unless
--again. A program that is not installed or cannot be recorded is passed over by name, with the reason.
Exit status: 0; 1 if a recording failed or has anomalies (not where a program is missing).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "analysis")]

from bench.compatibility.compatibility import PROGRAMS  # noqa: E402
from bench.compatibility.run import Bench, find_program, orphans_become_ours  # noqa: E402
from bench.programs.workloads import FULL, Unavailable, make_group  # noqa: E402
from bench.validity.run import Failed, PassedOver, last_line, prepare, run_to_end  # noqa: E402
from bench.validity.validate import read_programs  # noqa: E402

from heaptape.base.files import write_whole  # noqa: E402
from heaptape.base.text import table_lines  # noqa: E402

CORPUS = ROOT / "bench" / "corpus" / "corpus.toml"
LIMIT_S = 1800
KINDS = ("program", "workload", "measured", "recipe", "command")
KEYS = {*KINDS, "executable", "does", "needs", "setup", "env", "note"}
FACTS = ("events", "threads", "peak_live_bytes", "duration_ns", "file_bytes", "bytes_per_event", "anomalies", "foreign_frees", "lost_calls",
         "repairs", "truncated", "recorded_allocator")
FAULTS = ("anomalies", "foreign_frees", "lost_calls", "truncated")
"""What a sound recording has none of."""

PLAN_HEAD = """\
# The plan over the corpus in this folder (traces/README.md): heaptape fleet corpus.toml
allocators = ["all"]
baseline = "glibc"
rounds = 10
"""
SHARED = """\
# Traces of {count} programs

Every call of malloc's family of real programs, recorded by heaptape, without names (`heaptape share`): {events:,} calls, {megabytes:.0f} MB.
Replay them under any malloc: `heaptape replay --alloc all NAME.bin`, or all by `heaptape fleet corpus.toml`.
To the extent possible under law, who recorded them has waived all rights to these traces: CC0 1.0 Universal.

```
{table}
```
"""
PLAN_TAIL = """
[options]
points = 200  # of the curves of memory, which the summary has no use for
timeout = "30m"
"""


@dataclass(frozen=True)
class Made:
    """Where a run left its logs, or the trace that a recipe of traces/ made of them."""

    logs: Path | None = None
    trace: Path | None = None


def read_corpus(path: Path = CORPUS) -> dict[str, dict[str, Any]]:
    """The programs by name, each with its group."""
    groups: dict[str, dict[str, Any]] = tomllib.loads(path.read_text())
    programs: dict[str, dict[str, Any]] = {}
    for group, found in groups.items():
        for name, program in found.items():
            kinds = [kind for kind in KINDS if kind in program]
            if name in programs or name in groups or len(kinds) != 1 or set(program) - KEYS:
                sys.exit(f"{path}: {group}.{name}: expected a name of its own, one of {', '.join(KINDS)}, and keys of {', '.join(sorted(KEYS))}")
            programs[name] = program | {"kind": kinds[0], "group": group}
    return programs


def check_needs(needed: list[str]) -> None:
    if missing := [name for name in needed if not find_program(name)]:
        raise PassedOver(f"{', '.join(missing)} missing")


def run_program(name: str, build: Path, scratch: Path) -> Made:
    """A row of the compatibility table."""
    program = next(program for program in PROGRAMS if program.name == name)
    check_needs(list(program.needs))
    bench = Bench(program, build, scratch, limit_s=LIMIT_S)
    done = bench.run("record")
    if done.timed_out:
        raise Failed(f"it took more than {LIMIT_S} s")
    if done.status != program.status:
        raise Failed(f"its status is {done.status}: {last_line((scratch / 'stderr').read_bytes())}")
    return Made(bench.logs)


def run_workload(name: str, build: Path, scratch: Path) -> Made:
    """One of the programs that recorders are measured with."""
    try:
        workload = make_group(name, build, FULL, scratch)[0]
    except Unavailable as missing:
        raise PassedOver(str(missing)) from missing
    return record(workload.command, build, {"cwd": scratch, "env": os.environ | workload.environment, "stdin": subprocess.DEVNULL})


def run_measured(name: str, build: Path, scratch: Path) -> Made:
    """One of the programs that predictions are measured with, if it is no server."""
    return run_own(name, read_programs()[name], build, scratch)


def run_own(name: str, program: dict[str, Any], build: Path, scratch: Path) -> Made:
    """A table of the form of bench/validity/programs.toml."""
    prepared = prepare(name, {"needs": [], **program}, scratch, build)
    return record(prepared.words[1:], build, prepared.who)


def run_recipe(name: str, build: Path, scratch: Path) -> Made:
    """One of the recipes that the traces of this tree are made by."""
    status, _, said = run_to_end([sys.executable, ROOT / "traces" / "record_traces.py", "--build", build, "-o", scratch / "made", name], LIMIT_S,
                                 {"stdin": subprocess.DEVNULL})
    if status:
        raise Failed(last_line(said))
    return Made(trace=scratch / "made" / f"{name}.bin")


def record(command: list[str], build: Path, who: dict[str, Any]) -> Made:
    logs = Path(who["cwd"]) / "logs"
    logs.mkdir()
    if "user" in who:
        os.chown(logs, who["user"], who["group"])
    status, _, said = run_to_end([build / "heaptape", "record", "-q", "-o", logs, "--", *command], LIMIT_S, who)
    if status:
        raise Failed(f"its status is {status}: {last_line(said)}")
    return Made(logs)


def run_one(name: str, program: dict[str, Any], build: Path, scratch: Path) -> Made:
    check_needs(program.get("needs", []))
    if program["kind"] == "command":
        return run_own(name, program, build, scratch)
    how: dict[str, Callable[[str, Path, Path], Made]] = {
        "program": run_program, "workload": run_workload, "measured": run_measured, "recipe": run_recipe}
    return how[program["kind"]](program[program["kind"]], build, scratch)


def output_of(*command: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failed(last_line(done.stderr.encode()))
    return done.stdout


def info_of(trace: Path, build: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_of(build / "heaptape", "info", "--json", trace))
    return found


def executable_of(info: dict[str, Any]) -> str:
    return os.path.basename((info["command"] or "").split(" ")[0]).rstrip(":")


def keep_largest(name: str, executable: str, logs: Path, options: argparse.Namespace) -> None:
    """Converts the largest log, if need be of that executable; where it was recorded, so that a child's parent is found beside it."""
    trace: Path = options.folder / f"{name}.bin"
    for log in sorted(logs.glob("*.mraw"), key=lambda log: -log.stat().st_blocks):
        output_of(options.build / "heaptape", "convert", "-q", log, "-o", trace)
        if executable in ("", executable_of(info_of(trace, options.build))):
            if options.logs:
                output_of("cp", "--sparse=always", log, trace.with_suffix(".mraw"))
            return
    trace.unlink(missing_ok=True)
    raise Failed(f"it left no log{f' of {executable}' if executable else ''}")


def facts_of(name: str, program: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    info = info_of(options.folder / f"{name}.bin", options.build)
    ops = info["ops"]
    named = {"aligned_calls": ("align", "memalign", "valloc"), "sized_frees": ("sized",)}
    return {"name": name, "group": program["group"], "program": executable_of(info), **{key: info[key] for key in FACTS},
            **{key: sum(count for op, count in ops.items() if any(word in op for word in words)) for key, words in named.items()}}


def make_one(name: str, program: dict[str, Any], made: Made, options: argparse.Namespace) -> dict[str, Any]:
    """What is in its trace. Raises Failed."""
    if made.trace:
        output_of("cp", made.trace, options.folder / f"{name}.bin")
    elif made.logs:
        keep_largest(name, program.get("executable", ""), made.logs, options)
    return facts_of(name, program, options)


def read_facts(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / "corpus.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {line["name"]: line for line in lines if (folder / f"{line['name']}.bin").exists()}


def write_folder(folder: Path, facts: dict[str, dict[str, Any]], order: list[str]) -> None:
    rows = [facts[name] for name in order if name in facts]
    write_whole(folder / "corpus.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    listed = "".join(f'    "{row["name"]}.bin",\n' for row in rows)
    write_whole(folder / "corpus.toml", f"{PLAN_HEAD}traces = [\n{listed}]\n{PLAN_TAIL}")


def share_folder(folder: Path, rows: list[dict[str, Any]], build: Path, order: list[str]) -> None:
    """The copies for others. One that is there and as new as its trace is kept."""
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    for row in rows:
        trace, copy = folder / f"{row['name']}.bin", shared / f"{row['name']}.bin"
        if not copy.exists() or copy.stat().st_mtime < trace.stat().st_mtime:
            output_of(build / "heaptape", "share", "-q", trace, "-o", copy)
    write_folder(shared, {row["name"]: row for row in rows}, order)
    megabytes = sum((shared / f"{row['name']}.bin").stat().st_size for row in rows) / 1e6
    write_whole(shared / "README.md", SHARED.format(count=len(rows), events=sum(row["events"] for row in rows), megabytes=megabytes, table=table_of(rows)))


def table_of(rows: list[dict[str, Any]]) -> str:
    cells = [["name", "program", "calls", "threads", "MB", "peak live MB", "s", "aligned", "sized frees", "anomalies"]]
    for row in rows:
        cells.append([row["name"], row["program"], f"{row['events']:,}", str(row["threads"]), f"{row['file_bytes'] / 1e6:.2f}",
                      f"{row['peak_live_bytes'] / 1e6:.2f}", f"{row['duration_ns'] / 1e9:.1f}", f"{row['aligned_calls']:,}",
                      f"{row['sized_frees']:,}", faults_of(row) or "0"])
    return "\n".join(table_lines(cells, right={2, 3, 4, 5, 6, 7, 8, 9}))


def faults_of(row: dict[str, Any]) -> str:
    return ", ".join(f"{row[key]} {key}" for key in FAULTS if row[key])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--corpus", type=Path, default=CORPUS, metavar="FILE", help="another list than corpus.toml")
    parser.add_argument("--only", metavar="GROUP|NAME,...", help="groups and names of corpus.toml")
    parser.add_argument("--logs", action="store_true", help="keep the raw logs too")
    parser.add_argument("--share", action="store_true", help="make copies for others")
    parser.add_argument("--again", action="store_true", help="record also what FOLDER has already")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.programs = programs = read_corpus(options.corpus)
    asked = options.only.split(",") if options.only else None
    groups = {program["group"] for program in programs.values()}
    if unknown := set(asked or ()) - groups - set(programs):
        parser.error(f"not in the corpus: {', '.join(sorted(unknown))}")
    options.names = [name for name, program in programs.items() if asked is None or name in asked or program["group"] in asked]
    return options


class Recording:
    """What was made, passed over and failed. The folder is whole after each program."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._programs, self._options = options.programs, options
        self.facts = read_facts(options.folder)
        self.missing: list[str] = []
        self.failed: list[str] = []

    def is_there(self, name: str) -> bool:
        """From an earlier run."""
        whole = not self._options.logs or (self._options.folder / f"{name}.mraw").exists()
        return name in self.facts and whole and not self._options.again

    def record(self, names: list[str]) -> None:
        """Programs of which one run leaves all logs."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="corpus-", ignore_cleanup_errors=True) as scratch:
            made = self._tried(names, lambda: run_one(names[0], self._programs[names[0]], self._options.build, Path(scratch)))
            for name in names if made else []:
                found = self._tried([name], lambda name=name: make_one(name, self._programs[name], made, self._options))
                if found:
                    self.facts[name] = found
                    self.failed += [f"{name}: {faults_of(found)}"] * bool(faults_of(found))
                    events = f"{found['events']:,} events"
                    print(f"{name}: {faults_of(found) or events}", file=sys.stderr)
        print(f"{', '.join(names)}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        write_folder(self._options.folder, self.facts, list(self._programs))

    def _tried(self, names: list[str], what: Callable[[], Any]) -> Any:
        """None where it could not be done, which is kept."""
        try:
            return what()
        except PassedOver as why:
            self.missing += [f"{name}: {why}" for name in names]
            print(f"{', '.join(names)}: passed over, {why}", file=sys.stderr)
        except (Failed, subprocess.CalledProcessError) as why:
            self.failed += [f"{name}: {why}" for name in names]
            print(f"{', '.join(names)}: failed: {why}", file=sys.stderr)
        return None


def runs_of(names: list[str], programs: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The names that one run of a program serves, together."""
    runs: dict[tuple[str, str], list[str]] = {}
    for name in names:
        kind = programs[name]["kind"]
        runs.setdefault((kind, name if kind == "command" else programs[name][kind]), []).append(name)
    return list(runs.values())


def main() -> int:
    options = parse()
    programs = options.programs
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    recording = Recording(options)
    with orphans_become_ours():
        for names in runs_of([name for name in options.names if not recording.is_there(name)], programs):
            recording.record(names)
    write_folder(options.folder, recording.facts, list(programs))
    rows = [recording.facts[name] for name in programs if name in recording.facts]
    if options.share:
        share_folder(options.folder, rows, options.build, list(programs))
    print(table_of(rows))
    sizes = [row["bytes_per_event"] for row in rows if row["bytes_per_event"]]
    mean = f", {geometric_mean(sizes):.3f} bytes a call (geometric mean)" if sizes else ""
    print(f"\n{len(rows)} traces, {sum(row['events'] for row in rows):,} calls, {sum(row['file_bytes'] for row in rows) / 1e6:.0f} MB{mean}; "
          f"plan: {options.folder / 'corpus.toml'}")
    for title, lines in (("passed over", recording.missing), ("failed", recording.failed)):
        for line in lines:
            print(f"{title}: {line}")
    return 1 if recording.failed else 0


if __name__ == "__main__":
    sys.exit(main())
