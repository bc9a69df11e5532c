# SPDX-License-Identifier: Apache-2.0
"""Allocators that are here to be replayed, and which of them are compared where nothing else is asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from .allocators import is_the_linked
from .programs import list_allocators

USUAL = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
"""Kinds that are compared where nothing else is asked for, each in the newest version that is here."""

MUSL = "musl"
"""What the recorder calls the allocator in musl's C library. As a build of its own it is mallocng."""


@dataclass(frozen=True)
class Build:
    """An allocator that is here."""

    name: str
    kind: str
    version: str
    corrupts: bool = False
    """Its blocks are known to overlap."""

    @property
    def age(self) -> tuple[list[int], bool]:
        """Greatest for the newest; of the same version, for that which has the kind's name."""
        return [int(part) for part in re.findall("[0-9]+", self.version)], self.name == self.kind


def builds_here(replay: str, specification: str | None = None) -> list[Build]:
    """Those that run, of all or of an --alloc."""
    return _running(list_allocators(replay, specification))


def _running(listed: list[dict[str, Any]]) -> list[Build]:
    return [Build(str(item["name"]), str(item.get("kind") or ""), str(item.get("version") or ""), any(fault["corrupts"] for fault in item.get("faults") or []))
            for item in listed if item.get("built", True) and not item.get("problem")]


def broken(replay: str) -> list[str]:
    """A sentence for each build that does not run, as its library is gone, where no other of its usual kind does."""
    listed = list_allocators(replay, None)
    there = {build.kind for build in _running(listed)}
    return [f"{item['name']} is left out: {item['problem']}" for item in listed
            if item.get("problem") and item.get("kind") in USUAL and item["kind"] not in there]


def usual(builds: Collection[Build]) -> list[str]:
    """The newest of each usual kind whose blocks are not known to overlap."""
    return [max(of_kind, key=lambda build: build.age).name for kind in USUAL
            if (of_kind := [build for build in builds if build.kind == kind and not build.corrupts])]


def nearest(builds: Collection[Build], context: Mapping[str, Any], preferred: Collection[str] = ()) -> Build | None:
    """The build of the kind that served a recorded program, in its version; if there is none, one of the preferred names, else that
    which goes by the kind's name. context: of the recording."""
    name = str(context.get("allocator_name") or "")
    kind = "mallocng" if name == MUSL else name
    recorded = {"name": kind, "version": context.get("allocator_version")}
    return max((build for build in builds if build.kind == kind), default=None,
               key=lambda build: (is_the_linked(recorded, kind, build.version), build.name in preferred, build.name == kind))
