# SPDX-License-Identifier: Apache-2.0
"""Traces as tables: `read_trace` opens one, `Trace.events` walks through its calls in chunks.

Units: times are ns since the recording's start, sizes are bytes, residency is in pages of `context["page_bytes"]`.
Memory stays bounded whatever the trace's length: sections of at most 65,536 events are decoded one by one, a few of them
ahead on the other processors.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.errors import TraceError
from . import ops
from .sections import (
    FACT_ROWS_FREE,
    FACT_ROWS_PER_BYTE,
    HEADER,
    NUMBERS_FREE,
    SLOTS_PER_EVENT,
    TIME_LIMIT_NS,
    U64,
    Kind,
    Section,
    SectionOrder,
    TraceFile,
)
from .site_table import SiteTable, SiteTableError, site_table
from .slot_coding import (
    JOINED_AFTER,
    JOINED_BEFORE,
    SlotCodingError,
    TokenError,
    Tokens,
    decode_slots,
    read_tokens,
)

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS_MAX = 4
"""Between NumPy's calls only one thread runs, so more of them than this wait for one another."""


def done_ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """work(item) of every item, in order; as many at once as there are processors, so that no more results than that wait
    to be fetched. Threads suffice, as NumPy and zstd let others run while they compute."""
    workers = min(len(os.sched_getaffinity(0)), WORKERS_MAX)
    if workers < 2:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # The one who asked may have had enough, or an item may have failed: the rest is not wanted then.
        pool.shutdown(cancel_futures=True)


__all__ = ["EVENT_COLUMNS", "Trace", "TraceError", "read_trace"]

EVENT_COLUMNS = ("event", "op", "function", "variant", "thread", "time_ns", "slot", "size", "extra")
_KNOWN_COLUMNS = (*EVENT_COLUMNS, "site")

_TOKEN, _RUN_THREAD, _RUN_LENGTH, _TIME, _LONG_TIME = range(1, 6)
_TOKEN_OP, _TOKEN_CODE, _TOKEN_SIZE, _TOKEN_EXTRA, _NAMED, _SLOT, _SIZE, _EXTRA, _ACROSS, _JOINED, _SITE = range(6, 17)
_STORED_FOR = {
    "thread": {_RUN_THREAD, _RUN_LENGTH},
    "time_ns": {_TIME, _LONG_TIME},
    "slot": {_NAMED, _SLOT, _ACROSS, _RUN_THREAD, _RUN_LENGTH},
    "size": {_SIZE},
    "extra": {_EXTRA},
    "site": {_SITE},
}
_LONG = 15
_TOKEN_COLUMNS = (_TOKEN, _TOKEN_OP, _TOKEN_CODE, _TOKEN_SIZE, _TOKEN_EXTRA)
_NOTHING: U64 = np.zeros(0, dtype=np.uint64)
_INDEX_COLUMNS = 5
KIND_MAX = 255
SLOT_LIMIT = 1 << 32
THREAD_LIMIT = 1 << 24

Arrays = dict[str, NDArray[Any]]


