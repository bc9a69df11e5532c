# SPDX-License-Identifier: Apache-2.0
"""How many there are of something, in words: of one thing in the singular, in the output of every verb."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from quick_tier import quick
from heaptape.base.units import counted
from tool_runner import Tools, run

PLURALS = ("allocations anomalies bits blocks bytes calls classes defects differences events frees instructions lines locations logs moments operations others pages "
           "parts processes processors readings records rounds runs samples sections sites steps tables threads times traces trials").split()
# Not "1.1 times", nor what is a ratio, nor the row of a table.
ONE = re.compile(rf"(?<![\d.,-])1 (?:[a-z]+ )?(?:{'|'.join(PLURALS)})\b")


def test_words() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1204)] == ["0 calls", "1 call", "2 calls", "1,204 calls"]
    assert [counted(2, noun) for noun in ("anomaly", "process", "more class", "call site")] == ["2 anomalies", "2 processes", "2 more classes", "2 call sites"]


@pytest.fixture(scope="module")
def one(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one.bin: one call, which allocates one byte, by one thread, from one call site."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "one.c").write_text("#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }\n")
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    subprocess.run(["gcc", "-O0", "-g", "one.c", "-o", "one"], cwd=folder, check=True, timeout=60)
    done = tools.succeed([tools.heaptape, "record", "--sites", "-o", "logs", "--", "./one"], cwd=folder)
    assert b"recorded 1 call, 1 process, 1 thread: " in done.stderr
    [log] = (folder / "logs").glob("*.mraw")
    log.rename(folder / "one.mraw")
    tools.succeed([tools.heaptape, "convert", "one.mraw", "-o", "one.bin"], cwd=folder)
    tools.succeed([tools.heaptape, "replay", "-q", "--alloc", "glibc,mimalloc", "--rounds", "1", "-o", "one.jsonl", "one.bin"], cwd=folder)
    return folder


COMMANDS = {
    "convert": ["convert", "one.mraw", "-o", "again.bin"], "export": ["convert", "one.bin", "--to", "malloc_wrap", "-o", "-"],
    "info": ["info", "one.bin"], "stats": ["stats", "one.bin"], "lint": ["lint", "one.bin"], "lint-raw": ["lint", "one.mraw"],
    "slice": ["slice", "one.bin", "-o", "slice.bin"], "share": ["share", "one.bin", "--coarsen", "sizes=1", "-o", "share.bin"],
    "names": ["names", "one.bin", "-o", "names.bin"], "sites": ["sites", "one.bin"], "diff": ["diff", "one.bin", "one.bin"],
    "extend": ["extend", "one.bin", "--to", "1h"], "tables": ["export", "one.bin", "-o", "tables"],
    "replay": ["replay", "-v", "--alloc", "glibc,mimalloc", "--rounds", "1", "--verify", "one.bin"],
    "cpus": ["replay", "--alloc", "glibc", "--rounds", "1", "--cpus", "1", "--pass", "memory", "one.bin"],
    "compare": ["compare", "one.jsonl"], "explain": ["explain", "--alloc", "glibc", "--budget", "1s", "one.bin"],
    "report": ["report", "one.jsonl", "--trace", "one.bin", "-o", "-"],
}


@pytest.mark.parametrize("name", quick(set(COMMANDS) - {"explain", "tables", "report"}, COMMANDS))
def test_one_is_no_plural(tools: Tools, one: Path, name: str) -> None:
    done = run([tools.heaptape, *COMMANDS[name]], cwd=one)
    said = (done.stdout + done.stderr).decode()
    assert said and done.returncode in (0, 1, 5), said
    assert not ONE.findall(said)
