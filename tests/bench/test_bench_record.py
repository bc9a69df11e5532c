# SPDX-License-Identifier: Apache-2.0
"""bench/figures/record.py compares the chosen recorders and prints what it measured. No time is asserted."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import pytest

from tool_runner import Tools, run

RECORD = Path(__file__).resolve().parents[2] / "bench" / "figures" / "record.py"
RECORDERS = ("untraced", "null", "reference", "heaptape")
STAND_IN = """
from contextlib import contextmanager

@contextmanager
def Tracker(output, native_traces):
    with open(output, "wb") as file:
        file.write(bytes(8192 if native_traces else 4096))
    yield
"""


@pytest.fixture
def needs_recorders(tools: Tools) -> None:
    if not (tools.build / "bench" / "libreference_recorder.so").exists():
        pytest.skip("the preloaded libraries of bench/ were not built (sanitizers)")


def bench(tools: Tools, tmp_path: Path, *more: str | Path, env: dict | None = None) -> tuple[str, dict]:
    report = tmp_path / "report.json"
    done = run([sys.executable, RECORD, "--build", tools.build, "--quick", "--folder", tmp_path,
                "--recorders", ",".join(RECORDERS), "--json", report, *more], timeout=300, env=env)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(), json.loads(report.read_text())


def check_interval(estimate: dict) -> None:
    assert estimate["low"] <= estimate["median"] <= estimate["high"]
    assert all(math.isfinite(value) for value in estimate.values())


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_recorders")
def test_every_recorder_has_its_row(tools: Tools, tmp_path: Path) -> None:
    text, report = bench(tools, tmp_path, "--workload", "loop", "--seed", "5")
    first_words = [line.split()[0] for line in text.split("\nloop:")[1].splitlines()[1:] if line]
    assert first_words == ["recorder", *RECORDERS]
    assert report["seed"] == 5 and report["pairs"] == 3
    (workload,) = report["workloads"]
    # 150,000 steps of one malloc and one free, 10,000 blocks around them.
    assert 320_000 <= workload["calls"] < 320_100
    for name in RECORDERS:
        row = workload["recorders"][name]
        assert len(row["samples"]) == 3
        assert all(sample["cpu_ns"] > 0 and sample["wall_ns"] > 0 for sample in row["samples"])
        assert row["max_rss_bytes"] > 1 << 20
        assert row["lost_events"] == 0
        if name != "untraced":
            check_interval(row["cpu_added_ns_per_call"])
            assert row["cpu_ratio"] > 0 and row["wall_ratio"] > 0
    rows = workload["recorders"]
    # What a recorder wrote is read off the disk: nothing, 32 bytes a call and a chunk, a few.
    assert rows["null"]["output_bytes_per_call"] == 0
    assert 32 <= rows["reference"]["output_bytes_per_call"] < 36
    assert 2 < rows["heaptape"]["output_bytes_per_call"] < 12
    assert rows["reference"]["rss_added_bytes"] > 8 << 20
    assert not list(tmp_path.glob("heaptape-bench.*"))


@pytest.mark.usefixtures("needs_recorders")
@pytest.mark.thorough
def test_threads_are_compared_with_one(tools: Tools, tmp_path: Path) -> None:
    _, report = bench(tools, tmp_path, "--workload", "cross", "--pairs", "1")
    names = [workload["name"] for workload in report["workloads"]]
    assert names == ["cross-1", "cross-2", "cross-4"]
    assert set(report["threads"]) == {"cross-2", "cross-4"}
    assert set(report["threads"]["cross-2"]) == set(RECORDERS) - {"untraced"}


@pytest.mark.thorough
@pytest.mark.usefixtures("needs_recorders")
def test_recorders_named_by_path_have_their_rows(tools: Tools, tmp_path: Path) -> None:
    text, report = bench(tools, tmp_path, "--pairs", "1", "--workload", "loop",
                         "--recorder", f"library=MALLOC_WRAP_OUT={{}} {tools.shim}",
                         "--recorder", f"command={tools.heaptape} record -q -o {{}}/log --",
                         "--recorder", "gone=/nowhere/libgone.so", "--recorder", "lost=/nowhere/lost -v")
    rows = report["workloads"][0]["recorders"]
    assert list(rows) == [*RECORDERS, "library", "command"]
    written = rows["heaptape"]["output_bytes_per_call"]
    for label in ("library", "command"):
        assert rows[label]["output_bytes_per_call"] == pytest.approx(written, rel=0.2)
        assert f"\n{label} " in text
    assert report["skipped"] == {"gone": "there is no /nowhere/libgone.so",
                                 "lost": "there is no program /nowhere/lost"}


@pytest.mark.usefixtures("needs_recorders")
def test_memray_records_only_python_scripts(tools: Tools, tmp_path: Path) -> None:
    """With a stand-in for memray: its Tracker writes 4096 bytes."""
    package = tmp_path / "modules" / "memray"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    script = tmp_path / "script.py"
    script.write_text("import sys\nassert sys.argv[1:] == ['seven']\nblocks = [bytes(9000) for _ in range(9)]\n")
    environment = os.environ | {"PYTHONPATH": str(package.parent)}
    more = ("--pairs", "1", "--recorders", "memray,memray-native")
    _, report = bench(tools, tmp_path, *more, "--", sys.executable, script, "seven", env=environment)
    (workload,) = report["workloads"]
    rows = workload["recorders"]
    assert list(rows) == ["untraced", "memray", "memray-native"] and not workload["skipped"]
    assert rows["memray"]["output_bytes_per_call"] * workload["calls"] == pytest.approx(4096)
    assert rows["memray-native"]["output_bytes_per_call"] * workload["calls"] == pytest.approx(8192)

    loop = [tools.build / "bench" / "alloc_loop", "5000", "100", "1", "private"]
    text, report = bench(tools, tmp_path, *more, "--", *loop, env=environment)
    assert set(report["workloads"][0]["skipped"]) == {"memray", "memray-native"}
    assert "\nmemray skipped: records only commands of the form" in text


@pytest.mark.usefixtures("needs_recorders")
def test_any_program(tools: Tools, tmp_path: Path) -> None:
    loop = [str(tools.build / "bench" / "alloc_loop"), "5000", "100", "1", "private"]
    _, report = bench(tools, tmp_path, "--pairs", "1", "--", *loop)
    (workload,) = report["workloads"]
    assert workload["name"] == "alloc_loop"
    assert 10_200 <= workload["calls"] < 10_300


@pytest.mark.thorough
def test_a_recorder_that_is_missing_is_named(tools: Tools, tmp_path: Path) -> None:
    build = tmp_path / "build"
    (build / "bench").mkdir(parents=True)
    for name in ("heaptape", "libmalloc_wrap.so", "bench/alloc_loop", "bench/measure_run"):
        if not (tools.build / name).exists():
            pytest.skip(f"{name} was not built")
        (build / name).symlink_to(tools.build / name)
    text, report = bench(Tools(build), tmp_path, "--pairs", "1", "--workload", "loop")
    assert set(report["skipped"]) == {"null", "reference"}
    assert set(report["workloads"][0]["recorders"]) == {"untraced", "heaptape"}
    assert report["workloads"][0]["recorders"]["heaptape"]["reference_ratio"] is None
    assert "skipped: " in text


def test_an_unknown_recorder_is_bad_usage(tools: Tools) -> None:
    done = run([sys.executable, RECORD, "--build", tools.build, "--recorders", "nobody"])
    assert done.returncode == 2
    assert b"nobody" in done.stderr


@pytest.mark.parametrize("words", ["alone", "=words", "heaptape=/bin/true", "label=", "label='"])
def test_a_recorder_needs_a_label_of_its_own_and_words(tools: Tools, words: str) -> None:
    done = run([sys.executable, RECORD, "--build", tools.build, "--recorder", words])
    assert done.returncode == 2
    assert b"--recorder" in done.stderr
