# SPDX-License-Identifier: Apache-2.0
"""Heaps on the page: maps of what resident memory consists of, at one moment and along the trace, and the page of `explain --html`."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.files import write_whole
from ..base.units import BYTE_STEPS, TIME_STEPS, byte_count, count, counted, nanoseconds, percent
from ..explain.answer import (
    Answer,
    advice,
    allocator_rows,
    also_set_for,
    cure_rows,
    first_sentences,
    holder_rows,
    moment_rows,
    no_setting,
    not_in_rss,
    site_holder_rows,
    when_sentence,
)
from ..explain.heap_map import FREE, LIVE, NOT_RESIDENT, SHADES, TABLES, HeapMap
from ..explain.snapshots import PAGE_BYTES
from ..explain.sums import ACCOUNTS, MEANING
from .figures import STRIP_PX, Figure, Row, Table, colour_classes, rows_markup
from .flame_graph import flame_figure
from .page import rendered
from .svg import Drawing, curve, framed, scaled_ticks, share

KEY = [("live bytes: all of the cell", "part-live"), ("nearly none", "part-live faint"), ("free pages", "part-free"), ("tables", "part-tables"),
       ("not resident", "part-gone"), ("a gap between mappings", "part-gap")]

_BREAK = LIVE + SHADES
_COLOURS = {NOT_RESIDENT: (0, 0, 0, 0), TABLES: (125, 111, 176, 255), FREE: (204, 90, 36, 255), _BREAK: (128, 128, 128, 128)}
_LIVE, _FAINTEST = (74, 146, 192), 56
"""A cell is the more opaque the fuller it is, so that one picture serves light and dark. As in figures.css."""

_WIDE, _NARROWEST = 2.2, 32
_ENLARGED, _WIDTH_PX, _SMALL_PX = 9, 1152, 225
_RANGES_SHOWN = 12


@dataclass(frozen=True)
class _Places:
    """Where cells are in the picture, from its upper left corner on, with a break of one place between those that do not follow each
    other. first: of each region its first place, its first cell and how many it has."""

    width: int
    height: int
    place: NDArray[np.int64]
    regions: list[tuple[int, int, int]]


def _places(cells: NDArray[np.int64]) -> _Places:
    begins = np.flatnonzero(np.concatenate([[True], np.diff(cells) > 1])) if cells.size else np.zeros(0, dtype=np.int64)
    place = np.arange(cells.size) + np.searchsorted(begins, np.arange(cells.size), side="right") - 1
    total = int(place[-1]) + 1 if cells.size else 1
    width = max(int(np.ceil(np.sqrt(total * _WIDE))), _NARROWEST)
    lengths = np.diff(np.append(begins, cells.size))
    regions = [(int(place[begin]), int(cells[begin]), int(length)) for begin, length in zip(begins, lengths, strict=True)]
    return _Places(width, -(-total // width), place, regions)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(states: NDArray[np.uint8], width: int, height: int) -> str:
    """The address of an image with its bytes; a byte of a state is a colour of the palette."""
    shades = [(*_LIVE, _FAINTEST + (255 - _FAINTEST) * number // (SHADES - 1)) for number in range(SHADES)]
    colours = [_COLOURS[state] if state in _COLOURS else shades[state - LIVE] for state in range(_BREAK + 1)]
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with the number of its filter
    rows[:, 1:] = states.reshape(height, width)
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) \
        + _chunk(b"PLTE", bytes(part for colour in colours for part in colour[:3])) + _chunk(b"tRNS", bytes(colour[3] for colour in colours)) \
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _picture(states: NDArray[np.uint8], places: _Places) -> str:
    drawn = np.full(places.width * places.height, NOT_RESIDENT, dtype=np.uint8)
    drawn[:int(places.place[-1]) + 1 if places.place.size else 0] = _BREAK
    drawn[places.place] = states
    return _png(drawn, places.width, places.height)


def _record(shown: HeapMap, states: NDArray[np.uint8]) -> str:
    """Eight bytes for each cell, for the script: its state, hundredths live, owner, pages (2 bytes), blocks (3)."""
    details = shown.details
    table = np.zeros((states.size, 8), dtype=np.uint8)
    table[:, 0], table[:, 1], table[:, 2] = np.minimum(states, LIVE), np.minimum(details.percent_live, 100), details.owner
    for column, values, bytes_ in ((3, details.pages, 2), (5, details.blocks, 3)):
        limited = np.minimum(values, (1 << 8 * bytes_) - 1)
        for byte in range(bytes_):
            table[:, column + byte] = limited >> 8 * byte & 0xff
    return base64.b64encode(table.tobytes()).decode()


def _owner(low: int, high: int, thread: int | None, names: dict[int, str]) -> str:
    size = f"{low:,}–{counted(high, 'byte')}" if low < high else counted(low, "byte")
    return size if thread is None else f"{size}, thread {thread} {names.get(thread, '')}".rstrip()


def pages_words(pages: int) -> str:
    """How much a cell is."""
    size = f"{pages * 4} KiB" if pages < 256 else f"{pages / 256:g} MiB"
    return f"a page ({size})" if pages == 1 else f"{counted(pages, 'page')} ({size})"


def _map_table(shown: HeapMap) -> Table:
    rows = [[f"{row['from']:#x}–{row['to']:#x}", byte_count(row["to"] - row["from"]), byte_count(row["resident_pages"] * PAGE_BYTES),
             byte_count(row["live_bytes"]), percent(row["live_bytes"] / (row["resident_pages"] * PAGE_BYTES)), count(row["blocks"])]
            for row in shown.ranges.head(_RANGES_SHOWN).to_dict("records")]
    return Table(["range", "size", "resident", "live", "of it", "blocks"], rows)


def map_figure(title: str, shown: HeapMap, at_ns: int, names: dict[int, str]) -> Figure:
    """at_ns: the moment that is asked for; names: of threads."""
    places = _places(shown.cells)
    now = next(moment for moment in shown.moments if moment.time_ns == at_ns)
    width = min(places.width * _ENLARGED, _WIDTH_PX)
    data = json.dumps({"pages": shown.pages_per_cell, "width": places.width, "regions": places.regions,
                       "owners": [_owner(*owner, names) for owner in shown.details.owners]}, separators=(",", ":"))
    label = f"Map of the heap of {title}: {counted(shown.cells.size, 'cell')} of {pages_words(shown.pages_per_cell)}; its largest ranges are in the table"
    body = (f'<img class="map" src="{_picture(now.states, places)}" width="{width}" height="{width * places.height // places.width}" '
            f'alt="{escape(label)}" data-map="{escape(data)}" data-cells="{_record(shown, now.states)}">')
    caption = (f"A cell is {pages_words(shown.pages_per_cell)}, in order of address, row by row. A cell without a live block is free. "
               "The replayer's own pages count as tables.")
    return Figure(title, caption, body + _small_maps(shown, places), _map_table(shown), KEY)


def _small_maps(shown: HeapMap, places: _Places) -> str:
    """Small maps of the same places at all moments."""
    if len(shown.moments) < 2:
        return ""
    width = min(places.width * 3, _SMALL_PX)
    items = []
    for moment in shown.moments:
        words = f"{moment.why}, {nanoseconds(moment.time_ns)}"
        items.append(f'<li><img class="map" src="{_picture(moment.states, places)}" width="{width}" height="{max(width * places.height // places.width, 1)}" '
                     f'alt="The same map: {escape(words)}"><span>{escape(words)}</span></li>')
    return f'<ul class="maps">{"".join(items)}</ul>'


_CSS = {"live": "part-live", "rounding": "part-rounding", "headers": "part-headers", "holes": "part-holes", "free_pages": "part-free", "tables": "part-tables",
        "untouched": "part-untouched"}
_KEY = [(name.replace("_", " "), css) for name, css in _CSS.items()]
_STACK_PX, _COST_PX = 240, 90
_COST_SHOWN, _CALLS_SHOWN, _PAUSE = 0.97, 150, 20
"""The few stretches in which a call cost more than this quantile are cut; those with fewer timed calls are drawn together; after so many without
a call the curve begins anew."""


@dataclass(frozen=True)
class Heap:
    """What the template shows of one allocator's heap."""

    answer: Answer
    name: str
    css: str
    when: list[str]
    along: Figure | None
    map: Figure | None


