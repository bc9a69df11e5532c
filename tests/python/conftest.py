"""Shared fixtures. The package is taken from the tree where it is not installed."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

# Hypothesis keeps its examples in the working directory unless told otherwise; the tree is to stay as it is.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "heaptape-hypothesis"))

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SMALL_BYTES = 100_000
sys.path[:0] = [str(ROOT / "analysis"), str(HERE)]


@pytest.fixture(scope="session")
def heaptape_binary() -> Path:
    """The built front end; tests that need it are skipped, with the reason, where it was not built."""
    binary = Path(os.environ.get("HEAPTAPE_BUILD", ROOT / "build")) / "heaptape"
    if not binary.is_file():
        pytest.skip(f"{binary} was not built")
    return binary


@pytest.fixture(scope="session")
def recorded_traces() -> list[Path]:
    """Real traces of the repository, with those that HEAPTAPE_TEST_TRACES names (separated by colons). What goes
    through them event by event takes a second for 100,000, so of the repository's only the small ones."""
    named = [Path(name) for name in os.environ.get("HEAPTAPE_TEST_TRACES", "").split(":") if name]
    shipped = sorted([*(ROOT / "traces").glob("*.bin"), *(ROOT / "tests/golden").glob("*.bin")])
    found = named + [path for path in shipped if path.stat().st_size < SMALL_BYTES]
    if not found:
        pytest.skip("there is no small trace in traces/ and HEAPTAPE_TEST_TRACES names none")
    return found
