# SPDX-License-Identifier: Apache-2.0
"""`heaptape replay --thp`: what of it the kernel lets one process choose, and what it does."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Argument, Tools, clean_environment

MODE_FILE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ADVISED = "glibc=glibc:hugetlb=1"  # glibc asks for huge pages by madvise
MIB = 1 << 20
PR_SET_THP_DISABLE = 41


@pytest.fixture(scope="module")
def system() -> str:
    """The mode that this machine has."""
    if not MODE_FILE.exists():
        pytest.skip("this kernel has no transparent huge pages")
    found = re.search(r"\[(\w+)\]", MODE_FILE.read_text())
    assert found
    return found[1]


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 MB in blocks of 20 KB."""
    calls = "".join(f"m {i} 20000\n" for i in range(1, 2001))
    path = tmp_path_factory.mktemp("huge") / "t.bin"
    return replay_traces.imported(tools, path, f"2000\n\n{calls}", "malloc_wrap")


def disable_for_myself() -> None:
    assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0


def replay(tools: Tools, trace: Path, folder: Path, *options: Argument, alloc: str = "glibc",
           before: Callable[[], None] | None = None) -> tuple[subprocess.CompletedProcess[str], list[dict]]:
    results = folder / f"{len(list(folder.iterdir()))}.jsonl"
    command = [tools.replay_program, "--alloc", alloc, "--rounds", "1", "--pass", "memory", "-o", results,
               *options, trace]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120,
                          env=clean_environment(), preexec_fn=before)
    return done, replay_traces.rows(results) if results.exists() else []


def glibc(rows: list[dict]) -> dict:
    return next(row for row in rows if row["allocator"]["name"] == "glibc")


@pytest.mark.thorough
def test_never(tools: Tools, trace: Path, tmp_path: Path, system: str) -> None:
    _, rows = replay(tools, trace, tmp_path, alloc=ADVISED)
    assert {row["thp"] for row in rows} == {system} == {row["machine"]["thp"] for row in rows}
    had = glibc(rows)
    done, rows = replay(tools, trace, tmp_path, "--thp", "never", alloc=ADVISED)
    assert {row["thp"] for row in rows} == {"never"} and {row["machine"]["thp"] for row in rows} == {system}
    assert "transparent huge pages: never; of peak RSS in them: glibc 0.0 MB\n" in done.stdout
    row = glibc(rows)
    assert row["anon_huge_bytes"] == row["anon_huge_peak_bytes"] == 0
    assert set(row["timeline"]["kernel"]["anon_huge_bytes"]) == {0}
    done, _ = replay(tools, trace, tmp_path, "--thp", "never", "--json", alloc=ADVISED)
    assert json.loads(done.stdout)["thp"] == "never"
    if system == "never" or not had["anon_huge_peak_bytes"]:
        pytest.skip(f"no huge pages to be had here (mode {system})")
    assert had["anon_huge_peak_bytes"] > 10 * MIB


def test_they_are_reported_unasked(tools: Tools, trace: Path, tmp_path: Path, system: str) -> None:
    done, rows = replay(tools, trace, tmp_path, alloc=ADVISED)
    bytes_in_them = glibc(rows)["anon_huge_peak_bytes"]
    line = f"transparent huge pages: {system}; of peak RSS in them: glibc {bytes_in_them / 1e6:.1f} MB\n"
    assert (line in done.stdout) == (bytes_in_them > 0 or system == "always")
    if system != "always":
        done, rows = replay(tools, trace, tmp_path)
        assert glibc(rows)["anon_huge_peak_bytes"] == 0 and "transparent" not in done.stdout


def test_advised_only(tools: Tools, trace: Path, tmp_path: Path, system: str) -> None:
    """What asks for none gets none, where the kernel can tell one process so."""
    done, rows = replay(tools, trace, tmp_path, "--thp", "madvise")
    if done.returncode:
        assert f'"{system}" here' in done.stderr and system in ("always", "never") and not rows
        pytest.skip(done.stderr.strip())
    assert glibc(rows)["thp"] == "madvise" and glibc(rows)["anon_huge_peak_bytes"] == 0


def test_always_is_the_systems_to_say(tools: Tools, trace: Path, tmp_path: Path, system: str) -> None:
    done, rows = replay(tools, trace, tmp_path, "--thp", "always")
    if system == "always":
        assert done.returncode == 0 and glibc(rows)["thp"] == "always"
        return
    assert done.returncode == 1 and not rows and done.stdout == ""
    assert done.stderr == (f'heaptape replay: --thp always: transparent huge pages are "{system}" here; as root: '
                           f"echo always > {MODE_FILE}\n")


@pytest.mark.thorough
def test_what_was_inherited_is_reported(tools: Tools, trace: Path, tmp_path: Path, system: str) -> None:
    _, rows = replay(tools, trace, tmp_path, alloc=ADVISED, before=disable_for_myself)
    assert glibc(rows)["thp"] == "never" and glibc(rows)["anon_huge_peak_bytes"] == 0
    if system == "never":
        return
    done, rows = replay(tools, trace, tmp_path, "--thp", system, alloc=ADVISED, before=disable_for_myself)
    assert done.returncode == 1 and not rows and "the parent process disabled" in done.stderr
