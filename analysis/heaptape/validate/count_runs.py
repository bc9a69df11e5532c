# SPDX-License-Identifier: Apache-2.0
"""Everything under simulation, each once: the real program and one that does nothing under each allocator, and the replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base.errors import HeaptapeError
from ..base.files import sha256_of
from ..base.units import counted, three_digits
from ..judge import attached
from .allocators import of_equal_size
from .observed_run import ObservedRun
from .program import Program
from .recording import Recording, last_line
from .rounds import Contender
from .startup import NOTHING, environment_of_nothing, shared_libraries

Counts = dict[str, Any]
"""The counts of one process, as `heaptape count` writes them."""

HASH_SEEDS = {"PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0"}
"""`heaptape count` fixes these, and so the recording has to have them."""

_SLOWDOWN = 100.0
_LIMIT_S = 60.0


@dataclass
class Counted:
    """By allocator: of the real program, of one that does nothing, of the replay. `again` is the baseline's second run."""

    baseline: str
    instructions_alone: bool
    real: dict[str, Counts] = field(default_factory=dict)
    nothing: dict[str, Counts] = field(default_factory=dict)
    replayed: dict[str, Counts] = field(default_factory=dict)
    again: Counts = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    geometry: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CountRuns:
    """Runs that are counted, and the programs for them."""

    heaptape: str
    replay: str
    alloc: str
    program: Program
    recording: Recording
    folder: Path
    limit_s: float | None
    step: Callable[[str], None]

    def run(self, contenders: list[Contender], baseline: str, instructions_alone: bool) -> Counted:
        """All of it. Raises HeaptapeError where the baseline cannot be counted."""
        found = Counted(baseline, instructions_alone)
        libraries = shared_libraries(contenders, str(self.recording.context.get("executable") or ""))
        idle = of_equal_size({item.allocator.name: environment_of_nothing(item, libraries) for item in contenders})
        environments = of_equal_size({item.allocator.name: item.environment for item in contenders})
        nothing = replace(self.program, command=[NOTHING], server=None, load=None, stop=None, ready=None, stdin=None)
        for name in sorted(environments, key=lambda name: name != baseline):
            try:
                self.step(f"counting the start of a program under {name}")
                found.nothing[name] = self._count(nothing, idle[name], found, _LIMIT_S)[0]
                self.step(f"counting the program under {name}")
                found.real[name], output = self._count(self.program, environments[name], found, self.limit_s)
                if name == baseline:
                    self.step(f"counting the program under {name} again")
                    found.again = self._count(self.program, environments[name], found, self.limit_s)[0]
            except HeaptapeError as error:
                if name == baseline:
                    raise HeaptapeError(f"{name}: {error}") from error
                found.problems[name] = str(error)
                continue
            found.different += [name] if output != self.recording.conduct.stdout_sha256 and not self.program.server else []
        self._count_replays(found)
        return found

    def _count(self, program: Program, environment: dict[str, str], found: Counted,
               limit_s: float | None) -> tuple[Counts, str]:
        """The counts of the process that was recorded, with the digest of what it printed."""
        counts, out, err = (self.folder / name for name in ("counts.json", "counted.out", "counted.err"))
        counts.unlink(missing_ok=True)
        prefix = [self.heaptape, "count", "-q", *(["-i"] if found.instructions_alone else []), "-o", str(counts), "--"]
        if limit_s is None:
            limit_s = 10 * _SLOWDOWN * self.recording.conduct.wall_s + _LIMIT_S
        slow = replace(program, slowdown=_SLOWDOWN)
        with ObservedRun(slow.start(environment, out, err, prefix)) as run:
            conduct = slow.conduct(run, self.folder, limit_s, "the program under simulation")
        said = last_line(err.read_text(errors="replace"))
        if not counts.exists():
            raise HeaptapeError(f"not counted: {said}")
        expected = self.recording.conduct.exit_status if program.command != [NOTHING] else 0
        if conduct.exit_status != expected:
            raise HeaptapeError(f"under simulation it ended with status {conduct.exit_status}, not with {expected}: {said}")
        document = json.loads(counts.read_text())
        found.geometry = {key: document[key] for key in ("geometry", "caches_known", "tlbs_known")}
        return recorded_process(document["processes"], str(self.recording.context.get("command"))), sha256_of(out)

    def _count_replays(self, found: Counted) -> None:
        self.step(f"counting the replays of {counted(self.recording.info['events'], 'call')}")
        replayed = attached.replay([self.replay, "-q", "--pass", "count", *(["--instructions"] if found.instructions_alone else []),
                                    "--alloc", self.alloc, "--", str(self.recording.trace)])
        problem = f"in the replay: {replayed.failure}" if replayed.failure else "was not replayed"
        found.replayed = (replayed.comparison.measurements.counts if replayed.comparison else None) or {}
        for name in set(found.real) - set(found.replayed):
            if name == found.baseline:
                raise HeaptapeError(f"{name}: {problem}")
            found.problems[name] = problem
            del found.real[name]


