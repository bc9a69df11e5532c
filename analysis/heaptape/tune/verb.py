# SPDX-License-Identifier: Apache-2.0
"""The verb `tune`: searches an allocator's knobs for a trace, measures the best again, and prints what to paste."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import HeaptapeError
from ..base.files import appendable, check_output
from ..base.programs import ToolFailed, find_replay
from ..base.sharing import sharing
from ..base.text import ProgressLine, printable
from ..base.units import counted
from ..judge.model import Comparison
from ..results.found_trace import trace_sha256
from .replay import OBJECTIVES, Bench, TunedAllocator, environment, find_allocator, ratios
from .space import SearchedKnob, searched_knobs
from .study import Study, Trial, open_study, require_packages, spread
from .text import Tuned, front_object, front_text, still_on_front

if TYPE_CHECKING:
    import optuna

FRONT_MAX = 8
"""So many configurations are measured again at most: those that together dominate the most."""

_LAST_SEEDS = 1 << 31
"""Seeds of last measurements are above all seeds of trials, whose rounds they would be taken for in the file of results."""

_UNIT_RUNS = 6
"""Runs that the replay of a trial consists of: the null replayer, the default twice, the trial's, and a warm-up of two."""


def _identity(sha256: str, allocator: TunedAllocator, objectives: list[str], space: list[SearchedKnob], cpus: int | None) -> dict[str, Any]:
    """All that identifies a study. Had any of it changed, earlier trials would mean something else."""
    return {
        "trace": sha256, "allocator": f"{allocator.spec} {allocator.version} {allocator.build_id[:12]}".strip(),
        "objectives": objectives, "environment": [f"{name}={value}" for name, value in allocator.settings.items()],
        **({"processors": cpus} if cpus else {}),
        "set of knobs": {knob.name: list(knob.values) for knob in space},
    }


class _Search:
    """Tries configurations until there are enough or the budget wants the rest for the last measurement."""

    def __init__(self, options: argparse.Namespace, study: Study, bench: Bench, seed: int, progress: ProgressLine) -> None:
        self._options, self._study, self._bench, self._seed, self._progress = options, study, bench, seed, progress
        self._ends = time.monotonic() + options.budget if options.budget else None
        self._trial_s = 0.0
        self._resumed = 0

    def left_s(self) -> float | None:
        """Seconds that are left of the budget; None if there is none."""
        return None if self._ends is None else self._ends - time.monotonic()

    def _spent(self) -> bool:
        left = self.left_s()
        if left is None:
            return False
        members = min(len(self._study.front()), FRONT_MAX)
        return left < self._trial_s + self.last_s(members)

    def last_s(self, members: int) -> float:
        """How long the last measurement of so many configurations takes."""
        seconds: float = self._trial_s * self._options.rounds * (members + 3) / _UNIT_RUNS
        return seconds

    def run(self) -> None:
        trials = self._study.trials()
        self._resumed = len(trials)
        checked = any(trial.ratios for trial in trials)
        while len(trials) < self._options.trials and not (trials and self._spent()):
            self._show(trials)
            asked = self._study.next()
            if asked is None:
                break
            trial, config = asked
            begun, label = time.monotonic(), f"trial-{trial.number}"
            try:
                comparison = self._bench.runs({label: config}, 1, self._seed + trial.number)
                found = ratios(comparison, label, self._options.objective)
                trials.append(self._study.tell(trial, config, found, environment=environment(comparison, label)))
                self._trial_s = max(self._trial_s, time.monotonic() - begun)
            except ToolFailed as error:
                if not checked:
                    self._check_default(trial)
                problem = str(error).removeprefix(label).lstrip(",: ")
                trials.append(self._study.tell(trial, config, None, problem))
            except BaseException:
                self._study.cut_short(trial)
                raise
            checked = True

    def _check_default(self, trial: optuna.trial.Trial) -> None:
        """If the default fails too, no configuration is at fault."""
        try:
            self._bench.runs({}, 1, self._seed)
        except BaseException:
            self._study.cut_short(trial)
            raise

    def _show(self, trials: list[Trial]) -> None:
        good = [trial.ratios for trial in trials if trial.ratios]
        best = ", ".join(f"{OBJECTIVES[name].title} {min(values):.2f}" for name, values
                         in zip(self._options.objective, zip(*good, strict=True), strict=True)) if good else "none yet"
        left = [self._progress.left_s(len(trials) - self._resumed, self._options.trials - self._resumed), self.left_s()]
        self._progress.show(f"trial {len(trials) + 1} of {self._options.trials}; best: {best}",
                            min((seconds for seconds in left if seconds is not None), default=None))


