# SPDX-License-Identifier: Apache-2.0
"""The report's figures: each a drawing that fits any width, with the table of the figures that it shows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files

import numpy as np
import pandas as pd

from ..base.units import (
    BYTE_STEPS,
    TIME_STEPS,
    byte_count,
    decimal,
    figure,
    interval,
    known,
    nanoseconds,
)
from ..results.comparison import MEASURES, SAME_WITHIN, Measure, round_table
from ..results.curves import thin
from ..results.verdicts import in_words
from .svg import Drawing, curve, framed, ratio_ticks, scaled_ticks, share

COLOURS = 7
"""Allocator colours in the style sheet after the baseline's grey; more allocators than that repeat them dashed."""


@dataclass(frozen=True)
class Table:
    """Text cells, first column a name."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """`body` is markup; `key` names the colours, where the body does not."""

    title: str
    caption: str
    body: str
    table: Table
    key: list[tuple[str, str]] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """For notebooks: the drawing with the report's own style."""
        return f'<div class="heaptape"><style>{stylesheet()}</style><h3>{escape(self.title)}</h3>{key_markup(self.key)}{self.body}</div>'


def stylesheet() -> str:
    """The style that the drawings rely on."""
    return files(__package__).joinpath("templates/figures.css").read_text(encoding="utf-8")


def breakable(words: str) -> str:
    """The name as markup, with places for line breaks: names of knobs have no blanks, and are shown in full."""
    return re.sub(r"([:=/]|,(?!\d)|(?<!\d),)(?=\w)", r"\1<wbr>", escape(words, quote=False).replace('"', "&quot;"))


def key_markup(key: list[tuple[str, str]]) -> str:
    """Full name and colour of each curve. The script makes them switches."""
    items = "".join(f'<li class="{css}"><i></i><span>{breakable(name)}</span></li>' for name, css in key)
    return f'<ul class="key">{items}</ul>' if key else ""


def colour_classes(allocators: list[str], baseline: str) -> dict[str, str]:
    """Allocator → CSS classes: its colour, grey for the baseline, then the palette in the order given; and its number, by which
    the script finds all that is drawn of it."""
    classes = {baseline: "c0 a0"}
    for number, name in enumerate(name for name in allocators if name != baseline):
        classes[name] = f"c{number % COLOURS + 1}{' dashed' if number >= COLOURS else ''} a{number + 1}"
    return classes


@dataclass(frozen=True)
class Row:
    """An allocator's strip of a figure: its name in full, a figure, the strip, and words beside it."""

    name: str
    css: str
    value: str
    strip: Drawing
    ratio: str = ""
    verdict: str = ""
    note: str = ""


STRIP_PX = 20


def rows_markup(rows: list[Row], ticks: list[tuple[float, str]], css: str) -> str:
    """The strips below each other, on one axis."""
    axis = Drawing(None, 22, "")
    for part, words in ticks:
        axis.text(share(part), 15, words, "tick", "end" if part > 0.985 else "start" if part < 0.01 else "middle")
    made = []
    for row in rows:
        note = f' <span class="version">{escape(row.note)}</span>' if row.note else ""
        cells = [("name", f"<i></i><span><b>{breakable(row.name)}</b>{note}</span>"), ("value", escape(row.value)), ("strip", row.strip.markup())]
        cells += [("ratio", escape(row.ratio)), (f"verdict {row.verdict.split()[0]}", escape(row.verdict))] if row.verdict else []
        made.append(f'<li class="row {row.css}">' + "".join(f'<span class="{name}">{text}</span>' for name, text in cells) + "</li>")
    return f'<ul class="rows {css}">{"".join(made)}<li class="row axis" aria-hidden="true"><span class="strip">{axis.markup()}</span></li></ul>'


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
    caption = (f"Ratio to {baseline}, less is better, on a logarithmic axis. Faint dots are single rounds, the bar is the 95 % interval of "
               f"their median, the band ±1 %.")
    return Figure(f"{measure.title[0].upper()}{measure.title[1:]}", caption, _ratio_rows(rows, ratios, runs, classes), table)


def _ratio_rows(rows: pd.DataFrame, ratios: pd.DataFrame, runs: pd.DataFrame, classes: dict[str, str]) -> str:
    shown = ratios[list(rows["allocator"])].to_numpy()
    finite = np.concatenate([shown[np.isfinite(shown) & (shown > 0)], rows["ci_low"].dropna(), rows["ci_high"].dropna()])
    low, high = min(float(finite.min()), 0.97) / 1.03, max(float(finite.max()), 1.03) * 1.03
    versions = runs.groupby("allocator")["allocator_version"].first()

    def part(ratio: float) -> float:
        return (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low))

    ticks = [(part(tick), f"{tick:g}") for tick in ratio_ticks(low, high, 300)]
    made = []
    for _, row in rows.iterrows():
        name, is_baseline = str(row["allocator"]), row["allocator"] == row["baseline"]
        bounds = interval(row["ci_low"], row["ci_high"])
        strip, middle = Drawing(None, STRIP_PX, ""), STRIP_PX / 2
        strip.rect(share(part(1 - SAME_WITHIN)), 0, share(part(1 + SAME_WITHIN) - part(1 - SAME_WITHIN)), STRIP_PX, "band")
        strip.line(0, middle, "100%", middle, "grid")
        strip.line(share(part(1)), 0, share(part(1)), STRIP_PX, "unit")
        if not is_baseline:
            for ratio in ratios[name][np.isfinite(ratios[name]) & (ratios[name] > 0)]:
                strip.dot(share(part(ratio)), middle, 3, "round")
            if known(row["ci_low"]):
                strip.line(share(part(row["ci_low"])), middle, share(part(row["ci_high"])), middle, "interval")
        words = "the baseline" if is_baseline else f"{row['ratio']:.3f} {bounds}".rstrip()
        strip.dot(share(part(row["ratio"])), middle, 5.5, "median", f"{name}: {words}")
        made.append(Row(name, classes[name], figure(row["value"], row["unit"]), strip, "1" if is_baseline else f"{row['ratio']:.2f} {bounds}".rstrip(),
                        in_words(row), str(versions.get(name, ""))))
    return rows_markup(made, ticks, "ratios")


