# SPDX-License-Identifier: Apache-2.0
"""Text for people: made printable, in aligned tables, as outlined JSON, and on a line of stderr that is redrawn."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from .environment import terminal_columns

# ---- characters ----

# Control characters, those beyond ASCII too; what turns the direction of the text; ends of lines and paragraphs; bytes of
# file names that are no UTF-8.
_DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BYTE_THAT_IS_NO_UTF8 = range(0xDC80, 0xDD00)


def printable(text: str, keep: str = "") -> str:
    """The text with such characters in letters: \\x1b, \\u202e, \\xff for a byte that is no UTF-8. keep: those that are the
    text's own, as a document's newlines are."""
    def in_letters(match: re.Match[str]) -> str:
        code = ord(match[0])
        if match[0] in keep:
            return match[0]
        if code in _BYTE_THAT_IS_NO_UTF8:
            return f"\\x{code - 0xDC00:02x}"
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
    return _DANGEROUS.sub(in_letters, text)


def markdown_escaped(text: str) -> str:
    """One line of Markdown that shows the text as it is, in a heading or a cell too: names may hold anything."""
    for mark in "\\|*_`<>":
        text = text.replace(mark, f"\\{mark}")
    return printable(text.replace("\n", " "))


def outlined(found: dict[str, Any]) -> str:
    """JSON with a line for each key, and for each entry of an object of objects: short, and a person can read it."""
    def value(one: Any) -> str:
        if not isinstance(one, dict) or not any(isinstance(inner, dict) for inner in one.values()):
            return json.dumps(one)
        return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(inner)}" for key, inner in one.items()) + "\n }"

    return "{\n" + ",\n".join(f" {json.dumps(key)}: {value(one)}" for key, one in found.items()) + "\n}"


_GAP = "  "
_FOLDED_MIN = 12
"""Columns for what is folded; where there are fewer, nothing is."""


def table_lines(rows: Sequence[Sequence[str]], right: Collection[int] = (), columns: int | None = None,
                size: Callable[[str], int] = len) -> list[str]:
    """The heading first. right numbers the columns that are figures; columns is how wide it may be, 0: any width, None: as
    standard output is; size is how wide a text is."""
    widths = [max(map(size, cells)) for cells in zip(*rows, strict=True)]
    if columns is None:
        columns = terminal_columns(sys.stdout)
    last = len(widths) - 1
    room = columns - sum(widths[:last]) - last * len(_GAP)
    lines = []
    for row in rows:
        *cells, end = row
        parts = _folded(end, room, size) if last not in right and room >= _FOLDED_MIN else [end]
        for number, part in enumerate(parts):
            shown = [*([""] * last if number else cells), part]
            lines.append(_GAP.join(_aligned(cell, width - size(cell), i in right)
                                   for i, (cell, width) in enumerate(zip(shown, widths, strict=True))).rstrip(" "))
    return lines


def _aligned(cell: str, spaces: int, right: bool) -> str:
    return " " * spaces + cell if right else cell + " " * spaces


def _folded(text: str, room: int, size: Callable[[str], int]) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and size(lines[-1]) + 1 + size(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


# ---- a line that is redrawn ----

_LINE_S = 60


class ProgressLine:
    """Shown only if wanted; elsewhere than on a terminal at most once a minute, on a line of its own."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._drawn, self._begun = wanted, False, time.monotonic()
        self._terminal, self._said = sys.stderr.isatty(), self._begun

    def left_s(self, done: float, total: float) -> float | None:
        """How long the rest takes at the pace so far; None where nothing is done yet."""
        return (time.monotonic() - self._begun) / done * (total - done) if done > 0 else None

    def show(self, words: str, left_s: float | None = None) -> None:
        """Replaces what is there."""
        if self._wanted and (self._terminal or time.monotonic() >= self._said + _LINE_S):
            if left_s is not None:
                words += f", about {left_s:.0f} s left" if left_s < 100 else f", about {left_s / 60:.0f} min left"
            self._drawn, self._said = self._terminal, time.monotonic()
            if not self._terminal:
                print(f"heaptape: {printable(words)}", file=sys.stderr, flush=True)
                return
            room = terminal_columns(sys.stderr) or 80
            print(f"\r\x1b[K{printable(words)[: room - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leaves the line empty."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False