def run_tune(options: argparse.Namespace) -> None:
    """heaptape tune"""
    trace, replay = Path(options.trace), find_replay()
    sha256 = trace_sha256(trace)
    allocator = find_allocator(replay, options.alloc, trace)
    space = searched_knobs(allocator.knobs, options.knobs)
    objectives: list[str] = options.objective
    stem = f"{trace.name}.{Path(options.alloc).name}.{'-'.join(objectives)}.study"
    path = Path(options.study) if options.study else trace.with_name(stem)
    if options.output is not None:
        appendable(options.output, [trace, path], b"{", "lines of JSON")
    check_output(path, [trace])
    require_packages()
    bench = Bench(replay, trace, allocator, objectives, Path(options.output) if options.output is not None else None, options.splice, options.cpus)
    bench.program_times({})  # accesses that do not belong to the trace are not to end a search of an hour
    progress = ProgressLine(not options.quiet and not options.json)
    identity = _identity(sha256, allocator, objectives, space, options.cpus)
    with open_study(path, identity, space, options.trials, options.seed) as (study, seed):
        def tuned(front: list[Trial], comparison: Comparison | None = None) -> Tuned:
            found = Tuned(trace, sha256, allocator, objectives, path, seed, len(space), study.trials(), front, sharing=sharing(bench.forked), caution=bench.caution)
            if comparison is None:
                return found
            members = still_on_front(front, comparison, objectives)
            modelled = bench.program_times({trial.label: trial.config for trial in members}) if members else {}
            return replace(found, front=members, dropped=len(front) - len(members), comparison=comparison, program_times=modelled)

        search = _Search(options, study, bench, seed, progress)
        front: list[Trial] = []
        try:
            search.run()
            if not any(trial.ratios for trial in study.trials()):
                raise HeaptapeError(_all_failed(study.trials()))
            front = _chosen(study)
            progress.show(f"measuring {len(front)} again in {counted(options.rounds, 'round')}", search.last_s(len(front)))
            last_seed = seed + _LAST_SEEDS + len(study.trials())
            left_s, round_s = search.left_s(), search.last_s(len(front)) / options.rounds
            # Trials may have left too little: a replay that holds no round measures nothing.
            budget_s = None if left_s is None else max(left_s, 2 * round_s)
            comparison = bench.runs({trial.label: trial.config for trial in front}, options.rounds, last_seed, budget_s) if front else None
        except Exception:
            progress.end()
            raise
        except BaseException:  # a signal
            progress.end()
            if any(trial.ratios for trial in study.trials()):
                _print(tuned(_chosen(study)), options.json)
            print("heaptape tune: stopped; run the same command to resume", file=sys.stderr)
            raise
        progress.end()
        _print(tuned(front, comparison), options.json)


def _all_failed(trials: list[Trial]) -> str:
    return f"all trials failed ({len(trials)}): {trials[-1].problem}"


def _chosen(study: Study) -> list[Trial]:
    front = study.front()
    taken = spread([trial.ratios for trial in front if trial.ratios], FRONT_MAX)
    return sorted((front[i] for i in taken), key=lambda trial: trial.ratios or ())


def _print(tuned: Tuned, as_json: bool) -> None:
    print(json.dumps(front_object(tuned), indent=1) if as_json else printable(front_text(tuned), keep="\n"), flush=True)
