# SPDX-License-Identifier: Apache-2.0
"""Which allocator is better, and how sure are we: paired ratios to a baseline, with intervals and a verdict in words.

In every round each allocator runs once, so what disturbs a round disturbs all of it. Ratios are therefore taken within
rounds, and only then summarised: median ratio with a 95 % interval. The baseline runs twice, and what its second run, the
control, shows to differ from its first widens the interval by which verdicts go. The sums are the judge's
(judge/intervals.py), which docs/method/method.md defines.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..base.allocators import has_served
from ..base.arguments import BOOTSTRAP_SEED, did_you_mean
from ..base.errors import UsageError
from ..base.units import listing
from ..judge import intervals
from ..judge.intervals import (
    bootstrap_medians,
    outliers,
    student_interval_of_samples,
)
from ..judge.model import HIDDEN_SHARE, LESS, MORE, Interval
from ..judge.model import SAME as IS_SAME
from .reader import NULL_ALLOCATOR

CONFIDENCE = intervals.CONFIDENCE
RESAMPLES = intervals.RESAMPLES
SEED = BOOTSTRAP_SEED
PREFERRED_BASELINE = "glibc"
BOOTSTRAP_ROUNDS_MIN = intervals.BOOTSTRAP_ROUNDS_MIN
SAME_WITHIN = intervals.SAME_WITHIN

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
    "rss_end": Measure("rss_end", "rss_end_bytes", "memory", "bytes", "smaller", "larger", "RSS at the end"),
    "process_rss_peak": Measure("process_rss_peak", "process_rss_peak_bytes", "memory", "bytes", "smaller", "larger", "peak RSS of the process"),
}

SAME = "same within 1 %"
UNRESOLVED = "unresolved"
BASELINE = "baseline"


@dataclass(frozen=True)
class Estimate:
    """A ratio to the baseline: the median over the rounds and its 95 % interval (NaN where one round is all there is, or the
    harness hides its ends). hidden: in which share of the rounds the harness hides one of the two figures."""

    ratio: float
    ci_low: float
    ci_high: float
    rounds: int
    hidden: float = 0.0

    @property
    def interval(self) -> Interval:
        """The interval as the judge has it."""
        known = math.isfinite(self.ci_low) and math.isfinite(self.ci_high)
        return Interval(self.ratio, *((self.ci_low, self.ci_high) if known else (math.nan, math.nan)), self.rounds, self.hidden)


_NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Difference:
    """How much more than the baseline, in the measure's unit: the median over the rounds and its 95 % interval (NaN where one
    round is all there is). Equality is 0 here, and 1 in an Estimate."""

    middle: float
    ci_low: float
    ci_high: float
    rounds: int


def round_table(frame: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Values of one measure, shape (rounds, allocators), allocators in file order; NaN where a round lacks an allocator.

    Rows belong together by seed and round. A schedule that was run twice with one seed is separated by order: where anybody
    appears again in the same round of the same seed, failed or not, the second schedule begins.
    """
    rows = (frame["pass"] == measure.pass_name).to_numpy()
    control = is_control(frame)
    wanted = (frame["allocator"] != NULL_ALLOCATOR) & ~control & (frame["failures"] == 0) & frame[measure.column].notna()
    # A frame has hundreds of columns, each of which every selection of rows would copy.
    columns = [column.to_numpy()[rows].tolist()
               for column in (frame["seed"], frame["round"], frame["allocator"], control, wanted, frame[measure.column])]
    seen: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
    repeats: Counter[tuple[object, ...]] = Counter()
    values: dict[tuple[object, ...], dict[str, float]] = {}
    for seed, number, name, is_again, is_wanted, value in zip(*columns, strict=True):
        here = seen.setdefault((seed, number), set())
        if (name, is_again) in here:
            repeats[seed, number] += 1
            here.clear()
        here.add((name, is_again))
        if is_wanted:
            values.setdefault((seed, number, repeats[seed, number]), {})[name] = float(value)
    index = pd.MultiIndex.from_tuples(sorted(values), names=["seed", "round", "repeat"])
    names = dict.fromkeys(name for name, is_wanted in zip(columns[2], columns[4], strict=True) if is_wanted)
    return pd.DataFrame({name: [values[key].get(name, math.nan) for key in index] for name in names}, index=index, dtype=float)


