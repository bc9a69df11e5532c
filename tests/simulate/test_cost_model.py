"""heaptape calibrate measures a machine, and heaptape count makes times of its counts by that."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tool_runner import Tools, clean_environment, run

KINDS = {"instruction", "l1d_miss", "l1i_miss", "l2_sequential_miss", "l2_miss", "dtlb_miss", "stlb_miss", "fault", "mapping_call"}


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


def test_what_is_measured_is_kept_and_plausible(cache: Path) -> None:
    kept = json.loads((cache / "heaptape" / "calibration.json").read_text())
    assert kept["processor"] and 0.1 < kept["cycle_ns"] < 10
    assert set(kept["costs"]) == KINDS
    for cost in kept["costs"].values():
        assert cost["low_ns"] <= cost["latency_ns"] <= cost["high_ns"]
        assert cost["cost_ns"] == pytest.approx(cost["latency_ns"] * cost["share"])
    latency = {kind: cost["latency_ns"] for kind, cost in kept["costs"].items()}
    assert 0 < latency["instruction"] < latency["l1d_miss"] < latency["l2_miss"] < latency["fault"]


def test_counts_become_times(tools: Tools, cache: Path, tmp_path: Path) -> None:
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind here")

    def count(home: Path) -> tuple[dict, str]:
        counts = tmp_path / "counts.json"
        done = tools.succeed([tools.build / "heaptape", "count", "-o", counts, "--", "/bin/true"],
                             env=clean_environment({"XDG_CACHE_HOME": str(home)}))
        return json.loads(counts.read_text()), done.stderr.decode()
    counts, said = count(cache)
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
    assert times["l2_miss"] == pytest.approx(far * costs["l2_miss"]["cost_ns"])
    assert times["total"] == pytest.approx(sum(times[kind] for kind in KINDS))
    strange, said = count(tmp_path)
    assert not strange["calibrated"] and "heaptape calibrate measures this machine" in said


def test_a_folder_that_cannot_be_written_fails(tools: Tools) -> None:
    done = run([tools.build / "heaptape", "calibrate", "-o", "/nowhere/c.json"])
    assert done.returncode == 1 and b"/nowhere/c.json" in done.stderr
