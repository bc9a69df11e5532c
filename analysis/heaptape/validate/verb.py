# SPDX-License-Identifier: Apache-2.0
"""The verb `validate`: what a replay predicts of a program, beside what the real program does under each allocator."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..base import units
from ..base.errors import EXIT_FAILED, HeaptapeError, UsageError
from ..base.files import check_output, write_whole
from ..base.programs import environment_of, find_heaptape, find_replay
from ..base.text import ProgressLine, printable
from ..judge import attached
from ..results.reader import read_results
from ..trace.reader import read_trace
from .allocators import (
    RealAllocator,
    choose_baseline,
    find_allocators,
    preload_path,
    setting_variables,
    without_settings,
)
from .count_runs import HASH_SEEDS, CountRuns, add_counts
from .figures import Validation, figures_object, memory_rows, untimed_object
from .options import ROUNDS
from .placement import AccessRuns
from .prediction import heap_curve, recorded_memory
from .program import Program
from .recording import Recording, record, who_serves
from .rounds import Contender, RealRun, RealRunFailed, run_real, shuffled
from .startup import library_memory_bytes, recorder_memory_bytes, startup_costs
from .table import validation_text

ROUNDS_MIN = 2
READINGS_MIN = 50
_REPLAY_POINTS = 10_000
_BLOCKS = 4
"""Replays and real runs take turns so often: a machine that is slower for some minutes is so for both."""
_RECORDING_LIMIT_S = 3600.0


class _Talk:
    """To stderr: a line that is redrawn, or with -v one for each step."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._verbose = options.verbose
        self._line = ProgressLine(not options.quiet and not options.verbose)

    def step(self, words: str, left_s: float | None = None) -> None:
        """Says which step is done now."""
        if self._verbose:
            print(f"heaptape validate: {printable(words)}", file=sys.stderr, flush=True)
        else:
            self._line.show(words, left_s)

    def detail(self, words: str) -> None:
        """For -v alone."""
        if self._verbose:
            print(f"  {printable(words)}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leaves no line."""
        self._line.end()


def _program(options: argparse.Namespace) -> Program:
    """Raises UsageError where it is neither a command nor a server."""
    scripts = {name: getattr(options, name) for name in ("start", "load", "stop", "ready")}
    if options.command and any(scripts.values()):
        raise UsageError("expected either -- COMMAND or --start with --load, found both")
    if not options.command and not (scripts["start"] and scripts["load"]):
        raise UsageError("expected -- COMMAND, or a server's --start and --load")
    if options.command and not shutil.which(options.command[0]):
        raise UsageError(f"{options.command[0]}: no such program")
    if options.stdin and not os.path.isfile(options.stdin):
        raise UsageError(f"--stdin {options.stdin}: no such file")
    if options.output is not None:
        check_output(options.output, [options.stdin] if options.stdin else [])
    if options.keep and os.path.lexists(options.keep):
        raise UsageError(f"--keep {options.keep}: already exists")
    return Program(options.command, scripts["start"], scripts["load"], scripts["stop"], scripts["ready"],
                   Path(options.stdin) if options.stdin else None, dict(os.environ))


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    """The folder in which everything is written meanwhile; what is to be kept gets its name at the end."""
    target = Path(keep) if keep else None
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}." if target else "heaptape-validate-",
                                     dir=target.parent if target else None))
    except OSError as error:
        raise HeaptapeError(f"{keep or tempfile.gettempdir()}: cannot write: {error.strerror}") from error
    try:
        yield made
        if target:
            kept = made / "kept"
            kept.mkdir()
            for name in ("trace.bin", "replay.jsonl"):
                if (made / name).exists():
                    (made / name).rename(kept / name)
            kept.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@dataclass(frozen=True)
class _Tools:
    """The programs, and what they compare."""

    replay: str
    heaptape: str
    alloc: str
    baseline: str


