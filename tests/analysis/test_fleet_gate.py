# SPDX-License-Identifier: Apache-2.0
"""Conditions over a fleet: each trace, the geometric mean, rounds until they are decided."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy_allocator
from heaptape.base.errors import UsageError
from heaptape.fleet.gate import check_conditions, judge_fleet, more_would_help, outcome_of
from heaptape.fleet.plan import Configuration, Plan, TraceFile
from heaptape.fleet.summary import summarise, summary_text
from heaptape.results.conditions import HOLDS, REFUTED, UNDECIDED, parse_condition
from tool_runner import Tools

ROOT = Path(__file__).resolve().parents[2]
TRACES = [TraceFile("a", "a.bin", "aa"), TraceFile("b", "b.bin", "bb")]


def plan(**options: Any) -> Plan:
    return Plan(Path("plan.toml"), TRACES, ["old", "new"], [Configuration("default", options)], 8, "old", 1)


def row(sha256: str, name: str, number: int, pass_name: str, **figures: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("alloc_time_ns", "rss_peak_bytes", "rss_mean_bytes", "rss_end_bytes", "process_rss_peak_bytes", "counts"))
    return empty | {"trace_sha256": sha256, "allocator": name, "round": number, "seed": number, "pass": pass_name, "control": False, "failures": 0,
                    "problem": None, "host": "here", "configuration": "default", "version": "", "build_id": ""} | figures


def memory_rows(sha256: str, ratio: float, noise: float = 0.0) -> list[dict[str, Any]]:
    """Eight rounds; the ratio is more in every other one."""
    return [row(sha256, name, number, "memory", rss_peak_bytes=1000 * factor) for number in range(8)
            for name, factor in (("old", 1.0), ("new", ratio * (1 + noise * (number % 2))))]


def count_rows(sha256: str, ratio: float) -> list[dict[str, Any]]:
    def counts(factor: float) -> dict[str, Any]:
        return {"allocator": {"instructions": round(1000 * factor), "mapping_calls": 1},
                "calls_by_size": [{"function": "free", "size_low": 64, "calls": 1, "instructions": round(1000 * factor)}]}

    return [row(sha256, name, 0, "count", counts=counts(factor)) for name, factor in (("old", 1.0), ("new", ratio))]


def judged(rows: list[dict[str, Any]], *conditions: str) -> dict[tuple[str, str], tuple[str, float]]:
    found = judge_fleet(plan(), [parse_condition(text) for text in conditions], rows, 1)
    return {(name.split(" of")[0], item.condition.text): (item.outcome, round(item.ratio, 4)) for name, item in found}


@pytest.mark.thorough
def test_each_trace_and_the_mean() -> None:
    rows = memory_rows("aa", 1.21) + memory_rows("bb", 1.0) + count_rows("aa", 1.0) + count_rows("bb", 1.44)
    assert judged(rows, "rss_peak>1.05", "instructions[free:70]>1.3") == {
        ("a", "rss_peak>1.05"): (HOLDS, 1.21), ("b", "rss_peak>1.05"): (REFUTED, 1.0), ("the geometric mean", "rss_peak>1.05"): (HOLDS, 1.1),
        ("a", "instructions[free:70]>1.3"): (REFUTED, 1.0), ("b", "instructions[free:70]>1.3"): (HOLDS, 1.44),
        ("the geometric mean", "instructions[free:70]>1.3"): (REFUTED, 1.2)}


def test_the_summary_has_the_counts_that_are_judged() -> None:
    rows = memory_rows("aa", 1.0) + memory_rows("bb", 1.0) + count_rows("aa", 1.0) + count_rows("bb", 1.44)
    text = summary_text(plan(), summarise(plan(), rows, [parse_condition("instructions[free:70]>1.3")]), rows, [])
    heading, _, new = text.partition("geometric means")[2].splitlines()[1:4]
    assert heading.endswith("instructions  instructions[free:64-79]  traces") and new.split()[-3:] == ["1.2000", "1.2000", "2"]
    assert "\n\ninstructions[free:64-79], trace by trace:\nallocator  a       b\nold        1.0000  1.0000\nnew        1.0000  1.4400" in text
    alone = summary_text(plan(), summarise(plan(), count_rows("aa", 1.5)), count_rows("aa", 1.5), [])
    assert "instructions, trace by trace:" in alone and alone.endswith("counts are exact: they have no intervals")


def test_rounds_decide_what_is_measured_and_not_what_is_counted() -> None:
    conditions = [parse_condition("rss_peak>1.05")]
    open_ = judge_fleet(plan(), conditions, memory_rows("aa", 1.0, 0.2) + memory_rows("bb", 1.0), 1)
    assert outcome_of(open_) == UNDECIDED and more_would_help(open_)
    no_such_calls = judge_fleet(plan(), [parse_condition("instructions[valloc]>1")], count_rows("aa", 1.0) + count_rows("bb", 1.0), 1)
    assert outcome_of(no_such_calls) == REFUTED and not more_would_help(no_such_calls)


def test_a_trace_without_the_figure_leaves_it_undecided() -> None:
    """As of one without samples of memory. No rounds can change that; the mean is over the others."""
    condition = parse_condition("process_rss_peak>1.05")
    rows = memory_rows("aa", 1.0) + memory_rows("bb", 1.0)
    nothing = judge_fleet(plan(), [condition], rows, 1)
    assert [(name, item.allocator, item.outcome) for name, item in nothing] == [("a", "new", UNDECIDED), ("b", "new", UNDECIDED)]
    assert outcome_of(nothing) == UNDECIDED and not more_would_help(nothing)
    some = judge_fleet(plan(), [condition], [one | {"process_rss_peak_bytes": one["rss_peak_bytes"]} if one["trace_sha256"] == "aa" else one
                                             for one in rows], 1)
    assert [(name, item.outcome) for name, item in some] == [("a", REFUTED), ("b", UNDECIDED), ("the geometric mean of 1 trace", REFUTED)]
    assert outcome_of(some) == UNDECIDED


@pytest.mark.parametrize("failed", ["new", "old"])
def test_a_simulation_that_failed_leaves_counts_undecided(failed: str) -> None:
    rows = [one for sha256 in ("aa", "bb") for one in (*memory_rows(sha256, 1.0), *count_rows(sha256, 1.0))
            if one["pass"] != "count" or (one["trace_sha256"], one["allocator"]) != ("aa", failed)]
    found = judge_fleet(plan(), [parse_condition("instructions>1.01")], rows, 1)
    assert [(name, item.outcome) for name, item in found] == [("a", UNDECIDED), ("b", REFUTED), ("the geometric mean of 1 trace", REFUTED)]
    who = "new was" if failed == "new" else "new is compared with old, which was"
    assert found[0][1].sentence("a") == f"--fail-if instructions>1.01: undecided: {who} not counted in a"


@pytest.mark.parametrize(("options", "condition"), [({"pass": "memory"}, "time>1"), ({"pass": "memory"}, "instructions>1"), ({"pass": "time"}, "rss_end>1"),
                                                    ({"instructions": True}, "faults>1"), ({"pass": "count", "instructions": True}, "l2_misses>1")])
def test_what_the_plan_does_not_measure_is_refused_before_it_runs(options: dict[str, Any], condition: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        check_conditions(plan(**options), [parse_condition(condition)])


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="valgrind or gcc is not installed")
def test_the_failing_trace_is_named(tools: Tools, tmp_path: Path) -> None:
    """One trace frees much, the other hardly: of these only the first shows the slower free."""
    for name, events in (("many", "6000"), ("few", "400")):
        tools.succeed([tools.build / "bench" / "make_trace", tmp_path / f"{name}.bin", events, "200", "1", "1", "1000"])
    old, new = (toy_allocator.toy_allocator(tmp_path, name, nops) for name, nops in (("old", 0), ("new", 400)))
    (tmp_path / "plan.toml").write_text(f'traces = ["*.bin"]\nallocators = ["old={old}", "new={new}"]\nbaseline = "old"\nrounds = 6\n'
                                        'options = { pass = "memory", instructions = true, points = 100 }\n')
    done = subprocess.run([sys.executable, ROOT / "analysis" / "run_verb.py", "fleet", "plan.toml", "--json", "--max-rounds", "6", "--fail-if",
                           "instructions[free]>1.5", "--fail-if", "rss_peak>1.5"], cwd=tmp_path, timeout=240, capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT / "analysis"), "HEAPTAPE_REPLAY": str(tools.replay_program)})
    said = [line for line in done.stderr.splitlines() if "--fail-if instructions[free]" in line]
    assert done.returncode == 4, done.stderr
    assert any(" in many: " in line for line in said)
    found = {(item["trace"], item["condition"]): item["outcome"] for item in json.loads(done.stdout)["fail_if"]}
    assert found["many", "instructions[free]>1.5"] == "holds" and found["the geometric mean of 2 traces", "rss_peak>1.5"] == "refuted"
    rows = [json.loads(line) for line in (tmp_path / "plan.results.jsonl").read_text().splitlines()]
    assert {item["round"] for item in rows if item["pass"] == "count"} == {0}
