# SPDX-License-Identifier: Apache-2.0
"""Latencies, counters, system calls, slop and what is left over, as tables for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TextIO

from .beside import PROCESSOR_EVENTS, Beside
from .model import Comparison, Json, known
from .words import ROWS_MAX, Table, grouped, number_of, put, rounded
from .words import number as number_or

_TIMED_LEAST = 100
"""Sizes of fewer timed calls are left to --json."""

_SYSCALLS = ("mmap", "munmap", "mremap", "madvise", "brk", "mprotect")
_BINARY_UNITS = ("", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
_PARTS = ("requested", "internal", "untouched", "other")
_PARTS_HEADING = ("one run's RSS", "= live, requested", "+ internal", "- untouched", "+ cached, external, metadata")


def _number(value: float, unit: float, decimals: int, after: str = "") -> str:
    return number_or(value, unit, decimals, after, missing="n/a")


def _grouped(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{'-' if value < 0 else ''}{grouped(rounded(abs(value)))}"


def _megabytes(value: float) -> str:
    return _number(value, 1e6, 2, " MB")


def print_harness_share(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    shares = [f" {name} {100 * beside.harness_share:.0f} %" for name, beside in zip(c.names, besides, strict=True)
              if not math.isnan(beside.harness_share)]
    if shares:
        put(out, f"harness's share of the time measured:{','.join(shares)}")


def print_huge_pages(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    """A line, where there are huge pages or could be, or they were chosen."""
    plan, thp = c.context.plan, c.context.machine.thp
    peaks = [beside.leftovers["anon_huge_peak_bytes"] for beside in besides]
    if not any(peak > 0 for peak in peaks) and thp != "always" and plan.thp is None:
        return
    line = f"transparent huge pages: {thp or 'n/a'}"
    if plan.memory_pass:
        line += "; of peak RSS in them:" + ",".join(f" {name} {_number(peak, 1e6, 1, ' MB')}" for name, peak in zip(c.names, peaks, strict=True))
    put(out, line)


def print_processors(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    """What allocators made of the processors that they were shown."""
    table = Table("lrrll", ["allocator", "arenas", "at most", "asked", "makes of the processors"])
    for choice, beside in zip(c.context.choices, besides, strict=True):
        table.add([choice.name, _number(beside.arenas, 1, 0), _number(beside.arenas_max, 1, 0), "yes" if beside.processors_asked else "no",
                   choice.by_processors or "not known"])
    put(out, "")
    put(out, f"processors shown: {c.context.plan.processors}")
    table.print(out)


def print_figures(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    plan, named = c.context.plan, list(zip(c.names, c.measurements.figures, strict=True))
    if plan.time_pass:
        for name, figures in named:
            _print_latencies(name, figures, out)
        _print_counters(c, besides, out)
    _print_syscalls(c, out)
    if plan.memory_pass:
        _print_decomposition(c, besides, out)
    _print_leftovers(c, besides, out)
    put(out, "")
    for name, figures in named:
        _print_reports(name, figures, out)


# --- latencies

def _add_latency_row(table: Table, what: str, row: Json, least: int) -> None:
    count = row["count"]
    if count < least:
        return
    # Of too few calls a high percentile is nothing but the longest of them.
    p99, p999 = (row["p99"] if count >= 100 else math.nan), (row["p999"] if count >= 1000 else math.nan)
    table.add([_number(row["p50"], 1, 1), _number(row["p90"], 1, 1), _number(p99, 1, 1), _number(p999, 1, 0), _number(row["max"], 1, 0),
               grouped(count), what])


def _class_text(to_bytes: float) -> str:
    """A power of two."""
    size_class = int(to_bytes).bit_length() - 1
    return f"{1 << size_class % 10}{_BINARY_UNITS[size_class // 10]}"


def _print_latencies(name: str, figures: Json, out: TextIO) -> None:
    by_function: Json | None = figures["latency_ns"]
    if by_function is None:
        return
    table = Table("rrrrrrl", ["p50", "p90", "p99", "p99.9", "max", "timed", "latency in ns"])
    for function, row in by_function.items():
        _add_latency_row(table, function, row, 1)
    for row in figures["latency_by_size_ns"]:
        if len(table.rows) < ROWS_MAX:
            _add_latency_row(table, f"{row['kind']} up to {_class_text(row['to_bytes'])}", row, _TIMED_LEAST)
    put(out, "")
    put(out, name)
    table.print(out)
    taken = sum(row["count"] for row in by_function.values())
    put(out, f"{number_of(taken, 'call')} timed, {number_of(figures['latencies_dropped'], 'reading')} dropped because the thread was switched "
             f"out; the clock's own {figures['latency_floor_ns']:.1f} ns are subtracted from each")


# --- counters, system calls

def _print_counters(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    table = Table("lrrrrrrr", ["allocator", "instructions", "cycles", "cache misses", "LLC misses", "dTLB misses", "branch misses", "switches"])
    for name, beside in zip(c.names, besides, strict=True):
        table.add([name, *(_grouped(beside.perf[event]) for event in PROCESSOR_EVENTS),
                   _grouped(beside.voluntary_switches + beside.involuntary_switches)])
    put(out, "")
    table.print(out)
    problems = [beside.perf_missing for beside in besides if beside.perf_missing]
    if problems:
        put(out, f"n/a, processor counters: {problems[-1]}")


def _print_syscalls(c: Comparison, out: TextIO) -> None:
    table = Table("lrrrrrrr", ["system calls", *_SYSCALLS, "MB unmapped or advised"])
    for name, figures in zip(c.names, c.measurements.figures, strict=True):
        found: Json | None = figures["syscalls"]
        if found is None:
            table.add([name, *["n/a"] * (len(_SYSCALLS) + 1)])
        else:
            table.add([name, *(_grouped(found[call]["calls"]) for call in _SYSCALLS),
                       _number(found["munmap"]["bytes"] + found["madvise"]["bytes"], 1e6, 1)])
    put(out, "")
    table.print(out)
    problems = [figures["syscalls_missing"] for figures in c.measurements.figures if figures["syscalls_missing"] is not None]
    if problems:
        put(out, f"n/a: {problems[-1]}")


# --- memory

def _share_text(value: float, rss_bytes: float) -> str:
    if math.isnan(value) or not rss_bytes > 0:
        return _megabytes(value)
    return f"{value / 1e6:.2f} MB {100 * value / rss_bytes:5.1f} %"


def _part_cells(part: Json) -> list[str]:
    rss_bytes = known(part.get("rss_bytes"))
    return [_megabytes(rss_bytes), *(_share_text(known(part.get(f"{name}_bytes")), rss_bytes) for name in _PARTS)]


def _print_decomposition(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    """Every decomposition is that of one run, so that its parts add up."""
    at_peak = Table("lrrrrrr", ["at peak RSS", *_PARTS_HEADING, "(LazyFree in it)"])
    at_end = Table("lrrrrrrr", ["at the end", *_PARTS_HEADING, "all freed", "purged"])
    for name, beside in zip(c.names, besides, strict=True):
        parts: Json = beside.decomposition or {"peak": {}, "end": {}}
        peak, end = parts["peak"], parts["end"]
        at_peak.add([name, *_part_cells(peak), _megabytes(known(peak.get("lazyfree_bytes")))])
        after = [beside.leftovers[key] if beside.decomposition else math.nan for key in ("rss_after_free_bytes", "rss_after_purge_bytes")]
        at_end.add([name, *_part_cells(end), *(_share_text(value, known(end.get("rss_bytes"))) for value in after)])
    for table in (at_peak, at_end):
        put(out, "")
        table.print(out)


def _print_leftovers(c: Comparison, besides: Sequence[Beside], out: TextIO) -> None:
    table = Table("lrrrrr", ["allocator", "slop at peak", "mean slop", "LazyFree at end", "huge pages at end", "swapped at end"])
    for name, figures, beside in zip(c.names, c.measurements.figures, besides, strict=True):
        table.add([name, *(_megabytes(known(figures[key])) for key in ("slop_bytes", "slop_mean_bytes")),
                   *(_megabytes(beside.leftovers[key]) for key in ("lazyfree_bytes", "anon_huge_bytes", "swap_bytes"))])
    put(out, "")
    table.print(out)


def _print_report(name: str, where: str, row: Json, out: TextIO) -> None:
    line = f"{name}'s own figures {where}, in MB: requested {row['live_bytes'] / 1e6:.2f}"
    for key, value in row.items():
        if key not in ("live_bytes", "usable_bytes"):
            line += f", {key.removesuffix('_bytes')} {_number(known(value), 1e6, 2)}"
    put(out, line)


def _print_reports(name: str, figures: Json, out: TextIO) -> None:
    stats: Json | None = figures["allocator_stats"]
    if stats is None:
        return
    if stats["peak"] is not None:
        _print_report(name, "at the live peak", stats["peak"], out)
    _print_report(name, "at the end", stats["end"], out)
