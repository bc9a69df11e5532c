"""The tables of `compare` on narrow terminals: no figure and no verdict is left out."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import results_factory
from heaptape.report.table import text_tables
from heaptape.results.comparison import experiments
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise
from test_program_time import GLIBC, MIMALLOC

ROOT = Path(__file__).resolve().parents[2]


def printed(results: Path, columns: int) -> str:
    """What a terminal of so many columns is sent, without its colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT / "analysis"), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-m", "heaptape", "compare", results], stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 1 << 16):
                said += part
        except OSError:
            pass  # the other end is closed
        assert process.wait(timeout=60) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode())


def piped(results: Path, columns: int) -> str:
    """The same where there is no terminal; columns 0: $COLUMNS is not set."""
    environment = {**{name: value for name, value in os.environ.items() if name != "COLUMNS"}, "PYTHONPATH": str(ROOT / "analysis")}
    environment |= {"COLUMNS": str(columns)} if columns else {}
    return subprocess.run([sys.executable, "-m", "heaptape", "compare", results], capture_output=True, text=True, check=True, timeout=60, env=environment).stdout


def every_word(results: Path) -> list[str]:
    summary = summarise(experiments(read_results(results))[0], "glibc")
    return [word for table in text_tables(summary) for row in [table.columns, *table.rows] for cell in row for word in cell.split()]


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_every_cell_is_there(tmp_path: Path, columns: int) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=4))
    words = every_word(results)
    for said in (printed(results, columns), piped(results, columns)):
        assert len(words) > 40 and [word for word in words if word not in said] == []
        assert "…" not in said


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_tables_of_counts_too(tmp_path: Path, columns: int) -> None:
    """Which have fewer columns, or longer ones: instructions, the largest differences and the program's time."""
    rows = [GLIBC, MIMALLOC, *results_factory.schedule(2, ("glibc", "mimalloc"))]
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    words = every_word(results)
    for said in (printed(results, columns), piped(results, columns)):
        assert {"instructions", "largest", "mostly"} < set(words) and [word for word in words if word not in said] == []


@pytest.mark.parametrize("columns", [70, 80])
def test_side_measures_are_a_table_of_their_own(tmp_path: Path, columns: int) -> None:
    """Where they do not fit beside the verdicts, so that no line is longer than the terminal's."""
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=4))
    lines = printed(results, columns).splitlines()
    assert max(map(len, lines)) <= columns
    heads = [line.split() for line in lines if line.split()[:1] == ["allocator"]]
    assert [head[-1] for head in heads] == ["verdict", "rounds", "verdict", "vs"] and heads[3][1] == "mean"
    wide = printed(results, 110).splitlines()
    assert [line.split()[-1] for line in wide if line.split()[:1] == ["allocator"]] == ["rounds", "vs"]


def test_long_names_in_a_pipe(tmp_path: Path) -> None:
    """A row is a line, whatever its length."""
    name = "jemalloc:" + "narenas=1," * 30 + "last=1"
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(2, ("glibc", name)))
    said = piped(results, 0)
    assert [word for word in every_word(results) if word not in said] == []
    assert re.search(re.escape(name) + r" .*\[.*\] .* (faster|slower|unresolved|same)", said)
