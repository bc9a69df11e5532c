"""Fixtures that every test may use: where the build is, and a runner for its tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tool_runner import Tools

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def build() -> Path:
    """The build folder under test: $HEAPTAPE_BUILD, or the release preset's."""
    folder = Path(os.environ.get("HEAPTAPE_BUILD", REPOSITORY / "build")).resolve()
    if not (folder / "heaptape").exists():
        # No skip: a suite that tests nothing must not look green.
        pytest.fail(f"{folder}/heaptape is not there; build it with: cmake --preset release && "
                    "cmake --build --preset release", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def tools(build: Path) -> Tools:
    return Tools(build)
