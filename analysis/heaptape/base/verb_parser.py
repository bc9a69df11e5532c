# SPDX-License-Identifier: Apache-2.0
"""What a verb says of itself: its option table, and all that --help prints besides, in the same words and columns as
base/verb_page.c does for the verbs in C. Man pages, completion and the reference are made from the same tables
(`heaptape help --json`, cli/pages.py). Needs Python's library alone."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

from .arguments import did_you_mean
from .environment import terminal_columns
from .text import printable

Facts = Sequence[tuple[str, str]]
"""Names, and what is to be said of them."""

USUAL_STATUSES: Facts = (("0", "Done"), ("1", "Failed"), ("2", "Wrong usage"),
                         ("3", "The input is damaged, cut short, or of another format"))
_HELP_COLUMN, _COMMAND_COLUMN, _LIST_COLUMN, _STATUS_COLUMN, _HEAD_COLUMN = 29, 13, 6, 9, 8
_WIDTH_MAX = 100
_VERSION = Path(__file__).parents[1] / "VERSION"


class _Print(argparse.Action):
    """Prints what `const` makes of the parser, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_rest: object) -> NoReturn:
        sys.stdout.write(self.const(parser))
        sys.stdout.flush()
        parser.exit()


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb. usage has a line for each way to call it; an argument (metavar) names its kind in capitals, by which a
    shell completes it, and words in lower case with | between stand for themselves (base/verb_page.h)."""

    def __init__(self, name: str, usage: Sequence[str], description: str, *, examples: Facts, notes: str = "", files: Facts = (),
                 environment: Facts = (), see_also: Sequence[str] = (), statuses: Facts = USUAL_STATUSES) -> None:
        super().__init__(prog=f"heaptape {name}".rstrip(), add_help=False)
        self._page = {"name": name, "usage": list(usage), "description": description}
        self._more = {"notes": notes, "files": _dicts(files), "environment": _dicts(environment), "see_also": list(see_also),
                      "examples": _dicts(examples), "statuses": _dicts(statuses)}
        said: list[tuple[tuple[str, ...], Callable[[VerbParser], str], str]] = [
            (("-h", "--help"), VerbParser.format_help, "Print this help"), (("--usage",), VerbParser.format_usage, "Print the usage"),
            (("-V", "--version"), lambda _: f"heaptape {_VERSION.read_text()}", "Print the version")]
        self._usual = [self.add_argument(*flags, action=_Print, nargs=0, const=made, help=words) for flags, made, words in said]

    def table(self) -> dict[str, Any]:
        """The table that `heaptape help --json` prints."""
        own = [action for action in self._actions if action.option_strings and action not in self._usual]
        return self._page | {"options": [_option(action) for action in own + self._usual]} | self._more

    def format_usage(self) -> str:
        return _usage(self.table(), self.prog)

    def format_help(self) -> str:
        # As printed there: --help is what goes to standard output.
        return help_text(self.table(), self.prog, terminal_columns(sys.stdout) or 80)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Complains of what is left over in the words of getopt, which the verbs in C use."""
        found, rest = self.parse_known_args(args, namespace)
        wrong = next((word for word in rest if word.startswith("-")), "")
        if rest:
            self.error(f"unrecognized option '{wrong.partition('=')[0]}'{did_you_mean(wrong.partition('=')[0], self._option_string_actions)}" if wrong
                       else f"{rest[0]}: expected no further argument")
        return found

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            raise argparse.ArgumentError(None, _said_of(action, arg_string, error.message)) from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            words = f"expected one of {', '.join(map(str, action.choices))}{did_you_mean(str(value), map(str, action.choices))}"
            raise argparse.ArgumentError(None, _said_of(action, str(value), words))

    def error(self, message: str) -> NoReturn:
        """The standard library's words become getopt's and ours."""
        message = message.replace("the following arguments are required: ", "expected ")
        message = re.sub(r"^argument (?:\S+/)?(\S+): expected one argument$", r"option '\1' requires an argument", message)
        message = re.sub(r"^argument (?:\S+/)?(\S+): not allowed with argument (?:\S+/)?(\S+)$", r"\1: expected no \2 with it", message)
        message = re.sub(r"^argument (?:\S+/)?(\S+): ", r"\1: ", message)
        print(f"{self.prog}: {printable(message)}\nTry `{self.prog} --help' or `{self.prog} --usage' for more information.",
              file=sys.stderr)
        sys.exit(2)


