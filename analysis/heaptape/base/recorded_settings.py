# SPDX-License-Identifier: Apache-2.0
"""The settings of the recorded program that its allocator has in a replay, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def shown_name(name: str, settings: Mapping[str, Any] | None) -> str:
    """The name of an allocator with the settings that it had: glibc:arena_max=1."""
    words = ",".join(f"{key}={value}" for key, value in settings.items()) if isinstance(settings, Mapping) else ""
    return f"{name}{',' if ':' in name else ':'}{words}" if words else name


def left_out_sentence(left_out: Sequence[str] | None) -> str:
    """Where the program ran with more than the replay has, else ""."""
    if not isinstance(left_out, list) or not left_out:
        return ""
    return f"The program ran with {', '.join(left_out)}, which no replay has: no knob of its allocator, or no value of one."
