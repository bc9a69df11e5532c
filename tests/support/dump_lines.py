# SPDX-License-Identifier: Apache-2.0
"""The lines of `heaptape dump`, as values: what files and verbs are held against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tool_runner import Tools, as_without_sites

LINE = re.compile(r"(\d+) (\d+) t(\d+) ([\w\[\]]+)\((.*?)\)(?: = (#\d+|NULL))?"
                  r"(?: \((failed|released|foreign)\))?$")
ALIGNED = ("posix_memalign", "aligned_alloc", "memalign", "new_aligned", "new[]_aligned")
COUNTED = ("calloc", "reallocarray")
QUERY = "malloc_usable_size"
REALLOCS = ("realloc", "reallocarray")
CONTROLS = ("mallopt", "malloc_trim", "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "mi_collect", "mallctl", "madvise",
            "MallocExtension_ReleaseFreeMemory", "MallocExtension_ReleaseToSystem")
PSEUDO = ("drop", "inherit", *CONTROLS)


class Event(NamedTuple):
    """One event. `slot` is the object's that is made, resized, asked or ended, 0 if there is none."""

    number: int
    time_ns: int
    thread: int
    function: str
    variant: str
    slot: int
    size: int | None
    extra: int | None

    @property
    def is_free(self) -> bool:
        return self.function in ("free", "cfree", "drop") or self.function.startswith(
            ("free_", "delete"))

    @property
    def makes(self) -> bool:
        if self.is_realloc:
            return self.variant in ("null", "foreign")
        return not self.is_free and self.function not in (QUERY, *CONTROLS) and self.variant == "plain"

    @property
    def ends(self) -> bool:
        return self.variant == "released" or (self.is_free and self.variant == "plain")

    @property
    def resizes(self) -> bool:
        return self.is_realloc and self.variant == "plain"

    @property
    def is_realloc(self) -> bool:
        return self.function in REALLOCS

    @property
    def is_call(self) -> bool:
        return self.function not in PSEUDO

    @property
    def size_bytes(self) -> int:
        """Asked for: calloc and reallocarray multiply."""
        assert self.size is not None
        return self.size * (self.extra or 0) if self.function in COUNTED else self.size


def _number(word: str) -> int:
    return int(word.removeprefix("#").removeprefix("align "))


def _event(line: str) -> Event:
    match = LINE.match(line)
    assert match, f"not a line of a dump: {line}"
    number, time_ns, thread = (int(word) for word in match.groups()[:3])
    function, operands, result, remark = match.groups()[3:]
    words = operands.split(", ") if operands else []
    variant, slot, size, extra = remark or "plain", 0, None, None
    if function in CONTROLS:
        return Event(number, time_ns, thread, function, variant, slot, size, extra)
    if function in (*REALLOCS, QUERY) or function.startswith(("free", "cfree", "delete", "drop")):
        named = words.pop(0)
        if named == "NULL":
            variant = "null"
        elif named != "?":
            slot = _number(named)
        extras = [word for word in words if word.startswith("align ")]
        sizes = [word for word in words if not word.startswith("align ")]
        if extras:
            extra = _number(extras[0])
        elif len(sizes) == 2:
            extra = _number(sizes.pop(0))
        size = _number(sizes[0]) if sizes else None
        if result and result != "NULL":
            slot = _number(result)
    else:
        *before, last = words
        extra, size = (_number(before[0]) if before else None), _number(last)
        slot = _number(result) if result and result != "NULL" else 0
    return Event(number, time_ns, thread, function, variant, slot, size, extra)


def parse(lines: Iterable[str]) -> Iterator[Event]:
    return (_event(line) for line in lines)


@lru_cache(maxsize=8)
def _events(tools: Tools, trace: Path, more: tuple[str, ...], _version: tuple[int, ...]) -> tuple[Event, ...]:
    dump = tools.succeed([tools.heaptape, "dump", trace, *more]).stdout.decode()
    return tuple(parse(as_without_sites(dump).splitlines()))


def events_of(tools: Tools, trace: Path, *more: str) -> list[Event]:
    """Of a trace that many tests ask for, parsed once."""
    status = trace.stat()
    return list(_events(tools, trace, more, (status.st_ino, status.st_size, status.st_mtime_ns)))
