# SPDX-License-Identifier: Apache-2.0
"""The program's modelled time under each allocator, from the counts of replay --pass count --splice.

Counts are exact, or of sampled accesses. The interval is of some 90 %: by the intervals of the measured costs, by what the
model is off in the time of an allocator's calls, and by the sample. `replay` does the same sums (replay/jobs/count_runs.c), and
docs/method/method.md defines them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.units import listing
from .comparison import BASELINE, MEASURES, Estimate, allocator_order, verdict
from .reader import NULL_ALLOCATOR

MODEL_RESIDUAL = 0.20
"""The 90th percentile of how far the model is off in the time of a trace's calls."""

SAMPLING_QUANTILE = 1.75
"""The 90 % quantile of Student's distribution, with as many degrees of freedom as a sampled recording has groups of bursts."""

PARTS = ("allocator", "program")
FARTHER = ("far_4mib_miss", "far_8mib_miss", "far_16mib_miss", "far_32mib_miss")
"""Older results have all far misses as one."""
CAUSES = {"instructions": ("instruction",), "near misses": ("l1d_miss", "l2_sequential_miss"), "far misses": ("l2_miss", *FARTHER),
          "TLB": ("dtlb_miss", "stlb_miss"), "instruction cache": ("l1i_miss",), "page faults": ("fault",), "mapping calls": ("mapping_call",)}
"""By its name the kinds of cost in it."""

PROGRAM_TIME = "your program's time (modelled)"
NOT_KNOWN = "Effect of placement on the program's own time: not known; record with --accesses."
_INTERVAL = "Exact counts, modelled times; brackets: the error of the model’s costs (about 90 %)."
_SAMPLED = "Near misses sampled in {} bursts, modelled times; brackets: the error of sample and model’s costs (about 90 %)."
_CLASSES_NAMED = 5

_Costs = dict[str, dict[str, float]]
"""By part the time of each kind of cost, in ns."""


@dataclass(frozen=True)
class BlockClass:
    """Blocks of a size class, and how many more misses than under the baseline the program has in them."""

    low_bytes: int
    high_bytes: int
    far_misses: int
    near_misses: int


@dataclass(frozen=True)
class ProgramTime:
    """The time of the program under an allocator. `changes` by part and cause, and `shares` the same as a share of the baseline's whole:
    the difference to the baseline. `blocks`: the size classes whose misses change most."""

    allocator: str
    ns: float
    ratio: Estimate
    verdict: str
    changes: dict[str, dict[str, float]]
    base_ns: float
    blocks: list[BlockClass]
    bursts: int
    """The bursts of sampled accesses; 0: all accesses were simulated."""

    def share(self, part: str | None = None, cause: str | None = None) -> float:
        """The difference of a part, of a cause, or of both, as a share of the program's time under the baseline."""
        return sum(value for name, causes in self.changes.items() for key, value in causes.items()
                   if part in (None, name) and cause in (None, key)) / self.base_ns

    def main_causes(self) -> list[tuple[str, float]]:
        """At most two, with their shares, the larger first."""
        shares = {cause: self.share(cause=cause) for cause in CAUSES}
        most = sorted(shares, key=lambda cause: -abs(shares[cause]))[:2]
        return [(cause, shares[cause]) for cause in most if abs(shares[cause]) >= 0.0005]


def interval_means(bursts: int) -> str:
    return _SAMPLED.format(f"{bursts:,}") if bursts else _INTERVAL


def program_times(runs: pd.DataFrame, baseline: str) -> list[ProgramTime]:
    """The baseline first, the others as everywhere; empty where no accesses were simulated under the baseline. Of each the last
    counts, but none with other costs than the baseline's: another calibration's times would differ under one allocator."""
    counted = _modelled(runs)
    if baseline not in counted or _whole(_costs(counted[baseline][-1])) <= 0:
        return []
    base = counted[baseline][-1]
    found = {name: alike[-1] for name, listed in counted.items() if (alike := [counts for counts in listed if counts.get("costs") == base.get("costs")])}
    return [_time_of(name, found[name], base, name == baseline) for name in allocator_order(runs, baseline) if name in found]


def other_costs_lines(runs: pd.DataFrame, times: Sequence[ProgramTime]) -> list[str]:
    """One sentence on the allocators that program_times left out, if there are any."""
    names = sorted(_modelled(runs).keys() - {item.allocator for item in times}) if times else []
    return [f"Your program's time under {listing(names)} is left out: the costs are of another calibration than those of "
            f"{times[0].allocator}. Count them in one replay."] if names else []


