# SPDX-License-Identifier: Apache-2.0
"""Predicted beside real: errors, intervals, whether signs and ranks agree. The result is what --json prints."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..base.units import null_unless_known
from ..results.comparison import (
    SAME_WITHIN,
    Difference,
    Estimate,
    estimate_ratio,
    estimate_saving,
    paired_ratios,
    widen,
)
from .allocators import RealAllocator
from .placement import ModelledChange
from .prediction import (
    PredictedMemory,
    RecordedMemory,
    curve_difference,
    predicted_differences_ns,
    predicted_memory,
)
from .program import Program
from .recording import Recording
from .rounds import RealRun

_UNITS_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
_TIME = r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m)\b"


@dataclass(frozen=True)
class Latencies:
    """Latencies of requests, in ns; None if the load does not report them."""

    p50_ns: float | None
    p99_ns: float | None
    average_ns: float | None = None


def _ns(number: str, unit: str) -> float:
    return float(number) * _UNITS_NS[unit]


def _middle(values: list[float]) -> float | None:
    """The mean of several tests of one load, so that each counts."""
    return sum(values) / len(values) if values else None


def _redis_csv(text: str) -> Latencies | None:
    """redis-benchmark --csv: a row for each test, in ms."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if not rows or "p50_latency_ms" not in rows[0] or len(rows) < 2:
        return None
    at = [rows[0].index(f"{name}_latency_ms") for name in ("p50", "p99", "avg")]
    tests = [row for row in rows[1:] if len(row) == len(rows[0]) and row != rows[0]]  # each benchmark has a heading
    return Latencies(*(_middle([float(row[i]) * 1e6 for row in tests]) for i in at))


def _redis_quiet(text: str) -> Latencies | None:
    """redis-benchmark -q: one line for each test, p50 alone."""
    # It redraws its line; what counts is what stands there last.
    found = re.findall(r"requests per second, p50=(\d+(?:\.\d+)?) msec", text)
    return Latencies(_middle([float(item) * 1e6 for item in found]), None) if found else None


def _redis_full(text: str) -> Latencies | None:
    """redis-benchmark without either: a summary of six columns for each test."""
    found = re.findall(r"latency summary \(msec\):\s*\n\s*avg\s+min\s+p50\s+p95\s+p99\s+max\s*\n\s*([\d. ]+)", text)
    rows = [[float(item) * 1e6 for item in line.split()] for line in found]
    rows = [row for row in rows if len(row) == 6]
    return Latencies(*(_middle([row[i] for row in rows]) for i in (2, 4, 0))) if rows else None


def _wrk(text: str) -> Latencies | None:
    """wrk --latency: shares with times."""
    if "Latency Distribution" not in text:
        return None
    by_name = {share: _ns(number, unit) for share, number, unit in re.findall(rf"^\s*(50|99)(?:\.0+)?%\s+{_TIME}", text, re.MULTILINE)}
    average = re.search(rf"^\s*Latency\s+{_TIME}", text, re.MULTILINE)
    return Latencies(by_name.get("50"), by_name.get("99"), _ns(*average.groups()) if average else None)


def _ab(text: str) -> Latencies | None:
    """ab: shares with whole ms."""
    if "Percentage of the requests served within a certain time (ms)" not in text:
        return None
    by_name = {share: float(number) * 1e6 for share, number in re.findall(r"^\s*(50|99)%\s+(\d+)", text, re.MULTILINE)}
    average = re.search(r"^Time per request:\s+([\d.]+) \[ms\] \(mean\)$", text, re.MULTILINE)
    return Latencies(by_name.get("50"), by_name.get("99"), float(average[1]) * 1e6 if average else None)


