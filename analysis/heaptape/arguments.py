"""Types of arguments that several verbs take."""

from __future__ import annotations

import argparse
import re


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError("at least 1 expected")
    return value


def several(text: str) -> int:
    """A number of rounds."""
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("2 or more expected: one round has no interval")
    return value


def seed_number(text: str) -> int:
    """Of a random sequence."""
    value = int(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError("a number from 0 to 2147483647 expected")
    return value


def duration(text: str) -> float:
    """Seconds, of 90s, 5m, 1h or a bare number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: a time expected, such as 90s, 5m, 1h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]]
