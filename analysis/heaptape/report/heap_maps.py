# SPDX-License-Identifier: Apache-2.0
"""Maps of heaps as pictures: a pixel for each cell, which the page enlarges."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from ..base.units import byte_count, count, counted, nanoseconds, percent
from ..explain.heap_map import FREE, LIVE, NOT_RESIDENT, SHADES, TABLES, HeapMap
from ..explain.snapshots import PAGE_BYTES
from .figures import Figure, Table

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
    """As the address of an image; a byte of a state is a colour of the palette."""
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


def _table(shown: HeapMap) -> Table:
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
    return Figure(title, caption, body + _small_maps(shown, places), _table(shown), KEY)


def _small_maps(shown: HeapMap, places: _Places) -> str:
    """The same places at all moments."""
    if len(shown.moments) < 2:
        return ""
    width = min(places.width * 3, _SMALL_PX)
    items = []
    for moment in shown.moments:
        words = f"{moment.why}, {nanoseconds(moment.time_ns)}"
        items.append(f'<li><img class="map" src="{_picture(moment.states, places)}" width="{width}" height="{max(width * places.height // places.width, 1)}" '
                     f'alt="The same map: {escape(words)}"><span>{escape(words)}</span></li>')
    return f'<ul class="maps">{"".join(items)}</ul>'
