# SPDX-License-Identifier: Apache-2.0
"""Request latencies from what a load generator prints: redis-benchmark, wrk, ab, pgbench, or p50=... p99=... of any other."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

_UNITS_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9}
_TIME = r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m)\b"


@dataclass(frozen=True)
class Latencies:
    """Of requests, in ns; None where the load does not report it."""

    p50_ns: float | None
    p99_ns: float | None
    average_ns: float | None = None


def _ns(number: str, unit: str) -> float:
    return float(number) * _UNITS_NS[unit]


def _middle(values: list[float]) -> float | None:
    """Of several tests of one load: their mean, so that each counts."""
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