class Trace:
    """An open trace. Use `read_trace`, or `with read_trace(path) as trace:` to close the file early.

    Attributes:
        path: where it was read from.
        context: command, executable, machine and recording allocator, as recorded ({} where cut off).
        totals: the converter's own counts; None in a file that was cut short before them.
        truncated: the file has no footer; everything up to `whole_bytes` was read.
        whole_bytes: bytes of the file up to the end of its last whole section (with the footer, all of them).
        sections: what the file holds, in file order, the index not included.
    """

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self.path: Path = file.path
        self.header = file.header
        index_offset = file.footer()
        self.truncated = index_offset is None
        if index_offset is None:
            self.sections, self.whole_bytes = file.scan()
            self._sections_end = self.whole_bytes
        else:
            self.sections, self.whole_bytes = self._read_index(index_offset), file.bytes
            self._sections_end = index_offset
        order = SectionOrder(file)
        for section in self.sections:
            order.add(section)
        self.records = order.records
        self.context: dict[str, Any] = self._one_object(Kind.CONTEXT) or {}
        self.totals: dict[str, Any] | None = self._one_object(Kind.TOTALS)

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; tables already read stay valid."""
        self._file.close()

    def _read_index(self, offset: int) -> list[Section]:
        index = self._file.section_at(offset)
        if index is None or index.kind != Kind.INDEX:
            raise self._file.fail(offset, "expected the index where the footer names it")
        columns = self._file.columns(index, frozenset(range(1, _INDEX_COLUMNS + 1)))
        # The index's own header says 0 rows, as it may have more than a section may: its first column says how many.
        if 1 not in columns:
            raise self._file.fail(offset, "expected an index with offsets")
        count = columns[1].size
        rows = [_required(self._file, index, columns, id_, count) for id_ in range(1, _INDEX_COLUMNS + 1)]
        if (rows[0].size and int(rows[0].max()) >= offset) or (rows[1].size and int(rows[1].max()) > KIND_MAX):
            raise self._file.fail(offset, "expected an index of sections before it")
        return [Section(*(int(value) for value in row)) for row in zip(*rows, strict=True)]

    records: int
    """Number of events in the readable part, pseudo events included."""

    def _of_kind(self, kind: Kind) -> list[Section]:
        return [section for section in self.sections if section.kind == kind]

    def _columns(self, section: Section, wanted: frozenset[int]) -> dict[int, U64]:
        return self._file.columns(section, wanted, self._end_of(section))

    def _end_of(self, section: Section) -> int:
        """No byte of the file is read as two sections': where the one behind it begins."""
        return self._ends[section.offset]

    @cached_property
    def _ends(self) -> dict[int, int]:
        begins = [section.offset for section in self.sections]
        return dict(zip(begins, [*begins[1:], self._sections_end], strict=True))

    def _one_object(self, kind: Kind) -> dict[str, Any] | None:
        found = self._of_kind(kind)
        if len(found) > 1:
            raise self._file.fail(found[1].offset, f"expected one {kind.name.lower()} section only")
        return self._file.json_object(found[0], self._end_of(found[0])) if found else None

    def event_arrays(self, columns: Sequence[str] | None = None, slots_due: bool = False) -> Iterator[Arrays]:
        """Like `events`, as a dict of arrays per chunk, for those who need no DataFrame. With slots_due, for those who
        make tables by slot: a slot that the events so far do not account for is an error."""
        wanted = tuple(columns) if columns is not None else EVENT_COLUMNS
        unknown = [name for name in wanted if name not in _KNOWN_COLUMNS]
        if unknown:
            raise ValueError(f"no such event column: {', '.join(unknown)}; there are {', '.join(_KNOWN_COLUMNS)}")
        if "site" in wanted:
            _ = self.sites  # before threads ask for it
        sections = self._of_kind(Kind.EVENTS)
        decoded = done_ahead(lambda section: self._decode_events(section, wanted), sections)
        only_inherited = True  # so far
        for section, (arrays, inherited) in zip(sections, decoded, strict=True):
            leading = int(inherited.argmin()) if only_inherited and not inherited.all() else 0
            only_inherited = only_inherited and bool(inherited.all())
            if not only_inherited and inherited[leading:].any():
                raise self._file.fail(section.offset, "expected inherited blocks before the first call")
            due = NUMBERS_FREE + SLOTS_PER_EVENT * (section.first_event + section.rows)
            if slots_due and int(arrays["slot"].max(initial=0)) > due:
                raise self._file.fail(section.offset, f"expected slots up to {due}, for which the events so far account")
            yield arrays

    def events(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The events, one DataFrame per section of at most 65,536 rows; only the columns asked for are decoded.

        event (int64) number of the event; op (uint8) the op byte, function and variant (uint8) its two parts (names in
        `heaptape.ops`); thread (uint32); time_ns (int64); slot (uint32), size and extra (uint64), which are 0 where the
        event has none (see `ops.OP_HAS_SLOT[op]` and the like). Only where asked for: site (uint32), a number of `sites`;
        0: unknown.
        """
        for arrays in self.event_arrays(columns):
            yield pd.DataFrame(arrays, copy=False)

    def _decode_events(self, section: Section, wanted: tuple[str, ...]) -> tuple[Arrays, NDArray[np.bool_]]:
        """The arrays that are wanted, and which events are inherited blocks."""
        stored = frozenset({*_TOKEN_COLUMNS, _JOINED}).union(*(_STORED_FOR.get(name, set()) for name in wanted))
        columns = self._columns(section, stored)
        events, joins = section, _JOINED in columns
        stored_columns = [columns.get(id_, _NOTHING) for id_ in _TOKEN_COLUMNS]
        if joins and stored_columns[0].size <= section.rows:
            section = replace(section, rows=stored_columns[0].size)
        stored_columns.append(columns.get(_JOINED, np.zeros_like(stored_columns[1])))
        try:
            tokens = read_tokens(section.rows, *stored_columns)
        except TokenError as error:
            raise self._file.fail(section.offset, str(error)) from error
        op = tokens.op
        makers: dict[str, Callable[[], NDArray[Any]]] = {
            "op": lambda: op,
            "function": lambda: op & np.uint8(ops.FUNCTION_MASK),
            "variant": lambda: op >> np.uint8(ops.FUNCTION_BITS),
            "thread": lambda: self._threads_of_runs(section, columns),
            "time_ns": lambda: self._times(section, columns),
            "slot": lambda: self._slots(section, columns, tokens),
            "size": lambda: self._filled(section, columns, _SIZE, tokens.size, tokens.open & ops.OP_HAS_SIZE[op]),
            "extra": lambda: self._filled(section, columns, _EXTRA, tokens.extra, tokens.open & ops.OP_HAS_EXTRA[op]),
            "site": lambda: self._sites_of(section, columns, op),
        }
        arrays = {name: makers[name]() for name in wanted if name != "event"}
        inherited = op == ops.INHERIT
        if joins:
            arrays, inherited = self._separate_queries(events, arrays, inherited, tokens.joined)
        if "event" in wanted:
            arrays["event"] = np.arange(events.rows, dtype=np.int64) + events.first_event
        return {name: arrays[name] for name in wanted}, inherited

    def _separate_queries(
        self, section: Section, arrays: Arrays, inherited: NDArray[np.bool_], joined: U64,
    ) -> tuple[Arrays, NDArray[np.bool_]]:
        """Give the queries that are joined to events rows of their own, of those events' thread, time and slot."""
        before, after = (joined & np.uint64(bit) != 0 for bit in (JOINED_BEFORE, JOINED_AFTER))
        length = 1 + before.astype(np.int64) + after
        end = np.cumsum(length)
        if int(length.sum()) != section.rows:
            raise self._file.fail(section.offset, "expected events and joined queries that add up to the rows")
        own = {"op": ops.QUERY, "function": ops.QUERY, "variant": 0, "size": 0, "extra": 0, "site": 0}
        query = np.concatenate([(end - length)[before], end[after] - 1])
        spread = {name: np.repeat(values, length) for name, values in arrays.items()}
        for name in own.keys() & spread.keys():
            spread[name][query] = own[name]
        inherited = np.repeat(inherited, length)
        inherited[query] = False
        return spread, inherited

    def _sites_of(self, section: Section, columns: dict[int, U64], op: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """The call site of every event. The sites' table is at the file's end: one that was cut short has lost some, or all."""
        sites = np.zeros(op.size, dtype=np.uint32)
        known = len(self.sites.sites)
        if _SITE not in columns:
            return sites
        has = ops.OP_HAS_SITE[op]
        sites[has] = _required(self._file, section, columns, _SITE, int(np.count_nonzero(has)))
        if self.truncated:
            sites[sites > known] = 0
        elif int(sites.max(initial=0)) > known:
            raise self._file.fail(section.offset, f"expected call sites up to {known}, found {int(sites.max())}")
        return sites

    def _filled(self, section: Section, columns: dict[int, U64], id_: int, values: U64, open_: NDArray[np.bool_]) -> U64:
        """What the tokens have, and the values of a column where they left it open. Shape (rows,)."""
        values[open_] = _required(self._file, section, columns, id_, int(np.count_nonzero(open_)))
        return values

    def _slots(self, section: Section, columns: dict[int, U64], tokens: Tokens) -> NDArray[np.uint32]:
        """The slot of every event, 0 for those that have none. Shape (rows,)."""
        column = columns.get(_SLOT, _NOTHING)
        if column.size and (int(column.min()) < 1 or int(column.max()) >= SLOT_LIMIT):
            raise self._file.fail(section.offset, "expected slots from 1 to 2^32 - 1, as 0 is NULL")
        has, names = ops.OP_HAS_SLOT[tokens.op], ops.OP_HAS_SLOT[tokens.op] & ~ops.OP_MAKES[tokens.op]
        code = self._filled(section, columns, _NAMED, tokens.code, tokens.open & names)
        op, thread, across = tokens.op, self._threads_of_runs(section, columns), columns.get(_ACROSS, _NOTHING)
        try:
            if has.all():
                return decode_slots(op, thread, code, column, across).astype(np.uint32)
            slots = np.zeros(section.rows, dtype=np.uint32)
            slots[has] = decode_slots(op[has], thread[has], code[has], column, across)
        except SlotCodingError as error:
            raise self._file.fail(section.offset, str(error)) from error
        return slots

    def _threads_of_runs(self, section: Section, columns: dict[int, U64]) -> NDArray[np.uint32]:
        threads = columns.get(_RUN_THREAD, _NOTHING)
        lengths = columns.get(_RUN_LENGTH, _NOTHING)
        if threads.shape != lengths.shape or threads.size > section.rows:
            raise self._file.fail(section.offset, "expected a length for every run of a thread")
        # Each length is checked before the sum, which could otherwise wrap to the right figure.
        if (lengths > section.rows).any() or int(lengths.sum()) != section.rows:
            raise self._file.fail(section.offset, f"expected runs that add up to {section.rows} events")
        if threads.size and int(threads.max()) >= THREAD_LIMIT:
            raise self._file.fail(section.offset, f"expected threads below 2^24, found {int(threads.max())}")
        return np.repeat(threads.astype(np.uint32), lengths.astype(np.int64))

    def _times(self, section: Section, columns: dict[int, U64]) -> NDArray[np.int64]:
        steps = _required(self._file, section, columns, _TIME, section.rows)
        is_long = steps == _LONG
        steps[is_long] += _required(self._file, section, columns, _LONG_TIME, int(np.count_nonzero(is_long)))
        units = np.cumsum(steps, dtype=np.uint64) + np.uint64(section.first_time)
        if units.size and int(units[-1]) > self._latest_units[section.offset]:
            raise self._file.fail(section.offset, "expected times that never decrease, found one beyond the next section's")
        return self._ns(units)

    @cached_property
    def _latest_units(self) -> dict[int, int]:
        """Offset of an events section → the time that none of its events may go beyond: at which the next ones begin."""
        sections = self._of_kind(Kind.EVENTS)
        latest = [section.first_time for section in sections[1:]] + [(TIME_LIMIT_NS - 1) // self.header.time_unit_ns]
        return {section.offset: units for section, units in zip(sections, latest, strict=False)}

    def _table(self, kind: Kind, names: dict[int, str], optional_from: int = 256) -> Arrays:
        """All sections of a kind as one set of arrays; columns this reader does not know are left out. Those from optional_from on
        are zeros where a section lacks the first of them.
        """
        parts: dict[str, list[U64]] = {name: [np.zeros(0, dtype=np.uint64)] for name in names.values()}
        rows, rows_max = 0, FACT_ROWS_FREE + FACT_ROWS_PER_BYTE * self._file.bytes
        for section in self._of_kind(kind):
            rows += section.rows
            if rows > rows_max:
                raise self._file.fail(section.offset, f"expected at most {rows_max} rows of its kind in a file so small")
            columns = self._columns(section, frozenset(names))
            for id_, name in names.items():
                absent = id_ >= optional_from and optional_from not in columns
                parts[name].append(np.zeros(section.rows, np.uint64) if absent
                                   else _required(self._file, section, columns, id_, section.rows))
        return {name: np.concatenate(chunks) for name, chunks in parts.items()}

    def _ns(self, units: NDArray[Any]) -> NDArray[np.int64]:
        times: NDArray[np.int64] = (units * np.uint64(self.header.time_unit_ns)).astype(np.int64)
        return times

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The recorded process's own memory and CPU: one row per sample.

        time_ns, event (events before it), rss_anon_bytes, own_rss_bytes (of it, in the program's own mappings, data and
        bss), cpu_ns, own_fresh (own_rss_bytes was measured for this very sample), and heap_rss_bytes, their difference:
        what malloc's share of the process held.
        """
        names = {1: "time", 2: "event", 3: "rss_anon_bytes", 4: "own_rss_bytes", 5: "cpu_ns", 6: "own_fresh"}
        table = self._table(Kind.SAMPLES, names)
        rss, own = (table[name].astype(np.int64) for name in ("rss_anon_bytes", "own_rss_bytes"))
        return pd.DataFrame({
            "time_ns": self._ns(table["time"]),
            "event": table["event"].astype(np.int64),
            "rss_anon_bytes": rss,
            "own_rss_bytes": own,
            "heap_rss_bytes": np.maximum(rss - own, 0),
            "cpu_ns": table["cpu_ns"].astype(np.int64),
            "own_fresh": table["own_fresh"].astype(bool),
        })

    @property
    def heap_is_known(self) -> bool:
        """Whether the samples' heap is what it was, and not one guess of several."""
        return (self.totals or {}).get("recorded_heap_rss_high_bytes") is None

    @cached_property
    def residency(self) -> pd.DataFrame:
        """Blocks of 64 KiB and more, some from 16 KiB on, one row per birth: birth_event, pages_at_birth, pages_at_end: those
        that its size takes, or fewer; one more than those: all pages that it lay in."""
        names = {1: "birth_event", 2: "pages_at_birth", 3: "pages_at_end"}
        table = self._table(Kind.RESIDENCY, names)
        return pd.DataFrame({name: values.astype(np.int64) for name, values in table.items()})

    @cached_property
    def residency_steps(self) -> pd.DataFrame:
        """How large blocks were filled, by birth and time: birth_event, time_ns, pages (seen resident by then), first_page, run_pages.

        They are the block's first pages where run_pages is 0; else those of several rows of equal birth, time and pages, each with
        run_pages of them from first_page on.
        """
        names = {1: "birth_event", 2: "time", 3: "pages", 4: "first_page", 5: "run_pages"}
        table = self._table(Kind.RESIDENCY_STEPS, names, optional_from=4)
        steps = pd.DataFrame({
            "birth_event": table["birth_event"].astype(np.int64),
            "time_ns": self._ns(table["time"]),
            **{name: table[name].astype(np.int64) for name in ("pages", "first_page", "run_pages")},
        })
        return steps.sort_values(["birth_event", "time_ns", "pages", "first_page"], ignore_index=True)

    @cached_property
    def threads(self) -> pd.DataFrame:
        """One row per thread, by number: tid, first_event, start_ns, calls, end_ns, ended (before the process), name."""
        names = {
            1: "tid", 2: "first_event", 3: "start", 4: "calls", 5: "end", 6: "ended", 7: "name_low", 8: "name_high",
        }
        table = self._table(Kind.THREADS, names)
        names_raw = np.stack([table["name_low"], table["name_high"]], axis=1).astype("<u8")
        return pd.DataFrame({
            "tid": table["tid"].astype(np.int64),
            "first_event": table["first_event"].astype(np.int64),
            "start_ns": self._ns(table["start"]),
            "calls": table["calls"].astype(np.int64),
            "end_ns": self._ns(table["end"]),
            "ended": table["ended"].astype(bool),
            "name": [row.tobytes().split(b"\0")[0].decode("utf-8", "replace") for row in names_raw],
        })

    @cached_property
    def sites(self) -> SiteTable:
        """What the numbers of the event column `site` mean: stacks, and the names of their code."""
        sections = [self._of_kind(kind) for kind in (Kind.MODULES, Kind.LOCATIONS, Kind.CALLERS, Kind.SITES, Kind.NAMES)]
        strings = [self._file.text(section, self._end_of(section)) for section in self._of_kind(Kind.STRINGS)]
        try:
            return site_table(
                self._one_object(Kind.MODULES), self._table(Kind.LOCATIONS, {1: "module", 2: "offset"}),
                self._table(Kind.CALLERS, {1: "parent", 2: "location"}), self._table(Kind.SITES, {1: "caller", 2: "flags"}),
                self._table(Kind.NAMES, {1: "location", 2: "function", 3: "file", 4: "line"}), b"".join(strings), self.truncated)
        except SiteTableError as error:
            offset = next((found[0].offset for found in sections if found), 0)
            raise self._file.fail(offset, str(error)) from error


def _required(
    file: TraceFile, section: Section, columns: dict[int, U64], id_: int, values: int | None = None
) -> U64:
    """A column that must be there, with so many values where their number is known."""
    column = columns.get(id_)
    if column is None and values == 0:
        return _NOTHING
    if column is None:
        raise file.fail(section.offset, f"expected column {id_} in this section")
    if values is not None and column.size != values:
        raise file.fail(section.offset, f"expected {values} values in column {id_}, found {column.size}")
    return column


def read_trace(path: str | Path) -> Trace:
    """Open a trace. Raises TraceError for what is no trace, is corrupt or needs a newer reader; a file that was cut
    short is read up to its last whole section, and `truncated` is set."""
    return Trace(TraceFile(path))


assert HEADER.size == 64
