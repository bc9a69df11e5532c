"""The report's figures: each a drawing (wide, and narrow for phones) with the table of the figures that it shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np
import pandas as pd

from ..base.units import byte_count, decimal, figure, interval, known, nanoseconds, three_digits
from ..results.comparison import MEASURES, SAME_WITHIN, Measure, round_table
from ..results.curves import thin
from .svg import Drawing, nice_ticks, ratio_ticks, shorten, spread_labels, text_width

COLOURS = 7
"""Allocator colours in the style sheet after the baseline's grey; more allocators than that repeat them dashed."""


@dataclass(frozen=True)
class Table:
    """Text cells, first column a name."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """`wide` and `narrow` are SVG markup; `narrow` is "" where one drawing suits both."""

    title: str
    caption: str
    wide: str
    narrow: str
    table: Table
    key: list[tuple[str, str]]

    def _repr_html_(self) -> str:
        """For notebooks: the drawing with the report's own style."""
        return (f'<div class="heaptape"><style>{stylesheet()}</style><h3>{escape(self.title)}</h3>'
                f'<div style="max-width:60rem">{self.wide}</div></div>')


def stylesheet() -> str:
    """The style that the drawings rely on."""
    return files(__package__).joinpath("templates/figures.css").read_text(encoding="utf-8")


def colour_classes(allocators: list[str], baseline: str) -> dict[str, str]:
    """Allocator → CSS classes of its colour: grey for the baseline, then the palette in the order given."""
    classes = {}
    others = [name for name in allocators if name != baseline]
    for number, name in enumerate(others):
        dashed = " dashed" if number >= COLOURS else ""
        classes[name] = f"c{number % COLOURS + 1}{dashed}"
    return classes | {baseline: "c0"}


def ratio_figure(
    runs: pd.DataFrame, comparison: pd.DataFrame, measure: Measure, classes: dict[str, str]
) -> Figure | None:
    """Each allocator's ratio to the baseline on a logarithmic axis: every round a faint dot, median and interval on top.
    None where only the baseline has figures."""
    rows = comparison[(comparison["measure"] == measure.name) & comparison["ratio"].notna()]
    baseline = str(comparison["baseline"].iloc[0]) if len(comparison) else ""
    if len(rows) < 2 or baseline not in set(rows["allocator"]):
        return None
    values = round_table(runs, measure)
    values = values.where(values > 0)
    ratios = values.div(values[baseline], axis=0)
    rows = rows.sort_values("ratio", kind="stable")
    table = Table(
        ["allocator", measure.title, f"ratio to {baseline}", "95 % interval", "rounds"],
        [[row["allocator"], figure(row["value"], row["unit"]), decimal(row["ratio"], 3),
          interval(row["ci_low"], row["ci_high"]) if row["allocator"] != baseline else "–",
          str(row["rounds"])] for _, row in rows.iterrows()],
    )
    drawing = _draw_ratios(rows, ratios, measure, baseline, classes)
    caption = (f"Ratio to {baseline}, less is better. Faint dots are single rounds, the bar is the 95 % interval of their "
               f"median; the band is ±1 %.")
    return Figure(f"{measure.title[0].upper()}{measure.title[1:]}", caption, drawing.markup(), "", table, [])


_ROW_PX = 52
_RATIO_WIDTH_PX = 440


def _draw_ratios(
    rows: pd.DataFrame, ratios: pd.DataFrame, measure: Measure, baseline: str, classes: dict[str, str]
) -> Drawing:
    drawing = Drawing(_RATIO_WIDTH_PX, len(rows) * _ROW_PX + 34, f"{measure.title} of each allocator against {baseline}")
    shown = ratios[list(rows["allocator"])].to_numpy()
    finite = np.concatenate([shown[np.isfinite(shown) & (shown > 0)], rows["ci_low"].dropna(), rows["ci_high"].dropna()])
    low, high = min(float(finite.min()), 0.97) / 1.03, max(float(finite.max()), 1.03) * 1.03
    left, right = 8.0, _RATIO_WIDTH_PX - 8.0

    def x_of(ratio: float) -> float:
        return left + (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low)) * (right - left)

    ticks = ratio_ticks(low, high, right - left)
    for number, (_, row) in enumerate(rows.iterrows()):
        top = number * _ROW_PX
        _draw_track(drawing, top, (left, right), [x_of(tick) for tick in ticks], x_of)
        _draw_ratio_row(drawing, row, ratios[row["allocator"]], top, x_of, classes[row["allocator"]])
    for tick in ticks:
        drawing.text(x_of(tick), len(rows) * _ROW_PX + 19, f"{tick:g}", "tick", "middle")
    return drawing