def paired_ratios(values: pd.Series, base: pd.Series) -> Floats:
    """The judge's ratios: one for each round that has both figures, shape (rounds,); 0, infinite or NaN where the harness
    hides a figure."""
    if not values.index.equals(base.index):
        values, base = values.align(base)
    return np.array(intervals.paired_ratios(values.tolist(), base.tolist()), dtype=float)


def estimate_ratio(ratios: Floats, seed: int = SEED, resamples: int = RESAMPLES) -> Estimate:
    """Median of paired ratios, shape (rounds,), with its 95 % interval."""
    return _estimate(intervals.ratio_interval(ratios.tolist(), CONFIDENCE, seed, resamples))


def _estimate(interval: Interval) -> Estimate:
    return Estimate(interval.estimate, interval.low, interval.high, interval.count, interval.hidden)


def estimate_difference(differences: Floats, seed: int = SEED, resamples: int = RESAMPLES) -> Difference:
    """Does what estimate_ratio does, for paired differences; Student's t, if there are few, is on the differences themselves."""
    known = sorted(differences[np.isfinite(differences)].tolist())
    middle = intervals.median(known)
    if len(known) < 2:
        return Difference(middle, math.nan, math.nan, len(known))
    few = len(known) < BOOTSTRAP_ROUNDS_MIN
    low, high = intervals.student_interval(known) if few else intervals.resampled_interval(known, CONFIDENCE, seed, resamples)
    return Difference(middle, min(low, middle), max(high, middle), len(known))


def estimate_unpaired(values: Floats, others: Floats, seed: int = SEED) -> Difference:
    """How much more the values have than the others, where rounds of the two are no pairs: of the medians. What is uncertain in
    each adds in quadrature, as to a ratio to a baseline file; without an interval where either has one round only."""
    one, other = estimate_difference(values, seed), estimate_difference(others, seed)
    middle = one.middle - other.middle
    return Difference(middle, middle - math.hypot(one.middle - one.ci_low, other.ci_high - other.middle),
                      middle + math.hypot(one.ci_high - one.middle, other.middle - other.ci_low), min(one.rounds, other.rounds))


def estimate_saving(times: Floats, baseline: Floats, offset: float = 0.0) -> Difference:
    """How much longer than the baseline, in the unit of the times, shape (rounds,) each and paired: the estimate of the ratio,
    less 1, times the median of the baseline, plus the offset. A machine that is half as fast for a while doubles a difference
    and leaves a ratio. Where a time is not positive there is no ratio, and differences are estimated as they are."""
    known = np.isfinite(times) & np.isfinite(baseline)
    times, baseline = times[known], baseline[known]
    if times.size == 0 or (times <= 0).any() or (baseline <= 0).any():
        return estimate_difference(times - baseline + offset)
    ratio, scale = estimate_ratio(times / baseline), float(np.median(baseline))
    middle, low, high = ((value - 1) * scale + offset for value in (ratio.ratio, ratio.ci_low, ratio.ci_high))
    return Difference(middle, low, high, ratio.rounds)


def widen(estimate: Estimate, control: Estimate | None) -> Estimate:
    """The estimate with the interval that verdicts go by: wider by what the control (the baseline against itself) shows."""
    return _estimate(intervals.widened(estimate.interval, (control or _NOTHING).interval))


def is_control(frame: pd.DataFrame) -> pd.Series:
    """Which rows are the baseline's second run in a round: no results of an allocator, but a measure of the noise."""
    if "control" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["control"].astype(bool)


