# SPDX-License-Identifier: Apache-2.0
"""`heaptape diff` of runs of one program: what batches, queues and equal peaks make of chance is no difference; a change beside them is."""

from __future__ import annotations

import json
import random
from pathlib import Path

import naive_writer
import numpy as np
import pytest
from heaptape.sites.figures import site_figures
from heaptape.trace.reader import read_trace
from naive_writer import Event, TraceSpec, sites_of
from verbs_here import run_here

MALLOC, FREE = 1, 5
US, MS = 1000, 1_000_000


class Program:
    """Writes a trace, call by call; time passes with each."""

    def __init__(self, step_ns: int = 100) -> None:
        self.step_ns, self.time, self.slots = step_ns, 0, 0
        self.events: list[Event] = []

    def malloc(self, site: int, size: int, thread: int = 0) -> int:
        self.slots += 1
        self.time += self.step_ns
        self.events.append(Event(MALLOC, 0, thread, self.time, self.slots, size, site=site))
        return self.slots

    def free(self, *slots: int, thread: int = 0) -> None:
        for slot in slots:
            self.time += self.step_ns
            self.events.append(Event(FREE, 0, thread, self.time, slot))

    def write(self, path: Path, stacks: list[str]) -> Path:
        sites = sites_of([[stack, "main@job.c:90"] for stack in stacks])
        threads = [(7 + i, 0, 0, 0, 0, 0, "job") for i in range(2)]
        path.write_bytes(naive_writer.build(TraceSpec(self.events, sites=sites, threads=threads))[0])
        return path


def _found(folder: Path, old: Program, new: Program, *functions: str) -> list[tuple[str, list[str]]]:
    paths = [one.write(folder / f"{name}.bin", [f"{function}@job.c:{10 * n}" for n, function in enumerate(functions, start=1)])
             for name, one in (("old", old), ("new", new))]
    differences = json.loads(run_here("diff", *paths, "--json", cwd=folder).stdout)["differences"]
    return [(row["frames"][0]["function"], row["changes"]) for row in differences]


def _rows(seed: int, mean: float = 20) -> Program:
    """Each request reads so many rows that nobody knows before."""
    rnd, job = random.Random(seed), Program()
    for _ in range(400):
        request = job.malloc(1, 256)
        rows = [job.malloc(2, 64) for _ in range(1 + int(rnd.expovariate(1 / mean)))]
        job.free(*rows, request)
    return job


@pytest.mark.thorough
def test_calls_that_come_in_batches(tmp_path: Path) -> None:
    """All pairs of ten runs: independent calls would differ by far less than these."""
    runs = sorted((_rows(seed) for seed in range(10)), key=lambda one: len(one.events))
    most, least = len(runs[-1].events) / 2 - 400, len(runs[0].events) / 2 - 400
    assert most - least > 4 * (most + least) ** 0.5
    assert _found(tmp_path, runs[0], runs[-1], "request", "row") == []
    [(function, words)] = _found(tmp_path, _rows(1), _rows(2, mean=40), "request", "row")
    assert (function, words[0]) == ("row", "more calls")


def _queue(seed: int, backlog: int, hold: int = 0) -> Program:
    """A thread makes requests, another frees them when it wakes: after about so many. hold: what it keeps for longer."""
    rnd, job = random.Random(seed), Program(step_ns=2 * US)
    waiting: list[int] = []
    held: list[int] = []
    bodies: list[int] = []
    until = backlog
    for _ in range(3000):
        waiting.append(job.malloc(1, 500))
        bodies.append(job.malloc(2, 100))
        if len(waiting) >= until:
            until = 1 + int(rnd.expovariate(1 / backlog)) * (10 if rnd.random() < 0.05 else 1)
            held += waiting
            job.free(*bodies, *held[: max(len(held) - hold, 0)], thread=1)
            held, waiting, bodies = held[max(len(held) - hold, 0) :], [], []
    job.free(*held, *waiting, *bodies, thread=1)
    return job


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_how_soon_another_thread_wakes(tmp_path: Path, seed: int) -> None:
    assert _found(tmp_path, _queue(seed, 4), _queue(100 + seed, 16), "request", "body") == []
    [(function, words)] = _found(tmp_path, _queue(seed, 4), _queue(100 + seed, 4, hold=500), "request", "body")
    assert (function, words[0]) == ("request", "longer life")


def _phases(blocks: list[int]) -> Program:
    job = Program()
    for site, number in enumerate(blocks, start=1):
        job.free(*[job.malloc(site, 1000) for _ in range(number)])
    return job


@pytest.mark.thorough
def test_which_of_two_equal_peaks_is_higher(tmp_path: Path) -> None:
    assert _found(tmp_path, _phases([1000, 1020]), _phases([1015, 1000]), "index", "sort") == []
    assert _found(tmp_path, _phases([1000, 1020]), _phases([1000, 2000]), "index", "sort") == [("sort", ["more calls", "more live at the peak"])]


