# SPDX-License-Identifier: Apache-2.0
"""The measurements of a search: `replay` is asked what there is to set, and runs configurations beside the default."""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.allocators import shown_name
from ..base.errors import EXIT_BAD_INPUT, BadTrace, UsageError
from ..base.programs import list_allocators
from ..base.text import printable
from ..judge import attached
from ..judge.against import BY_NAME
from ..judge.comparison import compared_values
from ..judge.model import Comparison, Interval
from ..results.caution import as_caution
from ..results.comparison import MEASURES, Measure
from .options import MEASURES_BY_OBJECTIVE
from .space import Config, config_text

OBJECTIVES: dict[str, Measure] = {name: MEASURES[measure] for name, measure in MEASURES_BY_OBJECTIVE.items()}


@dataclass(frozen=True)
class TunedAllocator:
    """The allocator as `heaptape replay --list --json` has it: spec is what --alloc was given."""

    spec: str
    version: str
    build_id: str
    knobs: list[dict[str, Any]]
    settings: dict[str, str] = field(default_factory=dict)
    """The recorded program's settings, by knob: the default has them."""
    left_out: list[str] = field(default_factory=list)
    """Those that no replay has."""

    @property
    def shown(self) -> str:
        """The name with the settings that it had."""
        return shown_name(self.spec, self.settings)


def find_allocator(replay: str, spec: str, trace: Path | None = None) -> TunedAllocator:
    """Raises UsageError where it is not one that can be tuned."""
    if any(mark in spec.removesuffix(":default") for mark in ",:=") or spec in ("all", "null", ""):
        raise UsageError(f"--alloc {spec}: expected one allocator, by its name or path, without knobs")
    listed = list_allocators(replay, spec, str(trace) if trace else None)
    found = next((item for item in listed if item.get("built", True) and not item.get("problem")), None)
    if found is None:
        why = listed[0].get("problem") if listed else None
        raise UsageError(f"--alloc {spec}: {why or 'is not built'}")
    return TunedAllocator(spec, str(found.get("version") or ""), str(found.get("build_id") or ""), found.get("knobs") or [],
                          found.get("settings") or {}, found.get("left_out") or [])


class Bench:
    """Replays a trace under configurations of one allocator, each call beside the default."""

    def __init__(self, replay: str, trace: Path, allocator: TunedAllocator, objectives: list[str], rows: Path | None,
                 accesses: str | None = None, cpus: int | None = None) -> None:
        self._replay, self._trace, self._allocator, self._rows, self._accesses = replay, trace, allocator, rows, accesses
        self._machine = ["--cpus", str(cpus)] if cpus else []
        passes = {OBJECTIVES[name].pass_name for name in objectives}
        self._pass = "both" if len(passes) > 1 else passes.pop()
        self.caution = ""
        """The first sentence where the default's replay is not what the program ran under."""
        self.forked = False
        """Whether the recorded process was, as far as replays have said."""

    @property
    def default(self) -> str:
        """The name that the default configuration has in the results."""
        return self._allocator.spec

    def runs(self, configs: dict[str, Config], rounds: int, seed: int, budget_s: float | None = None) -> Comparison:
        """The default and each configuration, which has its key as its name. All rows that were measured are kept in the
        results file, if there is to be one, even if the replay fails. Raises ToolFailed."""
        limit = ["--budget", f"{max(round(budget_s), 1)}s"] if budget_s is not None else []
        return self._run(configs, ["--rounds", str(rounds), "--pass", self._pass, "--seed", str(seed), *limit])

    def program_times(self, configs: dict[str, Config]) -> dict[str, Interval]:
        """The program's modelled time under the default and each configuration, to that under the default, of so many bursts of
        accesses (0: all were simulated); none without accesses. Raises ToolFailed."""
        if self._accesses is None:
            return {}
        counts = self._run(configs, ["--pass", "count", "--splice", self._accesses]).measurements.counts or {}
        times = {name: (of["program_time"], of.get("sampled") or {}) for name, of in counts.items()}
        return {name: Interval(time["ratio"], time["ratio_low"], time["ratio_high"], sampled.get("bursts", 0)) for name, (time, sampled) in times.items()}

    def _run(self, configs: dict[str, Config], how: list[str]) -> Comparison:
        names = [self.default, *(f"{label}={self._allocator.spec}{',' if ':' in self._allocator.spec else ':'}{config_text(config)}" for label, config in configs.items())]
        with tempfile.TemporaryDirectory(prefix="heaptape-tune-") as folder:
            rows = Path(folder) / "rows.jsonl"
            kept = ["-o", str(rows)] if self._rows else []
            replayed = attached.replay([self._replay, "-q", "--alloc", ",".join(names), "--baseline", self.default, *self._machine, *how, *kept,
                                        "--", str(self._trace)])
            self._keep(rows)
        if replayed.failure and replayed.failure.exit_status == EXIT_BAD_INPUT:
            raise BadTrace(str(replayed.failure))
        comparison = replayed.whole()
        self.forked |= comparison.context.program.forked
        self.caution = as_caution(comparison.check) or self.caution
        return comparison

    def _keep(self, rows: Path) -> None:
        if self._rows is None or not rows.exists():
            return
        try:
            with self._rows.open("ab") as kept:
                kept.write(rows.read_bytes())
        except OSError as error:
            print(f"heaptape tune: warning: {printable(str(self._rows))}: cannot write: {error.strerror}", file=sys.stderr)


def ratios(comparison: Comparison, name: str, objectives: list[str]) -> dict[str, float]:
    """The ratios of one round: each objective over the default's, of which the two runs in the round (the second is the control)
    are one in the geometric mean. NaN where a figure is missing or 0."""
    found, choice, control = {}, comparison.names.index(name), len(comparison.names)
    for objective in objectives:
        bases, again, mine = (compared_values(comparison.measurements, BY_NAME[OBJECTIVES[objective].name], who)
                              for who in (comparison.context.baseline, control, choice))
        logarithms = [math.log(value) for value in bases + again if value > 0]
        known = logarithms and mine and mine[0] > 0
        found[objective] = mine[0] / math.exp(math.fsum(logarithms) / len(logarithms)) if known else math.nan
    return found


def environment(comparison: Comparison, name: str) -> tuple[str, ...]:
    """The variables, as NAME=value, that give an allocator the knobs that it had under this name."""
    cell = comparison.measurements.rounds[0][1 + comparison.names.index(name)]
    line = cell.time or cell.memory
    return tuple(map(str, line["allocator"]["environment"])) if line else ()