def control_estimate(
    frame: pd.DataFrame, measure: Measure, seed: int = SEED, resamples: int = RESAMPLES
) -> Estimate | None:
    """The control's ratio to the first run of the same allocator in its round; None where no control ran."""
    controls = is_control(frame)
    if not controls.any():
        return None
    again = round_table(frame[controls].assign(control=False), measure)
    if again.empty:
        return None
    first = round_table(frame, measure)
    pairs = [paired_ratios(again[name], first[name]) for name in again if name in first]
    if not pairs:
        return None
    return estimate_ratio(np.concatenate(pairs), seed, resamples)


def find_outliers(values: Floats) -> NDArray[np.bool_]:
    """Which values stand out from the others. NaN is none. Shape is kept."""
    found = np.zeros(values.size, dtype=bool)
    found[outliers(values.ravel().tolist())] = True
    return found.reshape(values.shape)


def verdict(estimate: Estimate, measure: Measure) -> str:
    """The estimate in words."""
    return {LESS: measure.less, MORE: measure.more, IS_SAME: SAME}.get(intervals.verdict(estimate.interval), UNRESOLVED)


def more_rounds(estimate: Estimate) -> int | None:
    """About how many more rounds would resolve it; None if unknown."""
    more = intervals.more_rounds(estimate.interval)
    return None if math.isnan(more) else int(more)


OLD_LABELS, NEW_LABELS = ("old", "before", "base"), ("new", "after", "head")
"""Names by which users say that two allocators are an old and a new build of one; a and b are such where there are no others."""


def measured_names(frame: pd.DataFrame) -> list[str]:
    """The allocators, in file order."""
    return [str(name) for name in dict.fromkeys(frame["allocator"]) if name != NULL_ALLOCATOR]


def newer_of(frame: pd.DataFrame, old: str) -> str:
    """The allocator that is the old one's newer build, by the rule of docs/reference/results.md; "" where none is: then the
    question is not what became worse, but which to take."""
    names = measured_names(frame)
    for labels, others in ((OLD_LABELS, NEW_LABELS), (NEW_LABELS, OLD_LABELS)):
        found = [name for name in names if name in others]
        if old in labels and len(found) == 1:
            return found[0]
    other = [name for name in names if name != old]
    is_newer = len(other) == 1 and old in names and (set(names) == {"a", "b"} or _are_builds_of_one(frame, old, other[0]))
    return other[0] if is_newer else ""


def _are_builds_of_one(frame: pd.DataFrame, old: str, new: str) -> bool:
    """Whether two allocators are of one kind, or where that is not known of one file name, and not one file."""
    rows = [frame[frame["allocator"] == name].iloc[0] for name in (old, new)]
    kinds = [row.get("allocator_kind") for row in rows]
    kinds = kinds if all(isinstance(kind, str) for kind in kinds) else [PurePath(row["allocator_path"]).name for row in rows]
    builds = [tuple(row[f"allocator_{key}"] for key in ("path", "version", "build_id")) for row in rows]
    return kinds[0] == kinds[1] != "" and builds[0] != builds[1]


