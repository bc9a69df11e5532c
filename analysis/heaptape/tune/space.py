# SPDX-License-Identifier: Apache-2.0
"""What there is to search: the values that are tried of each knob, made from its type, range and value in force."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.arguments import did_you_mean
from ..base.errors import UsageError

Config = dict[str, str]
"""A configuration: the knobs that are set, with their values. Other knobs keep their values."""

KNOBS_SET_MAX = 12
"""So many knobs of one allocator can `heaptape replay --alloc NAME:knob=value,…` set at once."""

_EVERY_VALUE_UP_TO = 40
_STEPS_EACH_WAY = 5
_NARROW, _FACTOR, _FACTOR_WIDE = 1e5, 4, 10
_STEPS_WITHOUT_MIDDLE = 9


@dataclass(frozen=True)
class SearchedKnob:
    """A knob and the values that are tried. None among them stands for leaving it alone, which is also how the value
    in force is reached: to set a value is not always the same as not to touch it, so the default is never set."""

    name: str
    ordered: bool
    values: tuple[str | None, ...]

    @property
    def alone(self) -> int:
        """The place, among the values, of the one that leaves the knob alone."""
        return self.values.index(None)


def searched_knobs(knobs: list[dict[str, Any]], wanted: list[str] | None) -> list[SearchedKnob]:
    """From the knobs of an allocator as `heaptape replay --list --json` has them: those wanted of those that its version has, or all that
    can be searched.
    Raises UsageError if none is left, or one that is wanted is not there."""
    by_name = {str(knob["name"]): knob for knob in knobs if knob.get("heeded", True)}
    called = {also: name for name, knob in by_name.items() for also in [*knob.get("also", []), name]}
    for name in wanted or []:
        if name not in called:
            raise UsageError(f"--knobs {name}: expected some of {', '.join(by_name) or 'none'}{did_you_mean(name, called)}")
    chosen = [by_name[name] for name in dict.fromkeys(called[name] for name in wanted)] if wanted else \
        [knob for knob in by_name.values() if knob.get("search", True)]
    made = [SearchedKnob(str(knob["name"]), knob["type"] == "integer", _values(knob)) for knob in chosen]
    made = [knob for knob in made if len(knob.values) > 1]
    if not made:
        raise UsageError("this allocator has no knob that could be searched")
    return made


def _values(knob: Mapping[str, Any]) -> tuple[str | None, ...]:
    now = knob.get("value")
    if knob["type"] == "boolean":
        words = ["0", "1"]
    elif knob["type"] == "word":
        words = [str(word) for word in knob["words"]]
    else:
        search = knob.get("search") or (knob["lowest"], knob["highest"])  # the range of one that is searched on demand only
        return _integers(int(search[0]), int(search[1]), _whole(now))
    return tuple(None if word == now else word for word in words) if now in words else (None, *words)


def _whole(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _integers(lowest: int, highest: int, now: int | None) -> tuple[str | None, ...]:
    """Every value of a short range; of a long one -1 and 0, which tend to mean never and at once, and then values by
    a factor at a time around the one in force, as what matters of such knobs is their order of magnitude."""
    if highest - lowest <= _EVERY_VALUE_UP_TO:
        found = set(range(lowest, highest + 1))
    else:
        found = {value for value in (-1, 0) if lowest <= value <= highest} | ({lowest} if lowest < -1 else set())
        least = max(lowest, 1)
        if now is not None and least <= now <= highest:
            factor = _FACTOR if highest / least <= _NARROW else _FACTOR_WIDE
            steps = range(-_STEPS_EACH_WAY, _STEPS_EACH_WAY + 1)
            found |= {min(max(round(now * float(factor) ** step), least), highest) for step in steps}
        elif highest >= least:
            span = math.log(highest / least)
            found |= {round(least * math.exp(span * step / _STEPS_WITHOUT_MIDDLE))
                      for step in range(_STEPS_WITHOUT_MIDDLE + 1)}
    values: list[str | None] = [None if value == now else str(value) for value in sorted(found)]
    return tuple(values) if None in values else (None, *values)


def config_text(config: Config) -> str:
    """The text that follows an allocator's name: a=1,b=2."""
    return ",".join(f"{name}={value}" for name, value in config.items())
