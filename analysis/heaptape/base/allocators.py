# SPDX-License-Identifier: Apache-2.0
"""What is known of allocators by their names: which one served the recorded program, the settings that it had there, and settings worth trying."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def number_of(version: str) -> str:
    """The number in a version: 2.10 in "gperftools 2.10"."""
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


# ---- the settings that it had ----

def shown_name(name: str, settings: Mapping[str, Any] | None) -> str:
    """The name of an allocator with the settings that it had: glibc:arena_max=1."""
    words = ",".join(f"{key}={value}" for key, value in settings.items()) if isinstance(settings, Mapping) else ""
    return f"{name}{',' if ':' in name else ':'}{words}" if words else name


def left_out_sentence(left_out: Sequence[str] | None) -> str:
    """What the program ran with beyond what the replay has, as a sentence; "" if nothing."""
    if not isinstance(left_out, list) or not left_out:
        return ""
    return f"The program ran with {', '.join(left_out)}, which no replay has: no knob of its allocator, or no value of one."


# ---- settings that are worth trying before another allocator is ----

SETTINGS: dict[str, dict[str, str]] = {
    "glibc": {"arena_max=1": "one arena for all threads", "arena_max=2": "two arenas for all threads", "tcache_count=0": "no thread caches",
              "tcache_count=7": "thread caches of 7 blocks of each size", "arena_max=1,tcache_count=0": "one arena and no thread caches",
              "trim_threshold=131072,mmap_threshold=131072": "free memory returned early"},
    "jemalloc": {"narenas=1": "one arena for all threads", "tcache=false": "no thread caches",
                 "narenas=1,tcache=false": "one arena and no thread caches",
                 "dirty_decay_ms=0,muzzy_decay_ms=0": "free pages returned at once"},
    "tcmalloc": {"max_total_thread_cache_bytes=524288": "the smallest thread caches", "aggressive_decommit=1": "free pages returned at once"},
    "mimalloc": {"purge_delay=0": "free pages returned at once", "decommit_delay=0": "free pages returned at once"},
}
"""By kind: knobs as --alloc takes them, and what they change."""

SET_BY: dict[str, str] = {"mallopt(M_ARENA_MAX)": "arena_max", "mallopt(M_TRIM_THRESHOLD)": "trim_threshold", "mallopt(M_MMAP_THRESHOLD)": "mmap_threshold",
                          "mallctl(arenas.dirty_decay_ms)": "dirty_decay_ms", "mallctl(arena.N.dirty_decay_ms)": "dirty_decay_ms",
                          "mallctl(arenas.muzzy_decay_ms)": "muzzy_decay_ms", "mallctl(arena.N.muzzy_decay_ms)": "muzzy_decay_ms"}
"""Calls of a program, by their names in a trace's totals, and the knobs that they override."""


def in_words(name: str) -> str:
    """What people call an allocator with one of these settings: "glibc with one arena for all threads"; any other name as it is."""
    kind, _, knobs = name.partition(":")
    words = SETTINGS.get(kind, {}).get(knobs)
    return f"{kind} with {words}" if words else name


def to_try(listed: Mapping[str, Any], name: str, controls: Collection[str]) -> dict[str, str]:
    """Knobs beside those of this allocator, and what they change: not those that are in force, nor those that the program sets itself.
    listed: what --list says of it; controls: names of the program's control calls."""
    own, in_force = {SET_BY[call] for call in controls if call in SET_BY}, _in_force(listed)
    found: dict[str, str] = {}
    for knobs, words in SETTINGS.get(str(listed.get("kind") or name), {}).items():
        more = [knob for knob in knobs.split(",") if not _pairs(dict([knob.split("=")])) <= in_force]
        if more and not own & {knob.partition("=")[0] for knob in more}:
            found.setdefault(",".join(more), words)
    return found


def _pairs(knobs: Mapping[str, Any]) -> set[tuple[str, str]]:
    words = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
    return {(str(name), words.get(str(value), str(value))) for name, value in knobs.items()}


def _in_force(listed: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Knobs and their values, as far as the allocator reports them, the recorded program set them, or its version's default is known."""
    reported = {knob["name"]: knob.get("value") or knob.get("default") for knob in listed.get("knobs") or []}
    return _pairs(reported | (listed.get("settings") or {}))
