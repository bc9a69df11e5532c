# SPDX-License-Identifier: Apache-2.0
"""Which of the known names one meant who mistyped, as base/option_values.c says it for the verbs in C."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ (did you mean tcmalloc?)", or nothing."""
    near = difflib.get_close_matches(word, list(names), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
