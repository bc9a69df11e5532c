"""Times in options, by the examples that the C verbs are held to as well."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest
from heaptape.base.arguments import duration, duration_ns

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