def choose_baseline(frame: pd.DataFrame, wanted: str | None) -> str:
    """The baseline's name: the one asked for; else one that is labelled old beside a new one; else of those that ran the one that
    the program ran under, else glibc, else the baseline of the replay, whose second runs are the control's, else the first in the
    file. `frame` has the control's runs, too."""
    again = is_control(frame)
    own = frame[~again]
    names = measured_names(own)
    if wanted is not None:
        if wanted not in names:
            raise UsageError(f"--baseline {wanted}: expected one of {', '.join(names) or 'none'}, of which there are runs{did_you_mean(wanted, names)}")
        return wanted
    labelled = next((name for name in names if name in OLD_LABELS and newer_of(own, name)), None)
    if labelled:
        return labelled
    recorded = next((value for value in frame.get("trace_recorded_allocator", ()) if isinstance(value, dict)), None)
    served = recorded and next((str(name) for name, version in zip(own["allocator"], own["allocator_version"], strict=True)
                                if has_served(recorded, str(name), str(version))), None)
    ran_twice = [name for name in measured_names(frame[again]) if name in names]
    return served or (PREFERRED_BASELINE if PREFERRED_BASELINE in names else [*ran_twice, *names][0])


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

    measure, allocator, baseline, rounds (ratios: rounds in which the harness hides both figures have none), rounds_in_common (pairs), value (median, ns or bytes), minimum, unit, ratio, ci_low, ci_high,
    verdict_low, verdict_high (the interval widened by the control, by which the verdict goes), verdict, more_rounds (NaN
    unless unresolved), outliers (how many runs of the allocator stand out; they count like any other).
    """
    base = choose_baseline(frame, baseline)
    order = allocator_order(frame, base)
    rows = []
    for measure in MEASURES.values():
        table = round_table(frame, measure)
        control = control_estimate(frame, measure, seed, resamples)
        for name in [name for name in order if name in table]:
            rows.append({"measure": measure.name, "allocator": name, "baseline": base, "unit": measure.unit}
                        | _compare_one(table, measure, name, base, control, seed, resamples))
    names = ["measure", "allocator", "baseline", "rounds", "rounds_in_common", "value", "minimum", "unit", "ratio", "ci_low", "ci_high",
             "verdict_low", "verdict_high", "verdict", "more_rounds", "outliers"]
    return pd.DataFrame(rows, columns=names)


def _compare_one(
    table: pd.DataFrame, measure: Measure, name: str, base: str, control: Estimate | None, seed: int, resamples: int
) -> dict[str, object]:
    values = table[name].dropna()
    row: dict[str, object] = {
        "value": float(values.median()), "minimum": float(values.min()), "more_rounds": math.nan,
        "outliers": int(find_outliers(values.to_numpy()).sum()),
    }
    if name == base:
        equal = dict.fromkeys(("ratio", "ci_low", "ci_high", "verdict_low", "verdict_high"), 1.0)
        return row | equal | {"rounds": len(values), "rounds_in_common": len(values), "verdict": BASELINE}
    ratios, in_common = np.zeros(0), 0
    if base in table:
        ratios = paired_ratios(table[name], table[base])
        in_common = int((table[name].notna() & table[base].notna()).sum())
    estimate = estimate_ratio(ratios, seed, resamples)
    widened = widen(estimate, control)
    words = verdict(widened, measure)
    if words == UNRESOLVED:
        row["more_rounds"] = more_rounds(widened) or math.nan
    return row | {
        "rounds": estimate.rounds, "rounds_in_common": in_common, "ratio": estimate.ratio, "ci_low": estimate.ci_low, "ci_high": estimate.ci_high,
        "verdict_low": widened.ci_low, "verdict_high": widened.ci_high, "verdict": words,
    }


@dataclass(frozen=True)
class Experiment:
    """Runs that may be compared with one another: one trace, replayed in one way. `all_runs` has the control's, too, which
    `compare` wants and which are no results of an allocator."""

    trace_sha256: str
    trace_path: str
    settings: dict[str, str]
    all_runs: pd.DataFrame

    @property
    def is_as_recorded(self) -> bool:
        """Whether the recorded program's own time and memory may be set beside the replay's."""
        return not {"scale", "age", "extended", "processors"} & self.settings.keys()

    @property
    def has_recorded_calls(self) -> bool:
        """Whether the calls are the recording's, no others and no more: then so are their sizes, threads and live bytes."""
        return not {"scale", "extended"} & self.settings.keys()

    @property
    def runs(self) -> pd.DataFrame:
        """The allocators' runs, without the control's."""
        return self.all_runs[~is_control(self.all_runs)]


