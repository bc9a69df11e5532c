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


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_every_cell_is_there(tmp_path: Path, columns: int) -> None:
    results = results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=4))
    said = printed(results, columns)
    summary = summarise(experiments(read_results(results))[0], "glibc")
    words = [word for table in text_tables(summary) for row in [table.columns, *table.rows] for cell in row for word in cell.split()]
    assert len(words) > 40 and [word for word in words if word not in said] == []
    assert "…" not in said
