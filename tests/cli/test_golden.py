"""Files kept for ever: good ones are read as they always were, damaged ones refused with the very same line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tool_runner import Tools, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

import refresh  # noqa: E402  the program that writes the damaged files also says how they are judged


def test_the_old_trace_is_read_as_ever(tools: Tools) -> None:
    done = run([tools.heaptape, "dump", GOLDEN / "sqlite3.bin"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GOLDEN / "sqlite3.dump").read_bytes()


def test_the_old_log_converts_to_the_same_events(tools: Tools, tmp_path: Path) -> None:
    trace = tools.convert(GOLDEN / "sqlite3.mraw", tmp_path / "t.bin")
    done = run([tools.heaptape, "dump", trace])
    assert done.stdout == (GOLDEN / "sqlite3.dump").read_bytes()


@pytest.mark.parametrize("name", sorted(refresh.damaged()))
def test_damage_is_told_in_the_same_words(tools: Tools, tmp_path: Path, name: str) -> None:
    status, said = refresh.verdict(tools.heaptape.parent, refresh.BAD / name, tmp_path / "never.bin")
    assert f"{status}\n{said}" == (refresh.BAD / f"{name}.expected").read_text()
    assert status == 3 and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
