# SPDX-License-Identifier: Apache-2.0
"""Markdown of the pages."""

from __future__ import annotations

from heaptape.base.units import MISSING, percent


def table(heads: list[str], rows: list[list[str]], right_from: int = 1) -> str:
    """Columns from `right_from` on are aligned to the right."""
    marks = ["---"] * right_from + ["---:"] * (len(heads) - right_from)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, marks, *rows])


def share_of(agreed: int, of: int) -> str:
    return f"{agreed} of {of}, {percent(agreed / of)}" if of else MISSING


def signed(value: float, digits: int = 1) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−")
