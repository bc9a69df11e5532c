# SPDX-License-Identifier: Apache-2.0
"""A trace as Parquet tables, for DuckDB, Polars, Spark and whatever else reads them (docs/reference/exporting.md).

Five files in one folder: events, threads, samples, residency and sites. Every column says its unit in its metadata; the events'
own metadata hold the trace's context and totals. Memory is bounded by a row group, whatever the trace's length.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..base.errors import HeaptapeError, UsageError
from ..base.files import final_path, refuse_inputs
from . import ops
from .live import BySlot, LiveTable, by_slot
from .reader import EVENT_COLUMNS, Arrays, Trace
from .site_table import SiteTable

SCHEMA_VERSION = 1
SECTIONS_PER_ROW_GROUP = 16  # about a million events: 70 MB while they are written

_TABLES = ("events", "threads", "samples", "residency", "sites")

Progress = Callable[[int, int], None]


def _field(name: str, kind: pa.DataType, unit: str, what: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, {"unit": unit, "description": what})


_NAME = pa.dictionary(pa.int8(), pa.string())

EVENTS = pa.schema([
    _field("event", pa.int64(), "1", "number of the event, from 0"),
    _field("thread", pa.uint32(), "1", "number of the thread, the row of threads.parquet"),
    _field("time_ns", pa.int64(), "ns", "since the recording began"),
    _field("function", _NAME, "1", "that was called; madvise, control, drop and inherit are no calls"),
    _field("variant", _NAME, "1", "plain, null, failed, released or foreign: how the call came out"),
    _field("slot", pa.uint32(), "1", "recycled number of the object that is made, resized or ended", True),
    _field("birth_event", pa.int64(), "1",
           "of the object that is resized or ended: the event that gave it the size it had until now", True),
    _field("size_bytes", pa.uint64(), "byte", "asked for; of calloc and reallocarray, one element's", True),
    _field("extra", pa.uint64(), "1", "calloc, reallocarray: the count; aligned calls: the alignment in bytes", True),
    _field("live_bytes", pa.int64(), "byte", "that the program has asked for and not yet freed, after the event"),
    _field("site", pa.uint32(), "1", "number of the call site of an allocation or realloc, as in sites.parquet", True),
])
THREADS = pa.schema([
    _field("thread", pa.uint32(), "1", "number of the thread"),
    _field("tid", pa.int64(), "1", "the kernel's number"),
    _field("name", pa.string(), "1", "at its end"),
    _field("first_event", pa.int64(), "1", "its first event"),
    _field("start_ns", pa.int64(), "ns", "time of its first event"),
    _field("end_ns", pa.int64(), "ns", "its end, or its last event"),
    _field("ended", pa.bool_(), "1", "it ended before the process did"),
    _field("calls", pa.int64(), "1", "calls that it made"),
])
SAMPLES = pa.schema([
    _field("time_ns", pa.int64(), "ns", "since the recording began"),
    _field("event", pa.int64(), "1", "number of the next event"),
    _field("rss_anon_bytes", pa.int64(), "byte", "anonymous memory resident"),
    _field("own_rss_bytes", pa.int64(), "byte", "of it, in the program's own mappings, data and bss"),
    _field("heap_rss_bytes", pa.int64(), "byte", "the rest: malloc's"),
    _field("cpu_ns", pa.int64(), "ns", "CPU time of the process"),
    _field("own_fresh", pa.bool_(), "1", "own_rss_bytes was measured for this very sample"),
])
RESIDENCY = pa.schema([
    _field("birth_event", pa.int64(), "1", "event that made a block of 16 KiB or more, or gave it its size"),
    _field("pages_at_birth", pa.int64(), "page", "resident right after the allocation; one more than the size takes: all that it lies in"),
    _field("pages_at_end", pa.int64(), "page", "the same at its end"),
])

SITES = pa.schema([
    _field("site", pa.uint32(), "1", "number of the call site, from 1"),
    _field("depth", pa.uint32(), "1", "of the frame, from 0, the innermost; functions that are inlined have frames of their own"),
    _field("function", pa.string(), "1", "its name", True),
    _field("file", pa.string(), "1", "of the source", True),
    _field("line", pa.uint32(), "1", "of the file", True),
    _field("module", pa.string(), "1", "path of the program or library", True),
    _field("build_id", pa.string(), "1", "of the module", True),
    _field("offset", pa.uint64(), "byte", "of the return address in the module; without a module absolute"),
])
SITES_PER_ROW_GROUP = 4096

_FUNCTION_NAMES = pa.array([ops.FUNCTIONS.get(number, "") for number in range(ops.FUNCTION_MASK + 1)], pa.string())
_VARIANT_NAMES = pa.array([variant.name.lower() for variant in ops.Variant], pa.string())


class _BirthTable:
    """The event that last gave each slot's object its size, carried from chunk to chunk."""

    def __init__(self) -> None:
        self._event = np.full(1024, -1, dtype=np.int64)

    def _grow(self, slots: int) -> None:
        if slots > self._event.size:
            larger = np.full(max(slots, 2 * self._event.size), -1, dtype=np.int64)
            larger[: self._event.size] = self._event
            self._event = larger

    def advance(self, chunk: Arrays, found: BySlot) -> NDArray[np.int64]:
        """The birth that each event of the chunk resizes or ends, -1 where it does neither. Shape (rows,). The first event of
        each slot finds it in the table."""
        op, slot = chunk["op"], found.slot
        births = np.full(op.size, -1, dtype=np.int64)
        self._grow(int(slot.max(initial=0)) + 1)
        event = np.where(ops.OP_LEAVES_OBJECT[found.op], chunk["event"][found.rows], -1)
        births[found.rows] = np.where(found.first, self._event[slot], np.roll(event, 1))
        births[np.flatnonzero(ops.OP_MAKES[op])] = -1
        self._event[slot[found.last]] = event[found.last]
        return births


