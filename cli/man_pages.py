# SPDX-License-Identifier: Apache-2.0
"""Option tables as man pages: man(7), which man-db and mandoc both read."""

from __future__ import annotations

import os
import re
import textwrap
import time
from itertools import groupby
from typing import Any


def option_head(option: dict[str, str]) -> str:
    """-o, --output=FILE"""
    letter = f"-{option['short']}, " if "short" in option else ""
    return f"{letter}--{option['long']}" + (f"={option['argument']}" if "argument" in option else "")


def _text(words: str) -> str:
    """Prose. Where a word begins with -, it is to stay one that can be pasted; no line begins with a control character."""
    escaped = re.sub(r"(?<!\w)-|(?<=-)-", r"\\-", words.replace("\\", "\\e"))
    lines = textwrap.wrap(escaped, 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join(re.sub(r"^(?=[.'])", r"\\&", line) for line in lines)


def _code(words: str) -> str:
    """What is typed: every - is one, and quotes are straight."""
    return words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("~", "\\(ti").replace("^", "\\(ha")


def _argument(words: str) -> str:
    """Words in capitals are to be replaced; a line may end behind |."""
    return re.sub(r"[A-Z][A-Z_]+|\bN\b", lambda found: f"\\fI{found[0]}\\fR", _code(words)).replace("|", "|\\:")


def _head(option: dict[str, str]) -> str:
    letter = f"\\fB\\-{option['short']}\\fR, " if "short" in option else ""
    argument = f"={_argument(option['argument'])}" if "argument" in option else ""
    return f"{letter}\\fB{_code('--' + option['long'])}\\fR{argument}"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f".SH {title}", *lines] if lines else []


def _items(facts: list[dict[str, str]]) -> list[str]:
    return [line for fact in facts for line in (".TP", f"\\fB{_code(fact['name'])}\\fR", _text(fact["help"]))]


def _paragraphs(*texts: str) -> list[str]:
    paragraphs = [_text(paragraph) for text in texts for paragraph in text.split("\n") if paragraph]
    return "\n.PP\n".join(paragraphs).split("\n")


def _page(table: dict[str, Any], version: str, date: str) -> str:
    name = f"heaptape-{table['name']}".rstrip("-")
    synopsis = [line for usage in table["usage"]
                for line in (".br", f"\\fB{_code(name.replace('-', ' ', 1))}\\fR [\\fIOPTION\\fR...] {_argument(usage)}".rstrip())][1:]
    options = [line for group, found in groupby(table["options"], lambda option: option.get("group"))
               for line in (([f".SS {_text(group)}"] if group else []) + [word for option in found for word in (".TP", _head(option), _text(option["help"]))])]
    examples = [line for example in table["examples"]
                for line in (".PP", _text(example["help"] + ":" * (example["help"][-1] != "?")), ".PP", ".RS 4", ".nf", _code(example["name"]), ".fi", ".RE")][1:]
    others = [f"heaptape-{verb}" for verb in table["see_also"]] or []
    see_also = sorted({"heaptape", *others} - {name})
    lines = [f'.TH {name.upper()} 1 {date} "heaptape {version}" "User Commands"', ".nh", ".ad l",
             ".SH NAME", f"{_code(name)} \\- {table['summary']}", *_section("SYNOPSIS", synopsis),
             *_section("DESCRIPTION", _paragraphs(table["description"], table["notes"])),
             *_section("VERBS", _items(table.get("commands", []))), *_section("OPTIONS", options),
             *_section("EXIT STATUS", _items(table["statuses"])), *_section("ENVIRONMENT", _items(table["environment"])),
             *_section("FILES", _items(table["files"])), *_section("EXAMPLES", examples),
             *_section("SEE ALSO", [f".BR {_code(other)} (1)" + "," * (other != see_also[-1]) for other in see_also])]
    return "\n".join(lines) + "\n"


def pages(tables: list[dict[str, Any]]) -> dict[str, str]:
    """By file name."""
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    version, date = tables[0]["version"], time.strftime("%Y-%m-%d", moment)
    made = {f"man/heaptape{'-' * bool(table['name'])}{table['name']}.1": _page(table, version, date) for table in tables}
    return made | {"man/replay.1": ".so man1/heaptape-replay.1\n"}
