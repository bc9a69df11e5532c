# SPDX-License-Identifier: Apache-2.0
"""The documents: links and commands name what there is. Source files name their licence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tool_runner import Tools
from tree_files import tree_files

SOURCE = re.compile(r"(\.(awk|c|cmake|cpp|css|gdb|go|h|j2|java|js|lua|pgbench|php|pl|py|rb|rs|sh|sql|vim|xsl)|(^|/)CMakeLists\.txt|^Containerfile|^\.ci/run|^debian/rules)$")
INPUTS = re.compile(r"^tests/golden/(?!.*\.py$)")
WORDS_MAX = {"README.md": 800, "NEWS.md": 700, "CONTRIBUTING.md": 1500, "docs/skill.md": 600, "docs/method/method.md": 6000, "docs/": 38_000}
WRITTEN_BY_SCRIPTS = re.compile(r"docs/reference/(commands|compatibility|allocators(/.*)?)\.md|docs/method/validity(/public-cases)?\.md")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def files(repository: Path, pattern: str) -> list[Path]:
    return [repository / name for name in tree_files(repository, pattern)]


def documents(repository: Path) -> list[Path]:
    return files(repository, "*.md")


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere(repository: Path) -> None:
    wrong = []
    for document in documents(repository):
        for link in LINK.findall(re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (document.parent / name).resolve() if name else document
            if not target.exists():
                wrong.append(f"{document.relative_to(repository)}: {link}")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                wrong.append(f"{document.relative_to(repository)}: {link}: no such heading")
    assert not wrong


def test_every_page_is_reached(repository: Path) -> None:
    """From the README, by links."""
    seen, to_read = set(), [repository / "README.md"]
    while to_read:
        document = to_read.pop()
        if document in seen or document.suffix != ".md" or not document.exists():
            continue
        seen.add(document)
        to_read += [(document.parent / link.partition("#")[0]).resolve() for link in LINK.findall(document.read_text())
                    if not re.match(r"[a-z]+:|#", link)]
    pages = {path for path in documents(repository) if path.is_relative_to(repository / "docs")}
    assert pages <= seen, sorted(str(path) for path in pages - seen)


def commands(text: str) -> list[str]:
    """What the code of a page types: lines of blocks, without prompts and comments, and code within lines."""
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    typed = "\n".join(blocks).replace("\\\n> ", "").replace("\\\n", "").splitlines()
    return [line.partition(" #")[0] for line in typed] + re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


@pytest.fixture(scope="module")
def options(tools: Tools) -> dict[str, set[str]]:
    """Of each verb, long ones and short ones."""
    tables = [json.loads(line) for line in tools.succeed([tools.heaptape, "help", "--json"]).stdout.splitlines()]
    return {table["name"]: {f"--{option['long']}" for option in table["options"] if "long" in option}
            | {f"-{option['short']}" for option in table["options"] if "short" in option} for table in tables}


@pytest.mark.thorough
def test_commands_have_verbs_options_and_files_that_exist(repository: Path, options: dict[str, set[str]]) -> None:
    wrong, seen = [], 0
    for document in documents(repository):
        for command in commands(document.read_text()):
            for part in re.split(r"&& | \| |; |\$\(", command):
                found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?heaptape (?!help )([a-z]+)(?= )(.*)", part)
                if re.match(r"(?:\$ )?(?:\S*/)?replay ", part):
                    wrong.append(f"{document.relative_to(repository)}: {part}: expected heaptape replay")
                elif found and found[1] not in options:
                    wrong.append(f"{document.relative_to(repository)}: {part}: no such verb")
                elif found:
                    seen += 1
                    own = re.split(r" -- | --wrap|'", found[2])[0]
                    strange = set(re.findall(r"(?<= )--[a-z][\w-]*|(?<= )-[a-zA-Z](?= |$)", own)) - options[found[1]]
                    wrong += [f"{document.relative_to(repository)}: {part}: no option {name}" for name in strange]
            wrong += [f"{document.relative_to(repository)}: {command}: no file {name}"
                      for name in re.findall(r"(?<![\w/.])(?:bench|tests|debian|cli|traces)/[\w./-]+\.(?:py|sh|bin|rb|toml)\b", command)
                      if "NAME" not in name and not (repository / name).exists()]
    assert not wrong, "\n".join(wrong)
    assert seen > 150


def words(path: Path) -> int:
    """Bars of tables and marks are none."""
    return sum(bool(re.search(r"\w", token)) for token in path.read_text().split())


@pytest.mark.parametrize("name", WORDS_MAX)
def test_a_reader_has_the_time(repository: Path, name: str) -> None:
    pages = [page for page in files(repository, f"{name}*.md" if name.endswith("/") else name)
             if not WRITTEN_BY_SCRIPTS.fullmatch(str(page.relative_to(repository)))]
    assert pages and sum(map(words, pages)) <= WORDS_MAX[name]


def test_figures_of_the_readme_are_those_of_the_evidence(repository: Path) -> None:
    """Those of tables are taken from there; each of the others stands in the paper too."""
    method = repository / "docs" / "method"
    readme, validity, cases = (path.read_text() for path in (repository / "README.md", method / "validity.md", method / "validity" / "public-cases.md"))
    table = {cells[0]: cells[1:] for line in validity.splitlines() if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) > 2}
    sets = table["over all"][:-1]
    for name, words in {"programs": "28 programs", "others": "27 others", "services": "five threaded services", "large": "eleven of up to"}.items():
        found = [re.match(r"[\d.]+ %", table[f"peak RSS: {row}"][sets.index(name)]) for row in ("error, median", "worst error")]
        assert "{} and {} for {}".format(*(figure and figure[0] for figure in found), words) in readme
    for row, words in {"smallest and largest allocator as predicted": "right for {} of {} programs", "sign of changes above 1.0 % right": "{} of {} changes have",
                       "change held by the interval of `try`": "`try` holds {} of {}"}.items():
        shares = [re.match(r"(\d+) of (\d+), ", cell) for cell in table[f"peak RSS: {row}"][:len(sets)]]
        assert words.format(*(sum(int(share[at]) for share in shares if share) for at in (1, 2))) in readme
    asked = re.search(r"^(\d+) questions: (\d+) right, (\d+) wrong, (\d+) unknown", cases, re.MULTILINE)
    assert asked
    assert f"{asked[1]} questions of public reports: {asked[2]} right, {asked[4]} answered \"unknown\", {asked[3]} wrong" in readme
    figures = set(re.findall(r"\d[\d.]* %|\d+ to \d+ ns|\d+ of \d+", readme.partition("## How it works")[2]))
    paper = (method / "method.md").read_text()
    assert len(figures) > 8 and not [figure for figure in sorted(figures) if figure not in paper and figure not in validity]


def test_news_and_packages_have_the_version(repository: Path) -> None:
    version = (repository / "analysis" / "heaptape" / "VERSION").read_text().strip()
    news = re.search(r"^## ([\d.]+)", (repository / "NEWS.md").read_text(), re.MULTILINE)
    package = re.match(r"heaptape \(([\d.]+)\) ", (repository / "debian" / "changelog").read_text())
    assert news and package and {news[1], package[1]} == {version}
    listed = set(re.findall(r"^ (heaptape_\w+)@", (repository / "debian" / "libheaptape0.symbols").read_text(), re.MULTILINE))
    assert listed == set(re.findall(r"\b(heaptape_\w+);", (repository / "reader" / "symbols.map").read_text()))


def test_what_gcc_10_lacks_is_included(repository: Path) -> None:
    """By it the wheel is built; the compilers of tests have it all."""
    header = repository / "base" / "older_libc.h"
    lacking = re.findall(r"^#define (__builtin_\w+|SYS_\w+)", header.read_text(), re.MULTILINE)
    uses = re.compile(rf"\b({'|'.join(lacking)})\b")
    parts = ("base", "shim", "record", "replay", "walk")
    found = [path for path in files(repository, "*.c") if path.relative_to(repository).parts[0] in parts and uses.search(path.read_text())]
    assert len(lacking) > 1 and len(found) > 4
    assert not [path for path in found if '#include "older_libc.h"' not in path.read_text()]


def test_source_files_name_their_licence(repository: Path) -> None:
    """In the first line, or the one after what has to be the first."""
    names = [str(path.relative_to(repository)) for path in files(repository, "*")]
    sources = [name for name in names if SOURCE.search(name) and not INPUTS.search(name)]
    assert len(sources) > 1000
    wrong = [name for name in sources if not re.search(
        rf"SPDX-License-Identifier: {'GPL-3.0-or-later' if name.startswith('simulate/tool/') else 'Apache-2.0'}( |$)",
        "\n".join((repository / name).read_text().split("\n", 2)[:2]), re.MULTILINE)]
    assert not wrong
    assert "GNU GENERAL PUBLIC LICENSE" in (repository / "simulate" / "tool" / "COPYING").read_text()
