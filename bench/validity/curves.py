# SPDX-License-Identifier: Apache-2.0
"""Draws memory along time for each program: as recorded, as the replay of the same allocator predicts, and as the real
program had it without a recorder."""

from __future__ import annotations

from typing import Any

import numpy as np

from heaptape.report.svg import Drawing, nice_ticks
from heaptape.results.curves import thin

BASELINE = "glibc"
CURVES = {"recorded": "recorded", "predicted": f"{BASELINE}'s replay", "real": "real, not recorded"}
POINTS = 40  # of each curve, four for each: the least, the greatest, the first and the last of so many stretches
WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 30
STYLE = """<style>
text{font:12px sans-serif;fill:#444}.title{font-weight:600;fill:#111}.frame{stroke:#ccc}
path{fill:none;stroke-width:1.4}.recorded{stroke:#888;stroke-width:3.2;opacity:.6}.predicted{stroke:#1663c7}.real{stroke:#d9610f}
text.recorded,text.predicted,text.real{stroke:none;opacity:1}text.recorded{fill:#777}text.predicted{fill:#1663c7}text.real{fill:#d9610f}
@media(prefers-color-scheme:dark){text{fill:#bbb}.title{fill:#eee}.frame{stroke:#555}}
</style>"""


def few_points(curves: list[dict[str, Any]]) -> dict[str, dict[str, list[int]]]:
    """Of all curves those that are drawn, with as many points as can be seen. Of the real runs the one with the median
    peak (the lower of two), so that it is one that happened."""
    real = sorted((curve for curve in curves if curve["curve"] == "real" and curve["allocator"] == BASELINE),
                  key=lambda curve: max(curve["rss_bytes"], default=0))
    chosen = {"real": real[(len(real) - 1) // 2]} if real else {}
    for curve in curves:
        if curve["curve"] == "recorded" or (curve["curve"] == "predicted" and curve["allocator"] == BASELINE):
            chosen.setdefault(curve["curve"], curve)
    return {name: _thinned(chosen[name]) for name in CURVES if name in chosen}


def _thinned(curve: dict[str, Any]) -> dict[str, list[int]]:
    time, rss = np.asarray(curve["time_ns"], dtype=float), np.asarray(curve["rss_bytes"], dtype=float)
    kept = thin(time, rss, POINTS)
    return {"time_ns": [int(value) for value in time[kept]], "rss_bytes": [int(value) for value in rss[kept]]}


def draw(name: str, curves: dict[str, dict[str, list[int]]]) -> str:
    """The SVG, on its own."""
    drawing = Drawing(WIDTH, HEIGHT, f"{name}: memory along time, recorded, predicted and real")
    drawing.parts.append(STYLE)
    end_s = max((curve["time_ns"][-1] / 1e9 for curve in curves.values() if curve["time_ns"]), default=0) or 1.0
    high = max((max(curve["rss_bytes"], default=0) / 1e6 for curve in curves.values()), default=0) * 1.04 or 1.0
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    drawing.text(LEFT, 18, name, "title")
    for tick in nice_ticks(high, 4):
        y = bottom - tick / high * (bottom - TOP)
        drawing.line(LEFT, y, right, y, "frame")
        drawing.text(LEFT - 6, y + 4, f"{tick:g} MB", anchor="end")
    for tick in nice_ticks(end_s, 6):
        drawing.text(LEFT + tick / end_s * (right - LEFT), HEIGHT - 10, f"{tick:g} s", anchor="middle")
    place = right
    for kind in reversed(CURVES):
        if kind in curves:
            drawing.text(place, 18, CURVES[kind], kind, anchor="end")
            place -= 8 * len(CURVES[kind])
    for kind in CURVES:
        if kind in curves:
            x = LEFT + np.asarray(curves[kind]["time_ns"], dtype=float) / 1e9 / end_s * (right - LEFT)
            y = bottom - np.asarray(curves[kind]["rss_bytes"], dtype=float) / 1e6 / high * (bottom - TOP)
            drawing.path(x, y, kind)
    return drawing.markup()
