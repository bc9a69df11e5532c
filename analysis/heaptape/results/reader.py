# SPDX-License-Identifier: Apache-2.0
"""results.jsonl as a table: one row per run of the replayer, in file order."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import ResultsError
from ..base.units import counted, nanoseconds
from .schema import (
    FLAT_NAMES,
    FLATTENED,
    NUMBERS,
    OBJECTS,
    SchemaError,
    flat_name,
    is_whole,
    parse_line,
)

NULL_ALLOCATOR = "null"
"""The replayer without an allocator: it measures the harness and is never compared."""

GROUP_PASS = "group"

_TEXTS = (
    "trace_path", "trace_sha256", "allocator", "allocator_path", "allocator_version", "allocator_build_id",
    "allocator_knobs", "pass", "seed", "threads", "touch", "touch_free", "pace", "wrap", "configuration", "thp", "started_at",
)
_COUNTS = {"scale": 1, "pollution_bytes": 0, "pollution_code_bytes": 0, "pollution_pages": 0, "purge_ns": 0, "processors": 0,
           "refused_calls": 0}
"""What they are where a line does not have them."""


# What is easily given in place of results.
_OTHER_FILES = ((b"HTAPETRC", "a trace"), (b"HTAPERAW", "a raw log: convert and replay it"), (b"<!doctype html", "a report"),
                (b"PAR1", "a Parquet table"))
_START_BYTES = 1 << 16
_DIGEST = ""  # the key of a row, while it is read, for what distinguishes it from all others


def read_results(paths: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """One row per run. Times in ns, memory in bytes; a figure that a run does not have is NaN, a text "", an object {}.

    Columns: source and line (where the run was read), schema, trace_path, trace_sha256, trace_events, allocator (its name
    as given to replay), allocator_path, _version, _build_id, _knobs (text), pass, round, seed (text), threads, touch, pace,
    thp (transparent huge pages in force), scale (copies of the trace that ran side by side), every figure of the line under
    its own name, fragmentation_f1 to _f4, failures (count), refused_calls (of them), control (True for the baseline's second run in a round, which
    is no result of its own), calls, timeline, latency_ns, allocator_stats, decomposition, machine, perf and syscalls as
    dicts. Keys unknown to this version are kept under their names. Raises ResultsError.

    A file whose last line is cut short, as a killed run leaves it, is read up to there: `frame.attrs["cut_short"]` lists a
    sentence for each, and a ResultsWarning says the same. So it is with `frame.attrs["repeated"]`: a run that is there more
    than once, as where a file and its copy are named, counts once; and with `frame.attrs["of_groups"]`: runs of a group of
    processes are left out, whose figures are of other kinds (heaptape.group reads them).
    """
    listed = [paths] if isinstance(paths, (str, Path)) else list(paths)
    cut_short: list[str] = []
    rows, repeated = _once([row for path in listed for row in _read_file(Path(path), cut_short)])
    rows, of_groups = _without_groups(rows)
    for sentence in cut_short + repeated + of_groups:
        warnings.warn(sentence, ResultsWarning, stacklevel=2)
    if not rows:
        found = "those of a group of processes alone, of which heaptape try and heaptape explain tell" if of_groups else "a line that is cut short" if cut_short else "none"
        raise ResultsError(listed[0] if listed else "results", 0, f"expected at least one run, found {found}")
    frame = pd.DataFrame(_columns(rows))
    # Every selection of rows copies each column that is a block of its own, as newer pandas keeps texts.
    texts = {name: object for name, dtype in frame.dtypes.items() if pd.api.types.is_string_dtype(dtype)}
    whole = frame.astype(texts).copy()
    whole.attrs |= {"cut_short": cut_short, "repeated": repeated, "of_groups": of_groups}
    return whole


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of `read_results`. A frame is made of all at once: pandas warns of one that grows by a hundred."""
    sources = [row.pop("source") for row in rows]
    columns: dict[str, Any] = dict(pd.DataFrame(rows).items())
    none = pd.Series(float("nan"), index=range(len(rows)))
    # A file's name may have bytes that are no character: newer pandas does not keep those as text.
    columns["source"] = pd.Series(sources, dtype=object)
    for name in NUMBERS:
        columns[name] = pd.to_numeric(columns.get(name, none))
    for name in _TEXTS:
        columns[name] = [_as_text(value) for value in columns.get(name, none)]
    for name in OBJECTS:
        columns[name] = [_as_object(value) for value in columns.get(name, none)]
    columns["control"] = [value is True for value in columns.get("control", none)]
    for name, default in _COUNTS.items():
        columns[name] = pd.to_numeric(columns.get(name, none)).fillna(default).astype(int)
    columns["thp"] = [own or _as_text(machine.get("thp")) for own, machine in zip(columns["thp"], columns["machine"], strict=True)]
    columns["touch_free"] = [text or "none" for text in columns["touch_free"]]
    ages = zip(columns["age_occupancy"].fillna(0), columns["age_multiple"].fillna(0), strict=True)
    columns["age"] = [f"{share:g},{multiple:g}" if share else "" for share, multiple in ages]  # as `replay --age` takes them
    columns["extended"] = [_extension(value) for value in columns.get("trace_extended", none)]
    columns["failures"] = [count_failures(value) for value in columns.get("failures", none)]
    return columns


