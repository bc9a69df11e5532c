# SPDX-License-Identifier: Apache-2.0
"""Allocators that are built from fetched sources: there only where the build was configured with EXTRA_ALLOCATORS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from replay_traces import made
from tool_runner import Tools, run

VERSIONS = {"mimalloc2": r"2\.\d\.\d+", "mimalloc3": r"3\.\d\.\d+", "snmalloc": r"0\.7\.\d",
            "rpmalloc": r"1\.4\.\d", "hardened": r"1\d\.\d.*", "dlmalloc": r"2\.8\.6", "gperftools": r"2\.\d+",
            "mallocng": r"1\.2\.\d", "jemalloc531": r"5\.3\.1", "tcmalloc-google": r"20\d\d-\d\d-\d\d"}
FAIL_IN_TORTURE = {"rpmalloc", "dlmalloc"}

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(params=sorted(VERSIONS))
def extra(request: pytest.FixtureRequest, tools: Tools) -> str:
    if not (tools.build / f"replay-{request.param}").exists():
        pytest.skip(f"replay-{request.param} is not built: configure with -DEXTRA_ALLOCATORS=ON")
    return request.param


def test_replays_and_names_its_version(tools: Tools, tmp_path: Path, extra: str) -> None:
    rows = tools.replay(made(tools, tmp_path, threads=2), extra, tmp_path / "results.jsonl",
                        "--rounds", "1")
    rows = [row for row in rows if row["allocator"]["name"] == extra]
    assert {row["pass"] for row in rows} == {"time", "memory"}
    for row in rows:
        assert row["failures"] == 0
        assert re.fullmatch(VERSIONS[extra], row["allocator"]["version"])
        assert extra in Path(row["allocator"]["path"]).name


def test_is_right(tools: Tools, tmp_path: Path, extra: str) -> None:
    done = run([tools.replay_program, "--alloc", extra, "--verify", "--rounds", "1", "--pass", "memory",
                made(tools, tmp_path, threads=2)])
    if extra in FAIL_IN_TORTURE:
        found = [line for line in done.stderr.decode().splitlines() if "verify: " in line]
        assert done.returncode == 1 and found and all("verify: torture, " in line for line in found), done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_musl_costs_what_it_is_known_for(tools: Tools, tmp_path: Path) -> None:
    """Less memory than glibc, and more time for each call, though the harness's is in neither."""
    if not (tools.build / "replay-mallocng").exists():
        pytest.skip("replay-mallocng is not built: configure with -DEXTRA_ALLOCATORS=ON")
    rows = tools.replay(ROOT / "traces" / "cc1.bin", "glibc,mallocng", tmp_path / "results.jsonl", "--rounds", "3")

    def least(name: str, kind: str, figure: str) -> float:
        return min(float(row[figure]) for row in rows if row["allocator"]["name"] == name and row["pass"] == kind)

    assert least("mallocng", "memory", "rss_peak_bytes") < least("glibc", "memory", "rss_peak_bytes")
    assert least("mallocng", "time", "alloc_time_ns") > 2 * least("glibc", "time", "alloc_time_ns")


def test_google_has_caches_of_each_processor(tools: Tools, tmp_path: Path) -> None:
    """glibc would register rseq before it; what it needs against that joins what the user has set."""
    if not (tools.build / "replay-tcmalloc-google").exists():
        pytest.skip("replay-tcmalloc-google is not built: configure with -DEXTRA_TCMALLOC=ON")
    results = tmp_path / "results.jsonl"
    done = run([tools.replay_program, "--alloc", "tcmalloc-google", "--rounds", "1", "-o", results,
                made(tools, tmp_path)], env={"GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=1000"})
    assert done.returncode == 0, done.stderr
    assert re.search(r'"per_cpu_caches_active": ?\[?1', results.read_text())
