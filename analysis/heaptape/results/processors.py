# SPDX-License-Identifier: Apache-2.0
"""One trace replayed as on machines with several numbers of processors (`replay --cpus`): memory by allocator and number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..base.units import counted, figure
from .comparison import MEASURES, Experiment, Measure, round_table

_MACHINES = "0"


@dataclass(frozen=True)
class ProcessorTable:
    """Medians of the peak, with the allocator's arenas where it reports them; the numbers of processors ascend, the machine's
    own comes first."""

    trace_path: str
    title: str
    columns: list[str]
    rows: list[list[str]]


def processor_tables(found: Sequence[Experiment]) -> list[ProcessorTable]:
    """A table for each trace that was replayed with several numbers, and otherwise in one way."""
    groups: dict[tuple[object, ...], dict[int, Experiment]] = {}
    for experiment in found:
        others = tuple(sorted((name, text) for name, text in experiment.settings.items() if name != "processors"))
        number = int(experiment.settings.get("processors", _MACHINES))
        groups.setdefault((experiment.trace_sha256, others), {})[number] = experiment
    tables = [_table(dict(sorted(by_number.items()))) for by_number in groups.values() if len(by_number) > 1]
    return [table for table in tables if table.rows]


def _table(by_number: dict[int, Experiment]) -> ProcessorTable:
    process, heap = MEASURES["process_rss_peak"], MEASURES["rss_peak"]
    known = all(experiment.runs[process.column].notna().any() for experiment in by_number.values())
    measure = process if known else heap
    cells = {number: _cells(experiment, measure) for number, experiment in by_number.items()}
    names = dict.fromkeys(name for column in cells.values() for name in column)
    columns = ["allocator", *("as it is" if number == 0 else counted(number, "processor") for number in cells)]
    rows = [[name, *(column.get(name, "") for column in cells.values())] for name in names]
    return ProcessorTable(next(iter(by_number.values())).trace_path, measure.title, columns, rows)


def _cells(experiment: Experiment, measure: Measure) -> dict[str, str]:
    """By allocator the median, and its arenas."""
    medians = round_table(experiment.runs, measure).median().dropna()
    arenas = experiment.runs.groupby("allocator")["arenas"].median() if "arenas" in experiment.runs else pd.Series(dtype=float)
    return {str(name): _cell(float(value), measure, float(arenas.get(name, float("nan")))) for name, value in medians.items()}


def _cell(value: float, measure: Measure, arenas: float) -> str:
    with_arenas = f", {counted(arenas, 'arena')}" if arenas == arenas else ""
    return figure(value, measure.unit) + with_arenas
