# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them. Decimal prefixes throughout: 1 MB is 10^6 bytes, as in the terminal output."""

from __future__ import annotations

import math
from typing import Any

MISSING = "n/a"
"""Shown for an unknown figure, which is never shown as 0."""

TIME_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
BYTE_STEPS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def known(value: float | None) -> bool:
    """Whether there is a figure at all."""
    return value is not None and math.isfinite(value)


def null_unless_known(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if math.isfinite(value) else None


def with_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Every figure that is not known becomes null."""
    return {key: null_unless_known(value) if isinstance(value, float) else value for key, value in row.items()}


def three_digits(value: float) -> str:
    """Three significant digits without exponent: 0.671, 63.2, 1,204."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.9995 or size == 0 else f"{value:.3f}"


def _scaled(value: float | None, steps: tuple[tuple[float, str], ...]) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return f"0 {steps[-1][1]}"
    for step, unit in steps:
        if abs(value) >= 0.9995 * step:
            return f"{three_digits(value / step)} {unit}"
    return f"{three_digits(value)} {steps[-1][1]}"


def nanoseconds(value: float | None) -> str:
    """A time in ns with the unit that fits: 671 ms."""
    return _scaled(value, TIME_STEPS)


def byte_count(value: float | None) -> str:
    """A size in bytes with the unit that fits: 63.2 MB."""
    return _scaled(value, BYTE_STEPS)


def seconds(value_ns: float | None) -> str:
    """A time in ns as seconds with six decimals, as ltrace -c prints them."""
    return f"{value_ns / 1e9:.6f}" if value_ns is not None and math.isfinite(value_ns) else MISSING


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return f"{value:,.0f}" if value is not None and math.isfinite(value) else MISSING


def counted(number: float, noun: str) -> str:
    """How many there are of what a noun in the singular names: 1 call, 1,204 calls, 2 anomalies."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,.0f} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,.0f} {noun}{'es' if noun.endswith('s') else 's'}"


def decimal(value: float | None, digits: int = 2) -> str:
    """A plain figure with so many decimals."""
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else MISSING


def percent(value: float | None) -> str:
    """A share in per cent: two digits below ten, none after the point above."""
    if value is None or not math.isfinite(value):
        return MISSING
    scaled = 100 * value
    return f"{scaled:.1f} %" if abs(scaled) < 9.95 else f"{scaled:.0f} %"


def signed_percent(value: float) -> str:
    """A difference, of one decimal."""
    return f"{100 * value:+.1f} %".replace("-", "−")


def interval(low: float, high: float, digits: int = 2) -> str:
    """A 95 % interval in brackets, or nothing where there is none."""
    return f"[{low:.{digits}f}, {high:.{digits}f}]" if math.isfinite(low) and math.isfinite(high) else ""


def figure(value: float | None, unit: str) -> str:
    """A value of a measure whose unit is "ns" or "bytes"."""
    return nanoseconds(value) if unit == "ns" else byte_count(value)


def change(value: float | None, unit: str) -> str:
    """A difference with its sign: +63.2 MB."""
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{figure(abs(value), unit)}" if value is not None and math.isfinite(value) else MISSING


def listing(names: list[str]) -> str:
    """Names as prose: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