def _extension(value: object) -> str:
    """What of a recording was repeated, and up to when; empty: nothing."""
    times = [value.get(name) for name in ("to_ns", "from_ns", "until_ns")] if isinstance(value, dict) else []
    if not times or not all(isinstance(time, (int, float)) for time in times):
        return ""
    to, start, until = map(nanoseconds, times)
    return f"up to {to} by repeating {start} to {until}"


def _once(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows without those that are another one again, and a sentence for each file that has such. Taken for runs of their
    own they would make intervals narrower than what was measured allows."""
    kept: dict[Any, dict[str, Any]] = {}
    again: Counter[tuple[str, str]] = Counter()
    for number, row in enumerate(rows):
        # No two runs begin in one millisecond with the same figures; without the time they might.
        digest = row.pop(_DIGEST)
        first = kept.setdefault(digest if row.get("started_at") else number, row)
        if first is not row:
            again[row["source"], first["source"]] += 1
    sentences = []
    for (source, earlier), count in again.items():
        are = f"{counted(count, 'run')} {'is' if count == 1 else 'are'}"
        sentences.append(f"{source}: {are} in {'it' if source == earlier else earlier} already: they count once")
    return list(kept.values()), sentences


def _without_groups(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows without those of groups, and a sentence for each file that has such."""
    left_out = Counter(row["source"] for row in rows if row["pass"] == GROUP_PASS)
    sentences = [f"{source}: {counted(count, 'run')} of a group of processes {'is' if count == 1 else 'are'} left out" for source, count in left_out.items()]
    return [row for row in rows if row["pass"] != GROUP_PASS], sentences


class ResultsWarning(UserWarning):
    """Results that could be read in part only, or that are there twice, or are of a group of processes."""


def _read_file(path: Path, cut_short: list[str]) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
            _check_start(path, start)
            raw = start + file.read()
    except OSError as error:
        raise ResultsError(path, 0, f"cannot read: {error.strerror}") from error
    rows: list[dict[str, Any]] = []
    lines = raw.split(b"\n")
    for number, line in enumerate(lines, start=1):
        # What follows the last line feed is nothing, or a line whose writer was killed.
        if number == len(lines) and line.strip() and not is_whole(line):
            cut_short.append(f"{path}:{number}: cut short; the {counted(len(rows), 'run')} before it {'was' if len(rows) == 1 else 'were'} read")
        elif line.strip():
            rows.append(_read_line(path, number, line))
    return rows


def _check_start(path: Path, start: bytes) -> None:
    """Before all is read, which may be a trace of gigabytes, or a device without an end."""
    expected = "expected results, lines of JSON as heaptape replay -o writes them, found"
    for magic, what in _OTHER_FILES:
        if start.startswith(magic):
            raise ResultsError(path, 0, f"{expected} {what}")
    if b"\0" in start.partition(b"\n")[0]:
        raise ResultsError(path, 0, f"{expected} bytes that are not text")


def _read_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = parse_line(line)
    except SchemaError as error:
        raise ResultsError(path, number, str(error)) from error
    # A line may have any keys, and these are ours: none of its own takes the place of a value that was checked.
    row = {key: item for key, item in value.items() if key not in (*FLATTENED, *FLAT_NAMES)}
    for outer in FLATTENED:
        flat = {flat_name(outer, inner): item for inner, item in (value.get(outer) or {}).items()}
        row.update({name: item for name, item in flat.items() if name in FLAT_NAMES or name not in row})
    return row | {"source": str(path), "line": number, _DIGEST: hashlib.sha256(line.strip()).digest()}


def _as_text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
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
    """How many calls failed in replay, whether the line has a number, a list or an object of counts."""
    if isinstance(value, dict):
        return sum(count_failures(item) for item in value.values())
    if isinstance(value, list):
        return len(value)
    if isinstance(value, (int, float)) and not math.isnan(value):
        return max(int(value), 0)
    return 0
