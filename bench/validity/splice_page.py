# SPDX-License-Identifier: Apache-2.0
"""The section of docs/method/validity.md on times with the program's accesses, from the results of splice.py."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.validity.markdown import share_of, signed, table

from heaptape.base.units import MISSING, decimal, percent

SPLICED = Path(__file__).resolve().parents[2] / "docs" / "method" / "validity" / "splice.jsonl"
SPLICE_GOAL, BARE_GOAL, OFF_GOAL, RANK_GOAL = 0.003, 0.008, 0.05, 0.95
LARGE = 0.01

SECTION = """## The program's time
`bench/validity/splice.py` counts {programs} other programs of about 0.1 s ([splice.toml](../../bench/validity/splice.toml)), and replays their calls with and without their accesses ([count.md](../reference/count.md)). Differences to {baseline}
of the modelled time, in percent of the program's, *real / with accesses / calls alone*; bold if the sign is wrong above {large}. Calls alone do not include the program's own misses, which placement changes by several percent of its time."""


@dataclass(frozen=True)
class Pair:
    """A program under an allocator: differences to the baseline as shares of the program's time."""

    program: str
    allocator: str
    real: float
    splice: float
    bare: float

    @property
    def wrong(self) -> bool:
        return abs(self.real) > LARGE and self.real * self.splice <= 0


def pairs_of(results: list[dict[str, Any]]) -> list[Pair]:
    return [Pair(result["name"], item["name"], *(item[f"{key}_ns"] / result["baseline_ns"] for key in ("real", "splice", "bare")))
            for result in results for item in result["allocators"] if not item["problem"]]


def _rank_correlation(pairs: list[Pair]) -> float:
    """Of the differences, by Spearman."""
    ranks = [np.argsort(np.argsort(values)) for values in ([pair.real for pair in pairs], [pair.splice for pair in pairs])]
    return float(np.corrcoef(*ranks)[0, 1])


def splice_totals(results: list[dict[str, Any]]) -> list[list[str]]:
    """What, how much, and what it should be."""
    pairs = pairs_of(results)
    large = [pair for pair in pairs if abs(pair.real) > LARGE]
    if len(pairs) < 2:
        return []
    rows = [[f"program's time: error {how}, in percent of it, median of {len(pairs)} pairs",
             percent(statistics.median(abs(value - pair.real) for pair, value in values)), f"≤ {percent(goal)}"]
            for how, goal, values in (("with accesses", SPLICE_GOAL, [(pair, pair.splice) for pair in pairs]),
                                      ("of calls alone", BARE_GOAL, [(pair, pair.bare) for pair in pairs]))]
    off = statistics.median(abs(pair.splice / pair.real - 1) for pair in large) if large else None
    return [*rows, [f"program's time: error with accesses, of differences above {percent(LARGE)}, median", percent(off), f"≤ {percent(OFF_GOAL)}"],
            [f"program's time: sign right with accesses, of differences above {percent(LARGE)}",
             share_of(sum(not pair.wrong for pair in large), len(large)), "all"],
            ["program's time: rank correlation of real differences and those with accesses", decimal(_rank_correlation(pairs), 2),
             f"≥ {decimal(RANK_GOAL, 2)}"]]


def _cell(pair: Pair) -> str:
    cell = " / ".join(signed(100 * value, 2) for value in (pair.real, pair.splice, pair.bare))
    return f"**{cell}**" if pair.wrong else cell


def splice_section(results: list[dict[str, Any]]) -> str:
    """The whole."""
    cells = {(pair.program, pair.allocator): _cell(pair) for pair in pairs_of(results)}
    allocators = list(dict.fromkeys(item["name"] for result in results for item in result["allocators"]))
    rows = [[result["name"], f"{result['baseline_ns'] / 1e6:.0f}", f"{result['calls']:,}",
             *(cells.get((result["name"], allocator), MISSING) for allocator in allocators)] for result in results]
    head = SECTION.format(programs=len(results), baseline=results[0]["baseline"], large=percent(LARGE))
    return "\n\n".join([head, table(["program", "ms", "calls", *allocators], rows), table(["all pairs", "found", "goal"], splice_totals(results))])
