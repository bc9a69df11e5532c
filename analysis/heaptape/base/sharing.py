# SPDX-License-Identifier: Apache-2.0
"""What goes with all advice about one of several processes: it shares pages with the others since a fork."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_forked(context: Mapping[str, Any], totals: Mapping[str, Any] | None) -> bool:
    """Whether the process of a trace was forked from another one. A slice too begins with blocks of before. The same as in
    convert/common/trace_json.c. (That a process forked children is in no trace.)"""
    return bool(context.get("parent_pid") or ((totals or {}).get("inherited_objects") and "sliced_from" not in context))


def sharing(forked: bool, processes: str = "") -> str:
    """The words, "" where the process shares no pages. processes: such as "4 workers", where it is known who shares them."""
    return f"one of {processes or 'several processes'}; shared pages are not counted" if forked or processes else ""


def in_brackets(words: str) -> str:
    """To be put after an advice."""
    return f" ({words})" if words else ""


def as_sentence(words: str) -> str:
    """To be put after sentences."""
    return f" {words[0].upper()}{words[1:]}." if words else ""