def _sawtooth(calls: int, teeth: int = 500) -> Program:
    """It frees all whenever it has so many, and ends somewhere."""
    job = Program()
    held: list[int] = []
    for _ in range(calls):
        held.append(job.malloc(1, 200))
        if len(held) == teeth:
            job.free(*held)
            held = []
    return job


@pytest.mark.thorough
def test_the_end_of_a_sawtooth(tmp_path: Path) -> None:
    assert _found(tmp_path, _sawtooth(4480), _sawtooth(4020), "row") == []
    assert "more live at the end" in dict(_found(tmp_path, _sawtooth(4480), _sawtooth(4480, teeth=5000), "row"))["row"]


def _start(keep: int) -> Program:
    """It fills a pool, keeps one block in so many, and then works for ten times as long."""
    job = Program()
    pool = [job.malloc(1, 192) for _ in range(2000)]
    job.free(*[block for number, block in enumerate(pool) if number % keep])
    for _ in range(20000):
        job.free(job.malloc(2, 64))
    return job


def test_what_a_start_leaves(tmp_path: Path) -> None:
    """How much came and went before says nothing of it."""
    assert _found(tmp_path, _start(50), _start(50), "pool", "line") == []
    for keeps, words in (((50, 10), "more live at the end"), ((10, 50), "less live at the end")):
        [(function, found)] = _found(tmp_path, *map(_start, keeps), "pool", "line")
        assert function == "pool" and words in found


def _lives(events: int, life_ns: int) -> Program:
    """Blocks of a site that live for so many of another's calls, and so long."""
    job = Program(step_ns=0)
    for number in range(300):
        block = job.malloc(1, 64)
        for _ in range(events):
            job.free(job.malloc(2, 16))
        job.time = number * 500 * US + life_ns
        job.free(block)
        for _ in range(40 - events):
            job.free(job.malloc(2, 16))
        job.time = (number + 1) * 500 * US
    return job


def test_a_life_changes_as_it_is_printed(tmp_path: Path) -> None:
    """In time and in events: not if one says longer, the other shorter."""
    assert _found(tmp_path, _lives(20, 100 * US), _lives(5, 300 * US), "use", "tick") == []
    assert _found(tmp_path, _lives(20, 100 * US), _lives(20, 110 * US), "use", "tick") == []
    assert ("use", ["longer life"]) in _found(tmp_path, _lives(5, 100 * US), _lives(20, 300 * US), "use", "tick")


def _closures(path: Path, calls: dict[int, int], function: str = "operator()", folder: str = "/src") -> Path:
    """So many calls from a closure in each line."""
    job = Program()
    for number in range(max(calls.values())):
        for site, of_site in enumerate(calls.values(), start=1):
            if number < of_site:
                job.free(job.malloc(site, 100 * site))
    return job.write(path, [f"{function}@{folder}/job.cpp:{line}" for line in calls])


@pytest.mark.parametrize("function", ["operator()", "job::main::{{closure}}"])
@pytest.mark.parametrize(("new", "expected"), [
    ({12: 2700, 13: 300}, {}),
    ({112: 2700, 114: 300}, {}),
    ({12: 300, 13: 2700}, {12: "fewer calls", 13: "more calls"}),
    ({11: 900, 12: 2700, 13: 300}, {11: "new site"}),
    ({22: 2700, 25: 900, 29: 300}, {25: "new site"}),
    ({22: 2700}, {13: "gone"}),
])
def test_closures_of_one_file_are_told_apart(tmp_path: Path, function: str, new: dict[int, int], expected: dict[int, str]) -> None:
    """Their lines may move, and others come and go."""
    sizes = {line: 100 * site for site, line in enumerate(new, start=1)}
    paths = [_closures(tmp_path / "old.bin", {12: 2700, 13: 300}, function), _closures(tmp_path / "new.bin", new, function, "/elsewhere/src")]
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)["differences"]
    words = {row["frames"][0]["line"]: row["changes"][0] for row in found}
    assert expected.items() <= words.items(), found
    assert len(new) != 2 or len(found) == len(expected), (found, sizes)


def test_spans_add_up_to_the_figures(tmp_path: Path) -> None:
    """And handed counts what another thread frees."""
    with read_trace(_queue(1, 4, hold=50).write(tmp_path / "a.bin", ["request@job.c:1", "body@job.c:2"])) as trace:
        figures = site_figures(trace)
    assert 64 <= figures.spans.count <= 128
    for site in (1, 2):
        of = figures.spans.of([site])
        assert {name: int(of.pop(f"live_{name}")[-1]) for name in ("bytes", "blocks")} == {
            name: int(figures.sites[f"end_{name}"][site]) for name in ("bytes", "blocks")}
        assert {name: int(values.sum()) for name, values in of.items()} == {name: int(figures.sites[name][site]) for name in of}
    assert np.array_equal(figures.spans.of_all()["calls"], figures.spans.of([1, 2])["calls"])
    assert figures.sites["handed"].tolist() == [0, 3000, 3000]
