# SPDX-License-Identifier: Apache-2.0
"""Times in options, by the examples that the C verbs are held to as well."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from heaptape.base.arguments import bootstrap_seed, duration, duration_ns, positive, processors, seed_number, several
from verbs_here import run_here

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "option_values.txt"
EXAMPLES = [(found[1], None if found[2] == "-" else int(found[2]))
            for found in re.finditer(r"^time \[(.*)\] (.+)$", GOLDEN.read_text(encoding="utf-8"), re.MULTILINE)]


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_times(text: str, value: int | None) -> None:
    assert duration_ns(text) == value
    if value:
        assert duration(text) == value / 1e9
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="expected a time"):
            duration(text)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("text", ["٣s", "1\n", "1s\n", "1_000"])
def test_what_only_python_would_take(text: str) -> None:
    assert duration_ns(text) is None


@pytest.mark.parametrize(("kind", "good", "span"), [
    (positive, ["1", "10000000000"], "from 1 on"), (processors, ["1", "1024"], "from 1 to 1024"), (several, ["2", "99"], "from 2 on"),
    (bootstrap_seed, ["0", "1" * 30], "from 0 on"), (seed_number, ["0", "2147483647"], "from 0 to 2147483647")])
def test_whole_numbers(kind: Callable[[str], int], good: list[str], span: str) -> None:
    assert [kind(text) for text in good] == [int(text) for text in good]
    for text in ("", "-1", "+5", " 5", "1_0", "٣", "1.5", "nan", "1e3", "9" * 5000):
        with pytest.raises(argparse.ArgumentTypeError, match=f"expected a whole number {span}"):
            kind(text)


@pytest.mark.parametrize("words", [["tune", "--alloc", "glibc", "t.bin"], ["try"], ["forecast", "--to", "1h", "t.bin"]], ids=lambda words: words[0])
def test_processors_beyond_what_replay_shows_are_refused_at_once(tmp_path: Path, words: list[str]) -> None:
    """Before a program is recorded, for one."""
    for number in ("0", "1025"):
        done = run_here(words[0], "--cpus", number, *words[1:], *(["--", "true"] if words[0] == "try" else []), cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and f"--cpus {number}: expected a whole number from 1 to 1024" in done.stderr
    assert list(tmp_path.iterdir()) == []
