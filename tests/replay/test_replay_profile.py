# SPDX-License-Identifier: Apache-2.0
"""Where in an allocator its instructions are (`replay --profile`), against functions whose cost is planted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import toy_allocator
from heaptape.report.flame_graph import profile_figure
from heaptape.results.counted import Function, Profile
from tool_runner import Tools, run
from verbs_here import run_here

pytestmark = [pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
              pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")]

OFTEN, SELDOM = 3000, 1000
BURNS = """
static __attribute__((noinline)) void burn_often(void) { __asm__ volatile(".rept %d\\nnop\\n.endr"); }
static __attribute__((noinline)) void burn_seldom(void) { __asm__ volatile(".rept %d\\nnop\\n.endr"); }
static __attribute__((noinline)) void between(void) { burn_seldom(); __asm__ volatile(""); }
"""


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 calls on one thread."""
    path = tmp_path_factory.mktemp("profile") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "2000", "300", "1", "1", "1000"])
    return path


def library(folder: Path, name: str, often: int) -> Path:
    """Each free burns `often` nops, and SELDOM more two functions below."""
    source = toy_allocator.toy_source().replace("void free(void *block) {\n    if (!block) return;\n",
                                                BURNS % (often, SELDOM) + "void free(void *block) {\n    if (!block) return;\n    burn_often();\n    between();\n")
    (folder / f"{name}.c").write_text(source)
    subprocess.run([*toy_allocator.BUILD, folder / f"{name}.so", folder / f"{name}.c"], check=True, timeout=60)
    return folder / f"{name}.so"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("libraries")
    return {"old": library(folder, "old", OFTEN), "new": library(folder, "new", 2 * OFTEN)}


def replayed(tools: Tools, trace: Path, libraries: dict[str, Path], *more: str | Path) -> subprocess.CompletedProcess[bytes]:
    named = ",".join(f"{name}={path}" for name, path in libraries.items())
    done = run([tools.replay_program, "-q", "--pass", "count", "--instructions", "--alloc", named, *more, trace])
    assert done.returncode == 0, done.stderr
    return done


def counts_of(tools: Tools, trace: Path, libraries: dict[str, Path], *more: str) -> dict[str, Any]:
    return json.loads(replayed(tools, trace, libraries, "--json", *more).stdout)["counts"]


def own_shares(profile: dict[str, Any]) -> dict[tuple[str, ...], float]:
    return {tuple(stack["frames"]): stack["samples"] / profile["samples"] for stack in profile["stacks"]}


@pytest.mark.thorough
def test_planted_functions_have_their_shares(tools: Tools, trace: Path, libraries: dict[str, Path]) -> None:
    counts = counts_of(tools, trace, libraries, "--profile")
    for name, nops in (("old", OFTEN), ("new", 2 * OFTEN)):
        of = counts[name]
        frees = sum(item["calls"] for item in of["calls_by_size"] if item["function"] == "free" and item["size_low"])
        shares = own_shares(of["profile"])
        assert sum(shares.values()) == pytest.approx(1)
        assert shares["free", "burn_often"] == pytest.approx(frees * (nops + 1) / of["allocator"]["instructions"], rel=0.06)
        assert shares["free", "between", "burn_seldom"] == pytest.approx(frees * (SELDOM + 1) / of["allocator"]["instructions"], rel=0.12)
        assert of["profile"]["samples"] == pytest.approx(of["allocator"]["instructions"] / 1024, rel=0.06)


@pytest.mark.thorough
def test_it_repeats_and_changes_no_count(tools: Tools, trace: Path, libraries: dict[str, Path]) -> None:
    first, second = (counts_of(tools, trace, libraries, "--profile")["old"] for _ in range(2))
    plain = counts_of(tools, trace, libraries)["old"]
    assert first["profile"] == second["profile"] and "profile" not in plain
    assert first["allocator"]["instructions"] == plain["allocator"]["instructions"]


def test_the_table_and_the_report(tools: Tools, trace: Path, libraries: dict[str, Path], tmp_path: Path) -> None:
    """The report has a graph for each allocator, and one of what differs."""
    results = tmp_path / "r.jsonl"
    printed = replayed(tools, trace, libraries, "--profile", "-o", results).stdout.decode()
    assert re.search(r"^old +burn_often +7\d\.\d % +[\d,]+ +7\d\.\d %$", printed, re.MULTILINE)
    assert re.search(r"^ +burn_seldom +2\d\.\d % +[\d,]+ +2\d\.\d %$", printed, re.MULTILINE)
    done = run_here("report", results, "--baseline", "old", "--trace", trace, "-o", tmp_path / "r.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert page.count('<details class="flame"') == 3 and "new against old: " in page
    widest = re.search(r'<svg class="cell ([\w ]+)"[^>]*><rect[^>]*><title>burn_often: [\d,]+ → ', page)
    assert widest is not None and widest[1] == "more step2"
    assert "instructions: free, " in page, "the table of differences"


def test_misses_are_another_matter(tools: Tools, trace: Path) -> None:
    done = run([tools.replay_program, "--pass", "count", "--profile", "--alloc", "glibc", trace])
    assert done.returncode == 2 and b"--profile: of instructions, not of misses: expected --instructions with --pass count" in done.stderr


def tree(**callees: float) -> Function:
    root = Function("[all]", sum(callees.values()))
    root.callees = {name: Function(name, value, value) for name, value in callees.items()}
    return root


def test_what_is_gone_and_what_is_new_have_a_place() -> None:
    figure = profile_figure({"old": Profile(tree(a=100, b=50), 10), "new": Profile(tree(a=100, c=150), 10)}, "old")
    assert figure is not None
    first = figure.body.split("<details")[1]
    cells = dict(re.findall(r'<svg class="cell ([\w ]+)"[^>]*><rect[^>]*><title>(\w+): ', first))
    assert cells == {"same": "a", "less step4": "b", "more step4": "c"}
    widths = [float(width) for width in re.findall(r'<svg class="cell [^"]*" x="[\d.]+%" y="18" width="([\d.]+)%"', first)]
    assert sum(widths) == pytest.approx(100, abs=0.01) and len(widths) == 3
    assert figure.table.rows[0] == ["c", "0", "150", "new"] and ["b", "50", "0", "−100.0 %"] in figure.table.rows
    assert profile_figure({}, "old") is None
