# SPDX-License-Identifier: Apache-2.0
"""What a line of results must be like: results.schema.json, beside this file, has the keys that `replay` writes and readers
count on. All but a few may be null or missing, and there may be unknown ones, as versions differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_Rule = dict[str, Any]

LINE: _Rule = json.loads(Path(__file__).with_name("results.schema.json").read_text(encoding="utf-8"))
"""JSON Schema of one line."""

SCHEMA = 1

# Objects of a line that become columns of their own, `allocator.path` as allocator_path and so on. Others stay objects:
# their keys differ from run to run.
FLATTENED = ("trace", "allocator", "fragmentation")

_MAGNITUDE_MAX = 2.0**64
_WORDS = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
_TYPES: dict[str, tuple[type, ...]] = {"null": (type(None),), "boolean": (bool,), "integer": (int,), "number": (int, float),
                                       "string": (str,), "array": (list,), "object": (dict,)}
_EXPECTED = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a text", "array": "a list",
             "object": "an object"}
_NUMBERS_ONLY = {"type": ["number", "null"]}
_NUMBERS_ONLY_TYPES = (int, float, type(None))
_NOTHING = object()


class SchemaError(ValueError):
    """What was expected and what was found, in a few words."""


def flat_name(outer: str, inner: str) -> str:
    """The column of a value of a flattened object."""
    return "allocator" if (outer, inner) == ("allocator", "name") else f"{outer}_{inner}"


def parse_line(line: bytes | str) -> dict[str, Any]:
    """One line as an object that readers may rely on. Raises SchemaError."""
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"expected one JSON object: {_first_line(error)}") from error
    if not isinstance(value, dict):
        raise SchemaError(f"expected one JSON object, found {_in_words(value)}")
    try:
        _check_values("", value)
        _check("", value, LINE)
    except RecursionError as error:
        raise SchemaError("expected one JSON object, found one that is nested too deeply") from error
    _check_whole(value)
    return value


def is_whole(line: bytes) -> bool:
    """Whether it is JSON at all: what a killed writer leaves is not."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["it cannot be read"])[0]


def _no_constant(name: str) -> None:
    raise ValueError(f"expected numbers, found {name}")


def _in_words(value: Any) -> str:
    if value is _NOTHING:
        return "nothing"
    words = _WORDS.get(type(value), type(value).__name__)
    if isinstance(value, (bool, int, float, str)):
        text = ascii(value)[1:-1] if isinstance(value, str) else str(value)
        return f"{words} ({text[:40]})"
    return words


def _bad(where: str, expected: str, found: Any) -> SchemaError:
    return SchemaError(f'expected "{ascii(where)[1:-1]}" to be {expected}, found {_in_words(found)}')


def _within(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _check_values(where: str, value: Any) -> None:
    """Checks all that is in a line: numbers can be reckoned with, and texts can be printed."""
    if isinstance(value, (int, float)):
        if not -_MAGNITUDE_MAX <= value <= _MAGNITUDE_MAX:  # nor where it is no number
            raise _bad(where, "a number of at most 2^64", value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, key)
            _check_values(_within(where, key), item)
    elif isinstance(value, list):
        for item in value:
            _check_values(where, item)
    elif isinstance(value, str):
        _check_text(where, value)


def _check_text(where: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad(where, "a text of whole characters", text) from error


def _types(rule: _Rule) -> list[str]:
    found = rule.get("type", [])
    return [found] if isinstance(found, str) else found


def _fits(value: Any, rule: _Rule) -> bool:
    """Whether it is one of the rule's types and values, whatever is in it."""
    if "enum" in rule and value not in rule["enum"]:
        return False
    types = {kind for name in _types(rule) for kind in _TYPES[name]}
    if types and type(value) not in types:
        return False
    if type(value) in (int, float) and not rule.get("minimum", value) <= value <= rule.get("maximum", value):
        return False
    return not isinstance(value, str) or len(value) >= rule.get("minLength", 0)


def _expected(rule: _Rule) -> str:
    if "enum" in rule:
        *first, last = (f'"{word}"' for word in rule["enum"])
        return f"{', '.join(first)} or {last}"
    words = _EXPECTED[_types(rule)[0]]
    if rule.get("minLength"):
        return f"{words} that is not empty"
    return f"{words} of numbers" if rule.get("items") == _NUMBERS_ONLY else words


def _check(where: str, value: Any, rule: _Rule) -> None:
    """Holds a value to its rule, and what is in it to theirs."""
    if not _fits(value, rule):
        raise _bad(where, _expected(rule), value)
    if isinstance(value, dict):
        known, others = rule.get("properties", {}), rule.get("additionalProperties", {})
        for name in rule.get("required", ()):
            _check(_within(where, name), value.get(name, _NOTHING), known[name])
        for name, item in value.items():
            _check(_within(where, name), item, known.get(name, others))
    elif isinstance(value, list) and rule.get("items") == _NUMBERS_ONLY:
        if not all(type(item) in _NUMBERS_ONLY_TYPES for item in value):
            raise _bad(where, _expected(rule), value)
    elif isinstance(value, list):
        for item in value:
            _check(where, item, rule.get("items", {}))


def _check_whole(value: dict[str, Any]) -> None:
    """What no rule of one value says."""
    if value.get("schema", SCHEMA) not in (None, *range(SCHEMA + 1)):
        raise SchemaError(f"expected results of schema {SCHEMA}, found {value['schema']}; a newer heaptape reads them")
    curve = value.get("timeline") or {}
    lengths = {len(curve[key]) for key in ("time_ns", "rss_bytes") if curve.get(key)}
    if len(lengths) > 1:
        raise SchemaError('expected "timeline.rss_bytes" to have a value for each of "timeline.time_ns", found another number')


def _of_line(kind: str) -> list[str]:
    return [key for key, rule in LINE["properties"].items() if kind in _types(rule)[:1] and key not in FLATTENED]


FLAT_NAMES = frozenset(flat_name(outer, key) for outer in FLATTENED for key in LINE["properties"][outer]["properties"])
"""Columns of values of the flattened objects."""
NUMBERS = tuple(_of_line("number") + [
    flat_name(outer, key) for outer in FLATTENED for key, rule in LINE["properties"][outer]["properties"].items()
    if "number" in _types(rule)])
"""Columns of figures."""
OBJECTS = tuple(_of_line("object"))
"""Columns of objects."""
