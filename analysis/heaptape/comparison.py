"""Which allocator is better, and how sure are we: paired ratios to a baseline, with intervals and a verdict in words.

In every round each allocator runs once, so what disturbs a round disturbs all of it. Ratios are therefore taken within
rounds, and only then summarised: median ratio with a 95 % interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import UsageError
from .results import NULL_ALLOCATOR

SAME_WITHIN = 0.01
CONFIDENCE = 0.95
RESAMPLES = 9_999
SEED = 20_817
PREFERRED_BASELINE = "glibc"

BOOTSTRAP_ROUNDS_MIN = 6
"""Below this even the range from the least to the greatest ratio holds the median less often than 95 % of the time
(1 - 2^(1-n)), so that no resampling of so few could be honest; Student's t on the log ratios stands in."""

# Two-sided 97.5 % quantiles of Student's t for 1 to 4 degrees of freedom: all that fewer than 6 rounds can need.
_T_QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}

# Resamples are drawn in blocks of about so many values, so that thousands of rounds still fit into some tens of MB.
_BLOCK_VALUES = 1_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A figure by which allocators are compared, less being better."""

    name: str
    column: str
    pass_name: str
    unit: str
    less: str
    more: str
    title: str


MEASURES: dict[str, Measure] = {
    "time": Measure("time", "alloc_time_ns", "time", "ns", "faster", "slower", "time in malloc"),
    "rss_peak": Measure("rss_peak", "rss_peak_bytes", "memory", "bytes", "smaller", "larger", "peak RSS"),
    "rss_mean": Measure("rss_mean", "rss_mean_bytes", "memory", "bytes", "smaller", "larger", "mean RSS"),
}

SAME = "same within 1 %"
UNRESOLVED = "unresolved"
BASELINE = "baseline"


@dataclass(frozen=True)
class Estimate:
    """A ratio to the baseline: the median over the rounds and its 95 % interval (NaN where one round is all there is)."""

    ratio: float
    ci_low: float
    ci_high: float
    rounds: int


def round_table(frame: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Values of one measure, shape (rounds, allocators), allocators in file order; NaN where a round lacks an allocator.

    Rows belong together by seed and round. A schedule that was run twice with one seed is told apart by order: the
    second time an allocator appears in the same round of the same seed, it belongs to the second schedule.
    """
    rows = frame[(frame["pass"] == measure.pass_name) & (frame["allocator"] != NULL_ALLOCATOR)]
    rows = rows[(rows["failures"] == 0) & rows[measure.column].notna()]
    repeat = rows.groupby(["seed", "round", "allocator"], sort=False).cumcount()
    keys = rows.assign(repeat=repeat)
    # Sorted, as unstack without sorting gives values to the wrong columns in some versions of pandas.
    table = keys.set_index(["seed", "round", "repeat", "allocator"])[measure.column].unstack("allocator")
    names = list(dict.fromkeys(rows["allocator"]))
    return table.reindex(columns=names).astype(float)


def bootstrap_medians(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Medians of `resamples` samples drawn with replacement. values: (n,); result: (resamples,)."""
    count = values.size
    per_block = max(1, _BLOCK_VALUES // count)
    blocks = []
    for start in range(0, resamples, per_block):
        size = (min(per_block, resamples - start), count)
        blocks.append(np.median(values[rng.integers(0, count, size=size)], axis=1))
    return np.concatenate(blocks)


def estimate_ratio(ratios: Floats, seed: int = SEED, resamples: int = RESAMPLES) -> Estimate:
    """Median of paired ratios, shape (rounds,), with its 95 % interval: percentile bootstrap, or, below
    BOOTSTRAP_ROUNDS_MIN rounds, Student's t on the logarithms. Ratios that are not positive and finite are left out."""
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    rounds = int(ratios.size)
    if rounds == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    middle = float(np.median(ratios))
    if rounds == 1:
        return Estimate(middle, math.nan, math.nan, 1)
    if rounds < BOOTSTRAP_ROUNDS_MIN:
        logs = np.log(ratios)
        centre, spread = float(logs.mean()), float(logs.std(ddof=1))
        half = _T_QUANTILES[rounds - 1] * spread / math.sqrt(rounds)
        # The median lies inside but for rounding: it is never further from the mean than one standard deviation.
        low, high = math.exp(centre - half), math.exp(centre + half)
        return Estimate(middle, min(low, middle), max(high, middle), rounds)
    medians = bootstrap_medians(ratios, resamples, np.random.default_rng(seed))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Estimate(middle, float(low), float(high), rounds)


def verdict(estimate: Estimate, measure: Measure) -> str:
    """The estimate in words. An interval within 1 % of equality is "same" even where it excludes equality itself."""
    low, high = estimate.ci_low, estimate.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return UNRESOLVED
    if low >= 1 - SAME_WITHIN and high <= 1 + SAME_WITHIN:
        return SAME
    if high < 1:
        return measure.less
    if low > 1:
        return measure.more
    return UNRESOLVED


def more_rounds(estimate: Estimate) -> int | None:
    """About how many more rounds would resolve it, as intervals shrink with the root of the rounds; None if unknown.

    The cheaper of two ways out counts: an interval that clears equality, or one that fits within 1 % of it.
    """
    if not (math.isfinite(estimate.ci_low) and math.isfinite(estimate.ci_high)) or estimate.rounds < 2:
        return None
    half = (math.log(estimate.ci_high) - math.log(estimate.ci_low)) / 2
    centre = abs(math.log(estimate.ratio))
    target = max(centre, math.log1p(SAME_WITHIN) - centre)
    needed = estimate.rounds * (half / target) ** 2
    return max(1, math.ceil(needed - estimate.rounds))


def choose_baseline(frame: pd.DataFrame, wanted: str | None) -> str:
    """The baseline's name: the one asked for, else glibc where it ran, else the first allocator in the file."""
    names = [name for name in dict.fromkeys(frame["allocator"]) if name != NULL_ALLOCATOR]
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"no runs of baseline {wanted!r}; there are {', '.join(names) or 'none'}")
        return wanted
    return PREFERRED_BASELINE if PREFERRED_BASELINE in names else names[0]


