# SPDX-License-Identifier: Apache-2.0
"""Files of snapshots, as `heaptape replay --snapshots` writes them (docs/reference/walk.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.errors import TraceError, UsageError
from ..results.comparison import Experiment
from .sums import ACCOUNTS

MAGIC = b"tapsnap1"
PAGE_BYTES = 4096
_HEAD_BYTES = 48
_BLOCK = np.dtype([(name, "<u8") for name in ("slot", "address", "requested_bytes", "usable_bytes", "untouched_bytes")])
_RUN = np.dtype([("page", "<u8"), ("pages", "<u4"), ("flags", "<u4")])
_HELD = 1 << 8
_COUNTS = ("offset", "blocks", "runs", "event", "time_ns", "rss_bytes", "null_rss_bytes")
_CURVE = ["time_ns", "live_bytes", "rss_bytes", "high_bytes"]
_STRETCHES = ["time_ns", "event", "null_rss_bytes", "rss_bytes", *ACCOUNTS, "not_resident_bytes"]
KINDS = ("anonymous", "heap", "stack", "file")
"""A page is in a mapping of one of these kinds."""


@dataclass(frozen=True)
class Spacing:
    """What the allocator keeps beside a block, as the replay measured it. header_bytes: before each block. Blocks of own_pages_from_bytes
    usable bytes or more that begin at own_pages_offset in a page (None: anywhere) share their pages with no other block; None: no size does."""

    header_bytes: int = 0
    own_pages_from_bytes: int | None = None
    own_pages_offset: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """The heap of one allocator at one moment of the trace.

    blocks: a row for each live block, by address: slot, address, requested_bytes, usable_bytes, untouched_bytes (of the
        usable ones, at their end, what the program never wrote to).
    pages: a row for each run of resident pages, by address: page (address / 4096), pages, kind (index of KINDS), held
        (whether a block ever lay there).
    """

    allocator: dict[str, Any]
    trace: dict[str, Any]
    why: str
    event: int
    time_ns: int
    rss_bytes: int
    null_rss_bytes: int
    blocks: pd.DataFrame
    pages: pd.DataFrame
    spacing: Spacing = Spacing()


@dataclass(frozen=True)
class Timed:
    """A row for each round, a column for each stretch: calls that were timed, and their time, the clock's included."""

    calls: NDArray[np.int64]
    ns: NDArray[np.float64]


@dataclass(frozen=True)
class SnapshotFile:
    """The snapshots of one allocator by time; curve: time_ns, live_bytes, rss_bytes and high_bytes (the highest RSS since the row
    before, within calls too) along the whole trace, the null replayer's RSS taken off. stretches: a row for each moment along the trace, with the bytes of each of ACCOUNTS, whose sum is
    rss_bytes, of which null_rss_bytes are the null replayer's; timed: the calls up to each of them, null_timed: in the null
    replayer."""

    path: Path
    allocator: dict[str, Any]
    trace: dict[str, Any]
    curve: pd.DataFrame
    stretches: pd.DataFrame
    timed: Timed
    null_timed: Timed
    snapshots: list[Snapshot]
    baseline_check: dict[str, Any] | None = None
    """What lines of results have under that name; only the allocator that served the recording has one."""