_SETTINGS = ("threads", "touch", "scale", "age", "extended", "processors", "touch_free", "pollution_bytes", "pollution_code_bytes", "pollution_pages",
             "purge_ns", "wrap", "configuration", "thp")
_USUAL = {"scale": "1", "processors": "0", "touch_free": "recorded", "pollution_bytes": "0", "pollution_code_bytes": "0",
          "pollution_pages": "0", "purge_ns": "0", "configuration": "default"}


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
        settings = {name: str(first[name]) for name in (*_SETTINGS, *split)}
        usual = {**_USUAL, "thp": str(first["machine"].get("thp"))}
        settings = {name: text for name, text in settings.items() if text not in ("", usual.get(name))}
        found.append(Experiment(first["trace_sha256"], first["trace_path"], settings, group))
    if not found:
        raise UsageError("expected runs of allocators, found those of the null allocator only")
    if not frame["pass"].isin(["count", "limit", *(measure.pass_name for measure in MEASURES.values())]).any():
        failed = frame[frame["failures"] > 0]
        faults = f"found faults in {listing(list(dict.fromkeys(failed['allocator'])))}" if len(failed) else "found no fault"
        raise UsageError(f"nothing was measured: the results hold the verify pass only, which {faults}; replay without "
                         "--verify to compare")
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


# ---- several traces ----

INTERVAL_MEANS = ("[95 % intervals] are for measuring these traces again; they do not hold for other programs")


def is_hidden(ratios: Floats) -> bool:
    """Whether there is no verdict on them, as the harness hides too many, or all that there are."""
    known = np.isfinite(ratios) & (ratios > 0)
    return not known.any() or float((~known).mean()) >= HIDDEN_SHARE


def _within_bounds(ratios: Floats) -> Floats:
    """Sorted. What is hidden is as good as the least or greatest of the others: it is too seldom to be a median."""
    found = np.sort(ratios[~np.isnan(ratios)])
    known = found[np.isfinite(found) & (found > 0)]
    return np.clip(found, known[0], known[-1])


def geometric_mean(ratios: list[Floats], seed: int = SEED, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Geometric mean over traces of the median paired ratio, with its 95 % interval: a bootstrap that draws rounds anew within
    each trace, never narrower than what any trace alone leaves uncertain; Student's t on the logarithms where a trace has fewer
    rounds than can be resampled. `ratios` has an array of shape (rounds,), as paired_ratios gives it, for each trace. No interval
    (NaN) where a trace has one round, nothing where the harness hides one."""
    if not ratios or any(is_hidden(values) for values in ratios):
        return math.nan, math.nan, math.nan
    known = [_within_bounds(values) for values in ratios]
    alone = [estimate_ratio(values, seed, resamples) for values in known]
    if len(known) == 1:
        return alone[0].ratio, alone[0].ci_low, alone[0].ci_high
    middle = math.exp(sum(math.log(np.median(values)) for values in known) / len(known))
    if any(values.size < 2 for values in known):
        return middle, math.nan, math.nan
    if any(values.size < BOOTSTRAP_ROUNDS_MIN for values in known):
        low, high = map(math.exp, student_interval_of_samples([np.log(values).tolist() for values in known]))
        return middle, min(low, middle), max(high, middle)
    total = np.zeros(resamples)
    for number, values in enumerate(known):
        # A sequence of its own for each trace: with the same one, all would draw the same ranks.
        total += np.log(bootstrap_medians(values, resamples, seed + 7919 * (number + 1)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.exp(np.quantile(total / len(known), [tail, 1 - tail]))
    # Resampled medians of few rounds fall on few points. Those of other traces fill the gaps, but for a trace that varies most.
    below, above = (max(abs(math.log(end / one.ratio)) for one, end in zip(alone, ends, strict=True)) / len(known)
                    for ends in ([one.ci_low for one in alone], [one.ci_high for one in alone]))
    return middle, min(float(low), middle * math.exp(-below)), max(float(high), middle * math.exp(above))