def _pgbench_log(text: str) -> Latencies | None:
    """The lines of pgbench --log, where the load prints that file: client, transaction, time in us, script, time, time in us."""
    times = sorted(float(item) * 1e3 for item in re.findall(r"^\d+ \d+ (\d+) \d+ \d+ \d+(?: \d+)*$", text, re.MULTILINE))
    if not times:
        return None
    return Latencies(times[(len(times) - 1) // 2], times[-(-99 * len(times) // 100) - 1], sum(times) / len(times))


def _pgbench(text: str) -> Latencies | None:
    """pgbench by itself reports the average alone."""
    found = re.search(r"^latency average = ([\d.]+) ms$", text, re.MULTILINE)
    return Latencies(None, None, float(found[1]) * 1e6) if found else None


def _named(text: str) -> Latencies | None:
    """p50=1.2ms p99=3.4ms, of any load; the last of each."""
    by_name = {name: _ns(number, unit) for name, number, unit in re.findall(rf"\b(p50|p99)\s*[=:]\s*{_TIME}", text)}
    return Latencies(by_name.get("p50"), by_name.get("p99")) if by_name else None


_PARSERS: tuple[Callable[[str], Latencies | None], ...] = (
    _redis_csv, _redis_quiet, _redis_full, _wrk, _ab, _pgbench_log, _pgbench, _named)


def parse_latencies(text: str) -> Latencies | None:
    """None where no load that is known printed this."""
    return next((found for parser in _PARSERS if (found := parser(text))), None)


SCHEMA = 1
_NOTHING = Difference(math.nan, math.nan, math.nan, 0)


@dataclass
class Validation:
    """Everything that was measured."""

    title: str
    recording: Recording
    memory: RecordedMemory
    allocators: list[RealAllocator]
    baseline: str
    rows: pd.DataFrame
    replayed: dict[str, dict[str, Any]]
    runs: list[RealRun]
    startup_ns: dict[str, float]
    rounds: int
    seed: int
    problems: dict[str, str] = field(default_factory=dict)
    recorder_bytes: int = 0
    library_bytes: dict[str, int] = field(default_factory=dict)
    """Data of the preloaded libraries, by allocator."""
    warnings: list[str] = field(default_factory=list)
    modelled: dict[str, ModelledChange] = field(default_factory=dict)
    """By allocator, of --accesses."""

    @property
    def is_server(self) -> bool:
        """Whether there was a load."""
        return self.recording.conduct.load_output is not None

    def real_table(self, figure: str) -> pd.DataFrame:
        """A figure of the real runs (cpu_ns, peak, mean), shape (rounds, allocators)."""
        names = [item.name for item in self.allocators]
        cells = [(run.round, run.allocator, run.figures()[figure]) for run in self.runs if run.allocator not in self.problems]
        frame = pd.DataFrame(cells, columns=["round", "allocator", "value"])
        return frame.pivot(index="round", columns="allocator", values="value").reindex(columns=names)


def figures_object(found: Validation) -> dict[str, Any]:
    """The document."""
    memory = {item.name: _predicted(found, item.name) for item in found.allocators}
    cpu = _cpu_objects(found)
    allocators = []
    for item in found.allocators:
        about = allocator_object(item, found.problems)
        if item.name not in found.problems:
            about |= {"memory": _memory_object(found, item.name, memory), "cpu": cpu[item.name]}
            about |= {"latency": _latency_object(found, item.name)} if found.is_server else {}
        allocators.append(about | {"runs": [_run_object(run) for run in found.runs if run.allocator == item.name]})
    return {
        "schema": SCHEMA, "program": found.title, "server": found.is_server, "baseline": found.baseline,
        "rounds": found.rounds, "seed": found.seed, "recorded": recorded_object(found.recording), "allocators": allocators,
        "agreement": _agreement(found, allocators), "curve": _curve_object(found), "warnings": found.warnings,
    }


def untimed_object(program: Program, recording: Recording, allocators: list[RealAllocator], baseline: str,
                   problems: dict[str, str]) -> dict[str, Any]:
    """The document where no round was run."""
    return {"schema": SCHEMA, "program": program.title, "server": program.server is not None, "baseline": baseline, "rounds": 0,
            "seed": None, "recorded": recorded_object(recording),
            "allocators": [allocator_object(item, problems) for item in allocators], "warnings": []}


def allocator_object(item: RealAllocator, problems: dict[str, str]) -> dict[str, Any]:
    """Who it is, and why it has no figures."""
    return {"name": item.name, "kind": item.kind, "version": item.version, "path": item.path, "environment": list(item.environment),
            "problem": problems.get(item.name)}


def recorded_object(recording: Recording) -> dict[str, Any]:
    """The process that was recorded."""
    info, context = recording.info, recording.context
    return {
        "executable": context.get("executable"), "command": context.get("command"), "allocator": recording.kind,
        "allocator_version": context.get("allocator_version"), "calls": info.get("events"), "threads": info.get("threads"),
        "duration_ns": info.get("duration_ns"), "cpu_ns": info.get("recorded_cpu_ns"),
        "rss_peak_bytes": info.get("recorded_rss_peak_bytes"), "own_peak_bytes": info.get("recorded_own_peak_bytes"),
        "processes": recording.processes, "exit_status": recording.conduct.exit_status,
    }


def memory_rows(rows: pd.DataFrame, name: str) -> list[dict[str, Any]]:
    """The rows of an allocator's memory pass that can be used."""
    chosen = rows[(rows["allocator"] == name) & (rows["pass"] == "memory") & (rows["failures"] == 0) & ~rows["control"]]
    return [row for row in chosen.to_dict("records") if row["timeline"].get("rss_bytes")]


_Rounds = dict[tuple[int, int], PredictedMemory]
"""By seed and round of the replay."""


def _predicted(found: Validation, name: str) -> _Rounds:
    # Where the recorder's is not known, it stands in for that of the allocator's library.
    surplus = found.recorder_bytes - found.library_bytes.get(name, 0) if found.recorder_bytes else 0
    each = {(row["seed"], row["round"]): predicted_memory(row, found.memory, surplus) for row in memory_rows(found.rows, name)}
    if not each:
        found.problems.setdefault(name, "was not replayed")
    return each


def _memory_object(found: Validation, name: str, memory: dict[str, _Rounds]) -> dict[str, Any]:
    each, base = memory[name].values(), memory.get(found.baseline, {})
    objects = {
        "peak": _error_object([item.peak for item in each], [item.own_at_peak for item in each], found.real_table("peak")[name]),
        "mean": _error_object([item.mean for item in each], [item.own_mean for item in each], found.real_table("mean")[name]),
    }
    if name != found.baseline:
        for figure, made in objects.items():
            real = found.real_table(figure)
            for word, ratio in (("change", _changed(memory[name], base, figure)),
                                ("real_change", estimate_ratio(paired_ratios(real[name], real[found.baseline])))):
                made |= {word: null_unless_known(ratio.ratio - 1), f"{word}_low": null_unless_known(ratio.ci_low - 1),
                         f"{word}_high": null_unless_known(ratio.ci_high - 1)}
    return objects


def _changed(one: _Rounds, base: _Rounds, figure: str) -> Estimate:
    """The ratio of a figure (peak, mean) to the baseline's, paired by rounds of the replay."""
    return estimate_ratio(np.array([getattr(one[number], figure) / getattr(base[number], figure) for number in one if number in base]))


def _error_object(each: list[float], own_of_each: list[float], real: pd.Series) -> dict[str, Any]:
    """Errors are shares of the real figure: 0.01 is a prediction that is 1 % too high. Rounds of the replay and of the program are
    no pairs: those of the replay say how far the prediction, their median, may be off."""
    values = real.dropna().to_numpy(dtype=float)
    predicted, own = float(np.median(each)), float(np.median(own_of_each))
    middle = float(np.median(values)) if values.size else math.nan
    ratio = widen(estimate_ratio(predicted / values), estimate_ratio(np.array(each) / predicted if predicted > 0 else np.array([])))
    return {
        "predicted_bytes": predicted, "real_bytes": null_unless_known(middle), "own_bytes": own, "error": null_unless_known(ratio.ratio - 1),
        "error_low": null_unless_known(ratio.ci_low - 1), "error_high": null_unless_known(ratio.ci_high - 1),
        # Where next to nothing is the allocator's, there is nothing to be wrong about.
        "heap_error": null_unless_known((predicted - middle) / (middle - own)) if middle > own else None,
    }


def _cpu_objects(found: Validation) -> dict[str, dict[str, Any]]:
    # The load begins long after the server has started.
    startup_ns = {} if found.is_server else found.startup_ns
    predicted = predicted_differences_ns(found.rows, found.baseline, startup_ns)
    table, objects = found.real_table("cpu_ns"), {}
    for item in found.allocators:
        name = item.name
        cpu_ns = table[name].dropna()
        objects[name] = {
            "real_ns": null_unless_known(float(cpu_ns.median())), "startup_ns": found.startup_ns.get(name),
            "predicted_difference_ns": null_unless_known(predicted.get(name, _NOTHING).middle),
        }
        if name == found.baseline:
            continue
        estimate = estimate_saving(table[name].to_numpy(), table[found.baseline].to_numpy())
        objects[name] |= _difference_object(predicted.get(name, _NOTHING), estimate)
        if name in found.modelled:
            more_ns = startup_ns.get(name, 0.0) - startup_ns.get(found.baseline, 0.0)
            objects[name] |= _modelled_object(found.modelled[name], float(table[found.baseline].median()), more_ns, objects[name])
    return objects


def _modelled_object(change: ModelledChange, base_ns: float, startup_ns: float, cpu: dict[str, Any]) -> dict[str, Any]:
    """The modelled share of the baseline's real time, with what starting a program costs more."""
    middle_ns = change.share * base_ns + startup_ns
    return {"modelled_difference_ns": null_unless_known(middle_ns), "modelled_low_ns": null_unless_known(change.low * base_ns + startup_ns),
            "modelled_high_ns": null_unless_known(change.high * base_ns + startup_ns),
            "modelled_over_real": null_unless_known(middle_ns / cpu["real_difference_ns"]) if cpu["resolved"] else None}


def _difference_object(predicted: Difference, real: Difference) -> dict[str, Any]:
    resolved = math.isfinite(real.ci_low) and (real.ci_low > 0 or real.ci_high < 0)
    return {
        "predicted_low_ns": null_unless_known(predicted.ci_low), "predicted_high_ns": null_unless_known(predicted.ci_high),
        "real_difference_ns": null_unless_known(real.middle), "real_low_ns": null_unless_known(real.ci_low), "real_high_ns": null_unless_known(real.ci_high),
        "pairs": real.rounds, "resolved": resolved,
        "sign_agrees": bool(predicted.middle * real.middle > 0) if resolved and math.isfinite(predicted.middle) else None,
        "predicted_over_real": null_unless_known(predicted.middle / real.middle) if resolved else None,
    }


def _latency_object(found: Validation, name: str) -> dict[str, Any]:
    """Latencies of the requests, as the load reports them, and of the calls, as the replay does."""
    latencies = [parse_latencies(run.conduct.load_output or "") for run in found.runs if run.allocator == name]
    calls = found.replayed.get(name, {}).get("latency_ns") or {}

    def median(get: str) -> float | None:
        values = [getattr(item, get) for item in latencies if isinstance(item, Latencies) and getattr(item, get) is not None]
        return float(np.median(values)) if values else None

    return {**{f"request_{get}": median(get) for get in ("average_ns", "p50_ns", "p99_ns")},
            **{f"{function}_p99_ns": (calls.get(function) or {}).get("p99") for function in ("malloc", "free")}}


def _run_object(run: RealRun) -> dict[str, Any]:
    return {"round": run.round, "cpu_ns": run.cpu_ns, "wall_ns": round(run.conduct.wall_s * 1e9),
            "rss_peak_bytes": run.process.peak_bytes, "rss_peak_sampled_bytes": run.process.sampled_peak_bytes,
            "rss_mean_bytes": null_unless_known(run.process.mean_bytes), "samples": len(run.process.times_s)}


def ranks(values: list[float], within: float) -> list[float]:
    """From 1 for the least; values that lie within that share of the least of their group have the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found, at = [0.0] * len(values), 0
    while at < len(order):
        first = values[order[at]]
        group = [i for i in order[at:] if values[i] - first <= within * abs(first)]
        for i in group:
            found[i] = at + (len(group) + 1) / 2
        at += len(group)
    return found


def spearman(one: list[float], other: list[float], within: float = 0.0) -> float | None:
    """Spearman's rank correlation; None where all values of a side are equal, and so have no order."""
    a, b = (np.array(ranks(values, within)) for values in (one, other))
    if a.size < 2 or a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _extremes(table: pd.DataFrame, names: list[str], most: bool) -> list[str]:
    """The allocators that really have the least, or the most, within 1 % or the interval. One round shows no difference."""
    medians = {name: float(table[name].median()) for name in names}
    end = (max if most else min)(medians, key=medians.__getitem__)
    tied = []
    for name in names:
        estimate = estimate_ratio(paired_ratios(table[name], table[end]))
        equal = abs(medians[name] / medians[end] - 1) <= SAME_WITHIN or not (estimate.ci_low > 1 or estimate.ci_high < 1)
        tied += [name] if equal else []
    return tied


def _ends_agree(expected: list[str], actual: list[str], names: list[str]) -> bool | None:
    """Whether who was expected to have the least (or the most) has it. None where the real program has no least: none of the
    allocators clearly differs from the others, and there was nothing to predict. Who expected all to be equal, where they are
    not, has named nobody."""
    if set(actual) == set(names):
        return None
    return set(expected) != set(names) and bool(set(expected) & set(actual))


def _agreement(found: Validation, allocators: list[dict[str, Any]]) -> dict[str, Any]:
    good = [item for item in allocators if "memory" in item]
    names = [item["name"] for item in good]
    agreed: dict[str, Any] = {}
    for figure in ("peak", "mean"):
        predicted = [item["memory"][figure]["predicted_bytes"] for item in good]
        real = [item["memory"][figure]["real_bytes"] for item in good]
        if not all(real) or len(good) < 2:
            continue
        table, of = found.real_table(figure), dict(zip(names, predicted, strict=True))
        agreed[figure] = {"spearman": spearman(predicted, real, SAME_WITHIN)}
        for word, most in (("best", False), ("worst", True)):
            end = (max if most else min)(predicted)
            expected = [name for name in names if abs(of[name] / end - 1) <= SAME_WITHIN]
            actual = _extremes(table, names, most)
            agreed[figure][word] = {"predicted": expected, "real": actual, "agrees": _ends_agree(expected, actual, names)}
    others = [item["cpu"] for item in good if item["name"] != found.baseline]
    differences = [(cpu["predicted_difference_ns"], cpu["real_difference_ns"]) for cpu in others]
    known = [(0.0, 0.0), *(pair for pair in differences if None not in pair)]
    agreed["cpu"] = {
        "spearman": spearman([one for one, _ in known], [other for _, other in known]),
        "resolved": sum(cpu["resolved"] for cpu in others), "pairs": len(others),
        "signs_agree": sum(cpu["sign_agrees"] is True for cpu in others),
    }
    return agreed


def _curve_object(found: Validation) -> dict[str, Any] | None:
    """The recorded curve against that of the same allocator in the replay; None where that did not take part."""
    recorded = {f"{key.removeprefix('env.')}={value}" for key, value in found.recording.context.items() if key.startswith("env.")}
    as_set = [item for item in found.allocators if item.kind == found.recording.kind and recorded.issuperset(item.environment)]
    same = max(as_set, key=lambda item: len(item.environment)).name if as_set else None
    rows = memory_rows(found.rows, same) if same else []
    if not rows:
        return None
    differences, means = zip(*(curve_difference(found.memory, row) for row in rows), strict=True)
    difference, mean = float(np.median(differences)), float(np.median(means))
    return {"allocator": same, "difference_bytes": null_unless_known(difference), "recorded_mean_bytes": null_unless_known(mean),
            "difference": null_unless_known(difference / mean) if mean > 0 else None}
