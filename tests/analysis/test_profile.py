# SPDX-License-Identifier: Apache-2.0
"""What a trace's blocks are like, and what memory is made of, against plain loops and known truth."""

from __future__ import annotations

import math
from pathlib import Path

import naive_writer
import numpy as np
import pytest
import results_factory
from heaptape import fragmentation, read_results, timeline
from heaptape.report.latencies import latency_table
from heaptape.report.pareto import beaten_in_both, pareto_front, pareto_points
from heaptape.trace.profile import trace_profile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_writer import Event, TraceSpec


DROP, INHERIT = 30, 31


def _sound(inherited: list[int], raw: list[tuple[int, int, int]]) -> list[Event]:
    """Calls that a program could make: mallocs, reallocs and frees of what is live; and blocks that are inherited or dropped."""
    live = set(inherited)
    events = [Event(INHERIT, slot=slot, size=100 * slot) for slot in inherited]
    for kind, slot, size in raw:
        function = 1 if slot not in live else (3, 5, DROP)[kind]
        if function == 1:
            live.add(slot)
        elif function != 3:
            live.remove(slot)
        events.append(Event(function, 0, time=10 * len(events), slot=slot, size=size if function <= 3 else 0))
    return events


def _class(value: int) -> int:
    return 1 if value <= 1 else 1 << (value - 1).bit_length()


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inherited=st.lists(st.integers(1, 5), unique=True),
       raw=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 5_000)), min_size=1, max_size=80),
       block=st.sampled_from([1, 5, 64]))
def test_sizes_and_lifetimes_agree_with_a_plain_loop(heaptape_binary: Path, tmp_path: Path, inherited: list[int], raw: list, block: int) -> None:
    events = _sound(inherited, raw)
    born: dict[int, int] = {}
    held: dict[int, int] = {}
    sizes: dict[int, list[int]] = {}
    lifetimes: dict[int, list[int]] = {}
    live: list[int] = []
    for number, event in enumerate(events):
        if event.function in (5, DROP):
            birth, size = born.pop(event.slot), held.pop(event.slot)
            if event.function == 5:
                lifetimes.setdefault(_class(number - birth), []).append(size)
        else:
            born.setdefault(event.slot, number)
            held[event.slot] = event.size
            if event.function != INHERIT:
                sizes.setdefault(_class(event.size), []).append(event.size)
        live.append(sum(held.values()))
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, block=block))[0])
    profile = trace_profile(str(heaptape_binary), tmp_path / "t.bin", 4_000)
    assert profile.sizes.to_numpy().tolist() == [[k, len(v), sum(v)] for k, v in sorted(sizes.items())]
    assert profile.lifetimes.to_numpy().tolist() == [[k, len(v), sum(v)] for k, v in sorted(lifetimes.items())]
    assert profile.live_at_end == len(held)
    times, curve = profile.live["time_ns"].to_numpy(), profile.live["live_bytes"].to_numpy()
    assert (curve.max(), curve[-1]) == (max(live), live[-1]) and (np.diff(times) >= 0).all()
    assert times[curve.argmax()] == events[live.index(max(live))].time or not max(live)


def test_fragmentation_adds_up_with_and_without_a_decomposition(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=3)
    reported = {"rss_bytes": 100, "requested_bytes": 70, "internal_bytes": 10, "untouched_bytes": 5, "other_bytes": 25}
    for row in rows:
        if row["allocator"]["name"] == "jemalloc" and row["pass"] == "memory":
            row["decomposition"] = {"peak": reported, "end": reported | {"internal_bytes": None}}
            row |= {"rss_after_free_bytes": 40, "rss_after_purge_bytes": 4}
    table = fragmentation(read_results(results_factory.write(tmp_path / "r.jsonl", rows))).set_index("allocator")
    assert set(table.index) == {"glibc", "jemalloc", "tcmalloc", "mimalloc"}
    mine = table.loc["jemalloc"]
    assert [mine[f"peak_{part}_bytes"] for part in ("rss", "requested", "internal", "untouched", "other")] == [100, 70, 10, 5, 25]
    assert (mine["after_free_bytes"], mine["after_purge_bytes"]) == (40, 4) and math.isnan(mine["end_internal_bytes"])
    plain = table.loc["glibc"]
    assert plain["peak_internal_bytes"] == 2_400_000 and plain["f1"] == 1.1
    assert plain["peak_rss_bytes"] == pytest.approx(
        plain["peak_requested_bytes"] + plain["peak_internal_bytes"] + plain["peak_other_bytes"])