def _modelled(runs: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """By allocator the counts of its runs with accesses, in file order, without those that lack times of a part."""
    found: dict[str, list[dict[str, Any]]] = {}
    counted = runs[(runs["pass"] == "count") & (runs["allocator"] != NULL_ALLOCATOR)]
    for name, counts in zip(counted["allocator"], counted["counts"], strict=True):
        if counts.get("program_time") and all(isinstance(counts.get(part), dict) and isinstance(counts[part].get("modelled_ns"), dict) for part in PARTS):
            found.setdefault(str(name), []).append(counts)
    return found


def _time_of(name: str, counts: dict[str, Any], base_counts: dict[str, Any], is_baseline: bool) -> ProgramTime:
    costs, base = _costs(counts), _costs(base_counts)
    ratio = Estimate(1.0, 1.0, 1.0, 1) if is_baseline else _ratio(costs, base, counts.get("costs") or {}, (counts.get("sampled"), base_counts.get("sampled")))
    changes = {part: {cause: sum(costs[part].get(kind, 0) - base[part].get(kind, 0) for kind in kinds) for cause, kinds in CAUSES.items()}
               for part in PARTS}
    return ProgramTime(name, _whole(costs), ratio, BASELINE if is_baseline else verdict(ratio, MEASURES["time"]), changes, _whole(base),
                       _block_changes(counts.get("blocks") or [], base_counts.get("blocks") or []), (counts.get("sampled") or {}).get("bursts") or 0)


def _costs(counts: dict[str, Any]) -> _Costs:
    return {part: {key: value for key, value in counts[part]["modelled_ns"].items() if key != "total" and value is not None} for part in PARTS}


def _whole(costs: _Costs) -> float:
    return sum(sum(costs[part].values()) for part in PARTS)


def _ratio(costs: _Costs, base: _Costs, kinds: dict[str, dict[str, float] | None], sampled: tuple[Any, Any]) -> Estimate:
    """Errors are added in quadrature: one for each cost, for each allocator's time, for the program's own difference and for the sample."""
    whole, base_whole = _whole(costs), _whole(base)
    ratio = whole / base_whole
    allocator, program, base_allocator, base_program = (sum(of[part].values()) for of in (costs, base) for part in PARTS)
    off = [MODEL_RESIDUAL * value / base_whole for value in (allocator, ratio * base_allocator, program - base_program)]
    off.append(_sampling_error(*sampled, ratio) / base_whole)
    below, above = list(off), list(off)
    for kind, cost in kinds.items():
        parts = _of_kind(costs, kind), _of_kind(base, kind)
        if not any(parts):
            continue
        ends = [_quotient(whole + factor * parts[0], base_whole + factor * parts[1]) - ratio for factor in _interval(cost or {})]
        below.append(min(0.0, *ends))
        above.append(max(0.0, *ends))
    return Estimate(ratio, max(0.0, ratio - math.hypot(*below)), ratio + math.hypot(*above), 1)


def _quotient(value: float, base: float) -> float:
    """The quotient of times; it has no end if the baseline may take none."""
    return value / base if base > 0 else math.inf


def _interval(cost: dict[str, float]) -> tuple[float, float]:
    """By what share the cost may be lower or higher. Older results have the interval of the latency, of which the cost was a constant part."""
    names = ("cost_ns", "cost_low_ns", "cost_high_ns") if "cost_low_ns" in cost else ("latency_ns", "low_ns", "high_ns")
    middle, low, high = (cost.get(name) for name in names)
    return (low / middle - 1, high / middle - 1) if middle and middle > 0 and low is not None and high is not None else (0.0, 0.0)


def _sampling_error(sampled: Any, base: Any, ratio: float) -> float:
    """In ns: by how much the groups of bursts, the same ones under both allocators, differ from one another."""
    groups, base_groups = ((found or {}).get("groups") or [] for found in (sampled, base))
    count = len(groups)
    if count < 2 or len(base_groups) != count or not _are_whole([*groups, *base_groups], ("accesses", "ns")) or not sum(
            group["accesses"] for group in groups):
        return 0.0
    differences = [group["ns"] - ratio * base_group["ns"] for group, base_group in zip(groups, base_groups, strict=True)]
    mean = sum(differences) / sum(group["accesses"] for group in groups)
    apart = math.hypot(*(difference - mean * group["accesses"] for difference, group in zip(differences, groups, strict=True)))
    return SAMPLING_QUANTILE * apart * math.sqrt(count / (count - 1))


def _are_whole(items: Sequence[dict[str, Any]], names: Sequence[str]) -> bool:
    """Whether none lacks one of these figures."""
    return all(item.get(name) is not None for item in items for name in names)


def _of_kind(costs: _Costs, kind: str) -> float:
    """0 where it was not told from others, as in older results."""
    return sum(costs[part].get(kind, 0.0) for part in PARTS)


def _block_changes(blocks: list[dict[str, int]], base: list[dict[str, int]]) -> list[BlockClass]:
    """Those with the most changed misses, far ones first; none where misses of a class are missing."""
    if not _are_whole([*blocks, *base], ("size_low", "l1d_misses", "l2_misses")):
        return []
    changes: dict[int, list[int]] = {}
    for sign, items in ((1, blocks), (-1, base)):
        for item in items:
            change = changes.setdefault(int(item["size_low"]), [0, 0])
            change[0] += sign * item["l2_misses"]
            change[1] += sign * (item["l1d_misses"] - item["l2_misses"])
    found = [BlockClass(low, _class_end(low), far, near) for low, (far, near) in changes.items() if far or near]
    return sorted(found, key=lambda item: (-abs(item.far_misses), -abs(item.near_misses)))[:_CLASSES_NAMED]


def _class_end(low: int) -> int:
    """The greatest size in the class: there are four to a power of two."""
    return low + max(1 << low.bit_length() - 1 >> 2, 1) - 1 if low else 0
