# SPDX-License-Identifier: Apache-2.0
"""Text for people: made printable, counted, in folded tables as those of the C verbs (tests/unit/test_base.c), and on the line of progress."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import story
from heaptape.base.environment import terminal_columns
from heaptape.base.text import ProgressLine, printable, table_lines
from heaptape.base.units import counted
from verbs_here import run_here


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


def test_how_many_there_are_of_something() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1204)] == ["0 calls", "1 call", "2 calls", "1,204 calls"]
    assert [counted(2, noun) for noun in ("anomaly", "process", "more class", "call site")] == ["2 anomalies", "2 processes", "2 more classes", "2 call sites"]


ROWS = [["name", "time", "verdict"], ["glibc", "1.2 s", ""], ["a", "17 s", "unresolved (one round is not enough)"]]
WHOLE = ["name    time  verdict", "glibc  1.2 s", "a       17 s  unresolved (one round is not enough)"]


def test_the_last_column_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(table_lines(ROWS, {1}, columns) == WHOLE for columns in (0, 50, 20))
    assert table_lines(ROWS, {1}, 34) == [*WHOLE[:2], "a       17 s  unresolved (one", "              round is not enough)"]
    monkeypatch.setenv("COLUMNS", "34")
    assert terminal_columns(io.StringIO()) == 34 and len(table_lines(ROWS, {1})) == 4
    monkeypatch.setenv("COLUMNS", "")
    assert terminal_columns(io.StringIO()) == 0


@pytest.mark.thorough
def test_colour_where_it_is_asked_for(tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    said = {color: run_here("compare", results, "--color", color, cwd=tmp_path).stdout for color in ("always", "auto")}
    assert "\x1b[32m" in said["always"] and "\x1b" not in said["auto"]


@pytest.mark.thorough
@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)])
def test_colour_on_a_terminal(tmp_path: Path, more: dict[str, str], coloured: bool) -> None:
    results, _ = story.write_story(tmp_path)
    reader, writer = pty.openpty()
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "analysis"), "PATH": os.environ["PATH"], "TERM": "xterm", **more}
    process = subprocess.Popen([sys.executable, "-m", "heaptape", "compare", results], stdout=writer, env=environment)
    os.close(writer)
    text = b""
    try:
        while part := os.read(reader, 65536):
            text += part
    except OSError:  # its end
        pass
    os.close(reader)
    assert process.wait(60) == 0 and b"fastest" in text and (b"\x1b[" in text) == coloured


class _Stream(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


def _shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, wanted: bool = True) -> str:
    stream = _Stream()
    stream.terminal = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    now = 10.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    line = ProgressLine(wanted)
    assert line.left_s(0, 4) is None
    for now, words, left_s in ((16.0, "round 3", None), (70.0, "round 4", None), (80.0, "round 5", None), (130.0, "the rest", 600.0)):
        line.show(words, line.left_s(2, 4) if left_s is None else left_s)
    line.end()
    return stream.getvalue()


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = ["round 3, about 6 s left", "round 4, about 60 s left", "round 5, about 70 s left", "the rest, about 10 min left", ""]
    assert _shown(monkeypatch, terminal=True) == "".join(f"\r\x1b[K{words}" for words in drawn)


def test_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, terminal=False) == "heaptape: round 4, about 60 s left\nheaptape: the rest, about 10 min left\n"
    assert not _shown(monkeypatch, terminal=False, wanted=False)
