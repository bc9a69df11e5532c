# SPDX-License-Identifier: Apache-2.0
"""results.schema.json has every key that `replay` writes, and no other; so has what Python reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from heaptape.results.schema import LINE
from preforking import write_group
from service_load import Service, write_service
from test_replay_controls import record_controls
from tool_runner import Tools

REPOSITORY = Path(__file__).resolve().parents[2]

# Written by `fleet` alone.
NOT_OF_REPLAY = {".configuration", ".host"}


def simulates(tools: Tools) -> bool:
    """Only a build beside the package valgrind writes lines of the count pass."""
    return (tools.build / "valgrind" / "heaptape-amd64-linux").exists()


@pytest.fixture(scope="module")
def lines(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Lines of every pass, and of a run that failed."""
    folder = tmp_path_factory.mktemp("schema")
    trace, results = folder / "t.bin", folder / "r.jsonl"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "20000", "500", "2", "1", "1000"])
    replay = [tools.replay_program, "--rounds", "1", "-q", "-o", results]
    tools.succeed([*replay, "--alloc", "glibc,jemalloc,tcmalloc,mimalloc", "--touch", "recorded", trace])
    tools.succeed([*replay, "--alloc", "glibc", "--pass", "verify", "--threads", "1", trace])
    tools.succeed([*replay, "--alloc", "glibc", "--memory-max", "search", "--pass", "limit", "--cpus", "4", trace])
    tools.succeed([*replay, "--alloc", "glibc", "--pass", "memory", REPOSITORY / "traces" / "sqlite3-small.bin"])
    controls = tools.convert(record_controls(tools, folder, "controls", "-DCONTROLS")[0], folder / "c.bin")
    tools.succeed([*replay, "--alloc", "glibc", "--pass", "memory", controls])
    steady = write_service(tools, folder / "s.bin", Service(duration_ms=8000))
    tools.succeed([*replay, "--alloc", "glibc", "--pass", "memory", "--extend", "9s", steady])
    tools.succeed([*replay, "--alloc", "glibc", write_group(tools, folder)])
    if simulates(tools):
        accesses = folder / "a.acc"  # sampled: all keys of whole ones, and those of samples
        tools.succeed(["valgrind", "--tool=heaptape", "-q", "--sampled=yes", "--between=2", f"--record={accesses}", tools.target("placement"), "stride", "30"],
                      env={"VALGRIND_LIB": str(tools.build / "valgrind")})
        tools.convert(accesses, folder / "a.bin")
        tools.succeed([*replay, "--pass", "count", "--alloc", "glibc", "--splice", accesses, folder / "a.bin"])
        tools.succeed([*replay, "--pass", "count", "--alloc", "glibc", folder / "a.bin"])
        tools.succeed([*replay, "--pass", "count", "--instructions", "--profile", "--alloc", "glibc", folder / "a.bin"])
    return [json.loads(line) for line in results.read_text().splitlines()]


def _paths(where: str, value: Any, rule: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each key below, and whether the schema names it. What has names of its own, such as an allocator's knobs, is left out."""
    if isinstance(value, dict):
        for name, item in value.items():
            inner = rule.get("properties", {}).get(name, rule.get("additionalProperties"))
            yield f"{where}.{name}" if name in rule.get("properties", {}) else f"{where}.*", inner is not None
            yield from _paths(f"{where}.{name}" if name in rule.get("properties", {}) else f"{where}.*", item, inner or {})
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _paths(where, item, rule.get("items", {}))


def _named(where: str, rule: dict[str, Any]) -> Iterator[str]:
    for name, inner in rule.get("properties", {}).items():
        yield f"{where}.{name}"
        yield from _named(f"{where}.{name}", inner)
    for inner in (rule.get("additionalProperties"), rule.get("items")):
        if inner:
            yield from _named(f"{where}.*" if inner is rule.get("additionalProperties") else where, inner)


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(LINE)


def test_what_replay_writes_is_valid(lines: list[dict[str, Any]]) -> None:
    validator = jsonschema.Draft202012Validator(LINE)
    for line in lines:
        errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(line)]
        assert not errors


def test_no_key_is_missing_and_none_is_unwritten(tools: Tools, lines: list[dict[str, Any]]) -> None:
    written: set[str] = set()
    for line in lines:
        for path, known in _paths("", line, LINE):
            assert known, f"{path} is not in results.schema.json"
            written.add(path)
    unwritten = set(_named("", LINE)) - written - NOT_OF_REPLAY
    if not simulates(tools):
        unwritten = {path for path in unwritten if not path.startswith(".counts.")}
    # A moment of the decomposition that this version does not have.
    assert {path for path in unwritten if not path.startswith(".decomposition.*")} == set()
