# SPDX-License-Identifier: Apache-2.0
"""Frames of stacks, as people know them: which are left out, which belong to wrappers of malloc, how they are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from ..trace.site_table import BROKEN, CUT, SiteTable

_CALLERS_MANY = 8
_CALLERS_FEW = 2


@dataclass(frozen=True)
class Locations:
    """Return addresses, by location: the module's number (0: none), whether functions there have names, and whether these are all
    wrappers or of runtime libraries."""

    module: list[int]
    named: list[bool]
    skipped: list[bool]


def nameless_wrappers(sites: list[int], parent: list[int], location: list[int], locations: Locations) -> set[int]:
    """A nameless return address is a wrapper's if more than half of its module's stacks lead to it, outside other wrappers, from eight
    callers or more. So are those below it that hardly anybody else calls (one or two callers).

    sites: the innermost caller of each stack, 0: none; parent, location: of callers, from number 1 on. Returns locations. The same as
    inspect/wrappers.c."""
    columns = zip(locations.module, locations.named, locations.skipped, strict=True)
    # Code of no module has no other in common.
    modules = {module for module, named, skipped in columns if module and not named and not skipped}
    found: set[int] = set()
    for module in sorted(modules):
        found |= _in_module(module, sites, parent, location, locations)
    return found


def _in_module(module: int, sites: list[int], parent: list[int], location: list[int], locations: Locations) -> set[int]:
    def outside(caller: int) -> int:
        while caller and (locations.skipped[at := location[caller - 1]] or at in passed):
            caller = parent[caller - 1]
        return caller

    found: set[int] = set()
    passed: set[int] = set()
    heads = [caller for caller in sites if caller]
    while heads := [caller for caller in map(outside, heads) if caller]:
        stacks = Counter(at for caller in heads if locations.module[at := location[caller - 1]] == module)
        head, count = stacks.most_common(1)[0] if stacks else (0, 0)
        if 2 * count <= stacks.total() or locations.named[head]:
            break
        callers = {location[above - 1] for caller in heads if location[caller - 1] == head and (above := parent[caller - 1])}
        passed.add(head)
        if len(callers) >= _CALLERS_MANY:
            found |= passed
        elif len(callers) > _CALLERS_FEW:
            break
    return found


_LIBRARY = re.compile(r"(?:std|__gnu_cxx|alloc|core|hashbrown|__rustc)::|operator new\b|__rust_|__rg_|__rdl_")
_LIBRARY_FILE = re.compile(r"/include/c\+\+/|^/rustc/[0-9a-f]+/library/|/rust[^/]*/library/(?:alloc|core|std)/|/hashbrown-[^/]*/src/")
_WRAPPER = re.compile(r"(?:alloc(?:ate)?(?:0|_?array|_?zero(?:ed)?|_?n)?|str_?n?_?dup|mem_?dup)$", re.IGNORECASE)
_ARGUMENTS = re.compile(r"<[^<>()]*>|\([^()<>]*\)")
_OWN_NAME = re.compile(r"(?:[\w~$.{}#']+::)*(?:operator\b.*|[\w~$.{}#']+)$")
_PROGRAM_TYPE = re.compile(r"[^\W\d]\w*::|[A-Z]\w+$")
_RUNTIME = re.compile(r"(?:ld|libc|libpthread|libdl|librt|libstdc\+\+|libc\+\+|libc\+\+abi)(?:-\d.*|-linux.*|[.-]musl.*)?\.so")
_OPERATOR_NEW_FILE = re.compile(r"/new_op[a-z]*\.cc$")


@dataclass(frozen=True)
class Frame:
    """A function that was called: of several at one return address all but the last are inlined. Without a name, offset in
    module (absolute where that is "") has to do. Pseudo frames, in brackets, have neither."""

    function: str = ""
    file: str = ""
    line: int = 0
    module: str = ""
    build_id: str = ""
    offset: int = 0

    @property
    def label(self) -> str:
        """The function, or where the code lies."""
        return self.function or f"{PurePath(self.module).name}+0x{self.offset:x}".lstrip("+")

    @property
    def place(self) -> str:
        """file:line, as far as known."""
        return f"{PurePath(self.file).name}:{self.line}" if self.line else PurePath(self.file or self.module).name

    @property
    def text(self) -> str:
        """The function and where it is."""
        return f"{self.label} ({self.place})" if self.function and self.place else self.label

    @property
    def text_with_folder(self) -> str:
        """The same, where several files have one name."""
        return f"{self.label} ({self.file}:{self.line})" if self.function and self.line else self.text

    @property
    def identity(self) -> tuple[str, str]:
        """What stays the same in another recording of the program, whose lines may have moved."""
        return (self.function, self.file) if self.function else (self.build_id or self.module, hex(self.offset))

    @property
    def wraps(self) -> bool:
        """Whether its caller says more of who asked for memory: a function such as xmalloc, or of a library of templates."""
        return bool(_LIBRARY_FILE.search(self.file)) or _is_wrapper(self.function)

    @property
    def in_library(self) -> bool:
        """Whether it is of such a library itself, not a program's function with a wrapper's name."""
        return self.in_runtime or bool(_LIBRARY_FILE.search(self.file)) or _is_library(self.function)

    @property
    def in_runtime(self) -> bool:
        """Whether it is of the C library, the loader or the C++ library: what they allocate is for their callers."""
        return _is_runtime(self.module)

    def object(self) -> dict[str, Any]:
        """For JSON: what is known."""
        fields = {"function": self.function, "file": self.file, "line": self.line, "module": self.module,
                  "offset": self.offset if self.module or not self.function else 0}
        return {name: value for name, value in fields.items() if value}


@cache
def _is_runtime(module: str) -> bool:
    return bool(_RUNTIME.match(PurePath(module).name))


def bare_name(function: str) -> str:
    """Without return type, arguments and those of templates: of "int ns::pool<int, std::less>::get(int)" ns::pool::get."""
    name = function.replace("(anonymous namespace)", "{anonymous}").replace("operator()", "operator{}")
    name = re.sub(r"operator(?:<=>|<<=?|>>=?|->\*?|<=?|>=?)", "operator{}", name).replace("->", "{}")
    while (shorter := _ARGUMENTS.sub("", name)) != name:
        name = shorter
    found = _OWN_NAME.search(re.sub(r"(?: (?:const|volatile|&&?))+$| \[clone [^\]]*\]| \[with .*", "", name).strip())
    return found[0] if found else name


def _split_impl(function: str) -> tuple[str, str, str] | None:
    """The parts of Rust's "<Type as Trait>::method"; the trait may be missing."""
    depth = 0
    for end, letter in enumerate(function):
        depth += (letter == "<") - (letter == ">" and function[end - 1] != "-")
        if not depth:
            break
    if not function.startswith("<") or depth:
        return None
    inner, depth = function[1:end], 0
    for at, letter in enumerate(inner):
        depth += (letter == "<") - (letter == ">" and inner[at - 1] != "-")
        if not depth and inner.startswith(" as ", at):
            return inner[:at], inner[at + 4:], function[end + 1:].lstrip(":")
    return inner, "", function[end + 1:].lstrip(":")