def calls_of(counts: Counts) -> int:
    """The calls of all functions."""
    return sum(counts["calls"].values())


def recorded_process(processes: list[Counts], command: str) -> Counts:
    """The process of that command, else of any, that made the most calls: what a recording takes, too."""
    if not processes:
        raise HeaptapeError("no process was counted")
    same = [item for item in processes if item["command"] == command]
    return max(same or processes, key=calls_of)


PARTS = ("allocator", "program", "loader")
REPEATS_WITHIN = 1e-4
"""Two runs under one allocator may differ by this share of a difference between allocators."""
_CALLS_WITHIN = 0.01

Part = dict[str, Any]
"""Numbers, and `modelled_ns` of several causes with their total."""


def _less(one: Part, other: Part) -> Part:
    return {key: _less(value, other[key]) if isinstance(value, dict) else value - other[key]
            for key, value in one.items() if key in other}


def started(found: Counted, name: str) -> dict[str, Part]:
    """By part, what the program did after its start. A forked process did not start: its counts begin where it was forked."""
    if found.real[name]["forked"]:
        return {part: found.real[name][part] for part in PARTS}
    return {part: _less(found.real[name][part], found.nothing[name][part]) for part in PARTS}


def _differences(found: Counted, name: str) -> dict[str, Part]:
    real, base = started(found, name), started(found, found.baseline)
    replayed, base_replayed = found.replayed[name], found.replayed[found.baseline]
    parts = {"replayed": "allocator", "replayed_time": "time"}  # the second with what the time pass touches
    return {part: _less(real[part], base[part]) for part in PARTS} | {
        key: _less(replayed[part], base_replayed[part]) for key, part in parts.items() if part in replayed and part in base_replayed}


def instructions_of(parts: dict[str, Part]) -> int:
    """Instructions that the program and its allocator executed; loading libraries is start-up."""
    return int(parts["allocator"]["instructions"] + parts["program"]["instructions"])


def _allocator_object(found: Counted, name: str) -> dict[str, Any]:
    counts = started(found, name) | {"replayed": found.replayed[name]["allocator"]}
    made: dict[str, Any] = {"instructions_delta_real": None, "instructions_delta_predicted": None, "instructions_error": None,
                            "counts": counts, "counted_calls": calls_of(found.real[name]), "count_differences": None}
    if name != found.baseline:
        differences = _differences(found, name)
        real, predicted = instructions_of(differences), differences["replayed"]["instructions"]
        made |= {"instructions_delta_real": real, "instructions_delta_predicted": predicted, "count_differences": differences,
                 "instructions_error": abs(predicted - real) / abs(real) if real else None}
    return made


def repeat_difference(found: Counted) -> int:
    """In instructions, between two runs under the baseline."""
    return abs(instructions_of(found.again) - instructions_of(found.real[found.baseline]))


def _warnings(found: Counted, objects: dict[str, dict[str, Any]], calls: int) -> list[str]:
    base: Counts = found.real[found.baseline]
    said, apart = [], repeat_difference(found)
    deltas = {name: abs(item["instructions_delta_real"]) for name, item in objects.items() if item["instructions_delta_real"]}
    least = min(deltas, key=deltas.__getitem__, default=None)
    if least and apart > REPEATS_WITHIN * deltas[least]:
        said.append(f"the program does not repeat: two counted runs under {found.baseline} are {counted(apart, 'instruction')} apart, "
                    f"{three_digits(100 * apart / deltas[least])} % of {least}'s difference")
    if base["threads"] > 1:
        said.append(f"{base['threads']} threads: the simulation runs one at a time, without contention")
    for name, item in objects.items():
        if abs(item["counted_calls"] - calls) > _CALLS_WITHIN * calls:
            said.append(f"under simulation the program made {counted(item['counted_calls'], 'call')} under {name}, but {calls:,} when recorded")
    if found.different:
        said.append(f"under simulation the program's output differs from the recording's under {', '.join(found.different)}")
    if not found.instructions_alone and not found.geometry["caches_known"]:
        said.append("the processor's caches are not known: those of another one were simulated")
    return said


def add_counts(document: dict[str, Any], found: Counted) -> None:
    """To the document of a validation."""
    objects = {name: _allocator_object(found, name) for name in found.real}
    for item in document["allocators"]:
        item.update(objects.get(item["name"], {}), problem=item["problem"] or found.problems.get(item["name"]))
    base = found.real[found.baseline]
    document["count"] = {"instructions_alone": found.instructions_alone, **found.geometry, "threads": base["threads"],
                         "command": base["command"], "repeat_difference": repeat_difference(found)}
    document["warnings"] += _warnings(found, objects, document["recorded"]["calls"])
