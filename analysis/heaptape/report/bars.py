# SPDX-License-Identifier: Apache-2.0
"""Bars: what resident memory is made of, and how a trace's blocks are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..base.units import BYTE_STEPS, MISSING, byte_count, count, counted, percent
from ..trace.profile import TraceProfile
from .figures import STRIP_PX, Figure, Row, Table, rows_markup
from .svg import Drawing, framed, nice_ticks, scaled_ticks, share, text_width

_PARTS = (("live", "part-live"), ("rounding", "part-internal"), ("other", "part-other"))
_ONE_RUN = "Of each allocator, the run with the median peak, so that the parts add up."
_LEFT = (("at the end", "part-end"), ("all freed", "part-freed"), ("purged", "part-purged"))


def parts_figures(fragmentation: pd.DataFrame, classes: dict[str, str]) -> list[Figure]:
    """The parts of RSS at its peak, and RSS after everything was freed; `fragmentation`: from the function of that name."""
    known = fragmentation.set_index("allocator")
    rows = known.reindex([name for name in classes if name in known.index])
    made = []
    if rows["peak_requested_bytes"].notna().any():
        made.append(_peak_figure(rows, classes))
    if rows[["after_free_bytes", "after_purge_bytes"]].notna().any().any():
        made.append(_left_figure(rows, classes))
    return made


def _peak_figure(rows: pd.DataFrame, classes: dict[str, str]) -> Figure:
    values = []
    for _, row in rows.iterrows():
        untouched = 0.0 if math.isnan(row["peak_untouched_bytes"]) else row["peak_untouched_bytes"]
        # A rest below 0 says that some of what is live was not resident after all.
        live = row["peak_requested_bytes"] - untouched + min(row["peak_other_bytes"], 0.0)
        values.append([live, row["peak_internal_bytes"], row["peak_other_bytes"]])
    ratios = ["mean RSS/live", "RSS/live at live peak", "RSS/live at peak RSS", "peak RSS/live"]
    table = Table(["allocator", "peak RSS of that run", "requested", "rounding", "untouched", "other", *ratios], [
        [str(name), *(byte_count(row[f"peak_{part}_bytes"]) for part in ("rss", "requested", "internal", "untouched", "other")),
         *(MISSING if math.isnan(row[key]) else f"{row[key]:.2f}" for key in ("f1", "f2", "f3", "f4"))]
        for name, row in rows.iterrows()])
    caption = ("The parts of resident memory at its peak. Live: requested and touched. Rounding: usable beyond that, as size classes are. "
               "Other: holes, free pages, thread caches, headers and the allocator's tables. "
               f"{_ONE_RUN} The ratios are medians over the rounds.")
    return Figure("Parts of peak RSS", caption, _bars(rows, values, [byte_count(value) for value in rows["peak_rss_bytes"]], _PARTS, classes),
                  table, list(_PARTS))


def _left_figure(rows: pd.DataFrame, classes: dict[str, str]) -> Figure:
    columns = ["end_rss_bytes", "after_free_bytes", "after_purge_bytes"]
    table = Table(["allocator", "RSS at that run's end", "all freed", "purged", "live at the end"], [
        [str(name), *(byte_count(row[key]) for key in [*columns, "end_requested_bytes"])] for name, row in rows.iterrows()])
    caption = ("Resident when the trace ends, after everything that is still live has been freed, and after the allocator was "
               "asked to give back what it can. " + _ONE_RUN)
    values = rows[columns].to_numpy(dtype=float).tolist()
    words = [f"{byte_count(row[0])} → {byte_count(row[1])} → {byte_count(row[2])}" for row in values]
    return Figure("What it keeps", caption, _bars(rows, values, words, _LEFT, classes), table, list(_LEFT))


def _bars(
    rows: pd.DataFrame, values: list[list[float]], words: list[str], parts: tuple[tuple[str, str], ...], classes: dict[str, str]
) -> str:
    """A strip for each name: one stacked bar of the parts, or thin bars below each other of what is left. Parts below 0 or
    unknown have no length; the table has their figures."""
    stacked = parts is _PARTS
    lengths = [[max(value, 0.0) if math.isfinite(value) else 0.0 for value in row] for row in values]
    greatest = max((sum(row) if stacked else max(row) for row in lengths), default=0.0) or 1.0
    made = []
    for name, row, text in zip(rows.index, lengths, words, strict=True):
        strip, at, thin = Drawing(None, STRIP_PX, ""), 0.0, STRIP_PX / len(row)
        for place, (length, (part, css)) in enumerate(zip(row, parts, strict=True)):
            tip = f"{name}, {part}: {byte_count(length)}"
            if stacked:
                strip.rect(share(at / greatest), 1, share(length / greatest), STRIP_PX - 2, css, tip)
                at += length
            else:
                strip.rect(0, place * thin, share(length / greatest), thin - 1, css, tip)
        made.append(Row(str(name), classes[str(name)], text, strip))
    return rows_markup(made, scaled_ticks(greatest, 4, BYTE_STEPS), "bars")


_COLUMNS_PX, _NARROWEST_PX = 220, 290


def distribution_figures(profile: TraceProfile) -> list[Figure]:
    """Sizes and lifetimes: share of the blocks, and of their bytes."""
    made = []
    if len(profile.sizes):
        made.append(_distribution(
            "Requested sizes", "Requests by size (upper bounds of powers of two): their share of the requests and of the bytes.",
            [_power(value) for value in profile.sizes["to_bytes"]], profile.sizes, "requests", "up to"))
    if len(profile.lifetimes):
        made.append(_distribution(
            "Lifetimes", f"Events from the birth of a block to its end (upper bounds). Live at the end, and not among "
            f"them: {counted(profile.live_at_end, 'block')}.",
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
    title: str, caption: str, bounds: list[str], rows: pd.DataFrame, noun: str, bound: str
) -> Figure:
    shares = [(rows[key] / max(float(rows[key].sum()), 1.0)).tolist() for key in (noun, "bytes")]
    table = Table([bound, noun, "share", "bytes", "share"], [
        [words, count(row[noun]), percent(of_count), byte_count(row["bytes"]), percent(of_bytes)]
        for words, (_, row), of_count, of_bytes in zip(bounds, rows.iterrows(), *shares, strict=True)])
    key = [f"share of the {noun}", "share of the bytes"]
    return Figure(title, caption, _draw_columns(title, bounds, shares, key), table, list(zip(key, ("part-live", "part-internal"), strict=True)))


def _draw_columns(label: str, bounds: list[str], shares: Sequence[list[float]], key: Sequence[str]) -> str:
    """Two columns for each class, side by side."""
    greatest = max(max(part) for part in shares) * 1.05 or 1.0
    drawing = Drawing(None, _COLUMNS_PX, f"{label}: {' and '.join(key)}, by class, as in the table")
    step = 1 / len(bounds)
    for number, words in enumerate(bounds):
        for side, (part, css, what) in enumerate(zip(shares, ("part-live", "part-internal"), key, strict=True)):
            height = part[number] / greatest
            drawing.rect(share((number + 0.1 + 0.4 * side) * step), share(1 - height), share(0.38 * step), share(height), css,
                         f"up to {words}: {percent(part[number])}, {what}")
    skip = max(1, math.ceil((text_width(bounds, 12) + 10) / (_NARROWEST_PX * step)))
    across = [((number + 0.5) * step, words) for number, words in enumerate(bounds) if (len(bounds) - 1 - number) % skip == 0]
    return framed(drawing, [(tick / 100 / greatest, f"{tick:g} %") for tick in nice_ticks(100 * greatest, 5)], across)
