# SPDX-License-Identifier: Apache-2.0
"""Real programs do the same with and without the recorder: rows of docs/reference/compatibility.md."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from tool_runner import Tools, run

QUICK = ["perl", "sqlite3", "sort"]


def script(repository: Path) -> Path:
    return repository / "bench" / "compatibility" / "compatibility.py"


def check(tools: Tools, repository: Path, folder: Path, name: str, timeout: float) -> None:
    """Makes one row, and holds it to what every row must show."""
    figures = folder / "figures.json"
    done = run([sys.executable, script(repository), "--build", tools.build, "--pairs", "1",
                "--only", name, "-o", folder / "table.md", "--json", figures], timeout=timeout)
    assert figures.exists(), done.stderr.decode()
    [row] = json.loads(figures.read_text())
    assert f"\n{name}," in (folder / "table.csv").read_text() and name in (folder / "table.md").read_text()
    if row["verdict"] == "not installed":
        pytest.skip(f"{name}: {row['note']}")
    logs, complaints = row["all_logs"], row["all_logs"]["complaints"]
    assert row["verdict"] in ("green", "in part", "out of reach"), (row["note"], complaints)
    assert done.returncode == 0
    assert row["same_output"] and row["same_status"], row["note"]
    assert logs["unconverted"] == 0, complaints
    if row["verdict"] == "green":
        assert logs["anomalies"] == 0 and logs["foreign"] == 0, complaints
        assert row["recorded"]["processes"] >= 1 and row["recorded"]["calls"] > 1000
        assert logs["processes"] > row["recorded"]["processes"]  # both ways of recording left logs


@pytest.mark.thorough
@pytest.mark.parametrize("name", QUICK)
def test_quick_row(tools: Tools, repository: Path, tmp_path: Path, name: str) -> None:
    check(tools, repository, tmp_path, name, timeout=300)


def all_names() -> list[str]:
    folder = Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(folder))
    try:
        from bench.compatibility.compatibility import PROGRAMS
    finally:
        sys.path.remove(str(folder))
    return [program.name for program in PROGRAMS]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in all_names() if name not in QUICK])
def test_row(tools: Tools, repository: Path, tmp_path: Path, name: str) -> None:
    check(tools, repository, tmp_path, name, timeout=900)


def test_unknown_program_is_refused(repository: Path) -> None:
    done = run([sys.executable, script(repository), "--only", "bash,no such"])
    assert done.returncode == 2
    assert b"no such program: no such" in done.stderr


def test_missing_program_is_a_row(tools: Tools, repository: Path, tmp_path: Path) -> None:
    """A row whose program is not there says so, and is no failure."""
    (tmp_path / "check.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(repository)!r})\n"
        "import dataclasses\n"
        "from bench.compatibility import compatibility\n"
        "program = dataclasses.replace(compatibility.PROGRAMS[0], needs=('no-such-program',))\n"
        f"row = compatibility.measure(program, compatibility.argparse.Namespace())\n"
        "print(row.verdict, row.note, sep='|')\n"
        f"compatibility.write_figures(compatibility.Path({str(tmp_path / 'figures.csv')!r}), [row])\n")
    done = run([sys.executable, tmp_path / "check.py"])
    assert done.stdout == b"not installed|no-such-program missing\n", done.stderr
    [row] = csv.DictReader((tmp_path / "figures.csv").open())
    assert (row["verdict"], row["calls"], row["note"]) == ("not installed", "", "no-such-program missing")
