# SPDX-License-Identifier: Apache-2.0
"""Tables of the Python verbs, which are folded as those of the C verbs (tests/unit/test_text_table.c)."""

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
from heaptape.base.text import table_lines
from verbs_here import run_here

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
