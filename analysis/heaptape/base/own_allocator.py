# SPDX-License-Identifier: Apache-2.0
"""The allocator that is part of the recorded program: which of those that are replayed it is, if any."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def number_of(version: str) -> str:
    """Of a version: "gperftools 2.10" is 2.10."""
    return re.sub("^[^0-9]*", "", version)


def is_the_linked(recorded: Mapping[str, Any], name: str, version: str) -> bool:
    """Whether an allocator that is replayed is the one of the program: of the same name, and of the same version, which has to be
    known. recorded: `name` and `version`."""
    known = number_of(str(recorded.get("version") or ""))
    return name == recorded.get("name") and bool(known) and number_of(version) == known


def has_served(recorded: Mapping[str, Any], name: str, version: str) -> bool:
    """Whether an allocator that is replayed is the one that the program ran under. recorded: also `linked`."""
    return is_the_linked(recorded, name, version) if recorded.get("linked") else name == recorded.get("name")


def other_release(recorded: Mapping[str, Any], name: str, version: str) -> str:
    """What to say of an allocator that is replayed and is of the program's name, but not of its version, else "". recorded: `name` and
    `version`."""
    then, now = number_of(str(recorded.get("version") or "")), number_of(version)
    if name != recorded.get("name") or not then or not now or then.startswith(now) or now.startswith(then):
        return ""
    return f"the program ran under {full_name(recorded)}, and {name} here is {version}: its figures are not those that the program had"


def full_name(recorded: Mapping[str, Any]) -> str:
    """With its version, where that is known."""
    return f"{recorded.get('name')} {recorded.get('version') or ''}".rstrip()
