"""What a line of results must be like. Whatever a reader counts on is checked here, once; all else may be missing, null or
unknown, as versions differ."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

SCHEMA = 1
PASSES = ("time", "memory", "verify")

# Objects of a line that become columns of their own, `allocator.path` as allocator_path and so on. Others stay objects:
# their keys differ from run to run.
FLATTENED = ("trace", "allocator", "fragmentation")
OBJECTS = ("calls", "timeline", "latency_ns", "allocator_stats", "decomposition", "machine", "perf", "syscalls")
NUMBERS = (
    "trace_events", "trace_rss_peak_bytes", "trace_explained_bytes", "trace_own_bytes", "round", "alloc_time_ns", "harness_time_ns", "touch_time_ns", "wait_time_ns", "wall_ns",
    "ns_per_call", "rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "lazyfree_bytes", "live_peak_bytes",
    "slop_bytes", "slop_mean_bytes", "slop_end_bytes", "rss_after_free_bytes", "rss_after_purge_bytes",
    "anon_huge_bytes", "anon_huge_peak_bytes", "swap_bytes", "harness_share", "latency_floor_ns", "timed_calls", "timed_calls_dropped",
    "voluntary_switches", "involuntary_switches", "minor_faults", "major_faults", "fragmentation_f1",
    "fragmentation_f2", "fragmentation_f3", "fragmentation_f4", "repeats", "instructions",
)
# Of the objects in these, by function or by moment, the figures that are read.
_INNER = {"calls": ("count", "time_ns", "touch_ns"), "latency_ns": ("count", "p50", "p90", "p99", "p999", "max"),
          "decomposition": ("rss_bytes", "requested_bytes", "internal_bytes", "untouched_bytes", "other_bytes")}
CURVES = ("time_ns", "event", "live_bytes", "rss_bytes")

_MAGNITUDE_MAX = 2.0**64
_WORDS = {type(None): "null", bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}


class SchemaError(ValueError):
    """What was expected and what was found, in a few words."""


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
        _check(value)
    except RecursionError as error:
        raise SchemaError("expected one JSON object, found one that is nested too deeply") from error
    return value


def is_whole(line: bytes) -> bool:
    """Whether it is JSON at all: what a killed writer leaves is not."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def flat_name(outer: str, inner: str) -> str:
    """The column of a value of a flattened object."""
    return "allocator" if (outer, inner) == ("allocator", "name") else f"{outer}_{inner}"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["it can't be read"])[0]


def _no_constant(name: str) -> None:
    raise ValueError(f"numbers expected, found {name}")


def _in_words(value: Any) -> str:
    words = _WORDS.get(type(value), type(value).__name__)
    if isinstance(value, (bool, int, float, str)):
        text = ascii(value)[1:-1] if isinstance(value, str) else str(value)
        return f"{words} ({text[:40]})"
    return words


def _bad(where: str, expected: str, found: Any) -> SchemaError:
    return SchemaError(f'expected "{ascii(where)[1:-1]}" to be {expected}, found {_in_words(found)}')


def _check_values(where: str, value: Any) -> None:
    """Of all that is in a line: numbers that can be reckoned with, and texts that can be printed."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, key)
            _check_values(f"{where}.{key}" if where else key, item)
    elif isinstance(value, list):
        for item in value:
            _check_values(where, item)
    elif isinstance(value, str):
        _check_text(where, value)
    elif isinstance(value, (int, float)) and not (math.isfinite(_magnitude(value)) and _magnitude(value) <= _MAGNITUDE_MAX):
        raise _bad(where, "a number of at most 2^64", value)


def _magnitude(value: float) -> float:
    try:
        return abs(float(value))
    except OverflowError:
        return math.inf


def _check_text(where: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad(where, "a text of whole characters", text) from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _of_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(item is None or _is_number(item) for item in value)


def _or_null(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or test(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_NUMBER, _TEXT = (_or_null(_is_number), "a number"), (_or_null(_is_text), "a text")
_COUNT, _OBJECT = (_or_null(is_count), "a whole number"), (_or_null(lambda value: isinstance(value, dict)), "an object")
_LIST, _TRUTH = (_or_null(_of_numbers), "a list of numbers"), (_or_null(lambda value: isinstance(value, bool)), "true or false")
_Rule = tuple[Callable[[Any], bool], str]

# Values of a line that are neither figures nor objects, and must be what they are, or null, or missing.
_OTHERS: dict[str, _Rule] = {
    "scale": _COUNT, "pollution_bytes": _COUNT, "control": _TRUTH, "problem": _TEXT, "started_at": _TEXT, "configuration": _TEXT,
    "host": _TEXT, "thp": _TEXT, "touch": _TEXT, "touch_free": _TEXT, "wrap": _TEXT,
}


def _check(value: dict[str, Any]) -> None:
    schema = value.get("schema")
    if schema is not None and not is_count(schema):
        raise _bad("schema", "a whole number", schema)
    if schema is not None and schema > SCHEMA:
        raise SchemaError(f"expected results of schema {SCHEMA}, found {schema}; a newer heaptape reads them")
    for key in ("trace", "allocator"):
        if not isinstance(value.get(key), dict):
            raise SchemaError(f'expected an object "{key}", found {_in_words(value.get(key))}')
    if not isinstance(value["allocator"].get("name"), str) or not value["allocator"]["name"]:
        raise SchemaError(f'expected the allocator\'s "name", found {_in_words(value["allocator"].get("name"))}')
    if value.get("pass") not in PASSES:
        raise SchemaError(f'expected "pass" to be "time", "memory" or "verify", found {_in_words(value.get("pass"))}')
    if not is_count(value.get("round")):
        raise _bad("round", "a whole number", value.get("round"))
    for where, item, (test, expected) in _rules(value):
        if not test(item):
            raise _bad(where, expected, item)
    curve = value.get("timeline") or {}
    lengths = {len(curve[key]) for key in ("time_ns", "rss_bytes") if curve.get(key)}
    if len(lengths) > 1:
        raise SchemaError('expected "timeline.rss_bytes" to have a value for each of "timeline.time_ns", found another number')


def _rules(value: dict[str, Any]) -> Iterator[tuple[str, Any, _Rule]]:
    """Where, what is there, and what must be there. Objects come before what is in them."""
    for key in ("fragmentation", *OBJECTS):
        yield key, value.get(key), _OBJECT
    for key in NUMBERS:
        yield key, value.get(key), _NUMBER
    for outer in FLATTENED:
        for inner, item in (value.get(outer) or {}).items():
            if flat_name(outer, inner) in NUMBERS:
                yield f"{outer}.{inner}", item, _NUMBER
    for key, rule in _OTHERS.items():
        yield key, value.get(key), rule
    for outer, keys in (("trace", ("path", "sha256")), ("allocator", ("path", "version", "build_id"))):
        for key in keys:
            yield f"{outer}.{key}", value[outer].get(key), _TEXT
    yield "machine.thp", (value.get("machine") or {}).get("thp"), _TEXT
    for key in CURVES:
        yield f"timeline.{key}", (value.get("timeline") or {}).get(key), _LIST
    for outer, known in _INNER.items():
        for name, entry in (value.get(outer) or {}).items():
            if outer == "decomposition" and name.endswith("_bytes"):  # a figure beside the moments
                yield f"{outer}.{name}", entry, _NUMBER
                continue
            yield f"{outer}.{name}", entry, _OBJECT
            for key in known:
                yield f"{outer}.{name}.{key}", (entry or {}).get(key), _NUMBER
