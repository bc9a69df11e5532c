# SPDX-License-Identifier: Apache-2.0
"""An allocator that is part of the recorded program is the baseline only in its own version: else that is what was recorded of the
program's memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from heaptape.base.allocators import is_the_linked
from heaptape.results.comparison import experiments
from heaptape.results.reader import read_results
from heaptape.results.summary import summarise
from heaptape.results.use import no_reason, uses
from heaptape.trial.allocators import choose
from naive_writer import Event, TraceSpec, build
from quick_tier import quick
from tool_runner import Tools, run

MALLOC, FREE, MB = 1, 5, 1_000_000
CONTEXT = {"command": "job", "page_bytes": 4096, "pid": 7, "allocator": "/job", "allocator_name": "glibc", "linked_allocator": "glibc"}


def written(folder: Path, **more: str) -> Path:
    """10 MB of blocks in a program that was seen to have 40 MB, a quarter of a MB of it not malloc's."""
    events = [Event(MALLOC, time=i, slot=i + 1, size=10_000) for i in range(1000)] + [Event(FREE, time=1000 + i, slot=i + 1) for i in range(1000)]
    samples = [(2000, len(events), 40 * MB, MB // 4, 9 * MB, 1)]
    path = folder / "t.bin"
    path.write_bytes(build(TraceSpec(events, CONTEXT | more, samples=samples))[0])
    return path


def replayed(tools: Tools, trace: Path) -> tuple[str, dict, Path]:
    results = trace.with_suffix(".jsonl")
    command = [tools.replay_program, "-q", "--pass", "memory", "--rounds", "1", "--alloc", "glibc,again=glibc:mmap_threshold=4096"]
    text = tools.succeed([*command, "-o", results, trace]).stdout.decode()
    return text, json.loads(tools.succeed([*command, "--json", trace]).stdout), results


@pytest.mark.parametrize("version", quick(["1.0"], ["", "1.0"]))
def test_another_version(tools: Tools, tmp_path: Path, version: str) -> None:
    """Its recorded memory is what others are held against, in all that is printed."""
    trace = written(tmp_path, **({"allocator_version": version} if version else {}))
    text, found, results = replayed(tools, trace)
    name = f"glibc {version}".rstrip()
    first = text.splitlines()[0]
    assert first.startswith(f"the program's own {name} is part of it and not replayed: it held 40.0 MB at its peak; of that the process would hold 0.2")
    assert found["recorded"]["linked"] is True and found["baseline_check"] is None
    ratios = {item["name"]: item["of_recorded_peak"] for item in found["allocators"]}
    assert 0.24 < ratios["glibc"] < 0.3 and 0.24 < ratios["again"] < 0.5
    summary = summarise(experiments(read_results(results))[0], None, traces=[trace])
    assert summary.headline.startswith(f"The program's own {name} is part of it and not replayed: it held 40.0 MB at its peak; of that the process would hold ")
    assert summary.share_lines == [f"Malloc's share of this program is unknown (the program's own {name} is not replayed)."]
    use, = uses(summary, "job", "glibc", "other")
    assert summary.own and use.allocator == summary.own.best == "glibc"
    assert use.lines[0][1].startswith("link glibc in place of other")


def test_the_same_version(tools: Tools, tmp_path: Path) -> None:
    listed, = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", "glibc"]).stdout)
    text, found, results = replayed(tools, written(tmp_path, allocator_version=f"glibc {listed['version']}"))
    assert "own" not in text.splitlines()[0] or "caution" in text.splitlines()[0]
    assert {item["of_recorded_peak"] for item in found["allocators"]} == {None} and found["baseline_check"]
    assert summarise(experiments(read_results(results))[0], None).own is None


def test_what_a_trial_takes_for_the_baseline(tools: Tools) -> None:
    replay = str(tools.replay_program)
    listed, = json.loads(run([replay, "--list", "--json", "--alloc", "glibc"]).stdout)
    alloc, base, why = choose(replay, "glibc", CONTEXT | {"allocator_version": "1.0"})
    assert (alloc, base) == ("glibc", "glibc")
    assert why == f"The program was recorded under its own glibc, which is part of it: replay cannot load it (glibc {listed['version']} is another one, as far as is known)."
    assert choose(replay, "glibc", CONTEXT | {"allocator_version": listed["version"]}) == ("glibc", "glibc", "")


def test_versions() -> None:
    known = {"name": "tcmalloc", "version": "gperftools 2.10"}
    assert is_the_linked(known, "tcmalloc", "2.10") and not is_the_linked(known, "tcmalloc", "2.9")
    assert not is_the_linked(known, "jemalloc", "2.10") and not is_the_linked({"name": "tcmalloc", "version": None}, "tcmalloc", "")


def test_nothing_to_gain(tools: Tools, tmp_path: Path) -> None:
    """Where the program held less than it would."""
    trace = written(tmp_path)
    spec = TraceSpec([Event(MALLOC, time=i, slot=i + 1, size=10_000) for i in range(1000)], CONTEXT, samples=[(2000, 1000, 5 * MB, MB // 4, 9 * MB, 1)])
    trace.write_bytes(build(spec)[0])
    _, _, results = replayed(tools, trace)
    summary = summarise(experiments(read_results(results))[0], None, traces=[trace])
    assert uses(summary, "job", "glibc", "other") == []
    assert no_reason(summary) == "Under no allocator measured here would the process hold less than it did under its own glibc: this gives no reason to change."
