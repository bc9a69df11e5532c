"""results.jsonl as a table: one row per run of the replayer, in file order."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from .errors import ResultsError

NULL_ALLOCATOR = "null"
"""The replayer without an allocator: it measures the harness and is never compared."""

# Objects of a line that become columns of their own, `allocator.path` as allocator_path and so on. Others stay objects:
# their keys differ from run to run.
_FLATTENED = ("trace", "allocator", "fragmentation")
_OBJECTS = ("calls", "timeline", "latency_ns", "allocator_stats", "decomposition", "machine", "perf", "syscalls")
_NUMBERS = (
    "trace_events", "round", "alloc_time_ns", "harness_time_ns", "touch_time_ns", "wait_time_ns", "wall_ns",
    "ns_per_call", "rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "lazyfree_bytes", "live_peak_bytes",
    "slop_bytes", "slop_mean_bytes", "slop_end_bytes", "rss_after_free_bytes", "rss_after_purge_bytes",
    "anon_huge_bytes", "anon_huge_peak_bytes", "swap_bytes", "harness_share", "latency_floor_ns", "timed_calls", "timed_calls_dropped",
    "voluntary_switches", "involuntary_switches", "minor_faults", "major_faults", "fragmentation_f1",
    "fragmentation_f2", "fragmentation_f3", "fragmentation_f4", "repeats", "instructions",
)
_TEXTS = (
    "trace_path", "trace_sha256", "allocator", "allocator_path", "allocator_version", "allocator_build_id",
    "allocator_knobs", "pass", "seed", "threads", "touch", "touch_free", "pace", "wrap", "configuration", "thp", "started_at",
)
_PASSES = ("time", "memory", "verify")


def read_results(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """One row per run. Times in ns, memory in bytes; a figure that a run does not have is NaN, a text "", an object {}.

    Columns: source and line (where the run was read), schema, trace_path, trace_sha256, trace_events, allocator (its name
    as given to replay), allocator_path, _version, _build_id, _knobs (text), pass, round, seed (text), threads, touch, pace,
    thp (transparent huge pages in force), scale (copies of the trace that ran side by side), every figure of the line under
    its own name, fragmentation_f1 to _f4, failures (count), control (True for the baseline's second run in a round, which
    is no result of its own), calls, timeline, latency_ns, allocator_stats, decomposition, machine, perf and syscalls as
    dicts. Keys unknown to this version are kept under their names. Raises ResultsError.

    A file whose last line is cut short, as a killed run leaves it, is read up to there: `frame.attrs["cut_short"]` lists a
    sentence for each, and a ResultsWarning says the same.
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    cut_short: list[str] = []
    rows = [row for path in listed for row in _read_file(Path(path), cut_short)]
    for sentence in cut_short:
        warnings.warn(sentence, ResultsWarning, stacklevel=2)
    if not rows:
        raise ResultsError(listed[0] if listed else "results", 0, "expected at least one run, found none")
    frame = pd.DataFrame(rows)
    frame.attrs["cut_short"] = cut_short
    for name in _NUMBERS:
        frame[name] = pd.to_numeric(frame[name]) if name in frame else float("nan")
    for name in _TEXTS:
        frame[name] = frame[name].map(_as_text) if name in frame else ""
    for name in _OBJECTS:
        frame[name] = [_as_object(value) for value in frame[name]] if name in frame else [{} for _ in rows]
    frame["control"] = frame["control"].map(lambda value: value is True) if "control" in frame else False
    frame["scale"] = pd.to_numeric(frame["scale"]).fillna(1).astype(int) if "scale" in frame else 1
    of_machine = frame["machine"].map(lambda machine: _as_text(machine.get("thp")))
    frame["thp"] = frame["thp"].where(frame["thp"] != "", of_machine)
    frame["touch_free"] = frame["touch_free"].replace("", "none")
    frame["pollution_bytes"] = pd.to_numeric(frame["pollution_bytes"]).fillna(0).astype(int) \
        if "pollution_bytes" in frame else 0
    frame["failures"] = [count_failures(value) for value in frame["failures"]] if "failures" in frame else 0
    return frame


class ResultsWarning(UserWarning):
    """Results that could be read in part only."""


def _read_file(path: Path, cut_short: list[str]) -> list[dict[str, Any]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ResultsError(path, 0, f"can't read: {error.strerror}") from error
    rows: list[dict[str, Any]] = []
    lines = raw.split(b"\n")
    for number, line in enumerate(lines, start=1):
        # What follows the last line feed is nothing, or a line whose writer was killed.
        if number == len(lines) and line.strip() and not _is_json(line):
            cut_short.append(f"{path}:{number}: cut short; the {len(rows)} runs before it were read")
        elif line.strip():
            rows.append(_read_line(path, number, line))
    return rows


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _read_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ResultsError(path, number, f"expected one JSON object: {error}") from error
    if not isinstance(value, dict):
        raise ResultsError(path, number, f"expected one JSON object, found {type(value).__name__}")
    _check(path, number, value)
    row: dict[str, Any] = {"source": str(path), "line": number}
    for key, item in value.items():
        if key in _FLATTENED and isinstance(item, dict):
            row.update({_flat_name(key, inner): inner_item for inner, inner_item in item.items()})
        else:
            row[key] = item
    return row


def _flat_name(outer: str, inner: str) -> str:
    return "allocator" if (outer, inner) == ("allocator", "name") else f"{outer}_{inner}"


def _check(path: Path, number: int, value: dict[str, Any]) -> None:
    """Refuse a line on which no comparison could be built; everything else may be missing."""
    def bad(expected: str) -> ResultsError:
        return ResultsError(path, number, f"expected {expected}")

    if isinstance(value.get("schema"), int) and value["schema"] > 1:
        raise bad(f"results of schema 1, found {value['schema']}; a newer heaptape reads them")
    for key in ("trace", "allocator"):
        if not isinstance(value.get(key), dict):
            raise bad(f'an object "{key}"')
    if not isinstance(value["allocator"].get("name"), str) or not value["allocator"]["name"]:
        raise bad('the allocator\'s "name"')
    if value.get("pass") not in _PASSES:
        raise bad('"pass" to be "time", "memory" or "verify"')
    if not isinstance(value.get("round"), int):
        raise bad('a number "round"')
    flat = {_flat_name(outer, k): v for outer in _FLATTENED for k, v in (value.get(outer) or {}).items()}
    for key in _NUMBERS:
        found = value.get(key, flat.get(key))
        if found is not None and (isinstance(found, bool) or not isinstance(found, (int, float))):
            raise bad(f'"{key}" to be a number, found {type(found).__name__}')
    for key in _OBJECTS:
        if value.get(key) is not None and not isinstance(value[key], dict):
            raise bad(f'"{key}" to be an object, found {type(value[key]).__name__}')


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, float) and value != value:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def count_failures(value: Any) -> int:
    """How many calls failed in replay, whether the line says so by a number, a list or an object of counts."""
    if isinstance(value, dict):
        return sum(count_failures(item) for item in value.values())
    if isinstance(value, list):
        return len(value)
    if isinstance(value, (int, float)) and value == value:
        return int(value)
    return 0
