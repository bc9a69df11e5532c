# SPDX-License-Identifier: Apache-2.0
"""The site of the documents: mkdocs builds it without a warning, and every link of it leads to a page of it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

LINK = re.compile(r'(?:href|src)="([^"#:]+)["#]')


@pytest.mark.thorough
def test_the_site_is_whole(repository: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed (pip install './analysis[docs]')")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path], cwd=repository, text=True,
                          capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert tmp_path / "source/traces/index.html" in pages  # docs/ links to traces/README.md
    wrong = []
    for page in pages:
        for link in LINK.findall(page.read_text()):
            target = tmp_path / link.lstrip("/") if link.startswith("/") else page.parent / link
            if not (target / "index.html" if target.is_dir() or link.endswith("/") else target).exists():
                wrong.append(f"{page.relative_to(tmp_path)}: {link}")
    assert not wrong
