# SPDX-License-Identifier: Apache-2.0
"""Allocators in the program's own file, whose calls the program hands to the recorder: from C by heaptape_recorder.h, from
Rust by the crate heaptape-alloc."""

from __future__ import annotations

import json
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from safety_checks import compare, recorded_tallies
from shared_folder import shared_folder
from test_record_exact import assert_same_lines
from tool_runner import Tools, between_markers, by_birth, read_tallies, run

ALLOCATORS = {"system": "", "jemalloc": 'tikv-jemallocator = "0.6"', "mimalloc": 'mimalloc = "0.1"'}
CALLS = 20_000
SIGKILL = -9
BUILT_WITHIN_S = 3000  # jemalloc is configured and compiled, on a busy machine too

MANIFEST = """
[package]
name = "counted"
version = "0.1.0"
edition = "2021"

[[bin]]
name = "counted"
path = "{source}"

[features]
{feature} = []

[dependencies]
heaptape-alloc = {{ path = "{crate}" }}
{dependency}
"""


# ---- C ----

def test_every_call_is_dumped(tools: Tools, tmp_path: Path) -> None:
    """Line for line, while the allocator itself calls malloc, free and mmap within each call."""
    recording = tools.preload([tools.target("linked_in"), "lines", tmp_path / "printed", str(CALLS)], tmp_path / "logs")
    assert recording.outcome.status == 0, recording.outcome.stderr
    [log] = recording.logs
    info = tools.convert_clean(log, tmp_path / "t.bin")
    made = (tmp_path / "printed").read_text().splitlines()
    assert len(made) > CALLS
    assert_same_lines(made, list(by_birth(between_markers(tools.dump(tmp_path / "t.bin")))))
    assert info["recorded_allocator"] == "my?pool?1"
    assert info["context"]["allocator"] == str(tools.target("linked_in").resolve())
    assert "allocator_version" not in info["context"]


def test_program_alone(tools: Tools, tmp_path: Path) -> None:
    """Without the recorder it finds none, and prints the same calls."""
    program = tools.target("linked_in")
    assert run([program, "tables"]).stdout == b""
    assert run([program, "lines", tmp_path / "alone", "2000"]).returncode == 0
    tools.preload([program, "lines", tmp_path / "recorded", "2000"], tmp_path / "logs")
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "recorded").read_bytes()


@pytest.mark.parametrize("library", ["libmalloc_wrap.so", "libmalloc_wrap_full.so"])
def test_versions(tools: Tools, tmp_path: Path, library: str) -> None:
    """Of what it does not have it says so, and the table has the size that its users were built with."""
    found = tools.preload([tools.target("linked_in"), "tables"], tmp_path / "logs",
                          env={"LD_PRELOAD": str(tools.build / library)})
    assert found.outcome.stdout == b"0 missing\n1 there\n2 missing\n3 missing\n1, 64 bytes\n"


@pytest.mark.thorough
def test_handler_within_a_call(tools: Tools, tmp_path: Path) -> None:
    """The calls that it hands over are recorded; what the interrupted allocator calls is not."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("linked_in"), "signal", counts], same_counts=False)
    assert compared.recording.outcome.status == 51
    assert compared.counted[7701] >= 1500
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_handler_behind_every_instruction_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """None of its calls is lost, and none of the interrupted ones is recorded twice."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 traps by itself behind each instruction")
    compared = compare(tools, tmp_path, lambda counts: [tools.target("linked_in"), "steps", counts], same_counts=False)
    assert compared.recording.outcome.status == 51
    assert compared.counted[7701] > 1000 and compared.counted[7707] > 100 and compared.counted[7709] > 200
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_jump_out_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """It is lost; calls after it are recorded, hooked ones and those that are handed over."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("linked_in"), "jump", counts])
    assert compared.recording.outcome.status == 51
    assert compared.counted == {7704: 150, 7705: 100}
    compared.assert_whole(processes=1)


def test_record_does_not_warn(tools: Tools, tmp_path: Path) -> None:
    """Neither of an allocator whose calls are handed over, nor does it refuse the program."""
    recording = tools.record([tools.target("linked_in"), "lines", tmp_path / "printed", "100"], tmp_path / "logs")
    assert b"linked in" not in recording.outcome.stderr and recording.outcome.status == 0


# ---- Rust ----

@dataclass(frozen=True)
class Program:
    allocator: str
    path: Path


def cargo(folder: Path, *words: str) -> bytes:
    """What it prints; the test is skipped where cargo is missing, or cannot get the crates."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed")
    environment = {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(folder / "target"))}
    done = run(["cargo", *words], cwd=folder, env=environment, timeout=BUILT_WITHIN_S)
    if done.returncode and b"error[E" not in done.stderr and b"could not compile" not in done.stderr:
        pytest.skip(f"cargo cannot build here: {done.stderr.decode(errors='replace')[-300:]}")
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def build_counted(repository: Path, folder: Path, allocator: str) -> None:
    (folder / "Cargo.toml").write_text(MANIFEST.format(
        source=repository / "tests/rust/counted.rs", crate=repository / "rust/heaptape-alloc", feature=allocator,
        dependency=ALLOCATORS[allocator]))
    built = cargo(folder, "build", "--release", "--features", allocator, "--message-format=json",
                  *(["--offline"] if not ALLOCATORS[allocator] else []))
    [program] = [message["executable"] for line in built.splitlines()
                 if (message := json.loads(line)).get("executable")]
    shutil.copy2(program, folder / "counted")


