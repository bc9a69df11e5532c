# SPDX-License-Identifier: Apache-2.0
"""Which allocator has least and which has most: printed, and counted, only where the allocators differ."""

from __future__ import annotations

import pytest
from heaptape.validate.figures import _ends_agree
from heaptape.validate.table import _ends_line

NAMES = ["glibc", "jemalloc", "mimalloc", "tcmalloc"]


@pytest.mark.parametrize(("expected", "actual", "agrees"), [
    (NAMES, NAMES, None), (["glibc"], NAMES, None), (NAMES, ["glibc"], False), (["glibc"], ["glibc", "jemalloc"], True),
    (["glibc"], ["jemalloc"], False),
])
def test_an_end_agrees_where_there_is_one(expected: list[str], actual: list[str], agrees: bool | None) -> None:
    assert _ends_agree(expected, actual, NAMES) is agrees


def test_equal_allocators_have_no_least() -> None:
    ends = {"predicted": NAMES, "real": NAMES, "agrees": None}
    assert _ends_line("peak RSS", ends, ends) == "peak RSS: the allocators do not differ, as predicted"
    other = ends | {"predicted": ["glibc"]}
    assert _ends_line("peak RSS", other, ends) == (
        "peak RSS: the allocators do not differ (predicted: least glibc; most glibc, jemalloc, mimalloc, tcmalloc)")
    one = {"predicted": ["glibc"], "real": ["glibc"], "agrees": True}
    assert _ends_line("peak RSS", one, one | {"agrees": False, "predicted": ["mimalloc"]}) == (
        "peak RSS: least glibc (as predicted); most glibc (predicted: mimalloc)")
