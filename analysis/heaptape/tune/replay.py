# SPDX-License-Identifier: Apache-2.0
"""The measurements of a search: `replay` is asked what there is to set, and runs configurations beside the default."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import EXIT_BAD_INPUT, BadTrace, UsageError
from ..base.printable import printable
from ..base.programs import ToolFailed, list_allocators, run_tool
from ..base.recorded_settings import shown_name
from ..results.caution import baseline_caution, was_forked
from ..results.comparison import MEASURES, Measure, is_control, round_table
from ..results.program_time import ProgramTime, program_times
from ..results.reader import read_results
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
    """Of the recorded program, by knob: the default has them."""
    left_out: list[str] = field(default_factory=list)
    """Those that no replay has."""

    @property
    def shown(self) -> str:
        """As it was set."""
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

    def runs(self, configs: dict[str, Config], rounds: int, seed: int, budget_s: float | None = None) -> pd.DataFrame:
        """The rows of a replay of the default and of each configuration, which has its key as its name. All rows that
        were measured are kept in the results file, if there is to be one, even if the replay fails. Raises ToolFailed."""
        limit = ["--budget", f"{max(round(budget_s), 1)}s"] if budget_s is not None else []
        return self._run(configs, ["--rounds", str(rounds), "--pass", self._pass, "--seed", str(seed), *limit])

    def program_times(self, configs: dict[str, Config]) -> list[ProgramTime]:
        """The program's modelled time under the default and each configuration; none without accesses. Raises ToolFailed."""
        if self._accesses is None:
            return []
        return program_times(self._run(configs, ["--pass", "count", "--splice", self._accesses]), self.default)

    def _run(self, configs: dict[str, Config], how: list[str]) -> pd.DataFrame:
        names = [self.default, *(f"{label}={self._allocator.spec}{',' if ':' in self._allocator.spec else ':'}{config_text(config)}" for label, config in configs.items())]
        with tempfile.TemporaryDirectory(prefix="heaptape-tune-") as folder:
            rows = Path(folder) / "rows.jsonl"
            command = [self._replay, "-q", "--alloc", ",".join(names), "--baseline", self.default, *self._machine, *how, "-o", str(rows)]
            try:
                run_tool([*command, "--", str(self._trace)])
            except ToolFailed as error:
                if error.exit_status == EXIT_BAD_INPUT:
                    raise BadTrace(str(error)) from error
                raise
            finally:
                self._keep(rows)
            found = read_results(rows)
            self.forked |= was_forked(found)
            self.caution = baseline_caution(found) or self.caution
            return found

    def _keep(self, rows: Path) -> None:
        if self._rows is None or not rows.exists():
            return
        try:
            with self._rows.open("ab") as kept:
                kept.write(rows.read_bytes())
        except OSError as error:
            print(f"heaptape tune: warning: {printable(str(self._rows))}: cannot write: {error.strerror}", file=sys.stderr)


def ratios(frame: pd.DataFrame, default: str, name: str, objectives: list[str]) -> dict[str, float]:
    """Of one round: each objective over the default's, of which the two runs in the round (the second is the control)
    are one in the geometric mean. NaN where a figure is missing or 0."""
    found = {}
    again = frame[is_control(frame)].assign(control=False)
    for objective in objectives:
        measure = OBJECTIVES[objective]
        first = round_table(frame, measure)
        second = round_table(again, measure)
        bases = [float(value) for table in (first, second) if default in table for value in table[default] if value > 0]
        mine = float(first[name].median()) if name in first else float("nan")
        found[objective] = mine / float(np.exp(np.mean(np.log(bases)))) if bases and mine > 0 else float("nan")
    return found


def environment(frame: pd.DataFrame, name: str) -> tuple[str, ...]:
    """The variables, as NAME=value, that give an allocator the knobs that it had under this name."""
    rows = frame[frame["allocator"] == name]
    found = rows["allocator_environment"].iloc[0] if "allocator_environment" in rows and len(rows) else []
    return tuple(map(str, found)) if isinstance(found, list) else ()
