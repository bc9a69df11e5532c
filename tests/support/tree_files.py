# SPDX-License-Identifier: Apache-2.0
"""Which files belong to the tree: git knows, new ones included that it does not ignore."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def tree_files(repository: Path, pattern: str = "*") -> list[str]:
    """Their paths in the tree. Skips the test where this is no checkout."""
    if not (repository / ".git").exists():
        pytest.skip("this is no checkout of git, which knows what belongs to the tree")
    done = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard", "--", pattern], cwd=repository, capture_output=True, text=True, timeout=60, check=True)
    return [name for name in done.stdout.split("\0") if name and (repository / name).exists()]