def _replay(tools: _Tools, rounds: int, seed: int, recording: Recording, folder: Path,
            options: argparse.Namespace) -> tuple[dict[str, dict[str, Any]], str]:
    """One block of rounds, whose rows go behind those that are there: by allocator what is known of it besides rounds, and what
    went wrong, if something did without ending all."""
    rows = folder / "replay.jsonl"
    command = [tools.replay, "-q", "--alloc", tools.alloc, "--baseline", tools.baseline, "--rounds", str(rounds),
               "--seed", str(seed), "--points", str(_REPLAY_POINTS), "-o", str(rows)]
    # The real runs are to have the other half.
    budget_s = options.budget / 2 * rounds / options.replay_rounds if options.budget else 0.0
    command += ["--budget", f"{max(round(budget_s), 1)}s"] if options.budget else []
    replayed = attached.replay([*command, "--", str(recording.trace)])
    if replayed.failure and (not rows.exists() or not rows.stat().st_size):
        raise HeaptapeError(f"the replay failed: {replayed.failure}") from replayed.failure
    found = replayed.comparison
    figures = dict(zip(found.names, found.measurements.figures, strict=True)) if found else {}
    return figures, str(replayed.failure or "")


def _blocks(rounds: int, count: int) -> list[int]:
    """The rounds, divided as evenly as can be."""
    return [rounds * (i + 1) // count - rounds * i // count for i in range(count)]


def _why_not(rows: pd.DataFrame, name: str) -> str:
    """The words of a row about an allocator that failed in the replay."""
    values = rows[rows["allocator"] == name].get("problem", pd.Series(dtype=object)).dropna()
    return f"in the replay: {values.iloc[0]}" if len(values) else ""


def _contender(allocator: RealAllocator, environment: dict[str, str], recording: Recording) -> Contender:
    preload = preload_path(allocator, recording.kind)
    return Contender(allocator, environment_of(environment, [*([f"LD_PRELOAD={preload}"] if preload else []), *allocator.environment]), preload)


def _without(contenders: list[Contender], problems: dict[str, str]) -> list[Contender]:
    return [item for item in contenders if item.allocator.name not in problems]


def _prove(program: Program, tools: _Tools, contenders: list[Contender], recording: Recording, problems: dict[str, str],
           folder: Path, talk: _Talk) -> None:
    """A program that brings its own allocator may call that whatever is preloaded. So the recorder is asked which allocator is used."""
    for contender in contenders:
        name = contender.allocator.name
        talk.step(f"checking that the program uses {name}")
        limit_s = 10 * recording.conduct.wall_s + 60
        try:
            serves = who_serves(tools.heaptape, program, contender.environment, recording, folder, limit_s)
        except HeaptapeError as error:
            problems[name] = str(error)
            continue
        if os.path.realpath(serves) != os.path.realpath(contender.allocator.path):
            problems[name] = f"preloaded into {recording.executable}, it is not used: {serves} is"
    if tools.baseline in problems:
        raise HeaptapeError(f"{tools.baseline}: {problems[tools.baseline]}")


@dataclass
class _RealRounds:
    """Fills in the runs. An allocator that fails costs its own runs only; the baseline costs them all."""

    found: Validation
    program: Program
    left: list[Contender]
    folder: Path
    limit_s: float
    ends: float | None
    talk: _Talk
    order: random.Random
    done: int = 0
    spent_s: float = 0.0
    began: float = field(default_factory=time.monotonic)
    different: list[str] = field(default_factory=list)

    def run(self, rounds: int) -> bool:
        """So many more rounds; False if there is no time for the next one."""
        for _ in range(rounds):
            now = time.monotonic()
            if self.ends is not None and self.done >= ROUNDS_MIN and now + self.spent_s / self.done > self.ends:
                return False
            for contender in shuffled(self.left, self.order):
                self._one(contender)
            self.done += 1
            self.spent_s += time.monotonic() - now
        return True

    def _left_s(self) -> float | None:
        now = time.monotonic()
        rest_s = (now - self.began) / self.done * (self.found.rounds - self.done) if self.done else None
        return min((seconds for seconds in (rest_s, self.ends and self.ends - now) if seconds is not None), default=None)

    def _one(self, contender: Contender) -> None:
        found, name = self.found, contender.allocator.name
        self.talk.step(f"round {self.done + 1} of {found.rounds}: {name}", self._left_s())
        try:
            run = run_real(self.program, contender, found.recording, self.folder, self.done, self.limit_s)
        except RealRunFailed as error:
            if name == found.baseline:
                raise
            found.problems[name] = str(error).removeprefix(f"{name}: ")
            self.left.remove(contender)
            return
        self.talk.detail(f"{run.cpu_ns / 1e6:,.1f} ms of CPU, peak {run.process.peak_bytes / 1e6:,.2f} MB, "
                         f"mean {run.process.mean_bytes / 1e6:,.2f} MB, {units.counted(len(run.process.times_s), 'reading')}")
        found.runs.append(run)
        # A server prints its pid and the time of day.
        if run.stdout_sha256 not in (None, found.recording.conduct.stdout_sha256) and not found.is_server:
            self.different.append(name)

    def warnings(self) -> list[str]:
        """The remarks about the runs."""
        runs, said = self.found.runs, []
        readings = sorted(len(run.process.times_s) for run in runs)[len(runs) // 2] if runs else 0
        if readings < READINGS_MIN:
            said.append(f"only {units.counted(readings, 'reading')} of memory in a run: the program ends too soon to measure its memory")
        status = self.found.recording.conduct.exit_status
        if status and not self.found.is_server:
            said.append(f"the program ends with status {status}, as recorded")
        if self.different:
            said.append(f"the program's output differs from the recording's under {', '.join(self.different)}")
        return said


def _is_timed(options: argparse.Namespace) -> bool:
    """Exact counts alone need no rounds. Raises UsageError for what only rounds have."""
    counted, asked = options.count or options.instructions, options.rounds or options.replay_rounds
    for name, value in (("-o", options.output), ("--budget", options.budget), ("--accesses", options.accesses)):
        if counted and not asked and value:
            raise UsageError(f"{name}: --count alone runs no rounds: expected --rounds with it")
    options.rounds, options.replay_rounds = options.rounds or ROUNDS, options.replay_rounds or ROUNDS
    return bool(asked or not counted)


def run_validate(options: argparse.Namespace) -> int:
    """heaptape validate"""
    timed, counted = _is_timed(options), options.count or options.instructions
    program, replay = _program(options), find_replay()
    alloc, allocators = find_allocators(replay, options.alloc)
    tools, talk = _Tools(replay, find_heaptape(replay), alloc, choose_baseline(allocators, options.baseline)), _Talk(options)
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    if counted:
        program = replace(program, environment=HASH_SEEDS | program.environment)
    try:
        with _folder(options.keep) as folder:
            talk.step("recording")
            recording = record(tools.heaptape, program, folder, options.process, float(options.timeout or _RECORDING_LIMIT_S))
            problems: dict[str, str] = {}
            # Each as it is replayed: the program's own allocator as it was set, others as nobody has set them.
            allocators = find_allocators(replay, alloc, recording.trace)[1]
            plain = without_settings(program.environment, setting_variables(replay))
            contenders = [_contender(item, plain, recording) for item in allocators]
            # Runs that are not counted see which library is mapped.
            if not timed or recording.kind != "glibc":
                _prove(program, tools, contenders, recording, problems, folder, talk)
            placement = AccessRuns(tools.heaptape, replay, alloc, tools.baseline, program, recording, folder, options.timeout,
                                   talk.step).run() if options.accesses else None
            found = _measure(options, program, tools, contenders, allocators, recording, problems, seed, folder, talk) if timed else None
            if found and placement:
                found.modelled = placement.changes
                found.warnings += placement.warnings
            document = figures_object(found) if found else untimed_object(program, recording, allocators, tools.baseline, problems)
            if counted:
                runs = CountRuns(tools.heaptape, replay, alloc, program, recording, folder, options.timeout, talk.step)
                add_counts(document, runs.run(_without(contenders, problems), tools.baseline, options.instructions))
            talk.end()
            # Before the files: what cannot be written must not cost what was measured.
            print(json.dumps(document, indent=1) if options.json else printable(validation_text(document), keep="\n"), flush=True)
            if found and options.output:
                write_whole(options.output, _curve_lines(found), [options.stdin] if options.stdin else [])
    finally:
        talk.end()
    failed = [item for item in document["allocators"] if item["problem"]]
    for item in failed:
        print(f"heaptape validate: {printable(item['name'])}: {printable(item['problem'])}", file=sys.stderr)
    return EXIT_FAILED if failed else 0


def _measure_startup(found: Validation, contenders: list[Contender], tools: _Tools, folder: Path, talk: _Talk) -> None:
    """Measures the cost of starting a program under each."""
    talk.step("measuring what starting a program costs")
    executable, problems = str(found.recording.context.get("executable") or ""), found.problems
    found.startup_ns = startup_costs(_without(contenders, problems), executable, found.seed, problems)
    if found.baseline in problems:
        raise HeaptapeError(f"{found.baseline}: {problems[found.baseline]}")
    found.recorder_bytes = recorder_memory_bytes(tools.heaptape, folder)
    found.library_bytes = library_memory_bytes(contenders, executable)


def _measure(options: argparse.Namespace, program: Program, tools: _Tools, contenders: list[Contender],
             allocators: list[RealAllocator], recording: Recording, problems: dict[str, str], seed: int, folder: Path,
             talk: _Talk) -> Validation:
    begun = time.monotonic()
    with read_trace(recording.trace) as trace:
        memory = recorded_memory(trace, float(recording.info["duration_ns"]))
    count = min(_BLOCKS, options.rounds, options.replay_rounds)
    replays, real = _blocks(options.replay_rounds, count), _blocks(options.rounds, count)
    talk.step(f"replaying {units.counted(recording.info['events'], 'call')}")
    compared, problem = _replay(tools, replays[0], seed, recording, folder, options)
    rows = read_results(folder / "replay.jsonl")
    for name in (item.name for item in allocators if not memory_rows(rows, item.name)):
        problems.setdefault(name, _why_not(rows, name) or problem or "was not replayed")
    if tools.baseline in problems:
        raise HeaptapeError(f"the replay failed: {problems[tools.baseline]}")
    found = Validation(program.title, recording, memory, allocators, tools.baseline, rows, compared, [], {}, options.rounds,
                       seed, problems)
    found.warnings += [f"in the replay: {problem}"] if problem and not problems else []
    _measure_startup(found, contenders, tools, folder, talk)
    rounds = _RealRounds(found, program, _without(contenders, problems), folder,
                         float(options.timeout or 10 * recording.conduct.wall_s + 60),
                         begun + options.budget if options.budget else None, talk, random.Random(seed))
    for block in range(count):
        if block:
            talk.step("replaying again")
            _, problem = _replay(tools, replays[block], seed + block, recording, folder, options)
            found.warnings += [f"in the replay: {problem}"] if problem else []
        if not rounds.run(real[block]):
            break
    found.rounds, found.rows = rounds.done, read_results(folder / "replay.jsonl")
    found.warnings += rounds.warnings()
    return found


def _curve_lines(found: Validation) -> str:
    """A line for each curve: what was recorded, what is predicted, and every real run."""
    lines: list[dict[str, Any]] = [{"curve": "recorded", "allocator": found.recording.kind,
                                    "time_ns": found.memory.total.times_ns.tolist(),
                                    "rss_bytes": found.memory.total.values.tolist(),
                                    "own_rss_bytes": found.memory.own.values.tolist()}]
    for item in found.allocators:
        for row in memory_rows(found.rows, item.name)[:1]:
            heap = heap_curve(row)
            lines.append({"curve": "predicted", "allocator": item.name, "time_ns": heap.times_ns.tolist(),
                          "rss_bytes": (heap.values + found.memory.own.at(heap.times_ns)).tolist()})
    lines += [_real_line(run) for run in found.runs]
    return "".join(json.dumps({"program": found.title} | line, separators=(",", ":")) + "\n" for line in lines)


def _real_line(run: RealRun) -> dict[str, Any]:
    times, rss = run.process.curve()
    return {"curve": "real", "allocator": run.allocator, "round": run.round, "time_ns": times.tolist(), "rss_bytes": rss.tolist()}
