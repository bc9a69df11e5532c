"""Types of arguments that several verbs take."""

from __future__ import annotations


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise ValueError("at least 1 expected")
    return value
