"""The few drawing primitives that the figures share. Colours come from CSS classes, so one drawing serves light and dark."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Drawing:
    """An SVG of fixed coordinates (px) that scales with the page."""

    width: float
    height: float
    label: str
    parts: list[str] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str) -> None:
        """A straight stroke."""
        self.parts.append(f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def rect(self, x: float, y: float, width: float, height: float, css: str) -> None:
        """A filled box."""
        self.parts.append(
            f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"/>')

    def dot(self, x: float, y: float, radius: float, css: str, tip: str = "") -> None:
        """A disc, with a tool tip where one is given."""
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{title}</circle>')

    def text(self, x: float, y: float, words: str, css: str = "", anchor: str = "start") -> None:
        """One line of text; anchor as in SVG (start, middle, end)."""
        self.parts.append(f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>')

    def path(self, x: Floats, y: Floats, css: str, floor: float | None = None) -> None:
        """A polyline, or, with `floor`, the area between it and that height. Not drawn when empty."""
        if x.size == 0:
            return
        points = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
        close = "" if floor is None else f"L{x[-1]:.1f} {floor:.1f}L{x[0]:.1f} {floor:.1f}Z"
        self.parts.append(f'<path class="{css}" d="M{points}{close}"/>')

    def markup(self) -> str:
        """The whole element."""
        return (f'<svg viewBox="0 0 {self.width:.0f} {self.height:.0f}" role="img" aria-label="{escape(self.label)}" '
                f'xmlns="http://www.w3.org/2000/svg">{"".join(self.parts)}</svg>')


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


def shorten(words: str, length: int) -> str:
    """The words, or their beginning with an ellipsis where they are longer than `length` characters."""
    return words if len(words) <= length else f"{words[: length - 1]}…"


def text_width(words: Iterable[str], size: float) -> float:
    """Rough width in px of the longest of some words, for margins; a sans-serif letter is about 0.56 of its size."""
    return max((len(word) for word in words), default=0) * size * 0.56
