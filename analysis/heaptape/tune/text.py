# SPDX-License-Identifier: Apache-2.0
"""What `heaptape tune` prints: the front with its ratios, and the lines to paste."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.allocators import left_out_sentence
from ..base.sharing import in_brackets
from ..base.text import table_lines
from ..base.units import counted, figure, interval, null_unless_known
from ..judge.against import BY_NAME
from ..judge.comparison import compare_pair
from ..judge.model import LESS, MORE, SAME, Comparison, Estimate, Interval
from ..results.program_time import PROGRAM_TIME, interval_means
from .replay import OBJECTIVES, TunedAllocator
from .space import config_text
from .study import Trial


@dataclass(frozen=True)
class Tuned:
    """The front is in the order of the first objective. The comparison is that of the last measurement, None where it did not
    come to that; dropped is how many were measured again and left out then. Program times are of the default and the front, by name.
    sharing: the words that go with all advice about one of several processes, or ""; caution: the first sentence, or ""."""

    trace: Path
    trace_sha256: str
    allocator: TunedAllocator
    objectives: list[str]
    study: Path
    seed: int
    knobs: int
    trials: list[Trial]
    front: list[Trial]
    dropped: int = 0
    comparison: Comparison | None = None
    program_times: dict[str, Interval] = field(default_factory=dict)
    sharing: str = ""
    caution: str = ""


def measured(comparison: Comparison, objective: str, name: str) -> Estimate:
    """The result of a comparison for one objective and configuration."""
    return comparison.allocators[comparison.names.index(name)].estimates[OBJECTIVES[objective].name]


def ratio_of(tuned: Tuned, trial: Trial, objective: str) -> Interval:
    """To the default, as measured last, or else by the trial alone, which has no interval."""
    if tuned.comparison is not None:
        return measured(tuned.comparison, objective, trial.label).ratio
    assert trial.ratios is not None
    return Interval(trial.ratios[tuned.objectives.index(objective)], math.nan, math.nan, 1)


def still_on_front(front: list[Trial], comparison: Comparison, objectives: list[str]) -> list[Trial]:
    """Those measured again that were shown to be better than the default in some objective and that no other was
    shown to beat, in the order of the first objective. What is unresolved is no reason to leave anything out."""
    points: dict[Trial, tuple[float, ...]] = {}
    for trial in front:
        found = [measured(comparison, objective, trial.label) for objective in objectives]
        ratios = tuple(one.ratio.estimate for one in found)
        if any(one.verdict == LESS for one in found) and all(ratio > 0 for ratio in ratios):
            points[trial] = ratios
    # One after the other, so that of equal ones one stays; those with most knobs first.
    kept = sorted(points, key=lambda trial: (len(trial.config), points[trial]))
    for trial in reversed(list(kept)):
        if any(_beats(other, trial, comparison, objectives) for other in kept if other is not trial):
            kept.remove(trial)
    return sorted(kept, key=lambda trial: points[trial])


def _beats(one: Trial, other: Trial, comparison: Comparison, objectives: list[str]) -> bool:
    """Whether one is shown to be better in some objective and worse in none, or to be the same in all by no more knobs."""
    first, second = (comparison.names.index(trial.label) for trial in (one, other))
    verdicts = {compare_pair(comparison, BY_NAME[OBJECTIVES[objective].name], first, second).verdict for objective in objectives}
    return verdicts <= {LESS, SAME} and (LESS in verdicts or len(one.config) <= len(other.config))


def paste_line(trial: Trial) -> str:
    """The assignments that one writes before a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, _, value in (item.partition("=") for item in trial.environment))


def _rounds(tuned: Tuned) -> int:
    return 0 if tuned.comparison is None else tuned.comparison.rounds


def _title(tuned: Tuned) -> str:
    refused = sum(trial.ratios is None for trial in tuned.trials)
    more = f", {refused} of them failed" if refused else ""
    count = f"{counted(len(tuned.trials), 'trial')} of {counted(tuned.knobs, 'knob')}{more}, seed {tuned.seed}"
    name = f"{tuned.allocator.shown} {tuned.allocator.version}".rstrip()
    return f"{tuned.trace}, {name}: {count}; {_how_measured(tuned)}"


def _how_measured(tuned: Tuned) -> str:
    if tuned.comparison is None:
        return "the best as measured once, without intervals" if tuned.front else "no configuration was better than the default"
    again = len(tuned.front) + tuned.dropped
    return f"the best {again} measured again, {counted(_rounds(tuned), 'round')}"


def _controls(tuned: Tuned) -> list[str]:
    if tuned.comparison is None:
        return []
    found = []
    for objective in tuned.objectives:
        control = tuned.comparison.controls[OBJECTIVES[objective].name]
        if math.isfinite(control.estimate):
            found.append(f"{OBJECTIVES[objective].title} {control.estimate:.2f} {interval(control.low, control.high)}".rstrip())
    return [f"A/A control (the default again): {', '.join(found)}"] if found else []