def _said_of(action: argparse.Action, value: str, words: str) -> str:
    """ "--to x: expected a time", or of an argument "x: expected a process id"."""
    return f"{' '.join([*action.option_strings[-1:], value])}: {words}"


def _dicts(facts: Facts) -> list[dict[str, str]]:
    return [{"name": name, "help": words} for name, words in facts]


def _option(action: argparse.Action) -> dict[str, str]:
    """A letter and a name at most."""
    *letter, name = action.option_strings
    fields = {"short": "".join(letter)[1:], "long": name[2:], "argument": str(action.metavar or ""), "help": str(action.help)}
    return {key: value for key, value in fields.items() if value}


def _fill(text: str, column: int, indent: int, width: int) -> str:
    """The text from this column on, with lines that begin at the indent."""
    made = ""
    for number, paragraph in enumerate(text.split("\n")):
        if number:
            made, column = f"{made}\n{'':{indent}}", indent
        for word in paragraph.split(" "):
            if column > indent and column + 1 + len(word) > width:
                made, column = f"{made}\n{'':{indent}}", indent
            elif column > indent:
                made, column = made + " ", column + 1
            made, column = made + word, column + len(word)
    return made


def _head(head: str, width: int) -> str:
    """Too long for a line, it goes on behind one of its bars."""
    made, column = "  ", 2
    for part in re.findall(r"[^|]*\||[^|]+", head):
        if column > _HEAD_COLUMN and column + len(part) > width:
            made, column = f"{made}\n{'':{_HEAD_COLUMN}}", _HEAD_COLUMN
        made, column = made + part, column + len(part)
    return made


def _item(head: str, words: str, indent: int, width: int) -> str:
    begin = f"  {head}".ljust(indent) if len(head) + 4 <= indent else f"{_head(head, width)}\n{'':{indent}}"
    return begin + _fill(words, indent, indent, width) + "\n"


def _list(title: str, facts: list[dict[str, str]], indent: int, width: int) -> str:
    return f"\n{title}:\n" * bool(facts) + "".join(_item(fact["name"], fact["help"], indent, width) for fact in facts)


def _usage(table: dict[str, Any], name: str) -> str:
    return "".join(f"{'   or:' if number else 'Usage:'} {name} [OPTION...] {line}\n" for number, line in enumerate(table["usage"]))


def option_head(option: dict[str, str]) -> str:
    """-o, --output=FILE"""
    letter = f"-{option['short']}, " if "short" in option else "    "
    return f"{letter}--{option['long']}" + (f"={option['argument']}" if "argument" in option else "")


def help_text(table: dict[str, Any], name: str, columns: int) -> str:
    """What --help prints; name is what the verb was called by."""
    width = min(columns, _WIDTH_MAX) - 1
    text = _usage(table, name) + _fill(table["description"], 0, 0, width) + "\n"
    text += _list("Verbs", table.get("commands", []), _COMMAND_COLUMN, width) + "\n"
    for number, (group, options) in enumerate(groupby(table["options"], lambda option: option.get("group"))):
        text += ("\n" if number else "") + (f"{group}:\n" if group else "")
        text += "".join(_item(option_head(option), option["help"], _HELP_COLUMN, width) for option in options)
    text += f"\n{_fill(table['notes'], 0, 0, width)}\n" if table["notes"] else ""
    text += _list("Files", table["files"], _HELP_COLUMN, width) + _list("Environment", table["environment"], _HELP_COLUMN, width)
    text += f"\nSee also: {', '.join(f'heaptape {verb}' for verb in table['see_also'])}\n" if table["see_also"] else ""
    text += _list("Examples" if len(table["examples"]) > 1 else "Example", table["examples"], _LIST_COLUMN, width)
    return text + _list("Exit status", table["statuses"], _STATUS_COLUMN, width)
