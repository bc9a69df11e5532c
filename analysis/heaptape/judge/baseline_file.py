# SPDX-License-Identifier: Apache-2.0
"""The figures of a run in a file that can be kept, and what they hold for: --write-baseline and --baseline-file
(docs/reference/results.md)."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_BAD_INPUT, HeaptapeError
from ..base.files import output_file
from .against import counted_figure, earlier_of, part_of
from .comparison import compared_values
from .intervals import median
from .json_text import json_text, known_text, whole
from .model import FIGURES, TIME, Choice, Comparison, Condition, Json

FORMAT, VERSION = "heaptape-baseline", 1
APART_MAX = 4
_KEPT_COUNTS = ("allocator", "program", "time", "calls_by_size")
_IN_MEMORY = [words for words in FIGURES if words != TIME]
_ABSENT = object()


class BaselineFileError(HeaptapeError):
    """A file that is no baseline, or one of something else."""

    exit_status = EXIT_BAD_INPUT


def read(path: str, facts: Json, names: Iterable[str], conditions: Sequence[Condition] = ()) -> Json:
    """The allocators of an earlier run under the same facts, with figures for all these names and conditions. Raises BaselineFileError."""
    root = _loaded(path)
    _check_root(path, root)
    _check_facts(path, root, facts)
    allocators: Json = root["allocators"]
    for name in names:
        entry = earlier_of(allocators, name)
        if not isinstance(entry, dict):
            raise _refusal(path, "allocators", f"an entry {name}, or a single one", "neither")
        _check_entry(path, f"allocators.{name}", entry)
        for condition in conditions:
            if not _decides(entry, condition):
                raise _refusal(path, f"allocators.{name}: --fail-if {condition.text}", "figures for it", "none")
    return allocators


def _refusal(path: str, what: str, expected: str, found: str) -> BaselineFileError:
    return BaselineFileError(f"{path}: {what}: expected {expected}, found {found}")


def _value_text(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return json_text(value, 0, 17).encode(errors="surrogateescape")[:100].decode(errors="surrogateescape")


# --- JSON

class _WrongText(ValueError):
    """It is read as JSON, and yet is none of ours."""


def _once(pairs: list[tuple[str, Any]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _WrongText("duplicate object key")
    return made


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _WrongText("real number overflow" if text[-1].isdigit() else "invalid token")
    return value


def _loaded(path: str) -> Json:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BaselineFileError(f"{path}: cannot be read: {error.strerror}") from error
    position, why = 0, ""
    try:
        root = json.loads(data.decode(), object_pairs_hook=_once, parse_float=_number, parse_constant=_number)
        if isinstance(root, dict | list):
            return root if isinstance(root, dict) else {}
    except UnicodeDecodeError as error:
        position, why = error.start, f"unable to decode byte 0x{data[error.start]:x}"
    except json.JSONDecodeError as error:
        position, why = _place(error)
    except _WrongText as error:
        position, why = len(data), str(error)
    except RecursionError:
        position, why = len(data), "what is nested too deeply"
    first = data.lstrip(b" \t\r\n")[:1]
    if first == b"{":
        line = data[:position].count(b"\n") + 1
        raise BaselineFileError(f"{path}: offset {position}: line {line}: expected JSON, found: {why}")
    found = "another file" if first else "an empty file"
    raise BaselineFileError(f"{path}: offset 0: expected a baseline, as --write-baseline writes it, found {found}")


_PARSER_WORDS = {
    "Expecting value": "unexpected token",
    "Expecting property name enclosed in double quotes": "string or '}' expected",
    "Expecting ':' delimiter": "':' expected",
    "Unterminated string starting at": "premature end of input",
    "Extra data": "end of file expected",
}
_TOKEN = re.compile(r'\s*("[^"]*"?|[-+.\w]+|.?)', re.DOTALL)
_CLOSED = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^][{}"]*\]|\{[^][{}"]*\}', re.DOTALL)


def _place(error: json.JSONDecodeError) -> tuple[int, str]:
    """The byte at which what is wrong ends, and what it is, in the words of the programs in C."""
    token = _TOKEN.match(error.doc, error.pos)
    assert token
    near = " near end of file" if not token[1] else f" near '{token[1]}'" if len(token[1]) <= 20 else ""
    words = _PARSER_WORDS.get(error.msg, error.msg)
    opened = _innermost(error.doc[:error.pos])
    if error.msg == "Expecting ',' delimiter" or (opened == "[" and not token[1] and error.msg == "Expecting value"):
        words = "']' expected" if opened == "[" else "'}' expected"
    return len(error.doc[:token.end()].encode()), words + near


def _innermost(text: str) -> str:
    """The bracket that is open at its end."""
    left = text
    while (shorter := _CLOSED.sub("", left)) != left:
        left = shorter
    return next((mark for mark in reversed(left) if mark in "[{"), "")


# --- what a file has to be

def _check_root(path: str, root: Json) -> None:
    if root.get("format") != FORMAT:
        raise _refusal(path, "format", f'"{FORMAT}"', _value_text(root.get("format", _ABSENT)))
    if not _equal(root.get("version"), VERSION):
        raise _refusal(path, "version", str(VERSION), _value_text(root.get("version", _ABSENT)))
    if not isinstance(root.get("allocators"), dict):
        raise _refusal(path, "allocators", "an object", "none")


def _check_facts(path: str, root: Json, facts: Json) -> None:
    """Checks that all that has to be equal is so; the words of the error say what to do."""
    for part, ours in facts.items():
        theirs = root.get(part)
        for key, expected in ours.items():
            found = theirs.get(key, _ABSENT) if isinstance(theirs, dict) else _ABSENT
            if not _equal(expected, found):
                raise _refusal(path, f"{part}.{key}", f"{_value_text(expected)}, as this run has", _value_text(found))


def _equal(one: Any, other: Any) -> bool:
    """1, 1.0 and true are not the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_entry(path: str, what: str, entry: Json) -> None:
    """A text would count as 0, and halve a median."""
    for words in _IN_MEMORY:
        values = entry.get(words.key, [])
        if not isinstance(values, list):
            raise _refusal(path, f"{what}.{words.key}", "a list", _value_text(values))
        for value in values:
            if not _is_number(value) or value < 0:
                raise _refusal(path, f"{what}.{words.key}", "numbers of bytes", _value_text(value))
        _check_median(path, f"{what}.{words.key}", values)
    _check_counts(path, f"{what}.counts", entry.get("counts"))


