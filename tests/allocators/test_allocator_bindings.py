# SPDX-License-Identifier: Apache-2.0
"""Whose functions a measured child calls: what the dynamic linker says it bound, not what the child says itself."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Tools

CALLED = {"malloc", "calloc", "realloc", "free", "posix_memalign"}
# The C library's own calls, such as for a thread's first storage, are the child's, too.
CALLERS = re.compile(r"/(replay-[^/]+|libc\.so\.6|ld-linux[^/]*)$")
BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")


def bindings(folder: Path) -> dict[str, list[tuple[str, str, str]]]:
    """By the name of the allocator that a child is linked with: caller, object, function."""
    found = defaultdict(list)
    for path in folder.iterdir():
        bound = BINDING.findall(path.read_text(errors="replace"))
        children = {name.group(1) for caller, _, _ in bound
                    if (name := re.search(r"/replay-([^/]+)$", caller))}
        assert len(children) <= 1
        for name in children:
            found[name] += [one for one in bound if CALLERS.search(one[0])]
    return found


@pytest.fixture(scope="module")
def replayed(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
    """The loader's messages of each measured child, in a file for each allocator, since they are long."""
    folder = tmp_path_factory.mktemp("bindings")
    (folder / "said").mkdir()
    trace, results = replay_traces.made(tools, folder, events=300), folder / "results.jsonl"
    names = [path.name.removeprefix("replay-") for path in tools.build.glob("replay-*") if os.access(path, os.X_OK)]
    tools.succeed([tools.replay_program, "--alloc", ",".join(names), "--rounds", "1", "--pass", "memory", "-q",
                   "-o", results, "--wrap", f"env LD_DEBUG=bindings LD_DEBUG_OUTPUT={folder}/said/b", trace])
    served = {row["allocator"]["name"]: row["allocator"]["path"] for row in replay_traces.rows(results)}
    assert set(served) == set(names)
    return served, bindings(folder / "said")


def test_every_call_is_bound_to_the_allocator_that_the_result_names(replayed: tuple[dict, dict]) -> None:
    served, bound = replayed
    assert set(bound) == set(served)
    for name, path in served.items():
        own = [one for one in bound[name] if f"/replay-{name}" in one[0]]
        assert {function for _, _, function in own} >= CALLED, name
        elsewhere = {(caller, target, function) for caller, target, function in bound[name]
                     if function in CALLED and Path(target).resolve() != Path(path)}
        assert not elsewhere, name


def test_each_version_of_an_allocator_is_its_own_file(replayed: tuple[dict, dict]) -> None:
    served, _ = replayed
    assert len(set(served.values())) == len(served)
