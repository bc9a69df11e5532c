#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes man pages, completion and the reference from the tables that `heaptape VERB --help` is printed from. Needs Python's
library alone.

    cli/pages.py --markdown docs/reference/commands.md      # after a change of an option, once it is built
    cli/pages.py --into FOLDER                              # what the build does, for man pages and completion
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import completion

ROOT = Path(__file__).resolve().parents[1]


def read_tables(heaptape: list[str]) -> list[dict[str, Any]]:
    """The program's own table, then the verbs' in the order in which it lists them."""
    environment = os.environ | {"HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*heaptape, "help", "--json"], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    front_end, *verbs = map(json.loads, done.stdout.splitlines())
    order = [command["name"] for command in front_end["commands"]]
    summaries = {command["name"]: command["help"] for command in front_end["commands"]}
    for verb in verbs:
        verb["summary"] = summaries[verb["name"]]
    front_end["summary"] = "record heap calls, replay them under any malloc, compare"
    return [front_end, *sorted(verbs, key=lambda verb: order.index(verb["name"]))]


# ---- the reference ----

def option_head(option: dict[str, str]) -> str:
    """-o, --output=FILE"""
    letter = f"-{option['short']}, " if "short" in option else ""
    return f"{letter}--{option['long']}" + (f"={option['argument']}" if "argument" in option else "")


def _items(title: str, facts: list[dict[str, str]]) -> str:
    marks = str.maketrans({mark: f"\\{mark}" for mark in "*<_"})
    return f"\n{title}:\n\n" * bool(facts) + "".join(f"- `{fact['name']}`: {fact['help'].translate(marks)}\n" for fact in facts)


def _section(table: dict[str, Any], usual: dict[str, Any]) -> str:
    name = f"heaptape {table['name']}".rstrip()
    own = [option for option in table["options"] if table is usual or option not in usual["options"]]
    options = "".join(_items(group or "Options", [{"name": option_head(option), "help": option["help"]} for option in found])
                      for group, found in groupby(own, lambda option: option.get("group")))
    statuses = [fact for fact in table["statuses"] if table is usual or fact not in usual["statuses"]]
    text = f"\n## {name}\n" + "".join(f"    {name} [OPTION...] {line}\n" for line in table["usage"])
    text += "".join(f"\n{paragraph}\n" for part in ("description", "notes") for paragraph in table[part].split("\n") if paragraph)
    text += options + _items("Files", table["files"]) + _items("Environment", table["environment"])
    links = ", ".join(f"[{verb}](#heaptape-{verb})" for verb in table["see_also"])
    return text + _items("Exit status", statuses) + f"\nSee also {links}.\n" * bool(links)


def markdown(tables: list[dict[str, Any]]) -> str:
    """The reference, one page. What all verbs have is in the program's own section alone."""
    links = "".join(f"- [{table['name']}](#heaptape-{table['name']}): {table['summary']}\n" for table in tables[1:])
    examples = "".join(f"{example['name']}   # {example['help']}\n" for table in tables[1:] for example in table["examples"])
    return ("# Commands\n\nWhat `heaptape VERB --help` prints, but for the options and exit statuses that all verbs have: they are "
            "[heaptape's](#heaptape). `cli/pages.py --markdown docs/reference/commands.md` writes this page from the option tables.\n"
            f"\n{links}\n## By example\n```sh\n{examples}```\n{''.join(_section(table, tables[0]) for table in tables)}")


# ---- man pages: man(7), which man-db and mandoc both read ----

def _man_text(words: str) -> str:
    """Prose. Where a word begins with -, it is to stay one that can be pasted; no line begins with a control character."""
    escaped = re.sub(r"(?<!\w)-|(?<=-)-", r"\\-", words.replace("\\", "\\e"))
    lines = textwrap.wrap(escaped, 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join(re.sub(r"^(?=[.'])", r"\\&", line) for line in lines)


def _man_code(words: str) -> str:
    """What is typed: every - is one, and quotes are straight."""
    return words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("~", "\\(ti").replace("^", "\\(ha")


def _man_argument(words: str) -> str:
    """Words in capitals are to be replaced; a line may end behind |."""
    return re.sub(r"[A-Z][A-Z_]+|\bN\b", lambda found: f"\\fI{found[0]}\\fR", _man_code(words)).replace("|", "|\\:")


def _man_head(option: dict[str, str]) -> str:
    letter = f"\\fB\\-{option['short']}\\fR, " if "short" in option else ""
    argument = f"={_man_argument(option['argument'])}" if "argument" in option else ""
    return f"{letter}\\fB{_man_code('--' + option['long'])}\\fR{argument}"


def _man_section(title: str, lines: list[str]) -> list[str]:
    return [f".SH {title}", *lines] if lines else []


def _man_items(facts: list[dict[str, str]]) -> list[str]:
    return [line for fact in facts for line in (".TP", f"\\fB{_man_code(fact['name'])}\\fR", _man_text(fact["help"]))]


def _man_paragraphs(*texts: str) -> list[str]:
    paragraphs = [_man_text(paragraph) for text in texts for paragraph in text.split("\n") if paragraph]
    return "\n.PP\n".join(paragraphs).split("\n")


def _man_page(table: dict[str, Any], version: str, date: str) -> str:
    name = f"heaptape-{table['name']}".rstrip("-")
    synopsis = [line for usage in table["usage"]
                for line in (".br", f"\\fB{_man_code(name.replace('-', ' ', 1))}\\fR [\\fIOPTION\\fR...] {_man_argument(usage)}".rstrip())][1:]
    options = [line for group, found in groupby(table["options"], lambda option: option.get("group"))
               for line in (([f".SS {_man_text(group)}"] if group else []) + [word for option in found for word in (".TP", _man_head(option), _man_text(option["help"]))])]
    examples = [line for example in table["examples"]
                for line in (".PP", _man_text(example["help"] + ":" * (example["help"][-1] != "?")), ".PP", ".RS 4", ".nf", _man_code(example["name"]), ".fi", ".RE")][1:]
    others = [f"heaptape-{verb}" for verb in table["see_also"]] or []
    see_also = sorted({"heaptape", *others} - {name})
    lines = [f'.TH {name.upper()} 1 {date} "heaptape {version}" "User Commands"', ".nh", ".ad l",
             ".SH NAME", f"{_man_code(name)} \\- {table['summary']}", *_man_section("SYNOPSIS", synopsis),
             *_man_section("DESCRIPTION", _man_paragraphs(table["description"], table["notes"])),
             *_man_section("VERBS", _man_items(table.get("commands", []))), *_man_section("OPTIONS", options),
             *_man_section("EXIT STATUS", _man_items(table["statuses"])), *_man_section("ENVIRONMENT", _man_items(table["environment"])),
             *_man_section("FILES", _man_items(table["files"])), *_man_section("EXAMPLES", examples),
             *_man_section("SEE ALSO", [f".BR {_man_code(other)} (1)" + "," * (other != see_also[-1]) for other in see_also])]
    return "\n".join(lines) + "\n"


def man_pages(tables: list[dict[str, Any]]) -> dict[str, str]:
    """By file name."""
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    version, date = tables[0]["version"], time.strftime("%Y-%m-%d", moment)
    made = {f"man/heaptape{'-' * bool(table['name'])}{table['name']}.1": _man_page(table, version, date) for table in tables}
    return made | {"man/replay.1": ".so man1/heaptape-replay.1\n"}


def main() -> None:
    """Writes what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the reference")
    parser.add_argument("--into", type=Path, metavar="DIR", help="write man pages and completion into DIR/man, bash, zsh and fish")
    parser.add_argument("--children", default="../libexec/heaptape", metavar="DIR", help="where replay-NAME is, seen from bin")
    parser.add_argument("heaptape", nargs="*", default=[str(ROOT / "build" / "heaptape")], help="the program, behind an emulator or not")
    options = parser.parse_args()
    tables = read_tables(options.heaptape)
    files: dict[Path, str] = {options.markdown: markdown(tables)} if options.markdown else {}
    if options.into:
        made = man_pages(tables) | completion.scripts(tables, options.children)
        files |= {options.into / name: text for name, text in made.items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
