# SPDX-License-Identifier: Apache-2.0
"""What all feeds have in common: a name for each allocator of each experiment, and its figures with their intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ..results.comparison import (
    BASELINE,
    MEASURES,
    Experiment,
    Floats,
    Measure,
    estimate_difference,
    round_table,
)
from ..results.summary import Summary


@dataclass(frozen=True)
class Figure:
    """A measure of one allocator: its values by round, their median and its 95 % interval; and the ratio to the baseline with the
    interval that verdicts go by. NaN where it is not known; of the baseline the ratio is not."""

    allocator: str
    baseline: str
    measure: Measure
    values: Floats
    middle: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    verdict: str


_USUAL = {"threads": "trace", "touch": "recorded"}


def _title(experiment: Experiment) -> str:
    settings = [f", {key} {value}" for key, value in experiment.settings.items() if _USUAL.get(key) != value]
    return (PurePath(experiment.trace_path).name or experiment.trace_sha256[:12] or "trace") + "".join(settings)


def titles(summaries: Sequence[Summary]) -> list[str]:
    """Of each experiment one that stays the same from run to run, wherever the trace is: its file's name, and what was unusual in
    its replay. Where several have the same, the path or checksum, too."""
    short = [_title(summary.experiment) for summary in summaries]
    times = Counter(short)
    return [name if times[name] == 1 else summary.title for name, summary in zip(short, summaries, strict=True)]


def figures(summary: Summary) -> Iterator[Figure]:
    """In the order of the comparison: by measure, the baseline first."""
    tables = {name: round_table(summary.experiment.runs, measure) for name, measure in MEASURES.items()}
    for row in summary.comparison.itertuples():
        values = tables[row.measure][row.allocator].dropna().to_numpy()
        own = estimate_difference(values, summary.seed)
        compared = row.verdict != BASELINE
        ratio, low, high = (float(value) if compared else math.nan for value in (row.ratio, row.verdict_low, row.verdict_high))
        yield Figure(str(row.allocator), str(row.baseline), MEASURES[row.measure], values, own.middle, own.ci_low, own.ci_high, ratio, low, high,
                     str(row.verdict))