def _default_cells(tuned: Tuned) -> list[str]:
    cells = []
    for objective in tuned.objectives:
        value = math.nan if tuned.comparison is None else measured(tuned.comparison, objective, tuned.allocator.spec).median
        cells.append("1.00" if math.isnan(value) else f"1.00  {figure(value, OBJECTIVES[objective].unit)}")
    return ["default", *cells, *_program_cells(tuned, tuned.allocator.spec), ""]


def _program_cells(tuned: Tuned, name: str) -> list[str]:
    """The program's modelled time, where it is known."""
    found = [tuned.program_times[name]] if name in tuned.program_times else []
    return [f"{item.estimate:.3f} {interval(item.low, item.high, 3) if name != tuned.allocator.spec else ''}".rstrip() for item in found]


def _trial_cells(tuned: Tuned, trial: Trial) -> list[str]:
    found = [ratio_of(tuned, trial, objective) for objective in tuned.objectives]
    ratios = [f"{item.estimate:.2f} {interval(item.low, item.high)}".rstrip() for item in found]
    return [trial.label, *ratios, *_program_cells(tuned, trial.label), config_text(trial.config)]


def front_text(tuned: Tuned) -> str:
    """The table, a line for each configuration, and below the lines to paste."""
    lines = [*([tuned.caution] if tuned.caution else []), _title(tuned), *_controls(tuned), *filter(None, [left_out_sentence(tuned.allocator.left_out)])]
    if tuned.front:
        cells = [["", *(OBJECTIVES[name].title for name in tuned.objectives), *([PROGRAM_TIME] if tuned.program_times else []), "knobs"],
                 _default_cells(tuned)]
        cells += [_trial_cells(tuned, trial) for trial in tuned.front]
        lines += ["", *table_lines(cells), *([interval_means(tuned.program_times[tuned.allocator.spec].count)] if tuned.program_times else []), "", f"to use a configuration, put its line before the command{in_brackets(tuned.sharing)}:"]
        lines += table_lines([[trial.label, paste_line(trial)] for trial in tuned.front], columns=0)
    else:
        shown = "is clearly" if tuned.dropped else "was"
        lines += ["", f"no configuration that was tried {shown} better than the default in any of these: keep the default{in_brackets(tuned.sharing)}"]
    notes = []
    if tuned.dropped and tuned.front:
        notes.append(f"{tuned.dropped} more {'was' if tuned.dropped == 1 else 'were'} as good in the search; measured again, each was equalled or beaten by another, "
                     "or not clearly better than the default")
    problems = Counter(trial.problem for trial in tuned.trials if trial.ratios is None)
    notes += [f"{number} failed: {problem}" for problem, number in problems.most_common(3)]
    return "\n".join([*lines, *([""] if notes else []), *notes])


def front_object(tuned: Tuned) -> dict[str, Any]:
    """The front as JSON values; figures that are not known are null."""
    return {
        "trace": {"path": str(tuned.trace), "sha256": tuned.trace_sha256},
        "allocator": {"name": tuned.allocator.spec, "settings": tuned.allocator.settings, "left_out": tuned.allocator.left_out, "version": tuned.allocator.version, "build_id": tuned.allocator.build_id},
        "objectives": tuned.objectives, "study": str(tuned.study), "seed": tuned.seed,
        "caution": tuned.caution or None, "sharing": tuned.sharing or None, "measured_again": tuned.comparison is not None, "rounds": _rounds(tuned), "dropped": tuned.dropped,
        "front": [_trial_object(tuned, trial) for trial in tuned.front],
        "trials": [{"trial": trial.number, "knobs": trial.config, "problem": trial.problem or None,
                    "ratios": dict(zip(tuned.objectives, trial.ratios, strict=True)) if trial.ratios else None}
                   for trial in tuned.trials],
    }


def _trial_object(tuned: Tuned, trial: Trial) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for objective in tuned.objectives:
        found, again = ratio_of(tuned, trial, objective), tuned.comparison and measured(tuned.comparison, objective, trial.label)
        words = {LESS: OBJECTIVES[objective].less, MORE: OBJECTIVES[objective].more}
        figures[objective] = {
            "ratio": found.estimate, "ci_low": null_unless_known(found.low), "ci_high": null_unless_known(found.high),
            "value": again and null_unless_known(again.median), "verdict": again and words.get(again.verdict, again.verdict),
        }
    modelled = tuned.program_times.get(trial.label)
    return {"trial": trial.number, "knobs": trial.config, "environment": list(trial.environment),
            "line": paste_line(trial), "objectives": figures,
            "program_time": modelled and {"ratio": modelled.estimate, "ratio_low": modelled.low, "ratio_high": modelled.high}}
