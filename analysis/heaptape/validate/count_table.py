# SPDX-License-Identifier: Apache-2.0
"""Counts for the terminal: instructions, predicted beside real, then what was missed and where."""

from __future__ import annotations

from typing import Any

from ..base.text_table import table_lines
from ..base.units import count, percent

_PLACES = (("allocator", "in malloc"), ("replayed", "predicted"), ("program", "outside"))
_MISSES = (("l1d_misses", "L1D misses"), ("l2_misses", "L2 misses"), ("l1i_misses", "L1I misses"), ("dtlb_misses", "TLB misses"),
           ("stlb_misses", "second TLB"), ("branch_misses", "branch misses"), ("faults", "page faults"))


def _signed(value: int) -> str:
    return f"{value:+,}" if value else "0"


def instruction_lines(document: dict[str, Any]) -> list[str]:
    """Of the program without its start, and the differences to the baseline."""
    base = document["baseline"]
    rows = [["allocator", "instructions", f"less {base}'s: predicted", "real", "error", "in malloc", "outside", "loading"]]
    for item in (item for item in document["allocators"] if "counts" in item):
        parts, apart = item["counts"], item["count_differences"]
        row = [item["name"], count(parts["allocator"]["instructions"] + parts["program"]["instructions"])]
        if not apart:
            rows.append([*row, "baseline", *[""] * 5])
            continue
        error = item["instructions_error"]
        rows.append([*row, _signed(item["instructions_delta_predicted"]), _signed(item["instructions_delta_real"]),
                     percent(error), *(_signed(apart[part]["instructions"]) for part in ("allocator", "program", "loader"))])
    return table_lines(rows, right=set(range(1, 8)))


def miss_lines(document: dict[str, Any]) -> list[str]:
    """Differences to the baseline, inside malloc, as predicted of that, and outside."""
    rows = [[f"less {document['baseline']}'s", "", *(title for _, title in _MISSES)]]
    for item in document["allocators"]:
        apart = item.get("count_differences") or {}
        for number, (part, place) in enumerate(_PLACES if apart else ()):
            rows.append(["" if number else item["name"], place, *(_signed(apart[part].get(key, 0)) for key, _ in _MISSES)])
    return table_lines(rows, right=set(range(2, 2 + len(_MISSES))))


def count_parts(document: dict[str, Any]) -> list[list[str]]:
    """The tables, each a list of lines."""
    title = "exact counts, by simulation; without start-up:"
    return [[title, *instruction_lines(document)], *([] if document["count"]["instructions_alone"] else [miss_lines(document)])]
