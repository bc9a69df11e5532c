"""Types of arguments that several verbs take."""

from __future__ import annotations

import argparse
import re


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError("expected at least 1")
    return value


def output_name(text: str) -> str:
    """A file or folder to write: an empty name would be taken for none."""
    if not text:
        raise argparse.ArgumentTypeError("expected a name, found ''")
    return text


def several(text: str) -> int:
    """A number of rounds."""
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("expected 2 or more: one round has no interval")
    return value


BOOTSTRAP_SEED = 20_817


def bootstrap_seed(text: str) -> int:
    """Of any size."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("expected 0 or more")
    return value


def seed_number(text: str) -> int:
    """Of a random sequence."""
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError("expected a number from 0 to 2147483647")
    return value


_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_DECIMALS = 18
"""Digits behind the point that count."""


def duration_ns(text: str) -> int | None:
    """Nanoseconds, of 90, 90s, 500ms, 5m, 1.5h: seconds unless it says otherwise; None if it is none of that. The same as
    base/option_values.c reads; tests/golden/option_values.txt has examples."""
    found = re.fullmatch(r"([0-9]*)(?:\.([0-9]+))?(?: *([A-Za-z]+))?", text)
    unit = _NS.get((found[3] or "s").lower()) if found and (found[1] or found[2]) else None
    if not found or not unit:
        return None
    decimals = (found[2] or "0")[:_DECIMALS]
    value = int(found[1] or "0") * unit + int(decimals) * unit // 10 ** len(decimals)
    return value if value < 1 << 63 else None


def duration(text: str) -> float:
    """Seconds, more than none."""
    value = duration_ns(text)
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time, such as 90s, 5m, 1h")
    return value / 1e9
