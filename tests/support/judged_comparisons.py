# SPDX-License-Identifier: Apache-2.0
"""What the judge is told of a run, for tests that change a little of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from heaptape.judge.comparison import compare
from heaptape.judge.intervals import Random
from heaptape.judge.model import Cell, Choice, Comparison, Condition, Context, Failing, Json, Machine, Measurements, Plan, Program, Trace
from judged_runs import MEMORY_LINE, TIME_LINE, blank

MB = 1_000_000
PLAN = blank(Plan, trace_path="t.bin", rounds=8, time_pass=True, memory_pass=True, scale=1, touch="recorded", time_real=0.0, memory_real=0.0)
TRACE = blank(Trace, calls=50_000, threads=1, touched_peak_bytes=20 * MB)
PROGRAM = blank(Program, command="job", allocator="glibc", allocator_version="2.36", rss_peak_bytes=24.0 * MB, heap_peak_bytes=23.0 * MB, cpu_ns=50e6)
CHOICE = blank(Choice, version="2.36", path="/nowhere/libc.so", build_id="00")
MACHINE = blank(Machine, cores=4, thp_choices=["never", "madvise"])
FACTS: Json = {"trace": {"sha256": "ab", "calls": 50_000}, "settings": {"touch": "recorded", "scale": 1, "age_occupancy": 0.0, "extended": None},
               "machine": {"page_bytes": 4096, "libc": "glibc 2.36"}}


def condition(text: str) -> Condition:
    """FIGURE OPERATOR NUMBER, without what the command line allows besides."""
    name, operator, limit = next(text.partition(each) for each in (">=", "<=", ">", "<") if each in text)
    name, _, part = name.rstrip("]").partition("[")
    function, _, size = part.partition(":")
    in_rounds = name in ("time", "rss_peak", "rss_mean", "rss_end", "process_rss_peak")
    return Condition(text, name if in_rounds else None, None if in_rounds else name, name in ("instructions", "mapping_calls"), function,
                     int(size) if size else None, operator.startswith(">"), operator.endswith("="), float(limit))


def context(*names: str, conditions: tuple[str, ...] = (), **more: Any) -> Context:
    """more: fields of the plan, trace, program or machine, of whichever has them; thp is the machine's. The first of the names is the baseline."""
    choices = [replace(CHOICE, name=name, shown=name, serves=name == "glibc") for name in names or ("glibc", "jemalloc")]
    parts: dict[str, Any] = {"plan": PLAN, "trace": TRACE, "program": PROGRAM, "machine": MACHINE}
    for key, value in more.items():
        owner = "machine" if key == "thp" else next(part for part in parts if key in vars(parts[part]))
        parts[owner] = replace(parts[owner], **{key: value})
    return blank(Context, choices=choices, conditions=[condition(text) for text in conditions], baseline_facts=FACTS, **parts)


PERF = {"instructions": 4e6, "cycles": None, "cache_misses": None, "llc_load_misses": None, "dtlb_load_misses": None, "branch_misses": None,
        "context_switches": 2, "cpu_migrations": 0, "scope": "user", "missing": None}
CALLS = {"malloc": {"count": 300, "time_ns": 1.5, "touch_ns": 0.5}, "free": {"count": 0, "time_ns": None, "touch_ns": None}}


def cell(time_ns: float, peak_bytes: float, **exact: int) -> Cell:
    """A run of each pass; exact: of the time pass."""
    memory = {"rss_peak_bytes": peak_bytes, "rss_between_calls_peak_bytes": peak_bytes, "rss_mean_bytes": peak_bytes / 2, "rss_end_bytes": peak_bytes / 4,
              "process_rss_peak_bytes": peak_bytes + MB, "arenas_max": 8, "rss_after_purge_bytes": 0}
    return Cell(TIME_LINE | {"alloc_time_ns": time_ns, "harness_time_ns": 2e6, "perf": PERF, "calls": CALLS}, MEMORY_LINE | memory, exact)


def _measurements(context: Context, ratios: list[list[float]], counts: Json | None = None) -> Measurements:
    """ratios[round]: each allocator's time and memory, of 20 ms and 24 MB, the baseline's among them; the last is the control's."""
    rounds = [[cell(0.0, 0.0), *(cell(20e6 * ratio, 24.0 * MB * ratio) for ratio in row)] for row in ratios]
    figures: Json = {"latency_ns": None, "latency_by_size_ns": None, "latency_floor_ns": None, "latencies_dropped": 0, "syscalls": None,
                     "syscalls_missing": None, "slop_bytes": None}
    return Measurements(rounds, [figures for _ in context.choices], [Failing() for _ in context.choices], repeats=1, counts=counts)


def steady(ratio: float, rounds: int = 8, spread: float = 0.002) -> list[list[float]]:
    """A baseline, another allocator at that ratio, and the control."""
    noise = Random(5)

    def once() -> float:
        return 1 + spread * (noise.below(2001) - 1000) / 1000

    return [[once(), ratio * once(), once()] for _ in range(rounds)]


def comparison(given: Context, ratios: list[list[float]], counts: Json | None = None, earlier: Json | None = None) -> Comparison:
    return replace(compare(given, _measurements(given, ratios, counts)), earlier=earlier)


def counted(instructions: int, **more: Any) -> Json:
    return {"allocator": {"instructions": instructions, "mapping_calls": 4, "faults": 60, "modelled_ns": 5.5}, "program": {"faults": 40},
            "calls_by_size": [{"function": "malloc", "size_low": 64, "calls": 9, "instructions": instructions // 2},
                              {"function": "free", "size_low": 64, "calls": 9, "instructions": instructions - instructions // 2}], **more}
