# SPDX-License-Identifier: Apache-2.0
"""A unit of a fleet's work: one round of one trace in one configuration, over all allocators. A worker runs it.

All allocators of a round run in one launch of `replay`, on one machine and one after the other in random order, so that
ratios within the round are as honest as those of a plain `replay`.
"""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_BAD_INPUT, EXIT_FAILED, HeaptapeError
from ..base.files import sha256_of
from ..base.programs import ends_with_us, find_replay, list_allocators
from ..judge import attached
from ..judge.attached import Replayed
from .baselines import BaselineFile
from .plan import Configuration, Plan, PlanError, TraceFile, allocator_name


@dataclass(frozen=True)
class Unit:
    """All that a worker has to know. Rounds count from 0."""

    trace: TraceFile
    configuration: Configuration
    round: int
    allocators: list[str]
    baseline: str
    seed: int
    file: BaselineFile | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Which unit it is; no two of a plan have the same."""
        return self.trace.sha256, self.configuration.name, self.round

    @property
    def terms(self) -> dict[str, Any]:
        """All that must be the same where rounds are to be compared."""
        return terms_of(self.configuration, self.allocators, self.baseline, self.file)

    def __str__(self) -> str:
        return f"{self.trace.name}, {self.configuration.name}, round {self.round + 1}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a unit: its lines of results, and a sentence for each run that failed; or, where replay could not
    be run at all, no lines and why."""

    lines: list[str]
    problems: list[str]
    refused: str | None = None


def terms_of(configuration: Configuration, allocators: list[str], baseline: str, file: BaselineFile | None) -> dict[str, Any]:
    """See Unit.terms; also what a line of results is held against when a fleet is resumed: replay has checked that very file."""
    return {"options": configuration.options, "allocators": allocators, "baseline": baseline, "baseline_file": file and file.sha256}


def units_of(plan: Plan) -> list[Unit]:
    """Every unit of a plan: the first round of everything, then the second. What has been done when a fleet is ended early
    is then spread over all traces."""
    return [Unit(trace, configuration, number, plan.allocators, plan.baseline,
                 _seed(plan.seed, trace.sha256, configuration.name, number), plan.baseline_files.get(trace.sha256))
            for number in range(plan.rounds) for configuration in plan.configurations for trace in plan.traces]


