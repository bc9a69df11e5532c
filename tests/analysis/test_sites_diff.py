# SPDX-License-Identifier: Apache-2.0
"""`heaptape diff`: a planted change of one call site is named first, whatever chance does to the others."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import naive_writer
import pytest
from naive_writer import Event, TraceSpec, sites_of
from quick_tier import quick
from verbs_here import run_here

MALLOC, FREE = 1, 5
BLOCKS = 600


@dataclass(frozen=True)
class Use:
    """How a function allocates: blocks of about this size, that live for so many of its own."""

    function: str
    blocks: int = BLOCKS
    size: int = 64
    life: int = 5
    thread: int = 0


USES = [Use("parse"), Use("cache", size=300, life=80), Use("log", thread=1), Use("work", thread=2), Use("keep", blocks=100, life=100_000)]


def _trace(path: Path, uses: list[Use], seed: int, lines: int = 0, named: bool = True) -> Path:
    """Numbers of blocks, sizes and lives vary by chance; lines have moved."""
    rnd = random.Random(seed)
    births = [(number, use) for number, use in enumerate(uses, start=1) for _ in range(use.blocks + round(rnd.gauss(0, use.blocks**0.5)))]
    rnd.shuffle(births)
    live: dict[int, list[int]] = {}
    events = []
    for slot, (site, use) in enumerate(births, start=1):
        events.append(Event(MALLOC, 0, use.thread, 40 * slot, slot, use.size + rnd.randrange(-8, 9), site=site))
        live.setdefault(site, []).append(slot)
        while len(live[site]) > use.life + rnd.randrange(4):
            events.append(Event(FREE, 0, use.thread, 40 * slot, live[site].pop(0)))
    frames = [f"{use.function}@job.c:{10 * number + lines}" if named else f"job+0x{10 * number}" for number, use in enumerate(uses, start=1)]
    sites = sites_of([["xmalloc@util.c:3", frame, f"main@job.c:{90 + lines}"] for frame in frames], modules={"job": "c0ffee"})
    threads = [(7 + i, 0, 0, 0, 0, 0, "job") for i in range(3)]
    path.write_bytes(naive_writer.build(TraceSpec(events, sites=sites, threads=threads))[0])
    return path


def _with(**changed: int) -> list[Use]:
    return [replace(use, **changed) if use.function == "parse" else use for use in USES]


CASES: dict[str, tuple[list[Use], list[Use], str]] = {
    "new site": (USES, [*USES, Use("added", blocks=60)], "added"),
    "gone": ([*USES, Use("added", blocks=60)], USES, "added"),
    "more calls": (USES, _with(blocks=1000), "parse"),
    "larger blocks": (USES, _with(size=80), "parse"),
    "longer life": (USES, _with(life=40), "parse"),
    "other threads": (USES, _with(thread=1), "parse"),
    "other threads of the same name": (USES, [replace(use, thread=1) if use.function == "work" else use for use in USES], "work"),
}


@pytest.mark.parametrize("seed", quick([0], range(10)))
@pytest.mark.parametrize("case", quick(["larger blocks", "new site", "gone", "more calls"], CASES))
def test_a_planted_change_is_named_alone(tmp_path: Path, case: str, seed: int) -> None:
    old, new, function = CASES[case]
    paths = _trace(tmp_path / "old.bin", old, 1000 + seed), _trace(tmp_path / "new.bin", new, 2000 + seed, lines=3)
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)["differences"]
    assert found[0]["frames"][1]["function"] == function and found[0]["changes"][0] == case.removesuffix(" of the same name"), found
    assert {row["frames"][1]["function"] for row in found} == {function}, found
    printed = run_here("diff", *paths, cwd=tmp_path).stdout.splitlines()
    assert printed[0] == f"1 of {max(len(old), len(new))} call sites differs"
    assert printed[2].startswith(f"1. xmalloc (util.c:3) ← {function} (job.c:")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100))
def test_chance_is_no_difference(tmp_path: Path, seed: int) -> None:
    done = run_here("diff", _trace(tmp_path / "old.bin", USES, 3000 + seed), _trace(tmp_path / "new.bin", USES, 4000 + seed, lines=9), cwd=tmp_path)
    assert done.stdout == "no difference: 5 call sites compared\n" and done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_another_program_is_said_to_be_one(tmp_path: Path) -> None:
    ours, others = _trace(tmp_path / "ours.bin", USES, 1), _trace(tmp_path / "others.bin", [replace(use, function=f"x_{use.function}") for use in USES], 2)
    assert "warning: no call site is in both ours.bin and others.bin: expected two recordings of one program" in run_here("diff", "ours.bin", "others.bin", cwd=tmp_path).stderr
    assert run_here("diff", ours, ours, cwd=tmp_path).stderr == "" and others.exists()


@pytest.mark.thorough
def test_without_names_offsets_of_equal_builds_align(tmp_path: Path) -> None:
    paths = [_trace(tmp_path / f"{number}.bin", uses, number, named=False) for number, uses in enumerate((USES, _with(size=80)))]
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)["differences"]
    assert [row["frames"][1] for row in found] == [{"module": "job", "offset": 0x10}]


@pytest.mark.parametrize(("damage", "said"), [
    (lambda data: data, r"offset \d+: expected the tables of call sites, found the file cut short"),
    (lambda data: b"x" + data, "offset 0: expected"),
])
def test_damaged_and_cut_traces(tmp_path: Path, damage: Callable[[bytes], bytes], said: str) -> None:
    good = _trace(tmp_path / "old.bin", USES[:1], 1)
    (tmp_path / "new.bin").write_bytes(damage(good.read_bytes()[:400]))
    for arguments in (["diff", good, "new.bin"], ["sites", "new.bin"]):
        done = run_here(*arguments, cwd=tmp_path)
        assert done.returncode == 3 and done.stdout == "" and re.match(rf"heaptape {arguments[0]}: new.bin: {said}", done.stderr), done.stderr


def test_other_folders_are_the_same_program(tmp_path: Path) -> None:
    """A checkout beside another: files of the same name in several folders are told apart."""
    paths = []
    for number, folder in enumerate(("/home/a/main", "/home/b/feature/x")):
        stacks = [[f"load@{folder}/orders/load.c:3", "main@main.c:1"], [f"load@{folder}/users/load.c:3", "main@main.c:1"], [f"save@{folder}/save.c:9", "main@main.c:1"]]
        events = [Event(MALLOC, 0, 0, i, i, 10 + 10 * (i % 3) + 20 * number * (i % 3 == 2), site=1 + i % 3) for i in range(1, 300)]
        paths.append(tmp_path / f"{number}.bin")
        paths[-1].write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of(stacks)))[0])
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)
    assert found["compared"] == 3 and [(row["frames"][0]["function"], row["changes"][0]) for row in found["differences"]] == [("save", "larger blocks")]


def _of_threads(path: Path, seed: int, jobs: list[tuple[str, list[int]]], names: list[str], program: str = "job", share: float = 0.0) -> Path:
    """Functions that are called by these threads, which take turns at random; threads begin in any order."""
    rnd, numbers = random.Random(seed), list(range(1, len(names)))
    rnd.shuffle(numbers)
    number = dict(enumerate([0, *numbers]))
    weights = [1 + share * rnd.random() for _ in names]
    events = []
    for i in range(1, 4000):
        site, threads = rnd.choice(list(enumerate((of for _, of in jobs), start=1)))
        thread = number[rnd.choices(threads, [weights[one] for one in threads])[0]]
        events += [Event(MALLOC, 0, thread, 10 * i, 1, 64, site=site), Event(FREE, 0, thread, 10 * i, 1)]
    rows = sorted((number[i], (7 + number[i], 0, 0, 0, 0, 0, name)) for i, name in enumerate(names))
    sites = sites_of([[f"{function}@job.c:{10 * n}", "main@job.c:90"] for n, (function, _) in enumerate(jobs)])
    context = {"command": program, "executable": f"/bin/{program}", "page_bytes": 4096, "pid": 7}
    path.write_bytes(naive_writer.build(TraceSpec(events, context=context, sites=sites, threads=[row for _, row in rows]))[0])
    return path


POOL = [("start", [0]), ("alfa", [1]), ("bravo", [2]), ("work", [3, 4, 5, 6])]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("old", "new", "moved"), [(1, 1, False), (1, 2, True)], ids=["none", "moved"])
@pytest.mark.parametrize("names", [["job"] * 7, ["job", "alfa", "bravo", *(f"worker-{n}" for n in range(4))]], ids=["unnamed", "named"])
def test_threads_are_known_by_what_they_do(tmp_path: Path, names: list[str], old: int, new: int, moved: bool, seed: int) -> None:
    """Their numbers follow a race, a pool shares its work by chance, and a program that is copied gives its threads another name."""
    paths = [_of_threads(tmp_path / f"{which}.bin", 100 * which + seed, [*POOL, ("charlie", [thread])],
                         [name.replace("job", program) for name in names], program, share=4.0)
             for which, (thread, program) in enumerate([(old, "job"), (new, "job-2")])]
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)["differences"]
    assert [(row["frames"][0]["function"], row["changes"]) for row in found] == [("charlie", ["other threads"])] * moved


@pytest.mark.thorough
def test_a_page_of_live_bytes_and_milliseconds_of_life_are_no_difference(tmp_path: Path) -> None:
    paths = []
    for which, (blocks, life_ns) in enumerate([(1, 500_000), (9, 4_000_000)]):
        events = [Event(MALLOC, 0, 0, 0, 900 + i, 100, site=1) for i in range(9)] + [Event(FREE, 0, 0, 0, 900 + i) for i in range(blocks, 9)]
        for i in range(200):
            events += [Event(MALLOC, 0, 0, 10_000_000 * (i + 1), 1, 64, site=2), Event(FREE, 0, 0, 10_000_000 * (i + 1) + life_ns, 1)]
        paths.append(tmp_path / f"{which}.bin")
        paths[-1].write_bytes(naive_writer.build(TraceSpec(events, sites=sites_of([["keep@a.c:1"], ["use@a.c:2"]])))[0])
    done = run_here("diff", *paths, cwd=tmp_path)
    assert "use" not in done.stdout and "live" not in done.stdout.replace("live at peak", "").replace("live at end", ""), done.stdout


@pytest.mark.parametrize("verb", ["diff", "sites"])
def test_a_trace_that_is_cut_short_is_said_to_be(tmp_path: Path, verb: str) -> None:
    whole = _trace(tmp_path / "old.bin", USES, 1)
    (tmp_path / "cut.bin").write_bytes(whole.read_bytes()[:-30])
    done = run_here(verb, *[whole][: verb == "diff"], "cut.bin", cwd=tmp_path)
    assert done.returncode == 3 and "cut.bin: cut short after" in done.stderr and done.stdout
