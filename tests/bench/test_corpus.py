# SPDX-License-Identifier: Apache-2.0
"""The traces that ship in traces/: this tree reads and replays them, and traces/README.md says what is in them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from quick_tier import quick

TRACES = Path(__file__).resolve().parents[2] / "traces"
ALL = sorted(TRACES.glob("*.bin"))
TRACE_BYTES_MAX, ALL_BYTES_MAX = 1_500_000, 10_000_000


def _rows() -> dict[str, dict[str, str]]:
    """The README's table: file name to cells by their headings."""
    lines = [[cell.strip() for cell in line.strip("| \n").split(" | ")]
             for line in (TRACES / "README.md").read_text().splitlines() if line.startswith("| ")]
    headings, _, *rows = lines
    return {row[0].strip("`"): dict(zip(headings, row, strict=True)) for row in rows}


def _info(binary: Path, trace: Path, *options: str) -> str:
    return subprocess.run([binary, "info", *options, trace], capture_output=True, check=True, text=True, timeout=120).stdout


def test_every_trace_has_its_row_and_every_row_its_trace() -> None:
    assert len(ALL) >= 10
    assert set(_rows()) == {path.name for path in ALL}
    assert sum(path.stat().st_size for path in ALL) <= ALL_BYTES_MAX


@pytest.mark.parametrize("trace", ALL, ids=lambda path: path.stem)
def test_a_trace_is_whole_and_its_row_is_true(heaptape_binary: Path, trace: Path) -> None:
    reported: dict[str, Any] = json.loads(_info(heaptape_binary, trace, "--json"))
    assert (reported["anomalies"], reported["foreign_frees"], reported["lost_calls"], reported["truncated"]) == (0, 0, 0, False)
    assert reported["file_bytes"] <= TRACE_BYTES_MAX
    row = _rows()[trace.name]
    peak = re.search(r"^peak live +(.+)$", _info(heaptape_binary, trace), re.MULTILINE)
    assert peak
    assert (row["events"], row["threads"], row["peak live"]) == (f"{reported['events']:,}", str(reported["threads"]), peak[1])


@pytest.mark.parametrize("trace", ALL, ids=lambda path: path.stem)
def test_a_trace_says_nothing_of_whose_machine_it_was(heaptape_binary: Path, trace: Path) -> None:
    context = json.loads(_info(heaptape_binary, trace, "--json"))["context"]
    texts = [value for value in context.values() if isinstance(value, str)]
    paths = [path for text in texts for path in re.findall(r"(?<![\w.])/[\w./+-]+", text)]
    assert [path for path in paths if not path.startswith(("/usr/", "/lib/", "/tmp/corpus"))] == []


@pytest.mark.parametrize("trace", quick([TRACES / f"{name}.bin" for name in ("cc1", "git-log", "postgres")], ALL), ids=lambda path: path.stem)
def test_a_trace_replays(heaptape_binary: Path, tmp_path: Path, trace: Path) -> None:
    results = tmp_path / "results.jsonl"
    done = subprocess.run([heaptape_binary, "replay", "-q", "--alloc", "null", "--rounds", "1", "--pass", "time", "-o", results, trace],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    run = json.loads(results.read_text().splitlines()[0])
    assert run["trace"]["events"] == json.loads(_info(heaptape_binary, trace, "--json"))["events"]