def heaps_of(answers: list[Answer], classes: dict[str, str]) -> list[Heap]:
    """classes: CSS classes by the allocator's name."""
    made = []
    for answer in answers:
        drawn = map_figure(answer.allocator, answer.map, answer.snapshot.time_ns, answer.thread_names) if answer.map else None
        made.append(Heap(answer, answer.allocator, classes.get(str(answer.snapshot.allocator["name"]), "c0 a0"), when_sentence(answer), along_figure(answer), drawn))
    return made


def accounts_figure(heaps: list[Heap]) -> Figure:
    """A bar for each allocator."""
    rows = allocator_rows([heap.answer for heap in heaps])
    greatest, made = max((heap.answer.accounts.rss_bytes for heap in heaps), default=0) or 1, []
    for heap in heaps:
        accounts, strip, at = heap.answer.accounts, Drawing(None, STRIP_PX, ""), 0.0
        for name, css in _CSS.items():
            part = accounts.bytes[name] / greatest
            tip = f"{name.replace('_', ' ')}: {byte_count(accounts.bytes[name])}, {percent(accounts.bytes[name] / max(accounts.rss_bytes, 1))} of RSS"
            strip.rect(share(at), 1, share(part), STRIP_PX - 2, css, tip)
            at += part
        made.append(Row(heap.name, heap.css, f"{byte_count(accounts.rss_bytes)}: {heap.answer.verdict}", strip))
    caption = "; ".join(f"{name.replace('_', ' ')}: {MEANING[name]}" for name in ACCOUNTS) + "."
    return Figure("Accounts of RSS", caption[0].upper() + caption[1:], rows_markup(made, scaled_ticks(greatest, 4, BYTE_STEPS), "bars"),
                  Table(rows[0], rows[1:]), _KEY)


