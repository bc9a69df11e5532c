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
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import completion
import man_pages

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


def _items(title: str, facts: list[dict[str, str]]) -> str:
    marks = str.maketrans({mark: f"\\{mark}" for mark in "*<_"})
    return f"\n{title}:\n\n" * bool(facts) + "".join(f"- `{fact['name']}`: {fact['help'].translate(marks)}\n" for fact in facts)


def _section(table: dict[str, Any], usual: dict[str, Any]) -> str:
    name = f"heaptape {table['name']}".rstrip()
    own = [option for option in table["options"] if table is usual or option not in usual["options"]]
    options = "".join(_items(group or "Options", [{"name": man_pages.option_head(option), "help": option["help"]} for option in found])
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
        made = man_pages.pages(tables) | completion.scripts(tables, options.children)
        files |= {options.into / name: text for name, text in made.items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
