# SPDX-License-Identifier: Apache-2.0
"""The queries that docs/reference/exporting.md shows, and others, run on a shipped trace; each is skipped where its engine is not installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from heaptape import read_trace
from heaptape.trace import parquet

ROOT = Path(__file__).resolve().parents[2]


def _queries() -> list[str]:
    """The statements of docs/reference/exporting.md."""
    text = (ROOT / "docs" / "reference" / "exporting.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```", text, flags=re.DOTALL)
    return [part for block in blocks for part in block.split(";") if part.strip()]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with read_trace(ROOT / "traces" / "sqlite3-small.bin") as trace:
        parquet.export_parquet(trace, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_duckdb(tables: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = [duckdb.sql(statement).fetchall() for statement in _queries()]
    assert len(found) == 4
    calls, lives, _, context = found
    peak = duckdb.sql("select max(live_bytes) from 'events.parquet'").fetchall()
    assert sum(row[2] for row in calls) == 4456 and peak == [(324_181,)]
    assert sum(row[1] for row in lives) > 2000 and "sqlite3" in context[0][0]


def test_polars(tables: Path) -> None:
    polars = pytest.importorskip("polars")
    plain = polars.scan_parquet("events.parquet").filter(polars.col("variant") == "plain")
    assert plain.group_by("function").len().collect()["len"].sum() == 2213 + 2198 + 40
