# SPDX-License-Identifier: Apache-2.0
"""Baseline files in a fleet's plan: replay's own checks, and conditions judged by the figures of an earlier run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_allocator
from heaptape.base.errors import UsageError
from heaptape.fleet.gate import check_conditions, judge_fleet
from heaptape.fleet.plan import Plan, PlanError, read_plan
from heaptape.results.conditions import HOLDS, REFUTED, UNDECIDED, parse_condition
from test_fleet_gate import count_rows, memory_rows
from tool_runner import Tools

ROOT = Path(__file__).resolve().parents[2]
Change = Callable[[dict[str, Any]], object]


def baseline_of(content: str, peaks: list[float]) -> dict[str, Any]:
    counts = {"allocator": {"instructions": 1000, "mapping_calls": 1}, "calls_by_size": []}
    return {"format": "heaptape-baseline", "version": 1, "trace": {"sha256": hashlib.sha256(content.encode()).hexdigest()},
            "allocators": {"mine": {"rss_peak_bytes": peaks, "counts": counts}}}


def plan_in(folder: Path, files: str = 'baseline-files = "base-{trace}.json"', peaks: tuple[float, ...] = (1000.0,) * 8, change: Change | None = None,
            more: str = "") -> Plan:
    """Of two traces, whose sha256 are those of their names."""
    for name in ("a", "b"):
        (folder / f"{name}.bin").write_text(name)
        made = baseline_of(name, list(peaks))
        if change and name == "b":
            change(made)
        (folder / f"base-{name}.json").write_text(json.dumps(made))
    (folder / "plan.toml").write_text(f'traces = ["*.bin"]\nallocators = ["new"]\n{files}\n{more}\noptions = {{ pass = "memory", instructions = true }}\n')
    return read_plan(folder / "plan.toml", [])


def judged(plan: Plan, ratio: float, *conditions: str) -> dict[tuple[str, str], tuple[str, float]]:
    """Of "new", which measures so much more on b alone. memory_rows has 1000 bytes, count_rows 1000 instructions at 1."""
    a, b = (trace.sha256 for trace in plan.traces)
    rows = [row for sha256, factor in ((a, 1.0), (b, ratio)) for row in (*memory_rows(sha256, factor), *count_rows(sha256, factor))
            if row["allocator"] == "new"]
    found = judge_fleet(plan, [parse_condition(text) for text in conditions], rows, 1)
    return {(name.split(" of")[0], item.condition.text): (item.outcome, round(item.ratio, 4)) for name, item in found}


def test_each_trace_and_the_mean_by_the_files(tmp_path: Path) -> None:
    """One allocator, compared with the only entry of each file."""
    conditions = "rss_peak>1.05", "instructions>1.3"
    check_conditions(plan_in(tmp_path), [parse_condition(text) for text in conditions])
    assert judged(plan_in(tmp_path), 1.44, *conditions) == {
        ("a", "rss_peak>1.05"): (REFUTED, 1.0), ("b", "rss_peak>1.05"): (HOLDS, 1.44), ("the geometric mean", "rss_peak>1.05"): (HOLDS, 1.2),
        ("a", "instructions>1.3"): (REFUTED, 1.0), ("b", "instructions>1.3"): (HOLDS, 1.44), ("the geometric mean", "instructions>1.3"): (REFUTED, 1.2)}


def test_the_files_own_rounds_widen_the_interval(tmp_path: Path) -> None:
    apart = tuple(np.linspace(800, 1200, 8))
    assert judged(plan_in(tmp_path, peaks=apart), 1.1, "rss_peak>1.05")["b", "rss_peak>1.05"] == (UNDECIDED, 1.1)
    assert judged(plan_in(tmp_path, peaks=apart), 1.44, "rss_peak>1.1")["the geometric mean", "rss_peak>1.1"] == (UNDECIDED, 1.2)


@pytest.mark.parametrize(("files", "said"), [
    ('baseline-files = "base.json"', "expected a table of files by the traces' names, or a text with {trace}"),
    ('baseline-files = { a = "base-a.json" }', "expected a file for each trace and no other, missing: b"),
    ('baseline-files = { a = "base-a.json", b = "base-b.json", c = "c" }', "expected a file for each trace and no other, found: c"),
    ('baseline-files = { a = "base-a.json", b = "none.json" }', "baseline-files.b: none.json: cannot be read: No such file"),
    ('baseline-files = { a = "base-b.json", b = "base-b.json" }', "baseline-files.a: base-b.json: trace.sha256: expected "),
    ('baseline-files = { a = "base-a.json", b = "b.bin" }', "baseline-files.b: b.bin: offset 0: expected a baseline, as --write-baseline writes it, found another file"),
    ('baseline = "new"\nbaseline-files = "base-{trace}.json"', "expected it without baseline"),
    ('configurations = { one = {}, two = {} }\nbaseline-files = "base-{trace}.json"', "expected it without several configurations"),
])
def test_files_that_do_not_fit_the_plan(tmp_path: Path, files: str, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_in(tmp_path, files)
    assert said in str(refused.value) and "\n" not in str(refused.value) and refused.value.exit_status == 3


@pytest.mark.parametrize(("change", "said"), [
    (lambda made: made.update(format="other"), 'format: expected "heaptape-baseline", found "other"'),
    (lambda made: made.update(allocators={"x": {}, "y": {}}), "allocators: expected an entry new, or a single one, found neither"),
    (lambda made: made["allocators"]["mine"].update(rss_peak_bytes=[1, -1]), "rss_peak_bytes: expected numbers of bytes, found -1"),
    (lambda made: made["allocators"]["mine"].update(rss_peak_bytes=7), "rss_peak_bytes: expected a list, found 7"),
    (lambda made: made["allocators"]["mine"].update(rss_peak_bytes=[1000, 1000, 9]), "expected rounds within 4 times of their median, 1000, found 9"),
    (lambda made: made["allocators"]["mine"]["counts"]["allocator"].update(instructions=-5), "counts.allocator.instructions: expected a count, found -5"),
])
def test_damaged_files(tmp_path: Path, change: Change, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_in(tmp_path, change=change)
    assert "baseline-files.b: base-b.json: " in str(refused.value) and said in str(refused.value)


@pytest.mark.parametrize(("condition", "error", "said"), [("time>1", UsageError, "times of another run say nothing"),
                                                          ("rss_end>1", PlanError, "expected figures for it, found none")])
def test_conditions_that_no_file_can_decide(tmp_path: Path, condition: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        check_conditions(plan_in(tmp_path), [parse_condition(condition)])


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="valgrind or gcc is not installed")
def test_the_trace_that_is_worse_than_its_file(tools: Tools, tmp_path: Path) -> None:
    """Files of replay's own; then one is changed, and the results no longer are of that plan."""
    plain = toy_allocator.toy_allocator(tmp_path, "plain")
    for name, events in (("many", "3000"), ("few", "400")):
        tools.succeed([tools.build / "bench" / "make_trace", tmp_path / f"{name}.bin", events, "200", "1", "1", "1000"])
        tools.succeed([tools.replay_program, "-q", "--pass", "count", "--instructions", "--alloc", f"toy={plain}", "--write-baseline",
                       tmp_path / f"{name}.json", tmp_path / f"{name}.bin"])
    slower = toy_allocator.toy_allocator(tmp_path, "slower", 400)
    (tmp_path / "plan.toml").write_text(f'traces = ["*.bin"]\nallocators = ["toy={slower}"]\nrounds = 1\nbaseline-files = "{{trace}}.json"\n'
                                        'options = { pass = "count", instructions = true }\n')

    def fleet() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, ROOT / "analysis" / "run_verb.py", "fleet", "plan.toml", "-q", "--fail-if", "instructions[free]>1.5"],
                              cwd=tmp_path, timeout=120, capture_output=True, text=True, check=False,
                              env=os.environ | {"PYTHONPATH": str(ROOT / "analysis"), "HEAPTAPE_REPLAY": str(tools.replay_program)})

    done = fleet()
    assert done.returncode == 4, done.stderr
    assert " of many.json in many: " in done.stderr and " of the baseline files in the geometric mean of 2 traces" in done.stderr
    changed = json.loads((tmp_path / "many.json").read_text())
    changed["settings"]["touch"] = "all"
    (tmp_path / "many.json").write_text(json.dumps(changed))
    done = fleet()
    assert done.returncode == 3 and "was measured with another baseline_file than the plan's" in done.stderr
    (tmp_path / "plan.results.jsonl").unlink()
    done = fleet()
    assert done.returncode == 1 and 'settings.touch: expected "recorded", as this run has, found "all"' in done.stderr
