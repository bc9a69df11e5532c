# SPDX-License-Identifier: Apache-2.0
"""What counts say of a prediction: differences to the baseline of what the real program did, start-up taken off, and of the
replays. Sums and differences alone: each is exact. The result is part of what --json prints."""

from __future__ import annotations

from typing import Any

from ..base.units import counted, three_digits
from .count_runs import Counted, Counts, calls_of

PARTS = ("allocator", "program", "loader")
REPEATS_WITHIN = 1e-4
"""Of a difference between allocators: as much as two runs under one may differ."""
_CALLS_WITHIN = 0.01

Part = dict[str, Any]
"""Numbers, and `modelled_ns` of several causes with their total."""


def _less(one: Part, other: Part) -> Part:
    return {key: _less(value, other[key]) if isinstance(value, dict) else value - other[key]
            for key, value in one.items() if key in other}


def started(found: Counted, name: str) -> dict[str, Part]:
    """By part, what the program did after its start. A forked process did not start: its counts begin where it was forked."""
    if found.real[name]["forked"]:
        return {part: found.real[name][part] for part in PARTS}
    return {part: _less(found.real[name][part], found.nothing[name][part]) for part in PARTS}


def _differences(found: Counted, name: str) -> dict[str, Part]:
    real, base = started(found, name), started(found, found.baseline)
    replayed, base_replayed = found.replayed[name], found.replayed[found.baseline]
    parts = {"replayed": "allocator", "replayed_time": "time"}  # the second with what the time pass touches
    return {part: _less(real[part], base[part]) for part in PARTS} | {
        key: _less(replayed[part], base_replayed[part]) for key, part in parts.items() if part in replayed and part in base_replayed}


def instructions_of(parts: dict[str, Part]) -> int:
    """What the program and its allocator executed; loading libraries is start-up."""
    return int(parts["allocator"]["instructions"] + parts["program"]["instructions"])


def _allocator_object(found: Counted, name: str) -> dict[str, Any]:
    counts = started(found, name) | {"replayed": found.replayed[name]["allocator"]}
    made: dict[str, Any] = {"instructions_delta_real": None, "instructions_delta_predicted": None, "instructions_error": None,
                            "counts": counts, "counted_calls": calls_of(found.real[name]), "count_differences": None}
    if name != found.baseline:
        differences = _differences(found, name)
        real, predicted = instructions_of(differences), differences["replayed"]["instructions"]
        made |= {"instructions_delta_real": real, "instructions_delta_predicted": predicted, "count_differences": differences,
                 "instructions_error": abs(predicted - real) / abs(real) if real else None}
    return made


def repeat_difference(found: Counted) -> int:
    """In instructions, between two runs under the baseline."""
    return abs(instructions_of(found.again) - instructions_of(found.real[found.baseline]))


def _warnings(found: Counted, objects: dict[str, dict[str, Any]], calls: int) -> list[str]:
    base: Counts = found.real[found.baseline]
    said, apart = [], repeat_difference(found)
    deltas = {name: abs(item["instructions_delta_real"]) for name, item in objects.items() if item["instructions_delta_real"]}
    least = min(deltas, key=deltas.__getitem__, default=None)
    if least and apart > REPEATS_WITHIN * deltas[least]:
        said.append(f"the program does not repeat: two counted runs under {found.baseline} are {counted(apart, 'instruction')} apart, "
                    f"{three_digits(100 * apart / deltas[least])} % of {least}'s difference")
    if base["threads"] > 1:
        said.append(f"{base['threads']} threads: the simulation runs one at a time, without contention")
    for name, item in objects.items():
        if abs(item["counted_calls"] - calls) > _CALLS_WITHIN * calls:
            said.append(f"under simulation the program made {counted(item['counted_calls'], 'call')} under {name}, but {calls:,} when recorded")
    if found.different:
        said.append(f"under simulation the program's output differs from the recording's under {', '.join(found.different)}")
    if not found.instructions_alone and not found.geometry["caches_known"]:
        said.append("the processor's caches are not known: those of another one were simulated")
    return said


def add_counts(document: dict[str, Any], found: Counted) -> None:
    """To the document of a validation."""
    objects = {name: _allocator_object(found, name) for name in found.real}
    for item in document["allocators"]:
        item.update(objects.get(item["name"], {}), problem=item["problem"] or found.problems.get(item["name"]))
    base = found.real[found.baseline]
    document["count"] = {"instructions_alone": found.instructions_alone, **found.geometry, "threads": base["threads"],
                         "command": base["command"], "repeat_difference": repeat_difference(found)}
    document["warnings"] += _warnings(found, objects, document["recorded"]["calls"])