def _check_median(path: str, what: str, values: list[float]) -> None:
    """Rounds of one run are within percents of each other: one that is far off was not measured."""
    middle = median([float(value) for value in values])
    for value in values:
        if value > middle * APART_MAX or value * APART_MAX < middle:
            raise _refusal(path, what, f"rounds within {APART_MAX} times of their median, {middle:.0f}", _value_text(value))


def _check_counts(path: str, what: str, value: Any) -> None:
    """What is less the null replayer's ("time") may be below 0, all else is counted."""
    if _is_number(value) and value < 0:
        raise _refusal(path, what, "a count", _value_text(value))
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key != "time":
            _check_counts(path, f"{what}.{key}", item)


def _decides(entry: Json, condition: Condition) -> bool:
    """Whether it has the condition's figure."""
    if condition.figure is None:
        return not math.isnan(counted_figure(entry.get("counts"), condition))
    return any(entry.get(words.key) for words in _IN_MEMORY if words.name == condition.figure)


# --- writing

def write(path: str, comparison: Comparison) -> None:
    """Whole or not at all. Raises HeaptapeError."""
    context = comparison.context
    root = {"format": FORMAT, "version": VERSION, "heaptape": context.version, **context.baseline_facts,
            "allocators": {choice.name: _entry(comparison, number, choice) for number, choice in enumerate(context.choices)}}
    failed = "cannot be created"
    try:
        with output_file(path) as file:
            failed = "cannot be written"
            file.write((json_text(root, 1, 17) + "\n").encode())
    except HeaptapeError as error:
        why = error.__cause__
        raise HeaptapeError(f"{path}: {failed}: {os.strerror(why.errno) if isinstance(why, OSError) and why.errno else why}") from error


def _entry(comparison: Comparison, number: int, choice: Choice) -> Json:
    made: Json = {"version": known_text(choice.version), "build_id": known_text(choice.build_id)}
    for words in _IN_MEMORY:
        made[words.key] = [whole(value) for value in compared_values(comparison.measurements, words, number)]
    return made | {"counts": _kept_counts(part_of(comparison.measurements.counts, choice.name))}


def _kept_counts(counts: Json | None) -> Json | None:
    """modelled_ns is of this machine."""
    if counts is None:
        return None
    parts = {key: counts[key] for key in _KEPT_COUNTS if key in counts}
    return {key: {name: value for name, value in part.items() if name != "modelled_ns"} if isinstance(part, dict) else part
            for key, part in parts.items()}
