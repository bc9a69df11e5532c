# SPDX-License-Identifier: Apache-2.0
"""The figures that bench/figures/record.py gives, from the samples of its runs."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any

from bench.figures.intervals import median_interval, ratio_of_medians
from bench.figures.runs import Result

Figures = dict[str, Any]
ThreadRatios = dict[str, dict[str, Figures | None]]


def added_ns(result: Result, name: str) -> list[float]:
    """CPU time that each round's run added to its untraced one, per call."""
    pairs = zip(result.rows[name].samples, result.rows["untraced"].samples, strict=True)
    return [(under.cpu_ns - alone.cpu_ns) / result.calls for under, alone in pairs]


def paired_ratio(result: Result, name: str, figure: str) -> float:
    pairs = zip(result.rows[name].samples, result.rows["untraced"].samples, strict=True)
    return float(statistics.median(getattr(under, figure) / getattr(alone, figure)
                                   for under, alone in pairs))


def rss_added_bytes(result: Result, name: str) -> float:
    pairs = zip(result.rows[name].samples, result.rows["untraced"].samples, strict=True)
    return statistics.median(under.max_rss_bytes - alone.max_rss_bytes for under, alone in pairs)


def figures(result: Result, name: str, seed: int) -> Figures:
    """All figures of one recorder and one workload."""
    row = result.rows[name]
    own = {"cpu_ns": statistics.median(sample.cpu_ns for sample in row.samples),
           "wall_ns": statistics.median(sample.wall_ns for sample in row.samples),
           "max_rss_bytes": statistics.median(sample.max_rss_bytes for sample in row.samples),
           "lost_events": sum(sample.lost_events for sample in row.samples),
           "samples": [asdict(sample) for sample in row.samples]}
    if name == "untraced":
        return own
    reference = None
    if "reference" in result.rows:
        reference = ratio_of_medians(added_ns(result, name), added_ns(result, "reference"), seed)
    output = statistics.median(sample.output_bytes for sample in row.samples)
    return own | {
        "cpu_added_ns_per_call": asdict(median_interval(added_ns(result, name))),
        "reference_ratio": asdict(reference) if reference else None,
        "cpu_ratio": paired_ratio(result, name, "cpu_ns"),
        "wall_ratio": paired_ratio(result, name, "wall_ns"),
        "output_bytes_per_call": output / result.calls,
        "rss_added_bytes": rss_added_bytes(result, name),
        "instructions_per_call": row.instructions_per_call}


def with_interval(estimate: Figures | None, digits: int) -> str:
    if not estimate:
        return "-"
    return (f"{estimate['median']:.{digits}f} [{estimate['low']:.{digits}f}, "
            f"{estimate['high']:.{digits}f}]")


COLUMNS = ("recorder", "CPU ns added per call", "x reference", "CPU", "wall", "bytes/call",
           "RSS added", "instr./call")


def table_row(name: str, of: Figures) -> list[str]:
    if name == "untraced":
        return [name, "-", "-", "1.00", "1.00", "-", "-", "-"]
    counted = of["instructions_per_call"]
    instructions = "-" if counted is None else f"{counted:.1f}"
    return [name, with_interval(of["cpu_added_ns_per_call"], 1),
            with_interval(of["reference_ratio"], 2), f"{of['cpu_ratio']:.2f}",
            f"{of['wall_ratio']:.2f}", f"{of['output_bytes_per_call']:.1f}",
            f"{of['rss_added_bytes'] / 2**20:.1f} MiB", instructions]


def print_table(result: Result, table: dict[str, Figures]) -> None:
    alone = table["untraced"]
    print(f"\n{result.workload.name}: {result.calls:,} calls; untraced "
          f"{alone['cpu_ns'] / 1e9:.2f} s of CPU, {alone['cpu_ns'] / result.calls:.1f} ns a call, "
          f"{alone['max_rss_bytes'] / 2**20:.1f} MiB")
    lines = [list(COLUMNS)] + [table_row(name, of) for name, of in table.items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for line in lines:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(line, widths, strict=True))))
    for name, of in table.items():
        if of["lost_events"]:
            print(f"{name} lost {of['lost_events']:,} events in {len(of['samples'])} runs; "
                  "what it lost it did not pay for")
    for name, reason in result.skipped.items():
        print(f"{name} skipped: {reason}")


def thread_ratios(group: list[Result], seed: int) -> ThreadRatios:
    """What a call costs with several threads, over what it costs with one."""
    first = group[0]
    found: ThreadRatios = {}
    for result in group[1:]:
        for name in result.rows:
            if name == "untraced":
                continue
            ratio = ratio_of_medians(added_ns(result, name), added_ns(first, name), seed)
            of_workload = found.setdefault(result.workload.name, {})
            of_workload[name] = asdict(ratio) if ratio else None
    return found


def print_thread_ratios(ratios: ThreadRatios, first: str) -> None:
    for workload, by_recorder in ratios.items():
        print(f"\nCPU ns added per call, {workload} over {first}:")
        for name, ratio in by_recorder.items():
            print(f"{name:10}  {with_interval(ratio, 2)}")