_TRACK_PX = (27.0, 45.0)
"""Where a row's strip of the axis begins and ends below the row's top; the words stand above it, clear of any line."""

XOf = Callable[[float], float]


def _draw_track(drawing: Drawing, top: float, ends: tuple[float, float], ticks: list[float], x_of: XOf) -> None:
    upper, lower = top + _TRACK_PX[0], top + _TRACK_PX[1]
    middle = (upper + lower) / 2
    same = x_of(1 - SAME_WITHIN), x_of(1 + SAME_WITHIN)
    drawing.rect(same[0], upper, same[1] - same[0], lower - upper, "band")
    drawing.line(ends[0], middle, ends[1], middle, "grid")
    for x in ticks:
        drawing.line(x, middle - 4, x, middle + 4, "grid")
    drawing.line(x_of(1), upper, x_of(1), lower, "unit")


def _draw_ratio_row(drawing: Drawing, row: pd.Series, ratios: pd.Series, top: float, x_of: XOf, css: str) -> None:
    name, middle = row["allocator"], top + sum(_TRACK_PX) / 2
    is_baseline = name == row["baseline"]
    words = "baseline" if is_baseline else f"{row['ratio']:.2f} {interval(row['ci_low'], row['ci_high'])}".rstrip()
    drawing.text(8, top + 19, shorten(name, 30), "name")
    drawing.text(_RATIO_WIDTH_PX - 8, top + 19, words, "value", "end")
    if not is_baseline:
        for ratio in ratios[np.isfinite(ratios) & (ratios > 0)]:
            drawing.dot(x_of(ratio), middle, 3, f"round {css}")
        if known(row["ci_low"]):
            drawing.line(x_of(row["ci_low"]), middle, x_of(row["ci_high"]), middle, f"interval {css}")
    drawing.dot(x_of(row["ratio"]), middle, 5.5, f"median {css}", f"{name}: {words}")


@dataclass(frozen=True)
class Curve:
    """One line of the memory figure. time_ns and bytes_ have the same shape; `area` fills below instead of stroking."""

    name: str
    css: str
    time_ns: np.ndarray
    bytes_: np.ndarray
    area: bool = False


def memory_curves(
    replayed: dict[str, pd.DataFrame], recorded: dict[str, pd.DataFrame], live: pd.DataFrame | None,
    classes: dict[str, str],
) -> list[Curve]:
    """Back to front: live bytes, the replayed allocators, the recorded program on top."""
    curves = []
    source = live
    if source is None:
        # Without the trace the replayer's own count of live bytes serves: it is the same for every allocator.
        source = next((c for c in replayed.values() if c["live_bytes"].notna().any()), None)
    if source is not None:
        curves.append(_curve("live bytes", "live", source, "live_bytes", True))
    curves += [_curve(name, classes[name], frame, "rss_bytes") for name, frame in replayed.items()]
    css = {"recorded heap": "recorded", "recorded whole": "recorded whole"}
    curves += [_curve(name, css[name], frame, "rss_bytes") for name, frame in recorded.items()]
    return curves


def _curve(name: str, css: str, frame: pd.DataFrame, column: str, area: bool = False) -> Curve:
    rows = frame[frame[column].notna() & frame["time_ns"].notna()]
    return Curve(name, css, rows["time_ns"].to_numpy(dtype=float), rows[column].to_numpy(dtype=float), area)