@pytest.fixture(scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] if ALLOCATORS[name] else [])
                                        for name in ALLOCATORS])
def counted(request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    allocator = str(request.param)
    folder = shared_folder(tmp_path_factory, f"counted-{allocator}",
                           lambda made: build_counted(repository, made, allocator), within_s=BUILT_WITHIN_S)
    return Program(allocator, folder / "counted")


@pytest.mark.thorough
def test_crate_itself(repository: Path, tmp_path: Path) -> None:
    """Its own tests, and that it neither depends on a crate nor on std."""
    if not os.environ.get("CARGO_TARGET_DIR"):
        shutil.copytree(repository / "rust/heaptape-alloc", tmp_path / "crate", ignore=shutil.ignore_patterns("target"))
    else:
        (tmp_path / "crate").symlink_to(repository / "rust/heaptape-alloc")
    assert b"test result: ok. 5 passed" in cargo(tmp_path / "crate", "test", "--offline")
    assert cargo(tmp_path / "crate", "tree", "--offline", "--edges", "all").count(b"\n") == 1
    assert "#![no_std]" in (repository / "rust/heaptape-alloc/src/lib.rs").read_text()


def test_every_call_of_rust_is_dumped(tools: Tools, tmp_path: Path, counted: Program) -> None:
    """Function, size and alignment of each, in order; `record` neither warns nor refuses."""
    alone = run([counted.path, "lines", tmp_path / "alone", str(CALLS)])
    recording = tools.record([counted.path, "lines", tmp_path / "printed", str(CALLS)], tmp_path / "logs")
    assert (recording.outcome.status, recording.outcome.stdout) == (0, alone.stdout)
    assert b"linked in" not in recording.outcome.stderr
    made = (tmp_path / "printed").read_text()
    assert made == (tmp_path / "alone").read_text()
    [log] = recording.logs
    info = tools.convert_clean(log, tmp_path / "t.bin")
    assert_same_lines(made.splitlines(), list(by_birth(between_markers(tools.dump(tmp_path / "t.bin")))))
    # System is libc's malloc, whose name the recorder knows.
    assert counted.allocator in (info["recorded_allocator"], "system")
    assert info["context"].get("linked_allocator", "system") == counted.allocator


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["fork", "kill", "signal", "threads"])
def test_nothing_is_lost(tools: Tools, tmp_path: Path, counted: Program, mode: str) -> None:
    """The program's own counts are those of the trace: blocks freed by other threads, forked children that free what they
    inherited, a timer's signals, and SIGKILL."""
    compared = compare(tools, tmp_path, lambda counts: [counted.path, mode, counts], same_counts=mode != "signal")
    assert compared.recording.outcome.status == (SIGKILL if mode == "kill" else 0)
    compared.assert_whole(processes=6 if mode == "fork" else 1)


@pytest.mark.thorough
def test_call_sites(tools: Tools, tmp_path: Path, counted: Program) -> None:
    """They lead from the allocation to main."""
    logs = tmp_path / "logs"
    logs.mkdir()
    done = run([tools.heaptape, "record", "--sites", "-o", logs, "--", counted.path, "threads", tmp_path / "counts"])
    assert done.returncode == 0, done.stderr
    [log] = logs.glob("*.mraw")
    tools.convert_clean(log, tmp_path / "t.bin")
    said = tools.succeed([tools.heaptape, "stats", tmp_path / "t.bin"]).stdout.decode()
    assert "work_in_threads" in said


@pytest.mark.thorough
def test_stripped(tools: Tools, tmp_path: Path, counted: Program) -> None:
    """Nothing of this asks for a symbol of the program's."""
    stripped = tmp_path / "counted"
    tools.succeed(["strip", "--strip-all", "-o", stripped, counted.path])
    recording = tools.record([stripped, "threads", tmp_path / "counts"], tmp_path / "logs")
    assert recording.outcome.status == 0 and b"linked in" not in recording.outcome.stderr
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")