def _seed(*parts: object) -> int:
    """Each unit has a seed of its own, as results are paired by seed and round."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def built_allocators() -> list[str]:
    """The allocators that `all` stands for on this machine."""
    # Not the bare --list, which also has those that are compared only where they are named.
    return [str(item["name"]) for item in list_allocators(find_replay(), "all")]


def check_plan(plan: Plan) -> None:
    """Let replay itself check allocators and options, which it does before it reads the trace. Raises PlanError."""
    for key, configuration, allocators in [
        *((f"allocators ({spec})", None, [spec]) for spec in plan.allocators),
        *((f"configurations.{each.name}", each, plan.allocators) for each in plan.configurations),
    ]:
        options = configuration.arguments() if configuration else []
        done = attached.replay([find_replay(), "--quiet", *_allocator_arguments(allocators), *options, "/dev/null"])
        # /dev/null is no trace; that being the only complaint, the rest is right.
        if done.status != EXIT_BAD_INPUT:
            raise PlanError(plan.path, key, _first_line(done.said) or f"replay ended with status {done.status}")


def _allocator_arguments(specs: list[str]) -> list[str]:
    return [f"--alloc={spec}" for spec in specs]


def _first_line(text: str) -> str:
    return next((line.removeprefix("heaptape replay: ") for line in text.splitlines() if line.strip()), "")


def run_unit(unit: Unit, worker: str) -> Outcome:
    """Run it here. Each allocator and pass has a line in the outcome, with figures or with what went wrong."""
    rounds = ["--rounds=1"] if unit.configuration.has_rounds else []
    against = [f"--baseline-file={unit.file.path}"] if unit.file else [f"--baseline={unit.baseline}"] if rounds else []
    with tempfile.TemporaryDirectory(prefix="heaptape-fleet-") as folder:
        results = Path(folder) / "results.jsonl"
        try:  # it ends when the worker does: a round that is run again must not meet the first one still running
            done = attached.replay([find_replay(), "--quiet", *_allocator_arguments(unit.allocators),
                                    *against, *rounds, f"--seed={unit.seed}", f"--output={results}",
                                    *unit.configuration.arguments(unit.round), unit.trace.path], preexec_fn=ends_with_us(signal.SIGKILL))
        except HeaptapeError as error:
            return Outcome([], [], f"{socket.gethostname()}: {error}")
        # Those of a replay that was killed may be cut short.
        ended = done.status in (0, EXIT_FAILED)
        rows: list[dict[str, Any]] = list(map(json.loads, results.read_bytes().splitlines())) if ended and results.exists() else []
    refused = _why_refused(unit, done, rows)
    if refused:
        return Outcome([], [], f"{socket.gethostname()}: {refused}")
    rows += _missing_rows(unit, rows, done.said)
    about = {"round": unit.round, "configuration": unit.configuration.name, "host": socket.gethostname(),
             "worker": worker, "fleet": unit.terms | {"lines": len(rows), "files": _files_without_build_id(rows)}}
    problems = [f"{row['allocator']['name']}, {row['pass']} pass: {row['problem']}" for row in rows if row.get("problem")]
    return Outcome([json.dumps(row | about, separators=(",", ":")) + "\n" for row in rows], problems)


def file_sha256(path: str) -> str:
    """The SHA-256 of a file that has no build id; "" if it cannot be read."""
    try:
        return sha256_of(path)
    except OSError:
        return ""


def _files_without_build_id(rows: list[dict[str, Any]]) -> dict[str, str]:
    """By path: what distinguishes a library from its next build, where the library itself does not."""
    paths = {str(row["allocator"].get("path") or "") for row in rows if not row["allocator"].get("build_id")}
    return {path: file_sha256(path) for path in sorted(paths) if path}


def builds_here(plan: Plan) -> dict[str, str]:
    """By the allocator's name, the build ids of those that have one, as replay on this machine finds them."""
    found: dict[str, str] = {}
    for spec, name in zip(plan.allocators, plan.names, strict=True):
        with suppress(HeaptapeError):  # replay itself will say what is wrong with it
            found[name] = str(list_allocators(find_replay(), spec)[0].get("build_id") or "")
    return {name: build_id for name, build_id in found.items() if build_id}


def _why_refused(unit: Unit, done: Replayed, rows: list[dict[str, Any]]) -> str | None:
    """Why there is nothing to be kept of a launch: replay would not begin, or it was ended."""
    if done.status < 0:
        return f"replay was killed by {signal.Signals(-done.status).name}"
    if not rows:
        return _first_line(done.said) or f"replay ended with status {done.status} and no results"
    found = {row["trace"]["sha256"] for row in rows}
    return None if found == {unit.trace.sha256} else f"{unit.trace.path} is a different trace on this host"


def _missing_rows(unit: Unit, rows: list[dict[str, Any]], talk: str) -> list[dict[str, Any]]:
    """A line for each run that did not come about, as where an allocator failed before its first round, or its simulation did."""
    options = unit.configuration.options
    wanted = str(options.get("pass", "both"))
    passes = dict.fromkeys(("time", "memory") if wanted == "both" else (wanted,))
    if options.get("instructions") is True and unit.round == 0:
        passes["count"] = None
    have = {(row["allocator"]["name"], row["pass"]) for row in rows}
    return [
        {"schema": 1, "trace": rows[0]["trace"], "allocator": {"name": name}, "pass": pass_name,
         "seed": unit.seed, "control": False, "failures": 1, "problem": _problem_of(name, talk)}
        for name in map(allocator_name, unit.allocators) for pass_name in passes
        if (name, pass_name) not in have
    ]


def _problem_of(name: str, talk: str) -> str:
    start = f"heaptape replay: {name}: "
    given = [line.removeprefix(start) for line in talk.splitlines() if line.startswith(start)]
    return given[0] if given else _first_line(talk) or "did not run"