def memory_figure(curves: list[Curve]) -> Figure | None:
    """RSS over the trace. None without any curve."""
    curves = [curve for curve in curves if curve.time_ns.size]
    if not any(not curve.area for curve in curves):
        return None
    table = Table(
        ["curve", "peak", "at", "mean over time", "end", "samples"],
        [[curve.name, byte_count(float(curve.bytes_.max())),
          nanoseconds(float(curve.time_ns[int(curve.bytes_.argmax())])), byte_count(time_mean(curve)),
          byte_count(float(curve.bytes_[-1])), f"{curve.time_ns.size:,}"] for curve in curves],
    )
    caption = ("Resident anonymous memory in the trace's own time. Replayed curves are each allocator's median run, less "
               "the replayer's own memory.")
    if any(curve.name.startswith("recorded") for curve in curves):
        caption += (" “Recorded heap” is what malloc held when the program itself ran, “recorded whole” all its "
                    "anonymous memory.")
    wide = _draw_memory(curves, 940, 430, labels=True)
    narrow = _draw_memory(curves, 400, 340, labels=False)
    return Figure("Memory over the trace", caption, wide.markup(), narrow.markup(), table,
                  [(curve.name, curve.css) for curve in curves])


def time_mean(curve: Curve) -> float:
    """Mean weighted by time: each sample holds until the next one."""
    steps = np.diff(curve.time_ns)
    if steps.sum() <= 0:
        return float(curve.bytes_[-1])
    return float((curve.bytes_[:-1] * steps).sum() / steps.sum())


_LABEL_PX = 14


def _draw_memory(curves: list[Curve], width: int, height: int, labels: bool) -> Drawing:
    drawing = Drawing(width, height, "Memory over the trace, one line per allocator")
    left, top, bottom = 58.0, 22.0, height - 40.0
    names = [shorten(curve.name, 22) for curve in curves]
    right = width - (text_width(names, 13) + 22 if labels else 10)
    start = min(float(curve.time_ns[0]) for curve in curves)
    end = max(float(curve.time_ns[-1]) for curve in curves)
    start, span = min(start, 0.0), max(end - min(start, 0.0), 1.0)
    peak = max(float(curve.bytes_.max()) for curve in curves) * 1.04 or 1.0

    def x_of(time: np.ndarray) -> np.ndarray:
        return left + (time - start) / span * (right - left)

    def y_of(value: np.ndarray) -> np.ndarray:
        return bottom - value / peak * (bottom - top)

    _draw_axes(drawing, (left, right, top, bottom), peak, span, labels)
    ends = []
    for curve in curves:
        rows = thin(curve.time_ns, curve.bytes_, int((right - left) / 1.6))
        x, y = x_of(curve.time_ns[rows]), y_of(curve.bytes_[rows])
        drawing.path(x, y, f"curve {curve.css}", bottom if curve.area else None)
        ends.append(float(y[-1]))
    if labels:
        placed = spread_labels(ends, _LABEL_PX + 2, top + 4, bottom - 2)
        for curve, name, height_px, wanted in zip(curves, names, placed, ends, strict=True):
            drawing.line(right + 1, wanted, right + 9, height_px, f"leader {curve.css}")
            drawing.text(right + 12, height_px + 4.5, name, f"label {curve.css}")
    return drawing


def _draw_axes(
    drawing: Drawing, frame: tuple[float, float, float, float], peak: float, span: float, wide: bool
) -> None:
    left, right, top, bottom = frame
    unit, size = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if peak >= s), ("B", 1.0))
    for tick in nice_ticks(peak / size, 5):
        y = bottom - tick * size / peak * (bottom - top)
        drawing.line(left, y, right, y, "axis" if tick == 0 else "grid")
        drawing.text(left - 8, y + 4.5, _tick_words(tick), "tick", "end")
    drawing.text(left - 8, top - 8, unit, "tick", "end")
    unit, size = next(((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)) if span >= 2 * s), ("ns", 1.0))
    ticks = nice_ticks(span / size, 8 if wide else 4)
    for tick in ticks:
        x = left + tick * size / span * (right - left)
        drawing.line(x, bottom, x, bottom + 4, "axis")
        words = _tick_words(tick) + (f" {unit}" if tick == ticks[-1] else "")
        drawing.text(x, bottom + 20, words, "tick", "middle")


def _tick_words(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}" if value == round(value, 6) else three_digits(value)


def ratio_figures(runs: pd.DataFrame, comparison: pd.DataFrame, classes: dict[str, str]) -> list[Figure]:
    """Time beside peak RSS, whichever were measured."""
    drawn = [ratio_figure(runs, comparison, MEASURES[name], classes) for name in ("time", "rss_peak")]
    return [item for item in drawn if item is not None]
