# SPDX-License-Identifier: Apache-2.0
"""For mkdocs: files outside of docs/ to which its pages link are on the site too, under source/; the navigation has the order of
the lists of pages."""

from __future__ import annotations

import re
from os.path import dirname, normpath, relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.utils import nest_paths

TREE = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=(?:#[^)\s]*)?\))")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LISTS = ["README.md", "guide/README.md"]
DOCS, SOURCE = "docs/", "source/"


def _in_tree(uri: str) -> str:
    return uri.removeprefix(SOURCE) if uri.startswith(SOURCE) else DOCS + uri


def _on_site(path: str) -> str:
    return path.removeprefix(DOCS) if path.startswith(DOCS) else SOURCE + path


def _links(page: str) -> list[str]:
    """Paths in the tree."""
    return [normpath(f"{dirname(page)}/{link}") for link in LINK.findall(CODE.sub("", (TREE / page).read_text()))]


def on_files(files: Files, config: Any) -> Files:
    uris = [file.src_uri for file in files.documentation_pages()]
    order = [name for page in LISTS for name in [page, *map(_on_site, _links(DOCS + page))]]
    config.nav = nest_paths(sorted(uris, key=lambda uri: order.index(uri) if uri in order else len(order)))
    to_read = [*map(_in_tree, uris)]
    for page in to_read:
        for path in _links(page):
            if (TREE / path).is_file() and files.get_file_from_path(_on_site(path)) is None:
                files.append(File.generated(config, _on_site(path), abs_src_path=str(TREE / path),
                                            inclusion=InclusionLevel.NOT_IN_NAV))
                to_read += [path] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        return relpath(_on_site(normpath(f"{dirname(_in_tree(uri))}/{link[0]}")), dirname(uri))

    return LINK.sub(moved, markdown)
