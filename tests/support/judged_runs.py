# SPDX-License-Identifier: Apache-2.0
"""Contexts and cells for the judge, of which a test says no more than what it is about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from heaptape.judge.model import Cell, Choice, Context, Machine, Measurements, Plan, Program, Trace

Kind = TypeVar("Kind")
_BLANKS: dict[str, Any] = {"int": 0, "float": math.nan, "str": "", "bool": False, "Json": {}}


def blank(kind: type[Kind], **given: Any) -> Kind:
    """With nothing known but what is given."""
    made = {item.name: [] if str(item.type).startswith("list") else _BLANKS.get(str(item.type)) for item in fields(kind)}
    assert set(given) <= set(made), f"no fields of {kind.__name__}: {set(given) - set(made)}"
    return kind(**made | given)


def context(names: Sequence[str], *, baseline: int = 0, plan: dict[str, Any] | None = None, **given: Any) -> Context:
    """Of both passes. Other keys: parts of the context."""
    parts = {"plan": blank(Plan, **{"time_pass": True, "memory_pass": True, "scale": 1} | (plan or {})), "trace": blank(Trace),
             "program": blank(Program), "machine": blank(Machine), "choices": [blank(Choice, name=name, shown=name) for name in names]}
    return blank(Context, baseline=baseline, **parts | given)


TIME_LINE: dict[str, Any] = {
    "alloc_time_ns": 1e6, "harness_time_ns": 1e5, "ns_per_call": 10.0, "clock_cost_ns": 20.0, "wait_time_ns": 0, "timed_calls": 100,
    "minor_faults": 0, "major_faults": 0, "calls": {}, "perf": None, "voluntary_switches": 0, "involuntary_switches": 0}
MEMORY_LINE: dict[str, Any] = {
    "rss_peak_bytes": 1e6, "rss_mean_bytes": 1e6, "rss_end_bytes": 1e6, "process_rss_peak_bytes": None,
    "rss_between_calls_peak_bytes": 1e6, "fragmentation": {"f1": 1.0, "f2": 1.0, "f3": 1.0, "f4": 1.0}, "baseline_check": None,
    "minor_faults": 0, "major_faults": 0, "rss_after_free_bytes": None, "rss_after_purge_bytes": None, "lazyfree_bytes": None,
    "lazyfree_peak_bytes": None, "anon_huge_bytes": None, "anon_huge_peak_bytes": None, "swap_bytes": None, "swap_peak_bytes": None,
    "arenas": None, "arenas_max": None, "processors_asked": None, "decomposition": None}


def cell(time: dict[str, Any] | None = None, memory: dict[str, Any] | None = None) -> Cell:
    """Of passes that ran, with these figures among others; None: it did not."""
    return Cell(None if time is None else TIME_LINE | time, None if memory is None else MEMORY_LINE | memory)


def measurements(rounds: Sequence[Sequence[Cell]]) -> Measurements:
    """rounds: the cells of the allocators and of the control; the null replayer's are put before them."""
    return Measurements([[cell({"alloc_time_ns": None}, {}), *cells] for cells in rounds])
