# SPDX-License-Identifier: Apache-2.0
"""Words and tables of the judge, which are those of the verbs in C (tests/unit/test_base.c)."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pytest
from heaptape.base.environment import terminal_columns
from heaptape.judge.words import Table, cut, grouped, number, number_of, printable, put, rounded

WHOLE = """\
name    time  verdict
glibc  1.2 s
a       17 s  unresolved (one round is not enough)
"""
FOLDED = """\
name    time  verdict
glibc  1.2 s
a       17 s  unresolved (one
              round is not enough)
"""


def _printed(alignments: str, heading: Sequence[str], *rows: Sequence[str]) -> str:
    out, table = io.StringIO(), Table(alignments, heading)
    for row in rows:
        table.add(row)
    table.print(out)
    return out.getvalue()


def _example() -> str:
    return _printed("lrl", ["name", "time", "verdict"], ["glibc", "1.2 s", ""], ["a", "17 s", "unresolved (one round is not enough)"])


@pytest.mark.parametrize(("columns", "expected"), [(None, WHOLE), ("0", WHOLE), ("50", WHOLE), ("34", FOLDED), ("34 wide", FOLDED), ("20", WHOLE),
                                                   ("-34", WHOLE), ("wide", WHOLE), ("\u00b2", WHOLE)])
def test_the_last_column_is_folded_where_the_terminal_ends(monkeypatch: pytest.MonkeyPatch, columns: str | None, expected: str) -> None:
    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    assert _example() == expected


def test_columns_are_read_as_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("80", 80), (" +80", 80), ("80x24", 80), ("", 0), ("x80", 0), ("0", 0)):
        monkeypatch.setenv("COLUMNS", text)
        assert terminal_columns(io.StringIO()) == expected, text


def test_widths_are_bytes_before_anything_is_escaped() -> None:
    assert _printed("lr", ["é", "n"], ["a", "1"], ["\x1b", "22"]) == "é   n\na    1\n\\x1b   22\n"
    assert _printed("rl", ["n", "last"], ["é\udcff", "x"]) == "  n  last\né\\xff  x\n"


def test_a_cell_is_cut_at_its_bytes() -> None:
    assert _printed("lr", ["a", "n"], ["é" * 200, "1"]).splitlines()[1] == "é" * 139 + "\\xc3  1"


def test_a_figure_last_in_its_row_keeps_its_place() -> None:
    assert _printed("lrrl", ["a", "b", "c", "d"], ["x", "", "2", ""], ["x", "", "", "why"]) == "a  b  c  d\nx     2\nx        why\n"


def test_numbers() -> None:
    assert (grouped(0), grouped(999), grouped(6_364_276), grouped(2**64 - 1)) == ("0", "999", "6,364,276", "18,446,744,073,709,551,615")
    assert [rounded(value) for value in (0, 0.49999999999999994, 0.5, 1.5, 2.5, -0.5, -2.4)] == [0, 0, 1, 2, 3, -1, -2]
    assert [number_of(count, noun) for count, noun in ((1, "call"), (0, "call"), (1_204, "call"), (2, "anomaly"), (1, "anomaly"), (2, "pass"))] == [
        "1 call", "0 calls", "1,204 calls", "2 anomalies", "1 anomaly", "2 passes"]


def test_a_figure_in_its_unit() -> None:
    assert (number(1_250_000, 1e6, 1, " ms"), number(math.nan, 1e6, 1, " ms"), number(math.nan, 1, 0, missing="n/a")) == ("1.2 ms", "-", "n/a")
    assert (number(1, 0, 1), number(-1, 0, 1), number(0, 0, 1), number(1, math.nan, 1)) == ("inf", "-inf", "nan", "nan")


def test_a_text_is_cut_at_its_bytes() -> None:
    assert (cut("abc", 2), cut("abc", 9), cut("é", 1), cut("a\udcff", 2)) == ("ab", "abc", "\udcc3", "a\udcff")


def test_what_comes_from_outside_begins_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    out = io.StringIO()
    put(out, "a\nb\x1b[0m\u202e\udcff\u00e9")
    assert out.getvalue() == "a\\x0ab\\x1b[0m\\u202e\\xff\u00e9\n"
    assert printable("\x85\x7f\u2028") == "\\u0085\\x7f\\u2028"


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_who_asks_for_the_c_locale_gets_ascii(monkeypatch: pytest.MonkeyPatch, locale: str) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    assert printable("\u00b5 \u00e9 \u2026 \U0001f600 \udcff") == "\\xb5 \\xe9 \\u2026 \\U0001f600 \\xff"
