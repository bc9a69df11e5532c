"""Bars: what resident memory is made of, and how a trace's blocks are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..base.units import MISSING, byte_count, count, percent
from ..trace.profile import TraceProfile
from .figures import Figure, Table
from .svg import Drawing, nice_ticks, shorten, text_width

_PARTS = (("live", "part-live"), ("internal fragmentation", "part-internal"), ("the rest", "part-other"))
_LEFT = (("at the end", "part-live"), ("all freed", "part-internal"), ("purged", "part-other"))
_WIDTH = 440
_ROW_PX = 50


def parts_figures(fragmentation: pd.DataFrame, allocators: list[str]) -> list[Figure]:
    """What RSS is made of where it is most, and what is left once everything was freed; `fragmentation` as the function of
    that name gives it."""
    known = fragmentation.set_index("allocator")
    rows = known.reindex([name for name in allocators if name in known.index])
    made = []
    if rows["peak_requested_bytes"].notna().any():
        made.append(_peak_figure(rows))
    if rows[["after_free_bytes", "after_purge_bytes"]].notna().any().any():
        made.append(_left_figure(rows))
    return made


def _peak_figure(rows: pd.DataFrame) -> Figure:
    values = []
    for _, row in rows.iterrows():
        untouched = 0.0 if math.isnan(row["peak_untouched_bytes"]) else row["peak_untouched_bytes"]
        # A rest below 0 says that some of what is live was not resident after all.
        live = row["peak_requested_bytes"] - untouched + min(row["peak_other_bytes"], 0.0)
        values.append([live, row["peak_internal_bytes"], row["peak_other_bytes"]])
    table = Table(["allocator", "peak RSS", "requested", "internal", "untouched", "the rest", "F1", "F2", "F3", "F4"], [
        [str(name), *(byte_count(row[f"peak_{part}_bytes"]) for part in ("rss", "requested", "internal", "untouched", "other")),
         *(MISSING if math.isnan(row[key]) else f"{row[key]:.2f}" for key in ("f1", "f2", "f3", "f4"))]
        for name, row in rows.iterrows()])
    caption = ("What resident memory is made of where it is most. Live: what the program asked for and touched. Internal: what "
               "rounding up to size classes adds. The rest: free blocks in caches and gaps, the allocator's tables.")
    drawing = _draw_rows("What peak RSS is made of", [str(name) for name in rows.index], values,
                         [byte_count(value) for value in rows["peak_rss_bytes"]], [css for _, css in _PARTS], stacked=True)
    return Figure("At the peak", caption, drawing.markup(), "", table, list(_PARTS))


def _left_figure(rows: pd.DataFrame) -> Figure:
    columns = ["end_rss_bytes", "after_free_bytes", "after_purge_bytes"]
    table = Table(["allocator", "RSS at the end", "all freed", "purged", "live at the end"], [
        [str(name), *(byte_count(row[key]) for key in [*columns, "end_requested_bytes"])] for name, row in rows.iterrows()])
    caption = ("Resident when the trace ends, after everything that is still live has been freed, and after the allocator was "
               "asked to give back what it can.")
    values = rows[columns].to_numpy(dtype=float).tolist()
    words = [f"{byte_count(row[0])} → {byte_count(row[1])} → {byte_count(row[2])}" for row in values]
    drawing = _draw_rows("What is left", [str(name) for name in rows.index], values, words, [css for _, css in _LEFT],
                         stacked=False)
    return Figure("What it keeps", caption, drawing.markup(), "", table, list(_LEFT))


def _draw_rows(
    label: str, names: list[str], values: list[list[float]], words: list[str], css: list[str], stacked: bool
) -> Drawing:
    """A strip for each name: one bar of parts beside each other, or thin bars below each other. Parts below 0 or unknown have
    no length; the table has their figures."""
    drawing = Drawing(_WIDTH, len(names) * _ROW_PX + 28, label)
    lengths = [[max(value, 0.0) if math.isfinite(value) else 0.0 for value in row] for row in values]
    greatest = max((sum(row) if stacked else max(row) for row in lengths), default=0.0) or 1.0
    left, right = 8.0, _WIDTH - 8.0
    for number, (name, row, text) in enumerate(zip(names, lengths, words, strict=True)):
        top = number * _ROW_PX
        space = _WIDTH - 30 - text_width([text], 13)
        drawing.text(left, top + 17, shorten(name, max(8, int(space / 8.4))), "name")
        drawing.text(right, top + 17, text, "value", "end")
        x, thin = left, 18.0 / len(row)
        for place, (length, style) in enumerate(zip(row, css, strict=True)):
            width = length / greatest * (right - left)
            if stacked:
                drawing.rect(x, top + 25, width, 18, style)
                x += width
            else:
                drawing.rect(left, top + 25 + place * thin, width, thin - 1, style)
    unit, size = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if greatest >= 2 * s), ("B", 1.0))
    ticks = nice_ticks(greatest / size, 5)
    for tick in ticks:
        drawing.text(left + tick * size / greatest * (right - left), len(names) * _ROW_PX + 16,
                     f"{tick:g}" + (f" {unit}" if tick == ticks[-1] else ""), "tick",
                     "start" if tick == 0 else "end" if tick * size > 0.96 * greatest else "middle")
    return drawing


def distribution_figures(profile: TraceProfile) -> list[Figure]:
    """Sizes and lifetimes: share of the blocks, and of their bytes."""
    made = []
    if len(profile.sizes):
        made.append(_distribution(
            "Sizes asked for", "Requests by size (upper bounds of powers of two): how many, and how many of the bytes.",
            [_power(value) for value in profile.sizes["to_bytes"]], profile.sizes, "requests", "up to"))
    if len(profile.lifetimes):
        made.append(_distribution(
            "Lifetimes", f"Events from the birth of a block to its end (upper bounds). {count(profile.live_at_end)} blocks were "
            "live at the end and are not among them.",
            [_short(value) for value in profile.lifetimes["to_events"]], profile.lifetimes, "blocks", "events, up to"))
    return made


def _short(value: float) -> str:
    """A power of two, short enough for an axis."""
    return count(value) if value < 10_000 else f"{value / 1e3:.0f} k" if value < 1e6 else f"{value / 1e6:.3g} M"


def _power(value: float) -> str:
    """A power of two as people know it."""
    step, unit = next((s, u) for s, u in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
                      if value >= s)
    return f"{value / step:g} {unit}"


def _distribution(
    title: str, caption: str, bounds: list[str], rows: pd.DataFrame, counted: str, bound: str
) -> Figure:
    shares = [(rows[key] / max(float(rows[key].sum()), 1.0)).tolist() for key in (counted, "bytes")]
    table = Table([bound, counted, "share", "bytes", "share"], [
        [words, count(row[counted]), percent(of_count), byte_count(row["bytes"]), percent(of_bytes)]
        for words, (_, row), of_count, of_bytes in zip(bounds, rows.iterrows(), *shares, strict=True)])
    return Figure(title, caption, _draw_columns(title, bounds, shares).markup(), "", table,
                  [(f"share of the {counted}", "part-live"), ("share of the bytes", "part-internal")])


def _draw_columns(label: str, bounds: list[str], shares: Sequence[list[float]]) -> Drawing:
    """Two columns for each class, side by side."""
    height = 260
    drawing = Drawing(_WIDTH, height, label)
    left, right, top, bottom = 44.0, _WIDTH - 8.0, 12.0, height - 34.0
    greatest = max(max(share) for share in shares) * 1.05 or 1.0
    for tick in nice_ticks(100 * greatest, 5):
        y = bottom - tick / 100 / greatest * (bottom - top)
        drawing.line(left, y, right, y, "axis" if tick == 0 else "grid")
        drawing.text(left - 6, y + 4.5, f"{tick:g} %", "tick", "end")
    step = (right - left) / len(bounds)
    width = min(step * 0.4, 24.0)
    skip = max(1, math.ceil((text_width(bounds, 12) + 10) / step))
    for number, words in enumerate(bounds):
        middle = left + (number + 0.5) * step
        for side, (share, css) in enumerate(zip(shares, ("part-live", "part-internal"), strict=True)):
            length = share[number] / greatest * (bottom - top)
            drawing.rect(middle - width + side * width, bottom - length, width - 0.6, length, css)
        if (len(bounds) - 1 - number) % skip == 0:
            drawing.text(middle, bottom + 19, words, "tick", "middle")
    return drawing
