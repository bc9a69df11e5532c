# SPDX-License-Identifier: Apache-2.0
"""`record --list`: the processes of a run, the one that matters first."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from heaptape.base.recorded_trace import recorded_processes

from tool_runner import Tools, run

BUSY = "x = bytearray(b'x') * 20_000_000; y = [x.count(b'y') for i in range(40)]"
"""Much memory and CPU time, few calls."""


def _listed(tools: Tools, folder: Path, script: str) -> list[dict]:
    done = run([tools.heaptape, "record", "-q", "-o", folder, "--", sys.executable, "-S", "-c", script], env={"PYTHONMALLOC": "malloc"})
    assert done.returncode == 0, done.stderr
    return json.loads(run([tools.heaptape, "record", "--list", folder, "--json"]).stdout)["processes"]


@pytest.mark.parametrize(("parent", "child", "first_is_started"), [
    (BUSY, "z = list(map(str, range(50_000)))", True), ("pass", BUSY, False)], ids=["a-helper-with-more-calls", "a-worker"])
def test_the_process_that_matters_is_first(tools: Tools, tmp_path: Path, parent: str, child: str, first_is_started: bool) -> None:
    """By CPU time and memory, not by calls; the program that was started, unless a child clearly used more."""
    first, second = _listed(tools, tmp_path / "logs", f"import os\nif os.fork():\n    {parent}\n    os.wait()\nelse:\n    {child}")
    assert first["started"] == first_is_started != second["started"]
    assert first["cpu_ns"] > (second["cpu_ns"] or 0) and first["rss_anon_peak_bytes"] and first["calls"] and Path(first["log"]).exists()
    assert first["calls"] < second["calls"] or not first_is_started


def test_a_table_for_people(tools: Tools, tmp_path: Path) -> None:
    _listed(tools, tmp_path, "import os; os.fork()")
    heading, *rows = run([tools.heaptape, "record", "--list", tmp_path]).stdout.decode().splitlines()
    assert heading.split() == ["process", "calls", "CPU", "RssAnon", "command"] and len(rows) == 2
    assert sum("*" in row.split()[0] for row in rows) == 1 and all("python" in row for row in rows)


@pytest.mark.parametrize(("status", "words", "arguments"), [
    (3, b"expected raw logs (malloc-footprint.PID.mraw), found none", ["--list", "."]), (3, b"cannot read the folder", ["--list", "none"]),
    (2, b"expected no PROGRAM with it", ["--list", ".", "--", "true"]), (2, b"expected --list with it", ["--json", "--", "true"])])
def test_what_cannot_be_listed(tools: Tools, tmp_path: Path, status: int, words: bytes, arguments: list[str]) -> None:
    done = run([tools.heaptape, "record", *arguments], cwd=tmp_path)
    assert done.returncode == status and words in done.stderr


def test_what_is_damaged_is_said(tools: Tools, tmp_path: Path) -> None:
    """Beside logs that can be read, and files that are none. The folder's name is no UTF-8."""
    folder = tmp_path / "n\udcff"
    first, second = _listed(tools, folder, "import os; os.fork()")
    [lost] = [log for log in folder.glob("*.mraw") if log.name == f"malloc-footprint.{second['pid']}.mraw"]
    lost.write_bytes(lost.read_bytes()[:9000])
    (folder / "malloc-footprint.7.acc").touch()
    done = run([tools.heaptape, "record", "--list", folder])
    [line] = done.stderr.decode().splitlines()
    assert done.returncode == 0 and lost.name in line and line.endswith("found the end of the file")
    [kept] = recorded_processes(str(tools.heaptape), folder)
    assert kept.pid == first["pid"] and kept.log.exists() and first["log"] is None
