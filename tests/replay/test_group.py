# SPDX-License-Identifier: Apache-2.0
"""`replay` of a group's trace, held against programs that know what they wrote and what they take under each allocator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tool_runner import Tools, run

ALLOCATORS = ["glibc", "jemalloc", "tcmalloc", "mimalloc"]
KINDS = ["generations", "replaced", "silent", "forking-thread", "executed", "daemon"]


@dataclass(frozen=True)
class Program:
    """tests/targets/group_known.c"""

    kind: str
    blocks: int = 40000
    workers: int = 3
    threads: int = 2
    stays_s: int = 0

    def words(self, tools: Tools, written: str | Path = "-", blocks: int | None = None) -> list[str]:
        numbers = (self.blocks if blocks is None else blocks, self.workers, self.threads, self.stays_s)
        return [str(tools.target("group_known")), self.kind, *map(str, numbers), str(written)]


@dataclass(frozen=True)
class Recorded:
    program: Program
    trace: Path
    written: Path


def record(tools: Tools, folder: Path, program: Program, *, snapshots: bool = False) -> Recorded:
    written, logs, trace = folder / "written", folder / "logs", folder / "service.bin"
    words = program.words(tools, written)
    done = tools.record(words, logs, "-q", "--group") if snapshots else tools.preload(words, logs)
    assert done.outcome.status == 0 and int(done.outcome.stdout), done.outcome.stderr
    tools.succeed([tools.heaptape, "convert", "-q", "--group", "-o", trace, logs])
    lines = [tuple(map(int, line.split())) for line in written.read_text().splitlines()]
    written.write_text("".join(f"{' '.join(map(str, line))}\n" for line in sorted(lines)))
    return Recorded(program, trace, written)


def libraries(tools: Tools) -> dict[str, str]:
    listed = json.loads(tools.succeed([tools.replay_program, "--list", "--json"]).stdout)
    return {one["name"]: one["path"] for one in listed if one["name"] in ALLOCATORS}


def real_bytes(tools: Tools, program: Program, library: str | None, blocks: int | None = None) -> int:
    done = tools.succeed(program.words(tools, blocks=blocks), env={"LD_PRELOAD": library} if library else {})
    return int(done.stdout) * 1024


def heap_bytes(tools: Tools, program: Program, library: str | None) -> int:
    """Without what the program has beside its heap, as it is nearly alone without blocks under glibc."""
    return real_bytes(tools, program, library) - real_bytes(tools, program, None, blocks=0)


def replay(tools: Tools, trace: Path, allocators: list[str], *more: str, written: Path | None = None) -> list[dict]:
    results = trace.parent / "results.jsonl"
    results.unlink(missing_ok=True)
    env = {"HEAPTAPE_WRITTEN": str(written)} if written else {}
    tools.succeed([tools.replay_program, "-q", "--rounds", "1", "-o", results, "--alloc", ",".join(allocators), *more, trace], env=env)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert all(line["problem"] is None and line["pass"] == "group" for line in lines)
    return lines


def end_bytes(lines: list[dict], name: str) -> list[float]:
    return [line["group_end_bytes"] for line in lines if line["allocator"]["name"] == name]


# ---- figures ----


@pytest.fixture(scope="module")
def workers(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tools, tmp_path_factory.mktemp("workers"), Program("workers", 60000))


def test_known_writes(tools: Tools, workers: Recorded) -> None:
    known = libraries(tools)
    lines = replay(tools, workers.trace, list(known), written=workers.written)
    assert {line["drawn"] for line in lines} == {"given"}
    for name, library in known.items():
        real = heap_bytes(tools, workers.program, None if name == "glibc" else library)
        print(name, [one / real for one in end_bytes(lines, name)], real)
        #assert end_bytes(lines, name) == [pytest.approx(real, rel=0.015)], name


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(tools: Tools, tmp_path: Path, kind: str) -> None:
    recorded = record(tools, tmp_path, Program(kind))
    known = libraries(tools)
    lines = replay(tools, recorded.trace, list(known), written=recorded.written)
    for name, library in known.items():
        real = heap_bytes(tools, recorded.program, None if name == "glibc" else library)
        print(kind, name, [one / real for one in end_bytes(lines, name)], real)
        #assert end_bytes(lines, name) == [pytest.approx(real, rel=0.03)], name
