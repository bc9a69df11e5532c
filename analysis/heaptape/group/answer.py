# SPDX-License-Identifier: Apache-2.0
"""What `heaptape try` says of a service, as text and as JSON: the decision, a table of allocators, what else would help, and its processes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.allocators import in_words, left_out_sentence, shown_name
from ..base.text import printable, table_lines
from ..base.units import byte_count, counted, nanoseconds, percent
from ..results.use import also_set, use_in_one_line
from .estimate import SYSTEMATIC, TRIM, Estimate, Estimates
from .runs import GroupRun
from .trace import GroupTrace, Process

SAID_FROM = 0.03
"""A smaller share of the memory is not worth a line."""

PROCESSES_SHOWN = 8

TRIM_BY = "Call malloc_trim(0) in the master right before it forks (a hook of the server, such as gunicorn's when_ready)."

USE, KEEP, OPEN = "use", "keep", "not decided"


@dataclass(frozen=True)
class ServiceTrial:
    """All that is known when the replays have ended. logs: where another process's log is found."""

    command: list[str]
    folder: Path
    logs: str
    trace: GroupTrace
    runs: list[GroupRun]
    estimates: Estimates
    notes: list[str]

    @property
    def best(self) -> Estimate | None:
        return next(iter(self.estimates.savers), None)

    @property
    def decision(self) -> str:
        if self.estimates.unjudged:
            return OPEN
        return USE if self.best else KEEP


def answer(trial: ServiceTrial) -> str:
    """The whole text; the first line is the decision."""
    lines = [*decision_lines(trial), "", *allocator_table(trial), *_cures(trial), "", *process_table(trial.trace), "", *unknown_lines(trial)]
    use = use_line(trial)
    also = also_set(trial.trace.context)
    lines += ["", *([also] if also and use else []), f"Use:  {use}"] if use else [""]
    lines += [f"More:  heaptape explain {shlex.quote(str(trial.trace.path))}"]
    return "\n".join(printable(line) for line in lines)


def whole_words(trace: GroupTrace, whole_bytes: float) -> str:
    """The subject of all answers."""
    return f"The service, {counted(len(trace.present), 'process')}: {byte_count(whole_bytes)} of anonymous memory, each page counted once"


def decision_lines(trial: ServiceTrial) -> list[str]:
    """One line says what the service takes, and who would take least; then follows why there is no verdict."""
    found, best = trial.estimates, trial.best
    whole = whole_words(trial.trace, found.whole_bytes)
    if found.unjudged:
        return [f"{whole}.", *found.unjudged]
    if best is None and not found.others:
        return [f"{whole}."]
    if best is None:
        return [f"{whole}; keep {in_words(found.baseline)}: none of {counted(len(found.others), 'other')} is shown to take less."]
    return [f"{whole}; {name_of(best)} would take {byte_count(best.total_bytes)} ({change_words(best, found.whole_bytes)})."]


def name_of(one: Estimate) -> str:
    """The name that sentences and tables call it by."""
    return f"{in_words(one.name)} with {TRIM}" if one.trimmed else in_words(one.name)


def _signed(share: float) -> str:
    """In percent: what is not 0 does not look so."""
    return "0" if abs(share) < 0.0005 else f"{100 * share:+.{1 if abs(share) < 0.0095 else 0}f}".replace("-", "−")


def change_words(one: Estimate, whole_bytes: float) -> str:
    """Such as "−17 %, −12 to −21 %": what is nearer to 0 comes first."""
    ends = sorted((one.low_bytes / whole_bytes, one.high_bytes / whole_bytes), key=abs)
    return f"{_signed(one.change_bytes / whole_bytes)} %, {_signed(ends[0])} to {_signed(ends[1])} %"


# ---- tables ----


def allocator_table(trial: ServiceTrial) -> list[str]:
    """A line for each allocator, the baseline first."""
    found = trial.estimates
    versions = {run.name: str(run.allocator.get("version") or "") for run in trial.runs}
    rows = [["allocator", "memory of the service", "change", "one more worker"],
            [_baseline_name(trial, versions), byte_count(found.whole_bytes), "", _known(found.worker_bytes)]]
    for one in found.others:
        name = name_of(one) if one.trimmed or ":" in one.name else _with_version(one.name, versions)
        rows.append([name, byte_count(one.total_bytes), _change_text(one, found.whole_bytes), _known(one.worker_bytes)])
    return table_lines(rows, right=(1, 3), columns=0)


def _baseline_name(trial: ServiceTrial, versions: dict[str, str]) -> str:
    """With the settings that the program had."""
    name = trial.estimates.baseline
    settings = next(run for run in trial.runs if run.name == name).allocator.get("settings")
    return shown_name(_with_version(name, versions), settings) if settings else _with_version(name, versions)


def _with_version(name: str, versions: dict[str, str]) -> str:
    return f"{name} {versions.get(name, '')}".rstrip()


def _known(value: float | None) -> str:
    return "" if value is None else byte_count(value)


def _change_text(one: Estimate, whole_bytes: float) -> str:
    words = f"[{_signed(one.low_bytes / whole_bytes)}, {_signed(one.high_bytes / whole_bytes)}]"
    if one.is_judged and not one.is_resolved:
        return f"not resolved {words}"
    return f"{_signed(one.change_bytes / whole_bytes)} % {words}" + ("" if one.is_judged else ", no verdict")


