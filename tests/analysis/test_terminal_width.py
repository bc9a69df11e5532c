# SPDX-License-Identifier: Apache-2.0
"""The tables of `compare` on narrow terminals: no figure and no verdict is left out."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest
import results_factory
from heaptape.__main__ import main
from heaptape.report.table import text_tables
from heaptape.results.comparison import experiments
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise
from test_program_time import GLIBC, MIMALLOC
from verbs_here import run_here


def _show(results: Path, columns: int, terminal: int) -> None:
    """In a child, which has imported everything already; ends it."""
    os.dup2(terminal, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ |= {"COLUMNS": str(columns), "TERM": "xterm"}
    status = 70
    try:
        with open(1, "w", encoding="utf-8", closefd=False) as sys.stdout:
            status = main(["compare", str(results)])
    finally:
        os._exit(status)


def printed(results: Path, columns: int) -> str:
    """What a terminal of so many columns is sent, without its colours."""
    ours, theirs = pty.openpty()
    child = os.fork()
    if not child:
        _show(results, columns, theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:
        pass  # the other end is closed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode())


def piped(results: Path, columns: int) -> str:
    """The same where there is no terminal; columns 0: $COLUMNS is not set."""
    with pytest.MonkeyPatch.context() as patch:
        if columns:
            patch.setenv("COLUMNS", str(columns))
        else:
            patch.delenv("COLUMNS", raising=False)
        done = run_here("compare", results, cwd=results.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def every_word(results: Path) -> list[str]:
    summary = summarise(experiments(read_results(results))[0], "glibc")
    return [word for table in text_tables(summary) for row in [table.columns, *table.rows] for cell in row for word in cell.split()]


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_every_cell_is_there(tmp_path: Path, columns: int) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=4))
    words = every_word(results)
    for said in (printed(results, columns), piped(results, columns)):
        assert len(words) > 40 and [word for word in words if word not in said] == []
        assert "…" not in said


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_tables_of_counts_too(tmp_path: Path, columns: int) -> None:
    """Which have fewer columns, or longer ones: instructions, the largest differences and the program's time."""
    rows = [GLIBC, MIMALLOC, *results_factory.schedule(2, ("glibc", "mimalloc"))]
    results = results_factory.write(tmp_path / "r.jsonl", rows)
    words = every_word(results)
    for said in (printed(results, columns), piped(results, columns)):
        assert {"instructions", "largest", "mostly"} < set(words) and [word for word in words if word not in said] == []


@pytest.mark.parametrize("columns", [70, pytest.param(80, marks=pytest.mark.thorough)])
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