def ratio_figures(runs: pd.DataFrame, comparison: pd.DataFrame, classes: dict[str, str]) -> list[Figure]:
    """The ratios of time and of peak RSS, as far as measured."""
    drawn = [ratio_figure(runs, comparison, MEASURES[name], classes) for name in ("time", "rss_peak")]
    return [item for item in drawn if item is not None]


@dataclass(frozen=True)
class Curve:
    """One line of the memory figure. time_ns and bytes_ have the same shape; `area` fills below instead of stroking; `measured`
    has peak, mean and end in bytes where these are not the curve's own: it is of one run and thinned, they are of all rounds."""

    name: str
    css: str
    time_ns: np.ndarray
    bytes_: np.ndarray
    area: bool = False
    measured: tuple[float, float, float] | None = None

    @property
    def figures(self) -> tuple[float, float, float]:
        """Peak, mean and end, in bytes."""
        return self.measured or (float(self.bytes_.max()), time_mean(self), float(self.bytes_[-1]))


def memory_curves(
    replayed: dict[str, pd.DataFrame], recorded: dict[str, pd.DataFrame], live: pd.DataFrame | None,
    classes: dict[str, str], comparison: pd.DataFrame,
) -> list[Curve]:
    """Back to front: live bytes, the replayed allocators, the recorded program on top. `comparison`: the medians of allocators."""
    curves = []
    source = live
    if source is None:
        # Without the trace the replayer's own count of live bytes serves: it is the same for every allocator.
        source = next((c for c in replayed.values() if c["live_bytes"].notna().any()), None)
    if source is not None:
        curves.append(_curve("live bytes", "live", source, "live_bytes", True))
    curves += [replace(_curve(name, classes[name], frame, "rss_bytes"), measured=_medians(comparison, name)) for name, frame in replayed.items()]
    css = {"recorded heap": "recorded", "recorded whole": "whole"}
    curves += [_curve(name, css[name], frame, "rss_bytes") for name, frame in recorded.items()]
    return curves


def _medians(comparison: pd.DataFrame, allocator: str) -> tuple[float, float, float] | None:
    """Peak, mean and end as the tables of the comparison have them; None where one is not known."""
    values = comparison[comparison["allocator"] == allocator].set_index("measure")["value"]
    peak, mean, end = (float(values.get(name, math.nan)) for name in ("rss_peak", "rss_mean", "rss_end"))
    return (peak, mean, end) if math.isfinite(peak + mean + end) else None


def _curve(name: str, css: str, frame: pd.DataFrame, column: str, area: bool = False) -> Curve:
    rows = frame[frame[column].notna() & frame["time_ns"].notna()]
    return Curve(name, css, rows["time_ns"].to_numpy(dtype=float), rows[column].to_numpy(dtype=float), area)


CURVE_BUCKETS = 500
"""Stretches of which each curve keeps the first, least, greatest and last value."""


def memory_figure(curves: list[Curve]) -> Figure | None:
    """RSS over the trace. None without any curve."""
    curves = [item for item in curves if item.time_ns.size]
    if not any(not item.area for item in curves):
        return None
    rows = []
    for item in curves:
        peak, mean, end = (byte_count(value) for value in item.figures)
        rows.append([item.name, peak, nanoseconds(float(item.time_ns[int(item.bytes_.argmax())])), mean, end, f"{item.time_ns.size:,}"])
    table = Table(["curve", "peak", "at", "mean over time", "at the end", "points"], rows)
    caption = "Resident anonymous memory. Replayed: each allocator's run with the median peak, less the replayer's own memory."
    if any(item.measured for item in curves):
        caption += " In the table, their peak, mean and end are the medians over the rounds."
    if any(item.name.startswith("recorded") for item in curves):
        caption += " Recorded heap: what malloc held when the program itself ran; recorded whole: all its anonymous memory."
    return Figure("Memory over time", caption, _draw_memory(curves), table, [(item.name, item.css) for item in curves])


def time_mean(item: Curve) -> float:
    """Mean weighted by time: each sample holds until the next one."""
    steps = np.diff(item.time_ns)
    if steps.sum() <= 0:
        return float(item.bytes_[-1])
    return float((item.bytes_[:-1] * steps).sum() / steps.sum())


def _draw_memory(curves: list[Curve]) -> str:
    start = min(0.0, *(float(item.time_ns[0]) for item in curves))
    span = max(*(float(item.time_ns[-1]) for item in curves), start + 1.0) - start
    high = max(float(item.bytes_.max()) for item in curves) * 1.04 or 1.0
    peaks = ", ".join(f"{item.name} {byte_count(item.figures[0])}" for item in curves)
    area = Drawing(None, 320, f"Memory over {nanoseconds(span)} of the trace. Peaks: {peaks}.")
    drawn = []
    for item in curves:
        rows = thin(item.time_ns, item.bytes_, CURVE_BUCKETS)
        drawn.append(curve((item.time_ns[rows] - start) / span, item.bytes_[rows] / high, item.css, item.area))
    area.plot(drawn)
    return framed(area, scaled_ticks(high, 6, BYTE_STEPS), scaled_ticks(span, 6, TIME_STEPS), f' data-span="{span:.0f}" data-high="{high:.0f}"')