@cache
def _is_wrapper(function: str) -> bool:
    impl = _split_impl(function)
    return bool(_WRAPPER.search(bare_name(impl[2] if impl else function))) or _is_library(function)


@cache
def _is_library(function: str) -> bool:
    impl = _split_impl(function)
    if impl is None:
        return bool(_LIBRARY.match(bare_name(function)))
    type_, trait, _ = impl
    if _LIBRARY.match(type_):
        return True
    # What a library's trait does for a type that is no program's, such as u8, can only be the library's.
    return bool(_LIBRARY.match(trait)) and not _PROGRAM_TYPE.match(type_.lstrip("&*[(").removeprefix("mut ").removeprefix("const "))


UNKNOWN, CUT_FRAME, BROKEN_FRAME = (Frame(f"[{name}]") for name in ("unknown", "deeper than recorded", "not unwound"))


def _left_out(frame: Frame) -> bool:
    """The recorder's frames, and libstdc++'s operator new: others' are part of the program."""
    library = PurePath(frame.module).name
    own_new = frame.function.startswith("operator new")
    return library.startswith("libmalloc_wrap") or (own_new and bool(library.startswith("libstdc++") or _OPERATOR_NEW_FILE.search(frame.file)))


class Stacks:
    """The frames of each site, by number. program: the path of the program's own module, if it is known. more_wrappers: identities of
    frames without names that are wrappers in another recording."""

    def __init__(self, table: SiteTable, program: str = "", more_wrappers: frozenset[tuple[str, str]] = frozenset()) -> None:
        self._table, self.program, self._more_wrappers = table, program, more_wrappers
        self._parent, self._location = (table.callers[name].tolist() for name in ("parent", "location"))
        self._site = list(zip(table.sites["caller"].tolist(), table.sites["flags"].tolist(), strict=True))

    @cached_property
    def _frames(self) -> list[list[Frame]]:
        """The frames of each location, the innermost first."""
        modules = [(module.path or f"module {number}", module.build_id) for number, module in enumerate(self._table.modules, start=1)]
        places = [(*(modules[module - 1] if module else ("", "")), offset)
                  for module, offset in zip(self._table.locations["module"].tolist(), self._table.locations["offset"].tolist(), strict=True)]
        frames: list[list[Frame]] = [[] for _ in places]
        for location, function, file, line in self._table.names.itertuples(index=False):
            frames[location].append(Frame(function, file, int(line), *places[location]))
        return [named or [Frame("", "", 0, *place)] for named, place in zip(frames, places, strict=True)]

    @cached_property
    def nameless_wrappers(self) -> frozenset[tuple[str, str]]:
        """Identities of frames that are wrappers' by their place in the stacks alone."""
        locations = Locations(self._table.locations["module"].tolist(), [any(frame.function for frame in frames) for frames in self._frames],
                              [all(frame.wraps or frame.in_runtime or _left_out(frame) for frame in frames) for frames in self._frames])
        found = nameless_wrappers([caller for caller, _ in self._site], self._parent, self._location, locations)
        return frozenset(self._frames[location][0].identity for location in found)

    @cached_property
    def _all_nameless_wrappers(self) -> frozenset[tuple[str, str]]:
        return self.nameless_wrappers | self._more_wrappers

    def _wraps(self, frame: Frame) -> bool:
        return frame.wraps or (not frame.function and frame.identity in self._all_nameless_wrappers)

    def of(self, site: int) -> list[Frame]:
        """The innermost first."""
        caller, flags = self._site[site - 1] if site else (0, 0)
        found: list[Frame] = []
        while caller:
            found += self._frames[self._location[caller - 1]]
            caller = self._parent[caller - 1]
        while found and _left_out(found[0]):
            del found[0]
        if not found:
            return [UNKNOWN]
        return found + [CUT_FRAME] * bool(flags & CUT) + [BROKEN_FRAME] * bool(flags & BROKEN)

    def place(self, site: int) -> tuple[Frame, ...]:
        """The call site as people name it: the function that called malloc; where that is a wrapper or of a runtime library, its
        callers as well, up to the first that is neither. Of frames of libraries in a row, the first and the last. Where a function
        has a name, it does not count which copy of its code it was."""
        frames = self.of(site)
        end = next((number for number, frame in enumerate(frames) if not (self._wraps(frame) or frame.in_runtime)), None)
        if end is None:  # a library's own
            end = next((number for number, frame in enumerate(frames) if not frame.wraps), len(frames) - 1)
        inside = [0 < number < end and all(frame.in_library for frame in frames[number - 1:number + 2]) for number in range(end + 1)]
        shown = [frame for frame, left_out in zip(frames, inside, strict=False) if not left_out]
        return tuple(replace(frame, offset=0) if frame.function else frame for frame in shown)


