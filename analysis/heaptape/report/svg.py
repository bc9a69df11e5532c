# SPDX-License-Identifier: Apache-2.0
"""The few drawing primitives that the figures share. Colours come from CSS classes, so one drawing serves light and dark.

No chart library: those that draw in the browser (Plotly, Bokeh, Vega) put a megabyte of script into each report, which without
scripting shows nothing; Matplotlib writes colours and fonts into the file, and has no tool tip to go with a dot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Place = float | str
"""Pixels, or a part of the whole as `share` writes it, which fits any page without a script."""


def share(part: float) -> str:
    """A part of the width or of the height."""
    return f"{100 * part:.2f}%"


def _at(place: Place) -> str:
    return place if isinstance(place, str) else f"{place:.1f}"


@dataclass
class Drawing:
    """An SVG that scales with the page, or, where `width` is None, takes the width that the page gives it and never scales. Without a label it is
    decoration: the words beside it say the same."""

    width: float | None
    height: float
    label: str
    parts: list[str] = field(default_factory=list)

    def line(self, x1: Place, y1: Place, x2: Place, y2: Place, css: str) -> None:
        """A straight stroke."""
        self.parts.append(f'<line class="{css}" x1="{_at(x1)}" y1="{_at(y1)}" x2="{_at(x2)}" y2="{_at(y2)}"/>')

    def rect(self, x: Place, y: Place, width: Place, height: Place, css: str, tip: str = "") -> None:
        """A filled box, with a tool tip where one is given."""
        self.parts.append(f'<rect class="{css}" x="{_at(x)}" y="{_at(y)}" width="{_at(width)}" height="{_at(height)}">{_title(tip)}</rect>')

    def dot(self, x: Place, y: Place, radius: float, css: str, tip: str = "") -> None:
        """A disc, with a tool tip where one is given."""
        self.parts.append(f'<circle class="{css}" cx="{_at(x)}" cy="{_at(y)}" r="{radius}">{_title(tip)}</circle>')

    def text(self, x: Place, y: Place, words: str, css: str = "", anchor: str = "start", aside: tuple[float, float] = (0, 0)) -> None:
        """One line of text, so many px beside and below its place; anchor as in SVG (start, middle, end)."""
        moved = f' dx="{aside[0]:g}" dy="{aside[1]:g}"' if any(aside) else ""
        self.parts.append(f'<text class="{css}" x="{_at(x)}" y="{_at(y)}"{moved} text-anchor="{anchor}">{escape(words)}</text>')

    def plot(self, curves: Iterable[str]) -> None:
        """Curves of `curve`, stretched over the whole drawing: a script zooms by another viewBox."""
        self.parts.append(f'<svg class="plot" viewBox="0 0 {PLOT} {PLOT}" preserveAspectRatio="none">{"".join(curves)}</svg>')

    def path(self, x: Floats, y: Floats, css: str, floor: float | None = None) -> None:
        """A polyline, or, with `floor`, the area between it and that height. Not drawn when empty."""
        if x.size == 0:
            return
        points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
        close = "" if floor is None else f"L{x[-1]:.1f} {floor:.1f}L{x[0]:.1f} {floor:.1f}Z"
        self.parts.append(f'<path class="{css}" d="M{points}{close}"/>')

    def markup(self) -> str:
        """The whole element."""
        size = f'viewBox="0 0 {self.width:.0f} {self.height:.0f}"' if self.width else f'width="100%" height="{self.height:.0f}"'
        name = f'role="img" aria-label="{escape(self.label)}"' if self.label else 'aria-hidden="true"'
        return f'<svg {size} {name} xmlns="http://www.w3.org/2000/svg">{"".join(self.parts)}</svg>'


def _title(tip: str) -> str:
    return f"<title>{escape(tip)}</title>" if tip else ""


PLOT = 10_000


def curve(x: Floats, y: Floats, css: str, area: bool = False) -> str:
    """A polyline through parts of the width and of the height, from the lower left corner on; or the area below it. "" when empty."""
    if x.size == 0:
        return ""
    across, down = np.rint(PLOT * x).astype(int), np.rint(PLOT * (1 - y)).astype(int)
    # Steps are a few digits each, places four or five.
    steps = " ".join(f"{a} {b}" for a, b in zip(np.diff(across), np.diff(down), strict=True))
    close = f"L{across[-1]} {PLOT}L{across[0]} {PLOT}Z" if area else ""
    return f'<path class="curve {css}" d="M{across[0]} {down[0]}l{steps or "0 0"}{close}"/>'


def framed(area: Drawing, up: list[tuple[float, str]], across: list[tuple[float, str]], data: str = "") -> str:
    """A drawing of any width between its axes: places as parts of height and width, from the lower left corner on, and words."""
    left, below = Drawing(None, area.height, ""), Drawing(None, 24, "")
    grid = Drawing(None, area.height, "")
    for part, words in up:
        y = share(1 - part)
        left.text("100%", y, words, "tick", "end", (0, 4.5))
        grid.line(0, y, "100%", y, "grid")
    for part, words in across:
        below.text(share(part), 18, words, "tick", "end" if part > 0.985 else "start" if part < 0.01 else "middle")
    grid.line(0, "100%", "100%", "100%", "axis")
    area.parts[:0] = grid.parts
    return f'<div class="chart"{data}>{left.markup()}{area.markup()}{below.markup()}</div>'


def scaled_ticks(greatest: float, count: int, steps: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Round numbers from 0 to at most `greatest`, as parts of it; the last one says the unit."""
    size, unit = next((step for step in steps if greatest >= 2 * step[0]), steps[-1])
    ticks = nice_ticks(greatest / size, count)
    return [(tick * size / greatest, f"{tick:,.10g}" + (f" {unit}" if tick == ticks[-1] else "")) for tick in ticks]


