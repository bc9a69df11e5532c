# SPDX-License-Identifier: Apache-2.0
"""JSON as jansson writes it."""

from __future__ import annotations

import json

import pytest
from heaptape.judge.json_text import figure, json_text, real_text, whole


@pytest.mark.parametrize(("value", "text"), [
    (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (1 / 3, "0.333333333"), (20.5, "20.5"), (123456789.0, "123456789.0"), (1234567890.0, "1.23456789e9"),
    (1e100, "1e100"), (-2.5e-7, "-2.5e-7"), (1e-10, "1e-10"), (99999999.95, "100000000.0"), (999999999.9, "1e9"), (float("inf"), "null"),
    (float("nan"), "null")])
def test_numbers_that_are_not_whole(value: float, text: str) -> None:
    assert real_text(value, 9) == text


def test_all_digits_where_they_are_asked_for() -> None:
    assert real_text(0.1, 17) == "0.10000000000000001"


def test_lines_and_blanks() -> None:
    value = {"a": [], "b": {}, "c": [1, True, None, {"d": 2.0}], "e": "f"}
    assert json_text(value, 2) == ('{\n  "a": [],\n  "b": {},\n  "c": [\n    1,\n    true,\n    null,\n    {\n      "d": 2.0\n    }\n  ],\n  "e": "f"\n}')
    assert json_text(value, 0) == '{"a":[],"b":{},"c":[1,true,null,{"d":2.0}],"e":"f"}'
    assert json.loads(json_text(value, 1)) == value


def test_texts() -> None:
    assert json_text('"\\\n\t\x1b\x7f/é\u2028', 0) == '"\\"\\\\\\n\\t\\u001B\x7f/é\u2028"'
    # What is no UTF-8 is no text of JSON.
    assert json_text({"path": b"/\xff".decode(errors="surrogateescape"), "b": 1}, 0) == '{"path":null,"b":1}'


@pytest.mark.parametrize(("value", "rounded"), [(2.5, 3), (-2.5, -3), (0.49999999999999994, 0), (1.5, 2), (-0.4, 0), (float("nan"), None)])
def test_whole_numbers_are_rounded_half_away_from_zero(value: float, rounded: int | None) -> None:
    assert whole(value) == rounded


def test_what_is_not_known_is_null() -> None:
    assert figure(float("nan")) is None and figure(3) == 3.0 and isinstance(figure(3), float)