@cache
def _without_arguments(function: str) -> str:
    """The name itself where it has none, or is an operator of some kind or Rust's "<Type as Trait>::method"."""
    name = bare_name(function).replace("{anonymous}", "(anonymous namespace)")
    return function if function.startswith("<") or "{}" in name else name


def _short(frame: Frame) -> Frame:
    """The frame; a library's function has its name without arguments, which can take lines."""
    return replace(frame, function=_without_arguments(frame.function)) if frame.in_library else frame


def short_place(place: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The place as text has it: a call that allocates by several of a library's functions that differ in arguments alone, as those of
    std::deque, has one."""
    return tuple(map(_short, place))


def place_text(place: tuple[Frame, ...], with_folder: bool = False) -> str:
    """On one line."""
    return " ← ".join(frame.text_with_folder if with_folder else frame.text for frame in short_place(place))


def factorized(places: Sequence[tuple[Frame, ...]], with_arguments: bool = False) -> tuple[np.ndarray[Any, Any], list[tuple[Frame, ...]]]:
    """The number of each, equal ones having the same, and for each number the first that has it."""
    keys = list(places) if with_arguments else list(map(short_place, places))
    number = pd.factorize(pd.Series(keys, dtype=object))[0]
    return number, [places[row] for row in np.unique(number, return_index=True)[1]]
