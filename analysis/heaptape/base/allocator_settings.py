# SPDX-License-Identifier: Apache-2.0
"""Settings of an allocator that are worth trying before another allocator is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

SETTINGS: dict[str, dict[str, str]] = {
    "glibc": {"arena_max=1": "one arena for all threads", "arena_max=2": "two arenas for all threads", "tcache_count=0": "no thread caches",
              "tcache_count=7": "thread caches of 7 blocks of each size", "arena_max=1,tcache_count=0": "one arena, no thread caches",
              "trim_threshold=131072,mmap_threshold=131072": "free memory returned early"},
    "jemalloc": {"narenas=1": "one arena for all threads", "tcache=false": "no thread caches",
                 "narenas=1,tcache=false": "one arena, no thread caches",
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
    """What people call an allocator with one of these settings: "glibc, one arena for all threads"; any other name as it is."""
    kind, _, knobs = name.partition(":")
    words = SETTINGS.get(kind, {}).get(knobs)
    return f"{kind}, {words}" if words else name


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
