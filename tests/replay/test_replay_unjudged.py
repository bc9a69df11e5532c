# SPDX-License-Identifier: Apache-2.0
"""Without Python or numpy nobody judges: each allocator's own figures are printed, and no condition passes in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import replay_traces
from tool_runner import Tools, clean_environment

NOBODY = {"HEAPTAPE_PYTHON": "/bin/false"}


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("trace"), events=2_000)


def replay(tools: Tools, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.replay_program, *words], capture_output=True, text=True, check=False, timeout=60,
                          env=clean_environment(NOBODY | environment))


def test_figures_without_verdicts(tools: Tools, trace: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    done = replay(tools, "--alloc", "glibc,jemalloc", "--rounds", "2", "-o", results, trace)
    assert done.returncode == 0
    assert done.stderr == "heaptape replay: no verdicts: Python cannot be run\n"
    table = [line.split() for line in done.stdout.splitlines()]
    assert table[0] == ["allocator", "time", "peak", "RSS", "RSS", "at", "end"]
    assert [row[0] for row in table[1:3]] == ["glibc", "jemalloc"] and "faster" not in done.stdout
    assert ["malloc"] in [row[-1:] for row in table]
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert sorted((row["allocator"]["name"], row["pass"]) for row in rows) == sorted(
        (name, which) for name in ("null", "glibc", "jemalloc") for which in ("time", "memory") for _ in range(2))


@pytest.mark.parametrize("asked", [["--fail-if", "time>1.5"], ["--write-baseline", "b.json"], ["--json"], ["--instructions"]])
def test_nothing_passes_in_silence(tools: Tools, trace: Path, tmp_path: Path, asked: list[str]) -> None:
    done = subprocess.run([tools.replay_program, "--alloc", "glibc,jemalloc", "--rounds", "1", *asked, trace], capture_output=True, text=True,
                          check=False, timeout=60, cwd=tmp_path, env=clean_environment(NOBODY))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"heaptape replay: {asked[0]}: needs verdicts: nothing was measured"
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_numpy_names_it(tools: Tools, trace: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    few, many = (replay(tools, "--alloc", "glibc,jemalloc", "--rounds", rounds, trace, HEAPTAPE_PYTHON=str(bare)) for rounds in ("3", "6"))
    assert many.returncode == 0 and "the Python package numpy is missing" in many.stderr
    assert few.returncode == 0 and "numpy" not in few.stderr and "A/A control" in few.stdout  # these are not resampled


def test_passes_that_nobody_judges_are_as_ever(tools: Tools, trace: Path) -> None:
    done = replay(tools, "--alloc", "glibc", "--pass", "verify", "--threads", "1", trace)
    assert done.returncode == 0 and "no fault found" in done.stderr
