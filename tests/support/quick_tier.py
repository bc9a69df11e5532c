# SPDX-License-Identifier: Apache-2.0
"""Which members of a family of tests the quick tier runs; the others are marked thorough."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick(chosen: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters of a test, those that are not chosen marked thorough. A row of several parameters is chosen
    by its first one."""
    rows = [(value, value if isinstance(value, tuple) else (value,)) for value in values]
    assert all(any(row[0] == one for _, row in rows) for one in chosen), "what is chosen is among the values"
    return [value if row[0] in chosen else pytest.param(*row, marks=pytest.mark.thorough) for value, row in rows]
