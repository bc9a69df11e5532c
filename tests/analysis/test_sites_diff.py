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
@pytest.mark.parametrize("case", CASES)
def test_a_planted_change_is_named_alone(tmp_path: Path, case: str, seed: int) -> None:
    old, new, function = CASES[case]
    paths = _trace(tmp_path / "old.bin", old, 1000 + seed), _trace(tmp_path / "new.bin", new, 2000 + seed, lines=3)
    found = json.loads(run_here("diff", *paths, "--json", cwd=tmp_path).stdout)["differences"]
    assert found[0]["frames"][1]["function"] == function and found[0]["changes"][0] == case.removesuffix(" of the same name"), found
    assert {row["frames"][1]["function"] for row in found} == {function}, found
    printed = run_here("diff", *paths, cwd=tmp_path).stdout.splitlines()
    assert printed[0] == f"1 of {max(len(old), len(new))} call sites differ"
    assert printed[2].startswith(f"1. xmalloc (util.c:3) ← {function} (job.c:")


@pytest.mark.parametrize("seed", quick([0], range(100)))
def test_chance_is_no_difference(tmp_path: Path, seed: int) -> None:
    done = run_here("diff", _trace(tmp_path / "old.bin", USES, 3000 + seed), _trace(tmp_path / "new.bin", USES, 4000 + seed, lines=9), cwd=tmp_path)
    assert done.stdout == "no difference: 5 call sites compared\n" and done.returncode == 0, done.stdout


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