def allocator_order(frame: pd.DataFrame, baseline: str) -> list[str]:
    """The baseline first, then the others from fastest to slowest, those without a time last and by name. File order
    would be no order at all: each round runs its allocators in a random one."""
    medians = round_table(frame, MEASURES["time"]).median()
    others = {name for name in frame["allocator"] if name not in (NULL_ALLOCATOR, baseline)}
    return [baseline, *sorted(others, key=lambda name: (medians.get(name, math.inf), name))]


def compare(
    frame: pd.DataFrame, baseline: str | None = None, seed: int = SEED, resamples: int = RESAMPLES
) -> pd.DataFrame:
    """Every allocator against the baseline, by every measure; `frame` holds the runs of one experiment (see
    `experiments`) as `read_results` gives them. One row per measure and allocator:

    measure, allocator, baseline, rounds (pairs used), value (median, ns or bytes), unit, ratio, ci_low, ci_high, verdict,
    more_rounds (NaN unless unresolved).
    """
    base = choose_baseline(frame, baseline)
    order = allocator_order(frame, base)
    rows = []
    for measure in MEASURES.values():
        table = round_table(frame, measure)
        for name in [name for name in order if name in table]:
            rows.append({"measure": measure.name, "allocator": name, "baseline": base, "unit": measure.unit}
                        | _compare_one(table, measure, name, base, seed, resamples))
    names = ["measure", "allocator", "baseline", "rounds", "value", "unit", "ratio", "ci_low", "ci_high", "verdict",
             "more_rounds"]
    return pd.DataFrame(rows, columns=names)


def _compare_one(
    table: pd.DataFrame, measure: Measure, name: str, base: str, seed: int, resamples: int
) -> dict[str, object]:
    values = table[name].dropna()
    row: dict[str, object] = {"value": float(values.median()), "more_rounds": math.nan}
    if name == base:
        return row | {"rounds": len(values), "ratio": 1.0, "ci_low": 1.0, "ci_high": 1.0, "verdict": BASELINE}
    if base not in table:
        ratios = np.zeros(0)
    else:
        ratios = (table[name] / table[base]).dropna().to_numpy()
    estimate = estimate_ratio(ratios, seed, resamples)
    words = verdict(estimate, measure)
    if words == UNRESOLVED:
        row["more_rounds"] = more_rounds(estimate) or math.nan
    return row | {
        "rounds": estimate.rounds, "ratio": estimate.ratio, "ci_low": estimate.ci_low, "ci_high": estimate.ci_high,
        "verdict": words,
    }


def leaders(frame: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES) -> list[str]:
    """The allocator with the least median, followed by those that can't be told from it. Empty without runs.

    Each is compared with the best directly, round by round: two allocators whose intervals to the baseline overlap may
    still be told apart, as the baseline's own noise is in both.
    """
    table = round_table(frame, measure)
    if table.empty:
        return []
    order = table.median().sort_values(kind="stable").index
    best = order[0]
    tied = [best]
    for name in order[1:]:
        estimate = estimate_ratio((table[name] / table[best]).dropna().to_numpy(), seed, resamples)
        if verdict(estimate, measure) != measure.more:
            tied.append(name)
    return tied


@dataclass(frozen=True)
class Experiment:
    """Runs that may be compared with one another: one trace, replayed in one way."""

    trace_sha256: str
    trace_path: str
    settings: dict[str, str]
    runs: pd.DataFrame


_SETTINGS = ("threads", "touch")


def experiments(frame: pd.DataFrame) -> list[Experiment]:
    """Split results by trace and by how it was replayed, in file order: ratios across these would mean nothing.

    Time and memory pass belong to one experiment although their pace may differ; within a pass it must not.
    """
    found = []
    trace_key = frame["trace_sha256"].where(frame["trace_sha256"] != "", frame["trace_path"])
    paces = {
        name: group["pace"].nunique() > 1
        for name, group in frame.groupby([trace_key, *_SETTINGS, "pass"], sort=False)
    }
    split = ["pace"] if any(paces.values()) else []
    for _, group in frame.groupby([trace_key, *_SETTINGS, *split], sort=False):
        # The null allocator may be replayed its own way (it needs no touch); alone it is no experiment.
        if (group["allocator"] == NULL_ALLOCATOR).all():
            continue
        first = group.iloc[0]
        settings = {name: str(first[name]) for name in (*_SETTINGS, *split) if first[name]}
        found.append(Experiment(first["trace_sha256"], first["trace_path"], settings, group))
    if not found:
        raise UsageError("the results hold runs of the null allocator only: nothing to compare")
    return found


def identical_pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Allocators that ran under two names but are one (same file, build and knobs): the A/A control, which must come
    out "same"."""
    first_by_identity: dict[tuple[str, ...], str] = {}
    pairs = []
    for name, runs in frame.groupby("allocator", sort=False):
        run = runs.iloc[0]
        identity = tuple(run[f"allocator_{key}"] for key in ("path", "version", "build_id", "knobs"))
        if name == NULL_ALLOCATOR or not any(identity):
            continue
        if identity in first_by_identity:
            pairs.append((first_by_identity[identity], str(name)))
        else:
            first_by_identity[identity] = str(name)
    return pairs
