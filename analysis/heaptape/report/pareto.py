# SPDX-License-Identifier: Apache-2.0
"""Time against memory: the allocators that no other one beats in both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import pandas as pd

from ..base.units import BYTE_STEPS, TIME_STEPS, byte_count, interval, listing, nanoseconds
from ..results.comparison import MEASURES, RESAMPLES, UNRESOLVED
from ..results.verdicts import Pairs
from .figures import Figure, Table
from .svg import Drawing, framed, scaled_ticks, share, spread_labels, text_width

_LABEL_GAP_PX = 16.0
_SHORT_PX = 160


def pareto_front(points: pd.DataFrame) -> list[str]:
    """Names of the dots that have no other dot below and to the left, fastest first. For the drawing: intervals do not count.
    points: allocator, time, memory."""
    front: list[str] = []
    least = math.inf
    for _, row in points.sort_values(["time", "memory"], kind="stable").iterrows():
        if row["memory"] < least:
            front.append(str(row["allocator"]))
            least = row["memory"]
    return front


def beaten_in_both(
    frame: pd.DataFrame, names: list[str], baseline: str, seed: int, resamples: int = RESAMPLES
) -> dict[str, str]:
    """For each allocator whether another one is shown to have less time and less memory: "yes", "no", or "unresolved" where none
    is shown to, but it is open for some. `frame` has all runs, the control's too."""
    has_less: dict[tuple[str, str], list[bool | None]] = {(one, other): [] for one in names for other in names}
    for measure in (MEASURES["time"], MEASURES["rss_peak"]):
        pairs = Pairs(frame, measure, seed, resamples)
        # The baseline second, so that its pairs are those of the comparison.
        for one, other in combinations(sorted(names, key=lambda name: name == baseline), 2):
            words = pairs.compare(one, other)[1]
            has_less[one, other].append(None if words == UNRESOLVED else words == measure.less)
            has_less[other, one].append(None if words == UNRESOLVED else words == measure.more)

    def beaten(name: str) -> str:
        found = [has_less[other, name] for other in names if other != name]
        if any(all(less) for less in found):
            return "yes"
        return "unresolved" if any(False not in less for less in found) else "no"

    return {name: beaten(name) for name in names}


def pareto_points(comparison: pd.DataFrame) -> pd.DataFrame:
    """allocator, time (ns), memory (peak RSS, bytes), and their intervals time_low and so on: all of them the baseline's
    median times a ratio to it, as ratios know more than medians. Allocators that lack either are left out."""
    rows = []
    for name in dict.fromkeys(comparison["allocator"]):
        row: dict[str, object] = {"allocator": name}
        for measure, key in (("time", "time"), ("rss_peak", "memory")):
            of = comparison[comparison["measure"] == measure].set_index("allocator")
            if name not in of.index:
                break
            own = of.loc[name]
            base = of["value"].get(own["baseline"], math.nan)
            row |= {key: base * own["ratio"], f"{key}_median": own["value"], f"{key}_low": base * own["ci_low"], f"{key}_high": base * own["ci_high"],
                    f"{key}_ratio": own["ratio"], f"{key}_interval": interval(own["ci_low"], own["ci_high"])}
        else:
            rows.append(row)
    return pd.DataFrame(rows).dropna(subset=["time", "memory"]) if rows else pd.DataFrame()


def pareto_figure(runs: pd.DataFrame, comparison: pd.DataFrame, classes: dict[str, str], seed: int) -> Figure | None:
    """None with fewer than two allocators whose time and memory are known. `runs` has the control's, too."""
    points = pareto_points(comparison)
    if len(points) < 2:
        return None
    front = pareto_front(points)
    beaten = beaten_in_both(runs, [str(name) for name in points["allocator"]], str(comparison["baseline"].iloc[0]), seed)
    table = Table(["allocator", "time in malloc", "ratio", "peak RSS", "ratio", "beaten in both"], [
        [row["allocator"], nanoseconds(row["time_median"]), f"{row['time_ratio']:.2f} {row['time_interval']}",
         byte_count(row["memory_median"]), f"{row['memory_ratio']:.2f} {row['memory_interval']}",
         beaten[row["allocator"]]] for _, row in points.iterrows()])
    caption = ("Down and to the left is better; axes need not begin at 0. Dots are the baseline's median times the ratio to it, crosses its 95 % interval; the "
               "line joins the dots that have no other below and to the left. Whether that is more than noise, the last column says.")
    return Figure("Time against memory", caption, _draw(points, front, classes), table, [(str(name), classes[str(name)]) for name in points["allocator"]])


