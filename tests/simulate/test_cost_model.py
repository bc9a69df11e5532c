# SPDX-License-Identifier: Apache-2.0
"""heaptape calibrate measures a machine, and heaptape count makes times of its counts by that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tool_runner import Tools, clean_environment, run

FARTHER = ("far_4mib_miss", "far_8mib_miss", "far_16mib_miss", "far_32mib_miss")
KINDS = {"instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", "l2_miss", *FARTHER, "dtlb_miss", "stlb_miss", "fault", "mapping_call"}


@pytest.fixture(scope="module")
def cache(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What XDG_CACHE_HOME is, with the calibration of this machine."""
    folder = tmp_path_factory.mktemp("cache")
    done = run([tools.build / "heaptape", "calibrate"], env=clean_environment({"XDG_CACHE_HOME": str(folder)}))
    if b"not supported" in done.stderr:
        pytest.skip("no simulation on this machine")
    assert done.returncode == 0, done.stderr
    assert {line.split("  ")[0] for line in done.stdout.decode().splitlines()} >= {"instruction", "page fault"}
    return folder


def count_true(tools: Tools, home: Path, counts: Path) -> tuple[dict, str]:
    """Of a program that does nothing, where the cache is at home."""
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind here")
    done = tools.succeed([tools.build / "heaptape", "count", "-o", counts, "--", "/bin/true"],
                         env=clean_environment({"XDG_CACHE_HOME": str(home)}))
    return json.loads(counts.read_text()), done.stderr.decode()


@pytest.mark.thorough
def test_what_is_measured_is_kept_and_plausible(cache: Path) -> None:
    kept = json.loads((cache / "heaptape" / "calibration.json").read_text())
    assert kept["processor"] and 0.1 < kept["cycle_ns"] < 10
    assert set(kept["costs"]) == KINDS
    for cost in kept["costs"].values():
        assert cost["low_ns"] <= cost["latency_ns"] <= cost["high_ns"]
        assert cost["cost_low_ns"] <= cost["cost_ns"] <= cost["cost_high_ns"]
        assert cost["latency_ns"] == 0 or cost["cost_ns"] == pytest.approx(cost["latency_ns"] * cost["share"])
    latency = {kind: cost["latency_ns"] for kind, cost in kept["costs"].items()}
    assert 0 < latency["instruction"] < latency["l1d_miss"] < latency["l2_miss"] < latency["far_32mib_miss"] < latency["fault"]
    # Work goes on during a part of a miss; how large it is, a loaded machine shows less well.
    assert kept["costs"]["l1d_miss"]["share"] < 0.9 and kept["costs"]["far_32mib_miss"]["share"] < 0.9
    assert kept["costs"]["l2_miss"]["cost_ns"] < kept["costs"]["far_32mib_miss"]["cost_ns"]


def test_a_calibration_of_before_is_not_used(tools: Tools, cache: Path, tmp_path: Path) -> None:
    """Those had one share for all machines."""
    kept = json.loads((cache / "heaptape" / "calibration.json").read_text())
    (tmp_path / "heaptape").mkdir()
    (tmp_path / "heaptape" / "calibration.json").write_text(json.dumps(kept | {"schema": 1}))
    assert not count_true(tools, tmp_path, tmp_path / "counts.json")[0]["calibrated"]


@pytest.mark.thorough
def test_counts_become_times(tools: Tools, cache: Path, tmp_path: Path) -> None:
    counts, said = count_true(tools, cache, tmp_path / "counts.json")
    assert counts["calibrated"] and "calibrate" not in said
    costs = counts["calibration"]["costs"]
    assert costs == json.loads((cache / "heaptape" / "calibration.json").read_text())["costs"]
    allocator = counts["processes"][0]["allocator"]
    assert allocator["modelled_ns"]["mapping_call"] == pytest.approx(allocator["mapping_calls"] * costs["mapping_call"]["cost_ns"])
    part = counts["processes"][0]["loader"]
    times = part["modelled_ns"]
    assert times["instruction"] == pytest.approx(part["instructions"] * costs["instruction"]["cost_ns"])
    assert times["fault"] == pytest.approx(part["faults"] * costs["fault"]["cost_ns"]) and part["faults"] > 0
    far = part["l2_misses"] - part["l2_sequential_misses"] + part["l2_code_misses"]
    beyond = [far, *(part[f"{kind}es"] for kind in FARTHER), 0]
    assert beyond == sorted(beyond, reverse=True) and far > 0
    for i, kind in enumerate(("l2_miss", *FARTHER)):
        assert times[kind] == pytest.approx((beyond[i] - beyond[i + 1]) * costs[kind]["cost_ns"])
    assert times["total"] == pytest.approx(sum(times[kind] for kind in KINDS))
    strange, said = count_true(tools, tmp_path, tmp_path / "counts.json")
    assert not strange["calibrated"] and "heaptape calibrate measures this machine" in said


def test_a_folder_that_cannot_be_written_fails(tools: Tools) -> None:
    done = run([tools.build / "heaptape", "calibrate", "-o", "/nowhere/c.json"])
    assert done.returncode == 1 and b"/nowhere/c.json" in done.stderr
