# SPDX-License-Identifier: Apache-2.0
"""JSON as the C programs write it, through jansson: what a script compares byte by byte stays the same."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile('["\\\\\x00-\x1f]')
_EXPONENT = re.compile(r"e\+?(-?)0*")
_IS_NO_UTF8 = re.compile("[\ud800-\udfff]")


def json_text(value: Any, indent: int, digits: int = 9) -> str:
    """The value in lines that are indented by so many blanks a level; 0: all in one line, without blanks. digits: of numbers that are
    not whole. Texts that are no UTF-8 are null, as are numbers that JSON does not know."""
    return "".join(_pieces(value, indent, digits, "\n"))


def _pieces(value: Any, indent: int, digits: int, start: str) -> Iterator[str]:
    """start: what begins a line at this level."""
    if isinstance(value, dict):
        parts: list[tuple[str, Any]] = [(_text(key) + (": " if indent else ":"), item) for key, item in value.items() if not _IS_NO_UTF8.search(key)]
    elif isinstance(value, list | tuple):
        parts = [("", item) for item in value]
    else:
        yield _scalar(value, digits)
        return
    brackets = "{}" if isinstance(value, dict) else "[]"
    if not parts:
        yield brackets
        return
    inner = start + " " * indent
    for number, (key, item) in enumerate(parts):
        yield ("," if number else brackets[0]) + (inner if indent else "") + key
        yield from _pieces(item, indent, digits, inner)
    yield (start if indent else "") + brackets[1]


def _scalar(value: Any, digits: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return real_text(value, digits) if isinstance(value, float) else _text(value)


def real_text(value: float, digits: int) -> str:
    """So that it is read as no whole number, and with the shortest exponent."""
    if not math.isfinite(value):
        return "null"
    text = f"{value:.{digits}g}"
    return _EXPONENT.sub(r"e\1", text) if "e" in text else text if "." in text else f"{text}.0"


def _text(text: str) -> str:
    if _IS_NO_UTF8.search(text):
        return "null"
    return '"' + _ESCAPED.sub(lambda found: _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}", text) + '"'


def figure(value: float) -> float | None:
    """A figure for JSON, in which null is unknown."""
    return None if math.isnan(value) else float(value)


def whole(value: float) -> int | None:
    """The same, rounded to a whole number, halves away from zero."""
    if not math.isfinite(value):
        return None
    below = math.trunc(value)
    return below + (1 if value > 0 else -1) if abs(value - below) >= 0.5 else below


def known_text(text: str | None) -> str | None:
    """An empty text is null."""
    return text or None
