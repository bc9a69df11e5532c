# SPDX-License-Identifier: Apache-2.0
"""The queries that docs/reference/exporting.md shows run on a shipped trace; each is skipped where its engine is not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from heaptape import read_trace
from heaptape.trace import parquet

ROOT = Path(__file__).resolve().parents[2]


def _blocks(heading: str, language: str) -> list[str]:
    """The code below a heading of docs/reference/exporting.md."""
    text = (ROOT / "docs" / "reference" / "exporting.md").read_text()
    section = re.split(r"^### ", text, flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(heading))
    return re.findall(rf"```{language}\n(.*?)```", body, flags=re.DOTALL)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with read_trace(ROOT / "traces" / "sqlite3-small.bin") as trace:
        parquet.export_parquet(trace, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_duckdb(tables: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    statements = [part for block in _blocks("Questions, in DuckDB's SQL", "sql") for part in block.split(";") if part.strip()]
    found = [duckdb.sql(statement).fetchall() for statement in statements]
    assert len(found) == 4
    calls, lives, _, context = found
    peak = duckdb.sql("select max(live_bytes) from 'events.parquet'").fetchall()
    assert sum(row[2] for row in calls) == 4456 and peak == [(324_181,)]
    assert sum(row[1] for row in lives) > 2000 and "sqlite3" in context[0][0]


def test_polars(tables: Path) -> None:
    pytest.importorskip("polars")
    names: dict[str, Any] = {}
    exec(_blocks("In Polars", "python")[0], names)
    assert names["busiest"]["len"].sum() == 2213 + 2198 + 40 and names["busiest"]["len"].is_sorted(descending=True)
