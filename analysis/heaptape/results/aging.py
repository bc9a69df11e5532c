# SPDX-License-Identifier: Apache-2.0
"""One trace replayed on a fresh heap and on used ones (`replay --age`): verdicts that depend on it."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from .comparison import MEASURES, Experiment

SETTING = "age"


def age_flips(compared: Iterable[tuple[Experiment, pd.DataFrame]]) -> list[str]:
    """A sentence for each allocator and measure whose verdict is the opposite on another heap, all else being the same. Each
    experiment comes with its comparison, as `compare` gives it."""
    groups: dict[tuple[object, ...], list[tuple[str, pd.DataFrame]]] = {}
    for experiment, comparison in compared:
        others = tuple(sorted((name, text) for name, text in experiment.settings.items() if name != SETTING))
        key = (experiment.trace_sha256 or experiment.trace_path, others)
        groups.setdefault(key, []).append((experiment.settings.get(SETTING, ""), comparison))
    return [sentence for heaps in groups.values() if len(heaps) > 1 for sentence in _flips(heaps)]


def _flips(heaps: list[tuple[str, pd.DataFrame]]) -> list[str]:
    rows = pd.concat([comparison.assign(heap=age) for age, comparison in heaps])
    found = []
    for (measure_name, allocator, baseline), group in rows.groupby(["measure", "allocator", "baseline"], sort=False):
        measure = MEASURES[str(measure_name)]
        opposite = group[group["verdict"].isin([measure.less, measure.more])]
        if opposite["verdict"].nunique() < 2:
            continue
        of_heaps = _by_heap(opposite)
        found.append(f"{measure.title} of {allocator} against {baseline}: {of_heaps}. The verdict depends on how used the heap is.")
    return found


def _by_heap(rows: pd.DataFrame) -> str:
    """Each heap's verdict and ratio."""
    return "; ".join(f"{row.verdict} ({row.ratio:.2f}) on a {'heap of --age ' + row.heap if row.heap else 'fresh heap'}"
                     for row in rows.itertuples())
