# SPDX-License-Identifier: Apache-2.0
"""No sentence says as a fact what the verdicts leave open, and no two contradict each other."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import results_factory
import story
from heaptape.results.comparison import MEASURES, compare
from heaptape.results.malloc_share import malloc_share, memory_share
from heaptape.results.reader import read_results
from heaptape.results.verdicts import headline, in_words, lead_over, standing_of
from heaptape.trace.reader import read_trace
from quick_tier import quick

NAMES = ("glibc", "a", "b", "c")


def _frame(tmp_path: Path, seed: int, noise: float) -> pd.DataFrame:
    """Allocators that differ by little or nothing, so that verdicts of every kind come up."""
    rng = np.random.default_rng(seed)
    rows = []
    truth = {name: float(rng.choice([0.95, 0.985, 1.0, 1.02])) for name in NAMES[1:]} | {"glibc": 1.0}
    for number in range(7):
        for name in NAMES:
            for pass_name in ("time", "memory"):
                row = results_factory.run(name, pass_name, number, rng, time_ratio=truth[name], noise=noise, points=4,
                                          peak_ratio=truth[name] * float(np.exp(rng.normal(0, noise))))
                rows.append(row | {"calls": {}})
    return read_results(results_factory.write(tmp_path / "r.jsonl", rows))


@pytest.mark.parametrize("seed", quick(range(3), range(9)))
def test_verdicts_and_sentences_agree(tmp_path: Path, seed: int) -> None:
    frame = _frame(tmp_path, seed, noise=(0.003, 0.01, 0.03)[seed % 3])
    comparison = compare(frame)
    words = headline(frame, comparison)
    for name, word in (("time", "faster"), ("rss_peak", "smaller")):
        standing = standing_of(frame, comparison, MEASURES[name])
        rows = comparison[comparison["measure"] == name].set_index("allocator")
        better = set(rows.index[rows["verdict"] == word])
        assert standing.leader in (better or {"glibc"})
        assert ("glibc" in standing.tied) is False
        # Who is tied was not shown to be behind the baseline, so that no row of the table says it is.
        assert not any(rows.loc[other, "verdict"] in ("slower", "larger") for other in standing.tied)
        if not better:
            assert set(standing.tied) == set(rows.index[~rows["verdict"].isin(["slower", "larger", "baseline"])])
    fastest = re.search(r"(\w+) is fastest", words)
    time = standing_of(frame, comparison, MEASURES["time"])
    assert (fastest is not None) == (not time.tied) and (fastest is None or fastest[1] == time.leader)


@pytest.mark.parametrize("seed", quick([0], range(3)))
@pytest.mark.parametrize("recorded", ["glibc", "a", "unknown"])
def test_what_would_be_saved_is_shown(tmp_path: Path, seed: int, recorded: str) -> None:
    frame = _frame(tmp_path, seed, noise=(0.003, 0.01, 0.03)[seed % 3])
    comparison = compare(frame)
    value = malloc_share(frame, {"allocator_name": recorded}, {"recorded_cpu_ns": story.CPU_NS}, comparison)
    standing = standing_of(frame, comparison, MEASURES["time"])
    lead = lead_over(frame, standing, value.reference)
    if not lead.shown:
        assert "No other allocator measured here clearly saves any of it." in value.sentence()
        return
    assert f"{standing.leader} would save about" in value.sentence() and value.reference not in (standing.leader, *standing.tied)
    assert 0 < value.saving.share < value.share
    if value.reference == "glibc":
        assert value.saving.share == pytest.approx((1 - standing.row(standing.leader)["ratio"]) * value.share)


def test_no_more_is_saved_than_could_be_gained(tmp_path: Path) -> None:
    """Half of the peak is the heap's own in the recording, and an allocator takes a tenth of that: part of what was live was
    never resident, so that the possible gain is unknown."""
    _, trace_path = story.write_story(tmp_path)
    rows = results_factory.schedule(rounds=8, names=("glibc", "a"), peak_ratio=1.0, points=4)
    for row in rows:
        if row["allocator"]["name"] == "a" and row["pass"] == "memory":
            row["rss_peak_bytes"] //= 10
    frame = read_results(results_factory.write(tmp_path / "small.jsonl", rows))
    same = read_results(results_factory.write(
        tmp_path / "same.jsonl", results_factory.schedule(rounds=8, names=("glibc", "tcmalloc"))))
    with read_trace(trace_path) as trace:
        assert memory_share(same, trace, compare(same)).gain == pytest.approx((69.7 - 52.1) / 72.7, abs=0.01)
        value = memory_share(frame, trace, compare(frame))
    assert value.gain is None and "is unknown" in value.sentence() and "a would save about" in value.sentence()


def test_more_rounds_than_anybody_waits_for_are_not_counted() -> None:
    row = pd.Series({"verdict": "unresolved", "rounds": 12, "rounds_in_common": 12, "more_rounds": 20_601.0, "ratio": 1.0, "verdict_low": 0.9, "verdict_high": 1.2})
    assert in_words(row) == "unresolved (needs over 1,000 more rounds)"
    assert in_words(row.replace(20_601.0, 35.0)) == "unresolved (needs about 35 more rounds)"


@pytest.mark.thorough
def test_the_report_says_what_compare_says(tmp_path: Path) -> None:
    """One headline, one set of warnings and one sentence each on malloc's share."""
    from heaptape.report.html import write_report
    from heaptape.report.table import comparison_object
    from heaptape.results.comparison import experiments
    from heaptape.results.summary import summarise

    results, trace = story.write_story(tmp_path)
    frame = read_results(results)
    text = html.unescape(write_report(frame, tmp_path / "r.html", [trace]).read_text())
    said = comparison_object(summarise(experiments(frame)[0], None, traces=[trace]))
    assert said["headline"] in text and all(sentence in text for sentence in said["worth"]["sentences"])
    json.dumps(said)
