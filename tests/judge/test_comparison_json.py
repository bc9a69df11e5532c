# SPDX-License-Identifier: Apache-2.0
"""The comparison as JSON. That each figure is in its place, the oracle shows."""

from __future__ import annotations

import json
from dataclasses import replace

from heaptape.judge.comparison_json import comparison_json
from heaptape.judge.json_text import json_text
from heaptape.judge.model import Warning
from judged_comparisons import MB, comparison, context, counted, steady

ALLOCATOR_KEYS = """name version path build_id baseline settings time_runs memory_runs failed_runs given_up problem limit alloc_time_ns rss_peak_bytes
rss_between_calls_peak_bytes watched rss_mean_bytes rss_end_bytes process_rss_peak_bytes of_recorded_peak ns_per_call instructions faults wait_time_ns
fragmentation calls harness_share processors_asked by_processors arenas arenas_max latency_ns latency_by_size_ns latency_floor_ns latencies_dropped perf
voluntary_switches involuntary_switches rss_after_free_bytes rss_after_purge_bytes lazyfree_bytes lazyfree_peak_bytes anon_huge_bytes
anon_huge_peak_bytes swap_bytes swap_peak_bytes decomposition syscalls syscalls_missing slop_bytes""".split()


def test_keys_and_their_order() -> None:
    found = comparison_json(comparison(context(), steady(0.8)))
    assert list(found) == ["trace", "calls", "inherited_objects", "rounds", "seed", "failed_runs", "scale", "processors", "baseline", "thp", "repeats", "control", "power",
                           "warnings", "fail_if", "harness", "recorded", "control_calls", "extrapolated", "baseline_check", "allocators"]
    assert [list(each) for each in found["allocators"]] == [ALLOCATOR_KEYS] * 2
    assert list(found["allocators"][1]["rss_end_bytes"]) == ["median", "minimum", "ratio", "ci_low", "ci_high", "pairs", "verdict_low", "verdict_high",
                                                            "verdict", "more_rounds", "outliers"]
    # Nothing in it is what JSON does not know.
    assert json.loads(json_text(found, 2)).keys() == found.keys() and "NaN" not in json.dumps(found)


def test_verdicts_in_the_figures_words() -> None:
    base, other = comparison_json(comparison(context(), steady(0.8)))["allocators"]
    assert (other["alloc_time_ns"]["verdict"], other["rss_peak_bytes"]["verdict"]) == ("faster", "smaller")
    assert base["alloc_time_ns"]["verdict"] is None and base["baseline"] is True
    *_, same = comparison_json(comparison(context(), steady(1.0)))["allocators"]
    assert same["alloc_time_ns"]["verdict"] == "same"


def test_one_allocator_is_compared_with_nothing() -> None:
    found = comparison_json(comparison(context("glibc"), [row[:2] for row in steady(0.8)]))
    assert found["control"] is None and found["fail_if"] == [] and found["allocators"][0]["alloc_time_ns"]["pairs"] == 8


def test_what_is_known_besides_rounds() -> None:
    made = comparison(context("jemalloc", "mimalloc", linked=True, processors=2, conditions=("instructions>1",), share_anon_bytes=9, share_explained_bytes=7),
                      steady(1.2), {"mimalloc": counted(1100)}, {"old": {"rss_peak_bytes": [24 * MB]}})
    made.measurements.failing[1].failed, made.measurements.failing[1].problem, made.measurements.failing[1].rounds_in_a_row = 2, "it died", 2
    made = replace(made, warnings=[Warning("busy", "others are", "end them")])
    found = comparison_json(made)
    _, other = found["allocators"]
    assert found["warnings"] == [{"kind": "busy", "message": "others are", "remedy": "end them"}]
    assert found["fail_if"] == [{"condition": "instructions>1", "outcome": "undecided", "met_by": [], "undecided": ["jemalloc", "mimalloc"]}]
    assert list(found)[15:17] == ["against_file", "harness"] and len(found["against_file"]["figures"]) == 10
    assert (found["processors"], found["recorded"]["explained_bytes"], found["recorded"]["malloc_share"]) == (2, 7, None)
    assert (other["failed_runs"], other["given_up"], other["problem"], other["instructions"]) == (2, True, "it died", 1100.0)
    assert 1.2 < other["of_recorded_peak"] < 1.3 and other["processors_asked"] is False and other["arenas_max"] == 8
    assert other["perf"] == {"instructions": 4_000_000, "cycles": None, "cache_misses": None, "llc_load_misses": None, "dtlb_load_misses": None,
                             "branch_misses": None, "context_switches": 2, "cpu_migrations": 0, "scope": "user", "missing": None}
    # A function that is never called has no row.
    assert other["calls"] == {"malloc": {"count": 300, "time_ns": 1.5, "touch_ns": 0.5}}


def test_what_a_round_took_apart() -> None:
    part = {"rss_bytes": 24 * MB, "requested_bytes": 18 * MB, "percent": {"requested": 75.0}}
    given = context()
    made = comparison(given, steady(1.2))
    for cells in made.measurements.rounds:
        cells[2].memory["decomposition"] = {"peak": part | {"in_call_bytes": 0}, "end": part, "after_free_bytes": 1, "after_purge_bytes": 2}
        cells[2].memory["rss_after_free_bytes"] = 3
    base, other = comparison_json(made)["allocators"]
    assert base["decomposition"] is None
    assert other["decomposition"] == {"peak": part | {"in_call_bytes": 0}, "end": part, "after_free_bytes": 3, "after_purge_bytes": 0}
