# SPDX-License-Identifier: Apache-2.0
"""The site of the documents: mkdocs builds it without a warning, every link and picture of it leads to a file of it, nothing is fetched from elsewhere, and
a search finds its pages."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

LINK = re.compile(r'(?:href|src|srcset)="([^"#:]+)["#]')
FETCHED = re.compile(r'<(?:script|img|source|iframe)[^>]*(?:src|srcset)="(https?:[^"]+)"|<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(https?:[^"]+)"')
EXAMPLES = {"report.html": "Memory over time", "explain.html": "What does RSS consist of?"}


@pytest.mark.thorough
def test_the_site_is_whole(repository: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed (pip install './analysis[docs]')")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path], cwd=repository, text=True,
                          capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert tmp_path / "source/CONTRIBUTING.html" in pages  # docs/ links to files outside of it
    wrong = []
    for page in pages:
        wrong += [f"{page.relative_to(tmp_path)}: fetches {found}" for found in FETCHED.findall(page.read_text())]
        for link in LINK.findall(page.read_text()):
            target = tmp_path / link.lstrip("/") if link.startswith("/") else page.parent / link
            if not (target / "index.html" if target.is_dir() or link.endswith("/") else target).exists():
                wrong.append(f"{page.relative_to(tmp_path)}: {link}")
    assert not wrong
    pictures = {path.name for path in (repository / "docs/pictures").iterdir()}
    assert pictures and pictures == {path.name for path in (tmp_path / "pictures").iterdir()}
    searched = {entry["location"].partition("#")[0] for entry in json.loads((tmp_path / "search/search_index.json").read_text())["docs"]}
    assert {"index.html", "guide/first-steps.html", "reference/explain.html"} <= {place or "index.html" for place in searched}
    for name, words in EXAMPLES.items():
        example = tmp_path / "examples" / name
        assert words in example.read_text() and example.stat().st_size < 1_000_000 and f'href="examples/{name}"' in (tmp_path / "index.html").read_text()