_HEIGHT_PX = 360


def _draw(points: pd.DataFrame, front: list[str], classes: dict[str, str]) -> str:
    drawing = Drawing(None, _HEIGHT_PX, f"Time in malloc against peak RSS, a dot for each allocator; down and to the left lie {listing(front)}")
    time_min, time_max = _span(points, "time")
    memory_min, memory_max = _span(points, "memory")

    def x_of(time: float) -> float:
        return (time - time_min) / (time_max - time_min)

    def y_of(memory: float) -> float:
        return _HEIGHT_PX * (1 - (memory - memory_min) / (memory_max - memory_min))

    dots = {str(row["allocator"]): (x_of(row["time"]), y_of(row["memory"])) for _, row in points.iterrows()}
    for (x1, y1), (x2, y2) in pairwise(dots[name] for name in front):
        drawing.line(share(x1), y1, share(x2), y2, "front")
    for _, row in points.iterrows():
        css, (x, y) = classes[row["allocator"]], dots[row["allocator"]]
        if math.isfinite(row["time_low"]) and row["time_low"] < row["time_high"]:
            drawing.line(share(x_of(row["time_low"])), y, share(x_of(row["time_high"])), y, f"whisker {css}")
        if math.isfinite(row["memory_low"]) and row["memory_low"] < row["memory_high"]:
            drawing.line(share(x), y_of(row["memory_low"]), share(x), y_of(row["memory_high"]), f"whisker {css}")
        drawing.dot(share(x), y, 6, f"median {css}", f"{row['allocator']}: {nanoseconds(row['time'])}, {byte_count(row['memory'])}")
    _draw_names(drawing, dots, classes)
    up = _ticks(memory_min, memory_max, 5, BYTE_STEPS)
    return f'<p class="axis-title">peak RSS</p>{framed(drawing, up, _ticks(time_min, time_max, 5, TIME_STEPS))}<p class="axis-title right">time in malloc</p>'


def _span(points: pd.DataFrame, key: str) -> tuple[float, float]:
    """From 0, unless all lie close together: then the axis begins below the least of them."""
    least, greatest = float(points[[key, f"{key}_low"]].min().min()), float(points[[key, f"{key}_high"]].max().max())
    if least < 0.6 * greatest or greatest <= least * 1.001:
        return 0.0, greatest * 1.1 or 1.0
    margin = 0.15 * (greatest - least)
    return least - margin, greatest + margin


def _ticks(low: float, high: float, number: int, steps: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The position between low (0) and high (1)."""
    found = scaled_ticks(high, max(1, round(number * high / (high - low))), steps)
    return [((part * high - low) / (high - low), words) for part, words in found if part * high >= low]


def _draw_names(drawing: Drawing, dots: dict[str, tuple[float, float]], classes: dict[str, str]) -> None:
    """Short names, beside the dots, on the side with more room; no two overlap. The key has all names in full."""
    short = [name for name in dots if text_width([name], 13) <= _SHORT_PX]
    for names in ([name for name in short if (dots[name][0] > 0.5) is side] for side in (False, True)):
        heights = spread_labels([dots[name][1] - 12 for name in names], _LABEL_GAP_PX, 8, _HEIGHT_PX - 8)
        for name, height in zip(names, heights, strict=True):
            left = dots[name][0] > 0.5
            drawing.text(share(dots[name][0]), height + 4, name, f"label tag {classes[name]}", "end" if left else "start",
                         (-10 if left else 10, 0))
