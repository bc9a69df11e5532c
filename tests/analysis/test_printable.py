# SPDX-License-Identifier: Apache-2.0
"""What comes from outside is printed in letters where it could lead a terminal or a reader astray."""

from __future__ import annotations

import os

import pytest
from heaptape.base.text import printable


@pytest.mark.parametrize(("text", "printed"), [
    ("plain, Ünïcödé, 日本語, \\x1b", "plain, Ünïcödé, 日本語, \\x1b"),
    ("\x1b[2J\x00\x7f\r\n\t", "\\x1b[2J\\x00\\x7f\\x0d\\x0a\\x09"),
    ("\x80\x9b\x9f\xa0", "\\u0080\\u009b\\u009f\xa0"),
    ("\u202a\u202e\u2066\u2069\u2028\u2029\u200e\u200f\u061c", "\\u202a\\u202e\\u2066\\u2069\\u2028\\u2029\\u200e\\u200f\\u061c"),
    (os.fsdecode(b"\xff\xc0\x80"), "\\xff\\xc0\\x80"),
    ("\ud800", "\\ud800"),
])
def test_printable(text: str, printed: str) -> None:
    assert printable(text) == printed
    assert printable(printed) == printed


def test_newlines_of_a_document_stay() -> None:
    assert printable("a\nb\x1b\n", keep="\n") == "a\nb\\x1b\n"
