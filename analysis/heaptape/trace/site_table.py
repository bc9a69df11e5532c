# SPDX-License-Identifier: Apache-2.0
"""The call sites of a trace: stacks as a tree of callers, where their code lies, and its names
(docs/reference/trace-format.md, "Call sites")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

CUT, BROKEN = 1, 2
"""Flags of a site: its stack is deeper than what was recorded; the unwinder could not go on."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Module:
    """A file with code."""

    path: str
    build_id: str


@dataclass(frozen=True)
class SiteTable:
    """Empty of a trace without call sites.

    Attributes:
        modules: numbered from 1 in `locations`.
        locations: module (0: none, an absolute address) and offset in it; numbered from 0.
        callers: parent (a caller's number, 0: none) and location. Caller n is row n - 1, behind its parent's.
        sites: caller (the innermost one, 0: no stack is known) and flags. Site n is row n - 1.
        names: location, function, file ("": unknown) and line (0: unknown), in the order of locations; of one location
            the innermost inlined function comes first.
    """

    modules: list[Module]
    locations: pd.DataFrame
    callers: pd.DataFrame
    sites: pd.DataFrame
    names: pd.DataFrame


class SiteTableError(ValueError):
    """The tables contradict one another; says what was expected."""


def _below(values: NDArray[Any], end: int | NDArray[Any], expected: str) -> NDArray[np.int64]:
    wrong = values >= np.asarray(end, dtype=np.uint64)
    if wrong.any():
        raise SiteTableError(f"expected {expected}, found {int(values[wrong][0])}")
    return values.astype(np.int64)


def _modules(text: dict[str, Any] | None) -> list[Module]:
    rows = (text or {}).get("modules", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SiteTableError("expected a list of modules")
    fields = [(row.get("path", ""), row.get("build_id", "")) for row in rows]
    if not all(isinstance(value, str) for pair in fields for value in pair):
        raise SiteTableError("expected modules with a path and a build id in text")
    return [Module(path, build_id) for path, build_id in fields]


def site_table(modules: dict[str, Any] | None, locations: Arrays, callers: Arrays, sites: Arrays, names: Arrays,
               strings: bytes, cut_short: bool = False) -> SiteTable:
    """The tables, once every number in them is known to name something. Raises SiteTableError. cut_short: names whose strings came
    behind the cut are none."""
    of_modules = _modules(modules)
    texts = ["", *(part.decode("utf-8", "replace") for part in strings.split(b"\0")[:-1])]
    if cut_short:
        whole = (names["function"] < len(texts)) & (names["file"] < len(texts))
        names = {column: values[whole] for column, values in names.items()}
    earlier = np.arange(1, callers["parent"].size + 1)

    def text(column: str) -> list[str]:
        return [texts[number] for number in _below(names[column], len(texts), "names of known strings")]

    places = locations["offset"].size
    back = np.flatnonzero(names["location"][1:] < names["location"][:-1])
    if back.size:
        raise SiteTableError(f"expected names in the order of locations, found {int(names['location'][back[0] + 1])}")
    return SiteTable(
        of_modules,
        pd.DataFrame({"module": _below(locations["module"], len(of_modules) + 1, "locations in known modules"),
                      "offset": locations["offset"]}),
        pd.DataFrame({"parent": _below(callers["parent"], earlier, "callers of earlier rows"),
                      "location": _below(callers["location"], places, "known locations")}),
        pd.DataFrame({"caller": _below(sites["caller"], earlier.size + 1, "known callers"),
                      "flags": _below(sites["flags"], 1 << 32, "flags below 2^32")}),
        pd.DataFrame({"location": _below(names["location"], places, "known locations"), "function": text("function"),
                      "file": text("file"), "line": _below(names["line"], 1 << 32, "lines below 2^32")}))
