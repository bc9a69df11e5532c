# SPDX-License-Identifier: Apache-2.0
"""Which allocator has least and which has most: printed, and counted, only where the allocators differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from heaptape.validate.figures import _ends_agree, _error_object, _extremes
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


def test_the_interval_of_an_error_knows_of_both_runs() -> None:
    """It holds the truth, no error, in 93 % or more of 300 experiments, less two standard errors of 1.5 %."""
    for replayed, real in ((0.01, 0.003), (0.01, 0.01), (0.003, 0.01)):
        rng, held = np.random.default_rng(13), 0
        for _ in range(300):
            found = _error_object(rng.normal(1000, 1000 * replayed, 5).tolist(), [0.0] * 5, pd.Series(rng.normal(1000, 1000 * real, 5)))
            held += found["error_low"] <= 0 <= found["error_high"]
        assert held >= 0.93 * 300 - 9


def test_one_round_has_no_least() -> None:
    rounds = pd.DataFrame({"glibc": [100.0, 101.0, 99.0], "mimalloc": [90.0, 91.0, 89.0]})
    assert _extremes(rounds, ["glibc", "mimalloc"], False) == ["mimalloc"]
    assert _extremes(rounds[:1], ["glibc", "mimalloc"], False) == ["glibc", "mimalloc"]
