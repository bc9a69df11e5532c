# SPDX-License-Identifier: Apache-2.0
"""What the service would take under each allocator, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.units import percent
from .runs import GroupRun, mean
from .trace import GroupTrace, Moment

SYSTEMATIC = 0.15
"""A difference may be off by this share of the service's memory in either direction, beside what the draws show. In a blind test of five
real services, each recorded once, differences were off by 5 % in the median and by 14.5 % at most, and of 17 signs 12 were right."""

BASELINE_OFF_MAX = 0.10
"""The recorded allocator's own replay is no measure for the others if it is farther from what was recorded."""

INEXACT_SHARE = 0.01
"""With more in swap, in merged or in huge pages it is not known which pages are shared."""

TRIM = "malloc_trim before each fork"


@dataclass(frozen=True)
class Estimate:
    """An allocator beside the baseline. total_bytes: of the service; change_bytes: its difference to the baseline's, which lies between
    low_bytes and high_bytes. worker_bytes: what one more worker would take. is_judged: whether there may be a verdict at all."""

    name: str
    trimmed: bool
    total_bytes: float
    change_bytes: float
    low_bytes: float
    high_bytes: float
    worker_bytes: float | None
    is_judged: bool

    @property
    def saves(self) -> bool:
        """Shown to."""
        return self.is_judged and self.high_bytes < 0

    @property
    def costs(self) -> bool:
        """Shown to."""
        return self.is_judged and self.low_bytes > 0

    @property
    def is_resolved(self) -> bool:
        return self.saves or self.costs


@dataclass(frozen=True)
class Estimates:
    """whole_bytes: of the service under the baseline, as recorded where that is known. baseline_error: of the baseline's replay beside
    it, as a share; None: there is nothing to compare it with. copied_bytes: what the program itself copies, at most, under the
    baseline; None: not known. unjudged: why there is no verdict, sentences. failed: names of allocators whose replays failed, and why."""

    baseline: str
    whole_bytes: float
    worker_bytes: float | None
    baseline_error: float | None
    copied_bytes: float | None
    others: list[Estimate]
    unjudged: list[str]
    failed: dict[str, str]

    @property
    def savers(self) -> list[Estimate]:
        """Those that are shown to take less, the best one first."""
        return sorted((one for one in self.others if one.saves), key=lambda one: one.total_bytes)


def estimates(trace: GroupTrace, runs: Sequence[GroupRun], baseline: str, why_baseline: str = "") -> Estimates:
    """runs: at least one of the baseline, which did not fail. why_baseline: the sentence why the baseline is not what was recorded, or ""."""
    done = [run for run in runs if run.total_bytes is not None]
    base = {run.draw: run for run in done if run.name == baseline and not run.trimmed}
    replayed = mean([_total(run) for run in base.values()])
    recorded = trace.moment.anonymous_bytes if trace.moment and not why_baseline else None
    error = replayed / recorded - 1 if recorded else None
    unjudged = _unjudged(trace.moment, error, baseline) + ([f"No verdict: {why_baseline[0].lower()}{why_baseline[1:]}"] if why_baseline else [])
    whole = recorded or replayed
    worker = trace.worker_bytes() if recorded else _worker(list(base.values()), trace)
    pairs: dict[tuple[str, bool], list[tuple[GroupRun, GroupRun]]] = {}
    for run in done:
        if run.draw in base and base[run.draw] is not run and (run.trimmed or run.name != baseline):
            pairs.setdefault((run.name, run.trimmed), []).append((run, base[run.draw]))
    others = [_estimate(trace, name, trimmed, found, whole, worker, not unjudged) for (name, trimmed), found in pairs.items()]
    copied = max((run.copied_bytes(trace.moment.number) for run in base.values()), default=None) if trace.moment else None
    failed = {(run.name, run.trimmed): str(run.line.get("problem") or "its replay failed") for run in runs if run.total_bytes is None}
    without = {f"{name} with {TRIM}" if trimmed else name: why for (name, trimmed), why in failed.items() if (name, trimmed) not in [*pairs, (baseline, False)]}
    return Estimates(baseline, whole, worker, error, copied, others, unjudged, without)


def _total(run: GroupRun) -> float:
    found = run.total_bytes
    assert found is not None
    return found


def _worker(runs: Sequence[GroupRun], trace: GroupTrace) -> float | None:
    found = [one for one in (run.worker_bytes(trace) for run in runs) if one is not None]
    return mean(found) if found else None


def _estimate(trace: GroupTrace, name: str, trimmed: bool, pairs: Sequence[tuple[GroupRun, GroupRun]], whole: float, worker: float | None, is_judged: bool) -> Estimate:
    """pairs: of its runs with those of the baseline in which the program wrote the same."""
    changes = [_total(run) - _total(base) for run, base in pairs]
    change, band = mean(changes), SYSTEMATIC * whole
    its_own, base_own = _worker([run for run, _ in pairs], trace), _worker([base for _, base in pairs], trace)
    more = max(worker + its_own - base_own, 0.0) if worker is not None and its_own is not None and base_own is not None else None
    return Estimate(name, trimmed, whole + change, change, min(changes) - band, max(changes) + band, more, is_judged)


def _unjudged(moment: Moment | None, error: float | None, baseline: str) -> list[str]:
    """Why there is no verdict."""
    if moment is None:
        return ["No verdict: no snapshot of the pages was recorded, so what the program itself wrote is not known."]
    kinds = {"swap": moment.swap_bytes, "merged pages (KSM)": moment.ksm_bytes, "huge pages": moment.huge_bytes}
    sentences = [f"No verdict: {percent(size / moment.anonymous_bytes)} of the memory was in {what}, of which it is not known what is shared."
                 for what, size in kinds.items() if size > INEXACT_SHARE * moment.anonymous_bytes]
    if error is not None and math.fabs(error) > BASELINE_OFF_MAX:
        more = "more" if error > 0 else "less"
        sentences.append(f"No verdict: {baseline}'s own replay takes {percent(math.fabs(error))} {more} than was recorded under it.")
    return sentences
