# SPDX-License-Identifier: Apache-2.0
"""A guide: its commands and the output that it quotes, and whether a command's output has the same shape.

A ```console block has commands behind `$ `, their further lines behind `> `, and what they print. `[...]` stands for any
lines; a command without output may print anything. Another block whose text before it ends in `NAME`: is that file. Figures, allocators and
verdicts may differ. test_guides.py runs all commands of a page in one shell, in an empty folder with bench/, traces/ and build/; if
a program is missing, the rest of the page is skipped."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

GAP = "[...]"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODELLED = re.compile(r"allocator +time in malloc +(modelled +)peak RSS$")
FILE_NAME = re.compile(r"`([\w./-]+)`[^`\n]*:\s*$")

# What another machine or another run prints otherwise. The order counts.
MASKS = [
    (re.compile(r"\x1b\[[\d;]*m"), ""),
    # Who leads, and who ties with whom: sentences of heaptape/results/verdicts.py and replay/report.
    (re.compile(r"^.*(^fastest:|is fastest|× as fast as|is clearly faster).*$"), "<who is fastest, who is smallest>"),
    (re.compile(r"(\S+ would save about \S+ %|[Nn]o other [\w ]*saves any of it)"), "<what is saved>"),
    # Of time and memory that comes first which differs.
    (re.compile(r"^(The program used .* of CPU time|At its peak the program held).*$"), "<what could be gained>"),
    # What `try` decides, and what follows it where the time is not resolved: heaptape/trial/.
    (re.compile(r"^(Keep \w+: |Not decided: |(Or |For (CPU|memory) alone, )?[\w ,:=]+: .* (less|more|same) (CPU|memory)).*$"), "<the decision>"),
    (re.compile(r"\d[\d.]* to (?=\d[\d.]* [kM]B)"), ""),  # of a group, where draws differ
    (re.compile(r"^The service, .*$"), "<the service's memory, and the decision>"),
    (re.compile(r"not resolved|no difference shown|the same|\d[\d.]*(×| %) (faster|slower|less|more)"), ""),
    (re.compile(r" unresolved( \([^)]*\))?| (faster|slower|smaller|larger|same within 1 %)$"), ""),
    (re.compile(r"\b(glibc|jemalloc|tcmalloc|mimalloc|tbbmalloc|scudo\d*)( \d[\w.]*)?"), "<allocator>"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "<commit>"),
    (re.compile(r"(?<![\w<])(/[\w.+-]+)+"), "<path>"),
    (re.compile(r" ?\[<?[−-]?[\d.,]+, [\d.,]+\]"), ""),
    (re.compile(r"[+−-]?\d[\d,.]*( ?(ns|us|µs|ms|s|kB|MB|GB|B|%))?(?!\w)"), "<figure>"),
    (re.compile(r"\s+"), " "),
]


@dataclass
class Command:
    """With its line in the page, and the lines that are quoted of what it prints."""

    text: str
    line: int
    quoted: list[str] = field(default_factory=list)


@dataclass
class Page:
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)


def read_page(text: str) -> Page:
    page = Page()
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        name = FILE_NAME.search(text[:block.start()])
        if kind == "console":
            page.commands += _commands(body, text[:block.start()].count("\n") + 2)
        elif name:
            assert name[1] not in page.files, f"{name[1]} is there twice"
            page.files[name[1]] = body
    return page


def _commands(body: str, first_line: int) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(body.splitlines(), first_line):
        if line.startswith("$ "):
            found.append(Command(line[2:], number))
        elif line.startswith("> ") and not found[-1].quoted:
            found[-1].text += "\n" + line[2:]
        else:
            found[-1].quoted.append(line)
    return found


def shape(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, instead in MASKS:
        line = pattern.sub(instead, line)
    return line.strip()


def without_modelled(lines: list[str]) -> list[str]:
    """The table of `try` without the column that it has where a time was not resolved."""
    kept = []
    start = end = 0
    for line in lines:
        if header := MODELLED.match(line):
            start, end = header.span(1)
        elif not line:
            start = end = 0
        kept.append(line[:start] + line[end:])
    return kept


def has_shape(quoted: list[str], printed: str) -> bool:
    if not quoted:
        return True
    pattern = "".join(r"(?:.*\n)*" if line.strip() == GAP else re.escape(shape(line)) + r"\n" for line in without_modelled(quoted))
    shapes = "".join(shape(line) + "\n" for line in without_modelled(printed.rstrip("\n").splitlines()))
    return re.fullmatch(pattern, shapes) is not None