@pytest.mark.thorough
def test_timeline_is_the_median_run_of_each(tmp_path: Path) -> None:
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=5)))
    table = timeline(frame)
    assert list(table.columns) == ["allocator", "time_ns", "event", "live_bytes", "rss_bytes", "high_bytes"]
    assert table.groupby("allocator").size().to_dict() == dict.fromkeys(("glibc", "jemalloc", "tcmalloc", "mimalloc"), results_factory.POINTS)
    assert all(part["time_ns"].is_monotonic_increasing for _, part in table.groupby("allocator"))
    assert set(timeline(frame, ["mimalloc"])["allocator"]) == {"mimalloc"}
    assert timeline(frame[frame["pass"] == "time"]).empty


@pytest.mark.thorough
@settings(deadline=None)
@given(values=st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12))
def test_nobody_beats_the_front(values: list[tuple[int, int]]) -> None:
    import pandas as pd

    points = pd.DataFrame({"allocator": [str(i) for i in range(len(values))], "time": [v[0] for v in values],
                           "memory": [v[1] for v in values]})
    front = {int(name) for name in pareto_front(points)}
    for index, (time, memory) in enumerate(values):
        beaten = any(t <= time and m <= memory and (t, m) != (time, memory) for t, m in values)
        assert not (beaten and index in front)
        assert beaten or (time, memory) in {values[i] for i in front}


def test_latencies_of_few_readings_are_not_reported(tmp_path: Path) -> None:
    rows = results_factory.schedule(rounds=3)
    for row in rows:
        if row["pass"] == "time":
            entry = {"p50": 10.0, "p90": 20.0, "p99": 30.0 + row["round"], "p999": 90.0, "max": 99.0}
            row["latency_ns"] = {"free": entry | {"count": 400}, "calloc": entry | {"count": 20}}
    table = latency_table(read_results(results_factory.write(tmp_path / "r.jsonl", rows)), ["glibc", "mimalloc"])
    assert table["function"].tolist() == ["free", "free", "calloc", "calloc"]
    assert table["readings"].tolist() == [1_200, 1_200, 60, 60]
    assert table["p99"].tolist()[:2] == [31.0, 31.0] and np.isnan(table["p99"].tolist()[2:]).all()
    assert table["p999"].notna().tolist() == [True, True, False, False]


def test_points_lie_within_their_intervals(tmp_path: Path) -> None:
    from heaptape import compare

    frame = read_results(results_factory.write(tmp_path / "r.jsonl", results_factory.schedule(rounds=8)))
    points = pareto_points(compare(frame))
    assert len(points) == 4
    for key in ("time", "memory"):
        assert (points[f"{key}_low"] <= points[key]).all() and (points[key] <= points[f"{key}_high"]).all()


@pytest.mark.thorough
def test_what_is_unresolved_is_not_called_beaten(tmp_path: Path) -> None:
    """jemalloc's dot lies below and to the left of tcmalloc's in both, but within the noise in time; mimalloc is shown to
    be behind glibc in both."""
    from heaptape import compare

    truth = {"glibc": (1.0, 1.0), "jemalloc": (0.9, 0.8), "tcmalloc": (0.91, 0.9), "mimalloc": (2.0, 1.2)}
    rng = np.random.default_rng(3)
    rows = [results_factory.run(name, pass_name, number, rng, time_ratio=time, peak_ratio=peak, noise=0.15 if time < 1 else 0.01)
            for number in range(8) for name, (time, peak) in truth.items() for pass_name in ("time", "memory")]
    frame = read_results(results_factory.write(tmp_path / "r.jsonl", rows))
    points = pareto_points(compare(frame))
    assert "tcmalloc" not in pareto_front(points)  # by the dots alone
    found = beaten_in_both(frame, list(truth), "glibc", 1)
    assert found["mimalloc"] == "yes" and found["jemalloc"] == "no" and found["tcmalloc"] == "unresolved"