def _named(numbers: NDArray[np.uint8], names: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int8)), names)


def _event_batches(trace: Trace) -> Iterator[pa.RecordBatch]:
    births, live = _BirthTable(), LiveTable()
    for chunk in trace.event_arrays((*EVENT_COLUMNS, "site"), slots_due=True):
        op, found = chunk["op"], by_slot(chunk)
        birth = births.advance(chunk, found)
        columns = [
            pa.array(chunk["event"]),
            pa.array(chunk["thread"]),
            pa.array(chunk["time_ns"]),
            _named(chunk["function"], _FUNCTION_NAMES),
            _named(chunk["variant"], _VARIANT_NAMES),
            pa.array(chunk["slot"], mask=~ops.OP_HAS_SLOT[op]),
            pa.array(birth, mask=birth < 0),
            pa.array(chunk["size"], mask=~ops.OP_HAS_SIZE[op]),
            pa.array(chunk["extra"], mask=~ops.OP_HAS_EXTRA[op]),
            pa.array(live.advance(chunk, found)[0]),
            pa.array(chunk["site"].astype(np.uint32), mask=chunk["site"] == 0),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def _about(trace: Trace) -> dict[str, str]:
    """What the events' file says of the whole trace."""
    return {
        "heaptape.schema": str(SCHEMA_VERSION),
        "heaptape.truncated": json.dumps(trace.truncated),
        "heaptape.context": json.dumps(trace.context),
        "heaptape.totals": json.dumps(trace.totals),
    }


class _Partial:
    """A file beside its final name, which it gets when all are written; gone if that never happens."""

    def __init__(self, target: Path, trace: Path) -> None:
        refuse_inputs(target, [trace])
        if target.exists() and not target.is_file():
            raise UsageError(f"{target}: expected a regular file, as Parquet is not written in order")
        self.target = final_path(target)
        self.path = self.target.with_name(f".{target.name}.{os.getpid()}.part")

    def __enter__(self) -> _Partial:
        return self

    def sync(self) -> None:
        handle = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)


def _write_events(trace: Trace, path: Path, progress: Progress | None) -> None:
    schema = EVENTS.with_metadata(_about(trace))
    numbers = ["event", "time_ns", "slot", "birth_event", "live_bytes"]
    others = [name for name in EVENTS.names if name not in numbers]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=others,
                          column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED")) as writer:
        waiting: list[pa.RecordBatch] = []
        done = 0
        for batch in _event_batches(trace):
            waiting.append(batch)
            done += batch.num_rows
            if len(waiting) == SECTIONS_PER_ROW_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
            if progress:
                progress(done, trace.records)
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))


def _frames_of(table: SiteTable) -> Callable[[int], Iterator[tuple[object, ...]]]:
    """The rows of a site, by its number."""
    parent, location = (table.callers[name].tolist() for name in ("parent", "location"))
    caller, modules = table.sites["caller"].tolist(), [("", ""), *((module.path, module.build_id) for module in table.modules)]
    places = list(zip(table.locations["module"].tolist(), table.locations["offset"].tolist(), strict=True))
    names: dict[int, list[tuple[str, str, int]]] = {}
    for place, function, file, line in table.names.itertuples(index=False):
        names.setdefault(place, []).append((function, file, int(line)))

    def rows(site: int) -> Iterator[tuple[object, ...]]:
        at, depth = caller[site - 1], 0
        while at:
            module, offset = places[location[at - 1]]
            for function, file, line in names.get(location[at - 1], [("", "", 0)]):
                yield site, depth, function or None, file or None, line or None, modules[module][0] or None, modules[module][1] or None, offset
                depth += 1
            at = parent[at - 1]

    return rows


def _write_sites(table: SiteTable, path: Path) -> None:
    count, rows = len(table.sites), _frames_of(table)
    with pq.ParquetWriter(path, SITES, compression="zstd") as writer:
        for first in range(1, count + 1, SITES_PER_ROW_GROUP):
            found = [row for site in range(first, min(first + SITES_PER_ROW_GROUP, count + 1)) for row in rows(site)]
            columns = zip(*found, strict=True) if found else ([] for _ in SITES)
            writer.write_table(pa.Table.from_arrays([pa.array(list(column), field.type) for column, field in zip(columns, SITES, strict=True)], schema=SITES))


def _write_table(columns: dict[str, Any], schema: pa.Schema, path: Path) -> None:
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd")


def export_parquet(trace: Trace, folder: str | Path, progress: Progress | None = None) -> list[Path]:
    """Write events, threads, samples, residency and sites, each .parquet, into a folder, which is made if need be. All appear when all are complete. Returns their paths."""
    target = Path(folder)
    made = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            parts = [stack.enter_context(_Partial(target / f"{name}.parquet", trace.path))
                     for name in _TABLES]
            events, threads, samples, residency, sites = (part.path for part in parts)
            _write_events(trace, events, progress)
            numbers = np.arange(len(trace.threads), dtype=np.uint32)
            _write_table({"thread": numbers, **trace.threads}, THREADS, threads)
            _write_table(dict(trace.samples), SAMPLES, samples)
            _write_table(dict(trace.residency), RESIDENCY, residency)
            _write_sites(trace.sites, sites)
            for part in parts:
                part.sync()
            for part in parts:
                os.replace(part.path, part.target)
            return [target / f"{name}.parquet" for name in _TABLES]
    except BaseException as error:
        if made and target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        if isinstance(error, OSError):
            why = "Not a directory" if isinstance(error, FileExistsError) else error.strerror or error
            raise HeaptapeError(f"{target}: cannot write: {why}") from error
        raise