def _with_moments(answer: Answer) -> pd.DataFrame:
    """The accounts along the trace, and those of the snapshots, where peaks are that lie within a stretch."""
    moments = pd.DataFrame([{"time_ns": moment.time_ns, "rss_bytes": moment.accounts.rss_bytes, **moment.accounts.bytes}
                            for moment in answer.moments if moment.time_ns is not None])
    return pd.concat([answer.along, moments]).sort_values("time_ns", kind="stable", ignore_index=True)


def along_figure(answer: Answer) -> Figure | None:
    """The accounts stacked along the trace, and below what a call cost there. None without any."""
    rows = _with_moments(answer)
    within = answer.within_call
    span, high = float(rows["time_ns"].max()), max(float(rows["rss_bytes"].max()), within.rss_bytes if within else 0) * 1.04
    if answer.along.empty or not span or not high:
        return None
    time = rows["time_ns"].to_numpy() / span
    area = Drawing(None, _STACK_PX, f"Accounts of RSS under {answer.allocator} along {nanoseconds(span)} of the trace, as in the table")
    stacked = np.cumsum(rows[list(ACCOUNTS)].to_numpy(dtype=float), axis=1) / high
    drawn = [curve(time, stacked[:, number], f"{_CSS[name]} filled", True) for number, name in reversed(list(enumerate(ACCOUNTS)))]
    if within:
        drawn.append(curve(np.full(2, within.time_ns / span), np.array([0.0, within.rss_bytes / high]), "cost"))
    area.plot(drawn)
    for number in range(len(rows)):
        begun = time[number - 1] if number else 0.0
        area.rect(share(begun), 0, share(time[number] - begun), _STACK_PX, "column", _tip(rows.iloc[number]))
    across = scaled_ticks(span, 6, TIME_STEPS)
    body = framed(area, scaled_ticks(high, 5, BYTE_STEPS), across) + _cost_chart(answer, span)
    shown = rows.iloc[np.unique(np.linspace(0, len(rows) - 1, 20).astype(int))]
    table = Table(["time", "RSS", *(name.replace("_", " ") for name in ACCOUNTS), "a call"], [
        [nanoseconds(row["time_ns"]), byte_count(row["rss_bytes"]), *(byte_count(row[name]) for name in ACCOUNTS), nanoseconds(row["cost_ns"])]
        for row in shown.to_dict("records")])
    return Figure(answer.allocator, _along_caption(answer), body, table, _KEY)


