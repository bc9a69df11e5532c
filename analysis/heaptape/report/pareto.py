"""Time against memory: which allocators are worth a look at all."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pandas as pd

from ..base.units import byte_count, interval, nanoseconds, three_digits
from ..results.comparison import MEASURES, RESAMPLES, UNRESOLVED
from ..results.standing import Pairs
from .figures import Figure, Table
from .svg import Drawing, nice_ticks, shorten, spread_labels, text_width

_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_BYTE_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_LABEL_GAP_PX = 16.0


def pareto_front(points: pd.DataFrame) -> list[str]:
    """Names of the dots that have no other below and to the left, fastest first: of a drawing, as how far the dots may be
    off does not count. points: allocator, time, memory."""
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
    """Of each allocator whether some other is shown to have both less time and less memory: "yes", "no", or "unresolved"
    where none is shown to, but for some it is open. `frame` has all runs, the control's too."""
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
    """None with fewer than two allocators of which both are known. `runs` has the control's, too."""
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
    wide, narrow = (_draw(points, front, classes, *size) for size in ((940, 400), (400, 360)))
    return Figure("Time against memory", caption, wide.markup(), narrow.markup(), table, [])


def _draw(points: pd.DataFrame, front: list[str], classes: dict[str, str], width: int, height: int) -> Drawing:
    drawing = Drawing(width, height, "Time in malloc against peak RSS, one dot per allocator")
    left, right, top, bottom = 62.0, width - 14.0, 26.0, height - 52.0
    time_min, time_max = _span(points, "time")
    memory_min, memory_max = _span(points, "memory")

    def x_of(time: float) -> float:
        return left + (time - time_min) / (time_max - time_min) * (right - left)

    def y_of(memory: float) -> float:
        return bottom - (memory - memory_min) / (memory_max - memory_min) * (bottom - top)

    time_unit, memory_unit = _unit(time_max, _TIME_UNITS), _unit(memory_max, _BYTE_UNITS)
    drawing.line(left, bottom, right, bottom, "axis")
    for tick in _ticks(memory_min / memory_unit[0], memory_max / memory_unit[0], 5):
        y = y_of(tick * memory_unit[0])
        drawing.line(left, y, right, y, "grid")
        drawing.text(left - 8, y + 4.5, _words(tick), "tick", "end")
    for tick in _ticks(time_min / time_unit[0], time_max / time_unit[0], 8 if width > 500 else 4):
        x = x_of(tick * time_unit[0])
        drawing.line(x, bottom, x, bottom + 4, "axis")
        drawing.text(x, bottom + 20, _words(tick), "tick", "middle")
    drawing.text(left - 8, top - 10, memory_unit[1], "tick", "end")
    drawing.text(left, top - 10, "peak RSS", "tick")
    drawing.text(right, bottom + 40, f"time in malloc, {time_unit[1]}", "tick", "end")
    by_name = points.set_index("allocator")
    _draw_front(drawing, [(x_of(by_name.loc[n, "time"]), y_of(by_name.loc[n, "memory"])) for n in front])
    for _, row in points.iterrows():
        css, x, y = classes[row["allocator"]], x_of(row["time"]), y_of(row["memory"])
        if math.isfinite(row["time_low"]) and row["time_low"] < row["time_high"]:
            drawing.line(x_of(row["time_low"]), y, x_of(row["time_high"]), y, f"whisker {css}")
        if math.isfinite(row["memory_low"]) and row["memory_low"] < row["memory_high"]:
            drawing.line(x, y_of(row["memory_low"]), x, y_of(row["memory_high"]), f"whisker {css}")
        drawing.dot(x, y, 6, f"median {css}", f"{row['allocator']}: {nanoseconds(row['time'])}, {byte_count(row['memory'])}")
    _draw_names(drawing, points, classes, [(x_of(r["time"]), y_of(r["memory"])) for _, r in points.iterrows()],
                (left, right, top, bottom))
    return drawing


def _span(points: pd.DataFrame, key: str) -> tuple[float, float]:
    """From 0, unless all lie close together: then the axis begins below the least of them."""
    least, greatest = float(points[[key, f"{key}_low"]].min().min()), float(points[[key, f"{key}_high"]].max().max())
    if least < 0.6 * greatest or greatest <= least * 1.001:
        return 0.0, greatest * 1.1 or 1.0
    margin = 0.15 * (greatest - least)
    return least - margin, greatest + margin


def _ticks(low: float, high: float, number: int) -> list[float]:
    return [tick for tick in nice_ticks(high, max(1, round(number * high / (high - low)))) if tick >= low]


def _unit(greatest: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((unit for unit in units if greatest >= 2 * unit[0]), units[-1])


def _words(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}" if value == round(value, 6) else three_digits(value)


def _draw_front(drawing: Drawing, corners: list[tuple[float, float]]) -> None:
    for (x1, y1), (x2, y2) in pairwise(corners):
        drawing.line(x1, y1, x2, y2, "front")


def _draw_names(
    drawing: Drawing, points: pd.DataFrame, classes: dict[str, str], dots: list[tuple[float, float]],
    frame: tuple[float, float, float, float],
) -> None:
    """Beside the dots, to the left of those that are far to the right; names of one side never overlap."""
    _, right, top, bottom = frame
    names = [shorten(str(name), 24) for name in points["allocator"]]
    to_left = [x + 14 + text_width([name], 13) > right for (x, _), name in zip(dots, names, strict=True)]
    for side in (False, True):
        chosen = [i for i, flag in enumerate(to_left) if flag is side]
        heights = spread_labels([dots[i][1] - 12 for i in chosen], _LABEL_GAP_PX, top, bottom - 8)
        for i, height in zip(chosen, heights, strict=True):
            x, y = dots[i]
            if abs(height - (y - 12)) > 4:
                drawing.line(x, y, x + (-9 if side else 9), height, f"leader {classes[str(points['allocator'].iloc[i])]}")
            drawing.text(x + (-10 if side else 10), height + 4, names[i],
                         f"label tag {classes[str(points['allocator'].iloc[i])]}", "end" if side else "start")
