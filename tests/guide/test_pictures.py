# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents: each in light and in dark, described, small, and as the report and `explain` draw today."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tree_files import tree_files

PICTURE = re.compile(r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)-dark\.(svg|png)"><img alt="([^"]+)" src="([^"]+)-light\.(svg|png)"(?: width="\d+")?></picture>')
LENGTH = range(40, 500)


@pytest.fixture
def pictures(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "bench/figures"))
    import pictures

    return pictures


def test_pictures_in_pages(repository: Path) -> None:
    """Whole elements, of files of at most 150 kB, with words that say what is to be seen; and no file that no page shows."""
    wrong, shown = [], set()
    for page in (repository / name for name in tree_files(repository, "*.md")):
        text = page.read_text()
        found = PICTURE.findall(text)
        if len(found) != text.count("<img"):
            wrong.append(f"{page.name}: a picture that is not written as the others")
        for dark, dark_kind, words, light, light_kind in found:
            if (dark, dark_kind) != (light, light_kind) or len(words) not in LENGTH:
                wrong.append(f"{page.name}: {light}")
            for scheme in ("light", "dark"):
                path = (page.parent / f"{light}-{scheme}.{light_kind}").resolve()
                shown.add(path)
                if not path.is_file() or path.stat().st_size > 150_000:
                    wrong.append(f"{page.name}: {path.name}: missing, or more than 150 kB")
    assert not wrong
    assert {path.resolve() for path in (repository / "docs/pictures").iterdir()} == shown


def test_pictures_are_current(pictures: ModuleType) -> None:
    """What each is drawn from is made anew, and compared."""
    outdated = [picture.path(scheme).name for picture, scheme in pictures.outdated()]
    assert not outdated, "they would look otherwise now; run: bench/figures/pictures.py (apt-get install --no-install-recommends chromium pngquant)"


def test_a_change_of_the_style_is_seen(pictures: ModuleType) -> None:
    page = pictures.report_page()
    part = pictures.part_of(page, "light", "<header>", "<nav")
    assert part != pictures.part_of(page.replace("--paper: #fdfdfb", "--paper: #fdfdfa"), "light", "<header>", "<nav")
    assert part != pictures.part_of(page, "dark", "<header>", "<nav") and "prefers-color-scheme" not in part
    assert sys.getsizeof(part) < sys.getsizeof(page)
