# SPDX-License-Identifier: Apache-2.0
"""For mkdocs: files outside of docs/ to which its pages link are on the site too, under source/; the navigation has the headings and the order of
docs/README.md and guide/README.md; two example pages are made of what real runs left."""

from __future__ import annotations

import re
import sys
from os.path import dirname, join, normpath, relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

TREE = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=(?:#[^)\s]*)?\))")
NAMED = re.compile(r"\[([^\]]+)\]\(([^)\s:#]+\.md)(?:#[^)\s]*)?\)")
PICTURE = re.compile(r'(?<=src=")[^":]+(?=")|(?<=srcset=")[^":]+(?=")')
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
DOCS, SOURCE, GUIDES = "docs/", "source/", "guide/README.md"
EXAMPLES = {"examples/report.html": "A report", "examples/explain.html": "A page of explain"}
SHOWN = "Pages that heaptape writes, to open before anything is installed: [a report](examples/report.html), [a page of `explain`](examples/explain.html)."


def _in_tree(uri: str) -> str:
    return uri.removeprefix(SOURCE) if uri.startswith(SOURCE) else DOCS + uri


def _on_site(path: str) -> str:
    return path.removeprefix(DOCS) if path.startswith(DOCS) else SOURCE + path


def _text(page: str) -> str:
    return CODE.sub("", (TREE / page).read_text())


def _links(page: str) -> list[str]:
    """Paths in the tree."""
    return [normpath(join(dirname(page), link)) for link in LINK.findall(_text(page))]


def _named(index: str, text: str, left: set[str]) -> list[dict[str, Any]]:
    """Pages to which this part of an index links, by the names that they have there; taken from those that are left."""
    pages = []
    for name, link in NAMED.findall(text):
        uri = normpath(join(dirname(index), link))
        if uri in left:
            left.remove(uri)
            pages.append({name.strip("`*"): uri})
    return pages


def _navigation(uris: list[str]) -> list[dict[str, Any]]:
    """The headings of the index. A folder's pages follow the page of its name."""
    left = set(uris) - {"README.md", GUIDES}
    begin, *parts = re.split(r"^## +(.+)$", _text(DOCS + "README.md"), flags=re.MULTILINE)
    made: list[dict[str, Any]] = [{"Overview": "README.md"}, *_named("README.md", begin, left)]
    made.insert(1, {"Guides": [{"All guides": GUIDES}, *_named(GUIDES, _text(DOCS + GUIDES), left)]})
    made.insert(2, {"Examples": [{title: uri} for uri, title in EXAMPLES.items()]})
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        pages = _named("README.md", text, left)
        folders = {uri.removesuffix(".md") for page in pages for uri in page.values()}
        more = sorted(uri for uri in left if dirname(uri) in folders)
        left.difference_update(more)
        made += [{title: pages + more}] if pages else []
    return [*made, *([{"More": sorted(left)}] if left else [])]


def on_files(files: Files, config: Any) -> Files:
    uris = [file.src_uri for file in files.documentation_pages()]
    config.nav = _navigation(uris)
    to_read = [*map(_in_tree, uris)]
    for page in to_read:
        for path in _links(page):
            if (TREE / path).is_file() and files.get_file_from_path(_on_site(path)) is None:
                files.append(File.generated(config, _on_site(path), abs_src_path=str(TREE / path),
                                            inclusion=InclusionLevel.NOT_IN_NAV))
                to_read += [path] if path.endswith(".md") else []
    sys.path.insert(0, str(TREE / "bench/figures"))
    import pictures

    for name, page in pictures.EXAMPLES.items():
        files.append(File.generated(config, f"examples/{name}", content=page()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri

    def target(link: str) -> str:
        return _on_site(normpath(join(dirname(_in_tree(uri)), link)))

    # A link becomes the address of a page; what stands in HTML stays as it is.
    moved = LINK.sub(lambda link: relpath(target(link[0]), dirname(uri)), markdown)
    drawn = PICTURE.sub(lambda link: relpath(target(link[0]), dirname(page.file.url)), moved)
    return drawn.replace("\n## ", f"\n{SHOWN}\n\n## ", 1) if uri == "README.md" else drawn