def _tip(row: pd.Series) -> str:
    parts = ", ".join(f"{name.replace('_', ' ')} {byte_count(row[name])}" for name in ACCOUNTS if row[name])
    cost = "" if np.isnan(row["cost_ns"]) else f"; a call {nanoseconds(row['cost_ns'])}"
    return f"{nanoseconds(row['time_ns'])}: RSS {byte_count(row['rss_bytes'])}: {parts}{cost}"


def _along_caption(answer: Answer) -> str:
    costs = answer.along["cost_ns"].dropna()
    words = f"RSS at {counted(len(answer.along), 'time')} along the trace."
    if answer.within_call:
        words += f" The line is its peak, within a call: {byte_count(answer.within_call.rss_bytes)}."
    if costs.empty:
        return words
    return (f"{words} Below: the mean cost of the timed calls of each stretch, with the first touch of the returned blocks; "
            f"at most {nanoseconds(costs.max())}.")


def _cost_chart(answer: Answer, span: float) -> str:
    rows = answer.along[answer.along["cost_ns"].notna()]
    rows = rows.assign(part=(rows.index.to_series().diff() > _PAUSE).cumsum(), group=rows["timed_calls"].cumsum() // _CALLS_SHOWN,
                       ns=rows["cost_ns"] * rows["timed_calls"])
    sums = rows.groupby(["part", "group"]).agg({"time_ns": "last", "ns": "sum", "timed_calls": "sum"})
    cost = sums["ns"] / sums["timed_calls"]
    high = float(cost.quantile(_COST_SHOWN)) * 1.25 if len(cost) else 0.0
    if not high:
        return ""
    area = Drawing(None, _COST_PX, f"Cost of a call under {answer.allocator} along the trace, as in the table")
    area.plot([curve(sums["time_ns"].loc[part].to_numpy() / span, cost.loc[part].to_numpy() / high, "cost") for part in rows["part"].unique()])
    return framed(area, scaled_ticks(high, 3, TIME_STEPS), [])


def _page_table(rows: list[list[str]]) -> Table | None:
    return Table(rows[0], rows[1:]) if rows else None


def _story(heap: Heap) -> dict[str, Any]:
    """The words and tables about one allocator."""
    answer = heap.answer
    sentences = first_sentences(answer)
    return {"heap": heap, "first": sentences[0], "sentences": sentences[1:], "moments": _page_table(moment_rows(answer)),
            "not_in_rss": not_in_rss(answer.accounts),
            "holders": _page_table(holder_rows(answer)), "sites": _page_table(site_holder_rows(answer)),
            "flame": flame_figure(answer.sites.tree, answer.sites.places) if answer.sites else None,
            "cures": _page_table(cure_rows(answer)), "advice": advice(answer), "also_said": [*filter(None, [no_setting(answer), also_set_for(answer)])]}


def heap_page(answers: list[Answer]) -> str:
    """The HTML."""
    names = [str(answer.snapshot.allocator["name"]) for answer in answers]
    heaps = heaps_of(answers, colour_classes(names, names[0]))
    stories = [_story(heap) for heap in heaps]
    several = ", ".join(f"{heap.name} {byte_count(heap.answer.accounts.rss_bytes)}" for heap in heaps)
    headline = stories[0]["first"] if len(stories) == 1 else f"RSS: {several}."
    subject = answers[0].command or Path(answers[0].trace).name
    return rendered("explain.html.j2", stories=stories, heaps=heaps, headline=headline, accounts=accounts_figure(heaps),
                    subject=subject, title=subject, resident=any(moment.accounts.rss_bytes for answer in answers for moment in answer.moments))


def write_heap_page(answers: list[Answer], output: str | Path, inputs: Sequence[str | Path]) -> None:
    """Whole or not at all."""
    write_whole(output, heap_page(answers), inputs)