def process_table(trace: GroupTrace) -> list[str]:
    """The table of the recorded processes; those that take most are shown."""
    if not trace.moment:
        return [f"{counted(len(trace.processes), 'process')}: {', '.join(f'{one.pid} ({one.name}, {one.role})' for one in trace.processes[:PROCESSES_SHOWN])}"]
    shown = sorted(trace.present, key=lambda one: one.role == "worker")[:PROCESSES_SHOWN]
    left = len(trace.present) - len(shown)
    rows = [["process", "role", "RSS", "PSS", "not malloc's", "program"], *(_process_cells(one) for one in shown)]
    return [f"At its highest, {nanoseconds(trace.moment.time_ns)} after the start (anonymous pages; PSS: its own ones, and its part of shared ones):",
            *(f"  {line}" for line in table_lines(rows, right=(2, 3, 4), columns=0)), *([f"  and {left} more"] if left > 0 else []),
            f"The sum of RSS, {byte_count(trace.moment.rss_sum_bytes)}, counts shared pages many times."]


def _process_cells(one: Process) -> list[str]:
    assert one.pages
    return [str(one.pid), one.role, byte_count(one.pages.rss_bytes), byte_count(one.pages.pss_bytes), byte_count(one.pages.own_bytes), one.name]


# ---- what else ----


def _cures(trial: ServiceTrial) -> list[str]:
    """What may be done, or left undone, under the present allocator, as far as it is resolved."""
    found = trial.estimates
    lines = [f"  {TRIM if one.trimmed else in_words(one.name).partition(' with ')[2] or one.name}: {byte_count(abs(one.change_bytes))} "
             f"{'less' if one.saves else 'more'} ({change_words(one, found.whole_bytes)})"
             for one in found.others if one.is_resolved and is_cure(one, found.baseline)]
    bound = never_written(found)
    way = " (a part of it: gc.freeze())" if any("python" in one.name for one in trial.trace.processes) else ""
    lines += [f"  inherited blocks never written{way}: at most {byte_count(bound)} less ({percent(bound / found.whole_bytes)})"] if bound else []
    return ["", f"With {found.baseline}:", *lines] if lines else []


def is_cure(one: Estimate, baseline: str) -> bool:
    """Whether it is the present allocator in another way."""
    return one.trimmed or one.name.partition(":")[0] == baseline.partition(":")[0]


def never_written(found: Estimates) -> float | None:
    """A bound on what can be saved where the program does not write into what was inherited; None: that is next to nothing, or not known."""
    bound = found.copied_bytes
    return bound if bound is not None and not found.unjudged and bound > SAID_FROM * found.whole_bytes else None


def unknown_lines(trial: ServiceTrial) -> list[str]:
    """Lines about what the answer leaves open."""
    found, lines = trial.estimates, list(trial.notes)
    lines += [f"{name}: no figure: {why}" for name, why in found.failed.items()]
    if trial.trace.moment and not found.unjudged:
        lines.append(f"Intervals: of all draws of what the program wrote, and {100 * SYSTEMATIC:.0f} % of the memory in both directions.")
    nameless = trial.trace.nameless_bytes
    lines += [f"{byte_count(nameless)} of the memory are of processes without a log, which are not replayed."] if nameless > SAID_FROM * found.whole_bytes else []
    base = next(run for run in trial.runs if run.name == found.baseline)
    lines += filter(None, [left_out_sentence(base.allocator.get("left_out"))])
    return [*lines, f"Not known: CPU time. Of one process:  heaptape try --logs {shlex.quote(trial.logs)} --process PID"]


def use_line(trial: ServiceTrial) -> str | None:
    """One line to paste for the best; None where there is nothing to use."""
    best = trial.best
    if best is None:
        return None
    if best.trimmed:
        return TRIM_BY
    allocator = next(run.allocator for run in trial.runs if run.name == best.name)
    kind, path, package = (str(allocator.get(key) or "") for key in ("kind", "path", "debian"))
    return use_in_one_line(best.name, kind, path, package, allocator.get("environment") or [], trial.command, trial.trace.context)


def allocators_worth(savers: Sequence[Estimate]) -> list[str]:
    """Names, the best one first."""
    return [name_of(one) for one in savers]


# ---- as JSON ----

def answer_object(trial: ServiceTrial) -> dict[str, Any]:
    """decision: "use", "keep" or "not decided". group_bytes: of all processes, each page once; changes: the same under others, with the
    interval by which was decided. null: not known."""
    found, trace = trial.estimates, trial.trace
    return {
        "kind": "group",
        "decision": trial.decision,
        "sentences": decision_lines(trial),
        "allocators": allocators_worth(found.savers),
        "use": use_line(trial),
        "baseline": found.baseline,
        "group_bytes": round(found.whole_bytes),
        "rss_anon_sum_bytes": trace.moment.rss_sum_bytes if trace.moment else None,
        "one_more_worker_bytes": _whole(found.worker_bytes),
        "copied_by_program_bytes": _whole(found.copied_bytes),
        "baseline_error": None if found.baseline_error is None else round(found.baseline_error, 4),
        "changes": {name_of(one): _change_json(one, found.whole_bytes) for one in found.others},
        "unknown": unknown_lines(trial),
        "process_count": len(trace.present),
        "processes": [_process(one) for one in trace.present[:PROCESSES_SHOWN] if one.pages],
        "folder": str(trial.folder),
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _change_json(one: Estimate, whole_bytes: float) -> dict[str, Any]:
    return {"group_bytes": round(one.total_bytes), "group_low_bytes": round(whole_bytes + one.low_bytes),
            "group_high_bytes": round(whole_bytes + one.high_bytes), "resolved": one.is_resolved, "one_more_worker_bytes": _whole(one.worker_bytes)}


def _process(one: Process) -> dict[str, Any]:
    assert one.pages
    return {"pid": one.pid, "role": one.role, "name": one.name, "rss_anon_bytes": one.pages.rss_bytes, "pss_anon_bytes": one.pages.pss_bytes,
            "own_bytes": one.pages.own_bytes}
