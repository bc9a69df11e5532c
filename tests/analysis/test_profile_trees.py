# SPDX-License-Identifier: Apache-2.0
"""Trees of an allocator's functions from what a line of results says of them, whatever that is."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from heaptape.report.flame_graph import profile_figure
from heaptape.results.counted import profiles_of

STACKS = [{"frames": ["malloc"], "samples": 6}, {"frames": ["malloc", "carve"], "samples": 4}]


def counts(**changes: Any) -> dict[str, Any]:
    return {"allocator": {"instructions": 1000}, "profile": {"samples": 10, "stacks": STACKS}} | changes


def runs(of: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{"allocator": "glibc", "pass": "count", "failures": 0, "counts": of}])


def test_instructions_are_shared_out() -> None:
    profile = profiles_of(runs(counts()))["glibc"]
    assert profile.own_by_name() == {"malloc": 600, "carve": 400} and profile.root.callees["malloc"].instructions == 1000


@pytest.mark.parametrize("broken", [
    {"allocator": None}, {"allocator": {}}, {"allocator": {"instructions": 0}}, {"profile": None}, {"profile": {}},
    {"profile": {"samples": -5, "stacks": STACKS}}, {"profile": {"samples": 10}}, {"profile": {"samples": 10, "stacks": []}},
    {"profile": {"samples": 10, "stacks": [{"frames": ["malloc"]}, {"samples": 3}, {"frames": ["free"], "samples": -3}]}}])
def test_what_is_missing_makes_no_profile(broken: dict[str, Any]) -> None:
    assert profiles_of(runs(counts(**broken))) == {}


def test_no_stack_is_too_deep() -> None:
    deep = {"frames": [f"f{number}" for number in range(5000)], "samples": 5}
    figure = profile_figure(profiles_of(runs(counts(profile={"samples": 10, "stacks": [*STACKS, deep]}))), "glibc")
    assert figure is not None and "f100" in figure.body


def test_names_are_no_markup() -> None:
    hostile = {"frames": ["<script>alert(1)</script>", '"><img src=x>'], "samples": 5}
    figure = profile_figure(profiles_of(runs(counts(profile={"samples": 5, "stacks": [hostile]}))), "glibc")
    assert figure is not None and "<script>" not in figure.body and "<img" not in figure.body