def nice_ticks(high: float, count: int) -> list[float]:
    """About `count` round numbers from 0 up to at most `high`."""
    if high <= 0:
        return [0.0]
    raw = high / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    return [step * number for number in range(int(high / step + 1e-9) + 1)]


_RATIO_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_RATIO_TICKS_FINE = (0.25, 0.33, 0.4, 0.6, 0.7, 0.8, 0.9, 1.1, 1.25, 1.5, 1.75, 2.5, 3.0, 4.0)
_RATIO_TICKS_FINEST = (0.94, 0.96, 0.98, 1.02, 1.04, 1.06)


def ratio_ticks(low: float, high: float, pixels: float, gap: float = 40) -> list[float]:
    """Ticks of a logarithmic axis of ratios; 1 always, round ones first, none closer than `gap` px to another."""
    scale = pixels / (math.log(high) - math.log(low))
    chosen = [1.0]
    for candidate in (*_RATIO_TICKS, *_RATIO_TICKS_FINE, *_RATIO_TICKS_FINEST):
        far = all(abs(math.log(candidate / other)) * scale >= gap for other in chosen)
        if low <= candidate <= high and far:
            chosen.append(candidate)
    return sorted(chosen)


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Heights near the wanted ones, at least `gap` apart and within [low, high] where there is room for all."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[tuple[float, list[int]]] = []
    for index in order:
        groups.append((wanted[index], [index]))
        # Labels that would touch form one group, centred on the mean of where its members want to be.
        while len(groups) > 1 and _top(groups[-1], gap) < _bottom(groups[-2], gap) + gap:
            members = groups[-2][1] + groups[-1][1]
            groups[-2:] = [(sum(wanted[i] for i in members) / len(members), members)]
    placed = [0.0] * len(wanted)
    for centre, members in groups:
        half = gap * (len(members) - 1) / 2
        middle = max(low + half, min(high - half, centre)) if high - low >= 2 * half else (low + high) / 2
        for place, index in enumerate(members):
            placed[index] = middle - half + place * gap
    return _push_apart(placed, order, gap, high)


def _top(group: tuple[float, list[int]], gap: float) -> float:
    return group[0] - gap * (len(group[1]) - 1) / 2


def _bottom(group: tuple[float, list[int]], gap: float) -> float:
    return group[0] + gap * (len(group[1]) - 1) / 2


def _push_apart(placed: list[float], order: list[int], gap: float, high: float) -> list[float]:
    """Clamping to the frame may have brought groups together again: push down, then back up from the bottom."""
    for above, below in itertools.pairwise(order):
        placed[below] = max(placed[below], placed[above] + gap)
    limit = high
    for index in reversed(order):
        placed[index] = min(placed[index], limit)
        limit = placed[index] - gap
    return placed


def text_width(words: Iterable[str], size: float) -> float:
    """Rough width in px of the longest of some words, for margins; a sans-serif letter is about 0.56 of its size."""
    return max((len(word) for word in words), default=0) * size * 0.56
