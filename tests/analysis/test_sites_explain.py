# SPDX-License-Identifier: Apache-2.0
"""`heaptape explain` names the call sites that hold holes, leak and churn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random

import naive_writer
import pandas as pd
import pytest
from heaptape import read_trace
from heaptape.explain.answering import births_of
from heaptape.explain.call_sites import call_sites, site_rows, site_sentences, sites_object
from naive_writer import Event, TraceSpec, sites_of
from tool_runner import Tools

MALLOC, REALLOC, FREE = 1, 3, 5
STACKS = [["xmalloc@util.c:7", f"{function}@job.c:{number}"] for number, function in enumerate(("load", "pin", "leak", "churn"), start=1)]


def _trace(path: Path) -> Path:
    """A load at the start; then, 300 times, churn and a leak, and now and then a block that pins, from a realloc."""
    events = [Event(MALLOC, 0, 0, 0, 1, 5000, site=1)]
    for number in range(300):
        time, slot = 100 * number, 10 + number
        events += [Event(MALLOC, 0, 0, time, slot, 50, site=3), Event(MALLOC, 0, 0, time, 2, 8, site=4), Event(FREE, 0, 0, time + 20, 2)]
        if number % 60 == 0:
            events += [Event(MALLOC, 0, 1, time + 20, 1000 + number, 8, site=4), Event(REALLOC, 0, 1, time + 20, 1000 + number, 16, site=2)]
    path.write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(STACKS), block=128))[0])
    return path


def test_the_culprits_are_named(tmp_path: Path) -> None:
    slots = [1, *range(10, 310), *range(1000, 1300, 60)]
    with read_trace(_trace(tmp_path / "t.bin")) as trace:
        births = births_of(trace, trace.records, pd.Series(slots).to_numpy())
        assert births["site"].tolist() == [1, *[3] * 300, *[2] * 5]
        blocks = births.assign(slot=slots, requested_bytes=10, holes_bytes=[0.0, *[0.1] * 300, *[500.0] * 5])
        found = call_sites(trace, blocks)
    assert found
    assert site_rows(found, 2530)[1:] == [["2.50 kB", "99 %", "5", "50.0 B", "xmalloc (util.c:7) ← pin (job.c:2)"],
                                          ["30.0 B", "1.2 %", "300", "3.00 kB", "xmalloc (util.c:7) ← leak (job.c:3)"]]
    assert site_sentences(found) == [
        "Growth: xmalloc (util.c:7) ← leak (job.c:3) keeps ever more: 15.0 kB in 300 blocks at 29.9 µs, 7.60 kB at 15.1 µs.",
        "Churn: xmalloc (util.c:7) ← churn (job.c:4) makes 305 of the calls (50 %), of blocks that are freed after 19.7 ns."]
    shown = sites_object(found)
    assert shown and [frame["function"] for frame in shown["growing"][0]["frames"]] == ["xmalloc", "leak"] and shown["churn"]["calls"] == 305


@pytest.mark.parametrize(("births", "named"), [([150], False), ([*range(100, 130)], False), ([*range(50, 60), *range(200, 210)], False),
                                               ([*range(0, 300, 5)], True), ([*range(200, 300, 2)], True)],
                         ids=["one block", "a burst", "two bursts", "a leak", "a leak from two thirds on"])
def test_a_burst_is_no_leak(tmp_path: Path, births: list[int], named: bool) -> None:
    events = [Event(MALLOC, 0, 0, 0, 1, 5000, site=1)]
    for number in range(300):
        events += [Event(MALLOC, 0, 0, number, 2, 8, site=4), Event(FREE, 0, 0, number, 2)]
        events += [Event(MALLOC, 0, 0, number, 10 + number, 30_000 // len(births), site=3)] * (number in births)
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(STACKS), block=128))[0])
    with read_trace(tmp_path / "t.bin") as trace:
        found = call_sites(trace, births_of(trace, trace.records, pd.Series([1]).to_numpy()).assign(slot=[1], requested_bytes=10, holes_bytes=[0.0]))
    assert found and bool(found.growing) == named
    assert any("leak (job.c:3) keeps" in line for line in site_sentences(found)) == named


def _cache(blocks: int, number: int, random: Random) -> int:
    """The place of the entry that the next one takes, after so many."""
    return number if number < blocks else random.randrange(blocks)


@pytest.mark.parametrize(("kind", "named"), [
    ("leak beside a full cache", ["leak"]), ("two leaks", ["pin", "leak"]), ("one in 20 leaks", ["leak"]), ("a backlog that grows", ["leak"]),
    ("full cache", []), ("cache that fills at 80 %", []), ("sessions", []), ("load, then a leak", ["leak"]),
    ("a quarter is freeing", ["leak"]), ("freed but a pool, then a pause", ["leak"]), ("start-up peak", ["leak"]), ("vector", ["leak"]),
    ("collected", ["leak"]), ("collected, no leak", []), ("ten sites", [None])])
def test_what_grows_is_told_from_what_is_full(tmp_path: Path, kind: str, named: list[str]) -> None:
    """The largest site may be a bounded cache; the one that leaks may free most of its blocks, or all but the last."""
    random, events, slots = Random(kind), list[Event](), count(10)
    stacks = [*STACKS, *([f"f{number}@many.c:{number}"] for number in range(40))]
    live: dict[str, dict[int, int]] = {"load": {}, "pin": {}, "leak": {}}
    site = {"load": 1, "pin": 2, "leak": 3}

    def put(name: str, place: int, size: int) -> None:
        drop(name, place)
        live[name][place] = next(slots)
        events.append(Event(MALLOC, 0, 0, len(events), live[name][place], size, site=site[name]))

    def drop(name: str, place: int) -> None:
        if place in live[name]:
            events.append(Event(FREE, 0, 0, len(events), live[name].pop(place)))

    if kind == "start-up peak":
        put("load", 0, 20_000_000)
        drop("load", 0)
    for number in range(4000):
        if kind in ("leak beside a full cache", "full cache"):
            put("load", _cache(300, number, random), 4000)
        if kind == "cache that fills at 80 %":
            put("leak", _cache(3200, number, random), 400)
        if kind == "two leaks":
            put("pin", number, 300)
        if kind == "load, then a leak" and not number:
            for place in range(2000):
                put("leak", -place - 1, 400)
        if kind == "sessions":
            put("leak", random.randrange(300), random.randrange(1000, 9000))
        elif kind == "a backlog that grows":
            put("leak", number, 100)
            if number % 10:
                drop("leak", min(live["leak"]))
        elif kind == "vector":
            put("pin", 0, 100)
            if number & number - 1 == 0:
                put("leak", 0, 100 * number)
        elif kind.startswith("collected"):
            put("leak", number, 300)
            if number % 200 == 199:
                for place in sorted(live["leak"]):
                    if place % 10 or kind != "collected":
                        drop("leak", place)
        elif kind == "ten sites":
            site["leak"] = 11 + number % 30
            put("leak", number, 100)
        elif kind not in ("full cache", "cache that fills at 80 %"):
            put("leak", number, 100)
            if kind in ("a quarter is freeing", "freed but a pool, then a pause"):
                put("pin", 0, 100)
            if kind == "one in 20 leaks" and number % 20:
                drop("leak", number)
    if kind == "freed but a pool, then a pause":
        put("load", 0, 200_000)
    if kind in ("a quarter is freeing", "freed but a pool, then a pause"):
        for place in sorted(live["leak"]):
            drop("leak", place)
    if kind == "freed but a pool, then a pause":
        events.append(Event(FREE, 0, 0, len(events) + 10_000, live["load"].pop(0)))
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(stacks), block=4096))[0])
    with read_trace(tmp_path / "t.bin") as trace:
        found = call_sites(trace, births_of(trace, trace.records, pd.Series([10]).to_numpy()).assign(slot=[10], requested_bytes=10, holes_bytes=[0.0]))
    assert found and [one.place and one.place[1].function for one in found.growing] == named


@pytest.mark.parametrize(("leaked_of_20", "churn"), [(0, True), (1, True), (20, False)])
def test_a_leak_is_no_churn(tmp_path: Path, leaked_of_20: int, churn: bool) -> None:
    """Of a short trace, too; and a few leaked blocks do not hide what happens to all others."""
    events = []
    for number in range(190):
        events.append(Event(MALLOC, 0, 0, 100 * number, 10 + number, 50, site=3))
        if number % 20 >= leaked_of_20:
            events.append(Event(FREE, 0, 0, 100 * number + 10, 10 + number))
    (tmp_path / "t.bin").write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(STACKS), block=128))[0])
    with read_trace(tmp_path / "t.bin") as trace:
        found = call_sites(trace, births_of(trace, trace.records, pd.Series([10]).to_numpy()).assign(slot=[10], requested_bytes=10, holes_bytes=[0.0]))
    assert found and bool(found.churn) == churn
    assert not churn or found.churn[3] == 10  # ns
    said = {0: "of blocks that are freed after", 1: "and 95 % of its blocks are freed, after"}.get(leaked_of_20, "")
    assert [said in line for line in site_sentences(found) if line.startswith("Churn")] == [True] * churn


def test_calls_that_leave_no_block_are_no_churn(tmp_path: Path) -> None:
    """All of that site fail; none has a life that could be short."""
    path = tmp_path / "t.bin"
    failing = [Event(MALLOC, 2, 0, 100 * number, size=8, site=4) for number in range(20)]
    path.write_bytes(naive_writer.build(TraceSpec([Event(MALLOC, 0, 0, 0, 1, 5000, site=1), *failing], sites=sites_of(STACKS), block=128))[0])
    with read_trace(path) as trace:
        found = call_sites(trace, births_of(trace, trace.records, pd.Series([1]).to_numpy()).assign(slot=[1], requested_bytes=10, holes_bytes=[0.0]))
    assert found and found.churn is None and not any(line.startswith("Churn") for line in site_sentences(found))
    shown = sites_object(found)
    assert shown and shown["churn"] is None
    json.dumps(shown, allow_nan=False)


def test_without_call_sites_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(TraceSpec([Event(MALLOC, 0, 0, 0, 1, 8)]))[0])
    with read_trace(path) as trace:
        assert call_sites(trace, pd.DataFrame()) is None
    assert site_sentences(None) == [] and sites_object(None) is None


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["pins", "leak"])
def test_recorded_call_sites_reach_the_answer(tools: Tools, tmp_path: Path, kind: str) -> None:
    def run(*words: object, **more: str) -> str:
        return subprocess.run([str(word) for word in words], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "HEAPTAPE_PYTHON": sys.executable, **more}).stdout

    target = tools.heaptape.parent / "tests" / "targets" / "planted_heaps"
    run(tools.heaptape, "record", "-q", "-o", "logs", "--", target, kind, MALLOC_WRAP_SITES="64")
    run(tools.heaptape, "convert", "-q", *(tmp_path / "logs").glob("*.mraw"), "-o", "t.bin")
    found = json.loads(run(tools.heaptape, "explain", "--json", "--budget", "0", "--at", "end", "--alloc", "glibc", "t.bin"))["call_sites"]
    worst = found["holders"][0]
    assert worst["frames"][0]["module"].endswith("planted_heaps") and worst["blocks"] > 5000
    assert bool(found["growing"]) == (kind == "leak")
