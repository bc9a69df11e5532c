# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several verbs take."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Iterable

PROCESSORS_MAX = 1024
"""heaptape replay takes no more either."""


def whole(text: str, least: int, most: float = math.inf) -> int:
    """A whole number in digits. Python's own numbers would have signs, spaces, underscores and other scripts."""
    value = int(text) if re.fullmatch("[0-9]{1,99}", text) else -1
    if not least <= value <= most:
        span = f"from {least} to {most}" if most < math.inf else f"from {least} on"
        raise argparse.ArgumentTypeError(f"expected a whole number {span}")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return whole(text, 1)


def processors(text: str) -> int:
    """How many a machine is to have."""
    return whole(text, 1, PROCESSORS_MAX)


def output_name(text: str) -> str:
    """A file or folder to write: an empty name would be taken for none."""
    if not text:
        raise argparse.ArgumentTypeError("expected a name")
    return text


def several(text: str) -> int:
    """A number of rounds."""
    if text == "1":
        raise argparse.ArgumentTypeError("expected 2 or more: one round has no interval")
    return whole(text, 2)


BOOTSTRAP_SEED = 20_817


def bootstrap_seed(text: str) -> int:
    """A seed of any size."""
    return whole(text, 0)


def seed_number(text: str) -> int:
    """The seed of a random sequence."""
    return whole(text, 0, 2**31 - 1)


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
        raise argparse.ArgumentTypeError("expected a time such as 90s, 5m or 1h")
    return value / 1e9


# ---- names that were mistyped ----

def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ (did you mean tcmalloc?)", or nothing."""
    near = difflib.get_close_matches(word, list(names), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