def _index(path: Path, data: bytes) -> dict[str, Any]:
    if len(data) < 16 or data[-8:] != MAGIC:
        raise TraceError(path, max(len(data) - 8, 0), f"expected snapshots to end in {MAGIC.decode()}, found {data[-8:]!r}")
    length = int.from_bytes(data[-16:-8], "little")
    if length > len(data) - 16:
        raise TraceError(path, len(data) - 16, f"expected an index within the file, found one of {length} bytes")
    try:
        found = json.loads(data[len(data) - 16 - length:-16])
        if found["schema"] != 1:
            raise TraceError(path, len(data) - 16 - length, f"expected snapshots of schema 1, found {found['schema']}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceError(path, len(data) - 16 - length, f"expected an index in JSON: {error}") from error
    return dict(found)


def _rows(path: Path, data: bytes, offset: int, count: int, row: np.dtype[Any]) -> NDArray[Any]:
    if offset + count * row.itemsize > len(data):
        raise TraceError(path, offset, f"expected {count} rows of {row.itemsize} bytes, found the end of the file")
    return np.frombuffer(data, row, count, offset)


def _snapshot(path: Path, data: bytes, index: dict[str, Any], item: dict[str, Any]) -> Snapshot:
    for key in _COUNTS:
        if type(item[key]) is not int or not 0 <= item[key] < 1 << 63:
            raise ValueError(f"{key} is {item[key]!r}")
    offset = item["offset"] + _HEAD_BYTES
    blocks = pd.DataFrame(_rows(path, data, offset, item["blocks"], _BLOCK)).astype(np.int64)
    runs = _rows(path, data, offset + item["blocks"] * _BLOCK.itemsize, item["runs"], _RUN)
    resident = int(runs["pages"].sum(dtype=np.uint64)) * PAGE_BYTES
    if resident != item["rss_bytes"]:
        raise TraceError(path, offset, f"expected runs of {item['rss_bytes']} bytes of resident pages, found {resident}")
    flags = runs["flags"]
    pages = pd.DataFrame({"page": runs["page"].astype(np.int64), "pages": runs["pages"].astype(np.int64),
                          "kind": (flags & 0xff).astype(np.int64), "held": (flags & _HELD) != 0})
    return Snapshot(index["allocator"], index["trace"], item["why"], item["event"], item["time_ns"], item["rss_bytes"],
                    item["null_rss_bytes"], blocks.sort_values("address", ignore_index=True),
                    pages.sort_values("page", ignore_index=True), _spacing(index))


def _spacing(index: dict[str, Any]) -> Spacing:
    """Files of before 1.0.0 do not know of it: what the allocator keeps is part of the holes there."""
    found = Spacing(**index.get("spacing", {}))
    for value in (found.header_bytes, found.own_pages_from_bytes or 0, found.own_pages_offset or 0):
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise ValueError(f"a spacing of {value!r}")
    return found


def _stretches(item: dict[str, Any]) -> tuple[pd.DataFrame, Timed, Timed]:
    headers = item.get("headers", [0] * len(item["time_ns"]))  # as of _spacing
    rows = pd.DataFrame({name: item[name] for name in _STRETCHES if name != "headers"} | {"headers": headers}).astype(np.int64)
    if (rows < 0).any(axis=None) or not rows["rss_bytes"].equals(rows[list(ACCOUNTS)].sum(axis=1)):
        raise ValueError("accounts of a stretch that do not add up to its RSS")
    return rows, _timed(item["timed"], len(rows)), _timed(item["null_timed"], len(rows))


def _timed(item: dict[str, Any], stretches: int) -> Timed:
    rounds = len(item["calls"])
    timed = Timed(np.array(item["calls"], dtype=np.int64).reshape(rounds, stretches), np.array(item["ns"], dtype=float).reshape(rounds, stretches))
    if not (np.isfinite(timed.ns) & (timed.ns >= 0) & (timed.calls >= 0)).all():
        raise ValueError("timed calls that are none")
    return timed


def _check(index: dict[str, Any]) -> dict[str, Any] | None:
    found = index.get("baseline_check")
    if found is not None and not isinstance(found, dict):
        raise ValueError("a baseline_check that is no object")
    return found


def read_snapshots(path: str | Path) -> SnapshotFile:
    """All of a file. Raises TraceError where it is none."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(path, 0, f"cannot be read: {error.strerror}") from error
    index = _index(path, data)
    try:
        snapshots = [_snapshot(path, data, index, item) for item in index["snapshots"]]
        # Files of before 1.0.0 do not know of peaks within calls.
        curve = pd.DataFrame({"high_bytes": index["curve"]["rss_bytes"], **index["curve"]}, columns=_CURVE).astype(np.int64)
        return SnapshotFile(path, index["allocator"], index["trace"], curve, *_stretches(index["stretches"]), snapshots, _check(index))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TraceError(path, 0, f"expected an index of snapshots: {error}") from error


def snapshots_in(folder: Path) -> list[SnapshotFile]:
    """All files of snapshots there."""
    files = sorted(folder.glob("*.snapshots"))
    if not files:
        raise UsageError(f"--snapshots {folder}: expected files that heaptape replay --snapshots wrote")
    return [read_snapshots(path) for path in files]


def snapshots_of(snapshots: Sequence[SnapshotFile], experiment: Experiment) -> list[SnapshotFile]:
    """Those of the experiment's trace and allocators."""
    names = set(experiment.runs["allocator"])
    return [one for one in snapshots if one.trace["sha256"] == experiment.trace_sha256 and one.allocator["name"] in names and one.snapshots]
