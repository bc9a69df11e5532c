# SPDX-License-Identifier: Apache-2.0
"""Other machines and another C library: aarch64 under qemu-user, the shim for musl, and plain
refusals at configure time. Every log is converted by the native heaptape."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from test_record_exact import assert_same_lines
from test_record_threads import counts_between_markers, in_any_order
from tool_runner import (
    Argument, Outcome, Recording, Tools, between_markers, by_birth, logs_in, outcome_of, read_tallies, run, tallies_in
)

PLAIN_LIBRARY = "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"  # a compiler without a C library
CROSS = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
         "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc"]
TARGET_FLAGS = ["-D_GNU_SOURCE", "-O2", "-pthread", "-fno-builtin-malloc", "-fno-builtin-calloc",
                "-fno-builtin-realloc", "-fno-builtin-free"]


def need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


# --- refusals ---------------------------------------------------------------------------------


def refusal(repository: Path, folder: Path, *settings: str) -> str:
    """What configuring ends with, as one line."""
    # Ninja, which the build takes too: what CMake takes by itself need not be installed.
    need("cmake", "ninja")
    done = run(["cmake", "-G", "Ninja", "-S", repository, "-B", folder / "build", *settings])
    assert done.returncode != 0
    return " ".join(done.stderr.decode().split())


@pytest.mark.parametrize("settings, sentence", [
    (["-DCMAKE_SYSTEM_NAME=FreeBSD"],
     "heaptape records and replays on Linux only; this is FreeBSD."),
    (["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=riscv64"],
     "heaptape runs on x86_64 and aarch64 only; this is riscv64."),
])
def test_other_systems_are_refused(repository: Path, tmp_path: Path, settings: list[str],
                                   sentence: str) -> None:
    assert sentence in refusal(repository, tmp_path, *settings)


def test_32_bit_compiler_is_refused(repository: Path, tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("")
    if run(["cc", "-m32", "-c", source, "-o", tmp_path / "empty.o"]).returncode:
        pytest.skip("cc makes no 32-bit programs here")
    assert "needs 64-bit addresses; this compiler makes 32-bit programs." in refusal(
        repository, tmp_path, "-DCMAKE_C_FLAGS=-m32", PLAIN_LIBRARY)


def test_big_endian_compiler_is_refused(repository: Path, tmp_path: Path) -> None:
    need("aarch64-linux-gnu-gcc")
    assert "needs a little-endian machine; this compiler makes big-endian programs." in refusal(
        repository, tmp_path, *CROSS, "-DCMAKE_C_FLAGS=-mbig-endian", PLAIN_LIBRARY)


def test_missing_argp_is_named(repository: Path, tmp_path: Path) -> None:
    need("musl-gcc")
    assert "install argp-standalone, or build the shim alone with -DHEAPTAPE_SHIM_ONLY=ON." in \
        refusal(repository, tmp_path, "-DCMAKE_C_COMPILER=musl-gcc")


# --- builds -----------------------------------------------------------------------------------


def build_preset(repository: Path, preset: str, folder: Path) -> Path:
    """A preset's build in a folder of the tests' own; skipped where its packages are missing."""
    need("cmake", "ninja")
    done = run(["cmake", "--preset", preset, "-B", folder], cwd=repository)
    if done.returncode:
        pytest.skip(f"preset {preset} cannot be configured: {done.stderr.decode()[-300:]}")
    done = run(["cmake", "--build", folder, "-j", "2"], timeout=900)
    assert done.returncode == 0, done.stdout.decode()[-3000:]
    return folder


@pytest.fixture(scope="module")
def aarch64(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "qemu-aarch64")
    return build_preset(repository, "aarch64", tmp_path_factory.mktemp("aarch64"))


@pytest.fixture(scope="module")
def musl(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("musl-gcc")
    return build_preset(repository, "musl", tmp_path_factory.mktemp("musl"))


class Elsewhere:
    """Records programs that are not for this machine's own loader."""

    def __init__(self, tools: Tools, shim: Path, emulator: Sequence[str]) -> None:
        self.tools = tools
        self.shim = shim
        self.emulator = emulator

    def alone(self, command: Sequence[Argument]) -> Outcome:
        return outcome_of(run([*self.emulator, *command], timeout=300))

    def preload(self, command: Sequence[Argument], logs: Path) -> Recording:
        logs.mkdir(exist_ok=True)
        variables = {"MALLOC_WRAP_OUT": str(logs)}
        # The emulator itself must not be given a library that is not for it.
        if self.emulator:
            start = [*self.emulator, "-E", f"LD_PRELOAD={self.shim}"]
        else:
            start, variables["LD_PRELOAD"] = [], str(self.shim)
        done = run([*start, *command], env=variables, timeout=600)
        return Recording(outcome_of(done), logs_in(logs))

    def check_every_call(self, target: Path, folder: Path) -> dict:
        printed = folder / "printed"
        recording = self.preload([target, printed, "200000"], folder / "logs")
        assert recording.outcome == Outcome(0, b"", b"")
        assert len(recording.logs) == 1
        info = self.tools.convert_clean(recording.logs[0], folder / "t.bin")
        lines = self.tools.dump(folder / "t.bin")
        assert_same_lines(printed.read_text().splitlines(), list(by_birth(between_markers(lines))))
        return info

    def check_tallies(self, target: Path, folder: Path, *more: Argument) -> int:
        alone = self.alone([target, folder / "alone", *more])
        assert alone.status not in (0, 1, 99), alone.stderr
        recording = self.preload([target, folder / "counts", *more], folder / "logs")
        assert recording.outcome == alone
        total: Counter[int] = Counter()
        for log in recording.logs:
            trace = folder / f"{log.stem}.bin"
            assert self.tools.info(self.tools.convert(log, trace))["anomalies"] == 0
            total += tallies_in(self.tools.dump(trace))
        assert total == read_tallies(folder / "counts")
        return len(recording.logs)

    def check_threads(self, target: Path, folder: Path, unseen_max: int = 0) -> None:
        counted_file = folder / "counted.json"
        recording = self.preload([target, counted_file, "200000", "4", "1"], folder / "logs")
        assert recording.outcome.status == 0, recording.outcome.stderr
        self.tools.convert_clean(recording.logs[0], folder / "t.bin", unseen_max)
        counted = json.loads(counted_file.read_text())
        made = in_any_order([thread["calls"] for thread in counted["threads"]])
        # A thread that made no call at all has no stream; the program's own first one is such a
        # thread where starting others takes no malloc.
        recorded = in_any_order(counts_between_markers(self.tools, folder / "t.bin"))
        assert [calls for calls in recorded if calls] == [calls for calls in made if calls]


# --- aarch64 ----------------------------------------------------------------------------------


@pytest.fixture
def arm(tools: Tools, aarch64: Path) -> Elsewhere:
    emulator = ["qemu-aarch64"]
    if not Path("/lib/ld-linux-aarch64.so.1").exists():
        emulator += ["-L", "/usr/aarch64-linux-gnu"]
    return Elsewhere(tools, aarch64 / "libmalloc_wrap.so", emulator)


@pytest.mark.slow
def test_aarch64_unit_tests(aarch64: Path) -> None:
    done = run(["ctest", "--test-dir", aarch64, "--output-on-failure", "-j", "2"], timeout=900)
    assert done.returncode == 0, done.stdout.decode()[-3000:]
    assert b"No tests were found" not in done.stdout + done.stderr


@pytest.mark.slow
def test_aarch64_every_call(arm: Elsewhere, aarch64: Path, tmp_path: Path) -> None:
    info = arm.check_every_call(aarch64 / "tests" / "targets" / "calls_printed", tmp_path)
    assert info["recorded_allocator"] == "glibc"


# Programs that exec others are left out: the emulator runs one program. fork_children is, because
# its threads make tens of millions of calls while an emulated fork takes its time.
@pytest.mark.slow
@pytest.mark.parametrize("name, logs", [
    ("tls_destructors", 1), ("thread_churn", 1), ("close_all_fds", 1), ("exit_quick", 1),
    ("setlocale_first", 1), ("thread_forks_first", 9)])
def test_aarch64_tallies(arm: Elsewhere, aarch64: Path, tmp_path: Path, name: str,
                         logs: int) -> None:
    assert arm.check_tallies(aarch64 / "tests" / "targets" / name, tmp_path) == logs


@pytest.mark.slow
def test_aarch64_cpp(arm: Elsewhere, aarch64: Path, tmp_path: Path) -> None:
    assert arm.check_tallies(aarch64 / "tests" / "targets" / "cpp_new", tmp_path) == 1


@pytest.mark.slow
def test_aarch64_threads(arm: Elsewhere, aarch64: Path, tmp_path: Path) -> None:
    """qemu-user's cycle counter is the wall clock in microseconds: of blocks that change hands more
    than once in one of them the order is unknown, so only the calls are compared."""
    arm.check_threads(aarch64 / "tests" / "targets" / "threads_exchange", tmp_path,
                      unseen_max=100_000)


@pytest.mark.slow
def test_aarch64_convert(arm: Elsewhere, aarch64: Path, tmp_path: Path) -> None:
    """The aarch64 converter makes the very trace that the native one makes."""
    target = aarch64 / "tests" / "targets" / "calls_printed"
    [log] = arm.preload([target, tmp_path / "printed", "20000"], tmp_path / "logs").logs
    arm.tools.convert(log, tmp_path / "native.bin")
    done = arm.alone([aarch64 / "heaptape", "convert", log, "-o", tmp_path / "emulated.bin"])
    assert done.status == 0, done.stderr
    assert (tmp_path / "emulated.bin").read_bytes() == (tmp_path / "native.bin").read_bytes()


# --- musl -------------------------------------------------------------------------------------


@pytest.fixture
def small(tools: Tools, musl: Path) -> Elsewhere:
    return Elsewhere(tools, musl / "libmalloc_wrap.so", [])


def musl_target(repository: Path, folder: Path, name: str) -> Path:
    source = repository / "tests" / "targets" / f"{name}.c"
    done = run(["musl-gcc", *TARGET_FLAGS, "-o", folder / name, source])
    assert done.returncode == 0, done.stderr.decode()
    return folder / name


@pytest.mark.slow
def test_musl_shim_needs_only_musl(musl: Path) -> None:
    need("readelf")
    done = run(["readelf", "-d", musl / "libmalloc_wrap.so"])
    needed = [line for line in done.stdout.decode().splitlines() if "(NEEDED)" in line]
    assert len(needed) == 1 and "[libc.so]" in needed[0]


@pytest.mark.slow
def test_musl_every_call(small: Elsewhere, repository: Path, tmp_path: Path) -> None:
    """Nothing lost, and nothing twice: musl's aligned functions call each other."""
    info = small.check_every_call(musl_target(repository, tmp_path, "calls_printed"), tmp_path)
    assert info["recorded_allocator"] == "musl"


@pytest.mark.slow
@pytest.mark.parametrize("name, logs", [
    ("fork_children", 3), ("exec_self", 4), ("vfork_spawn", 3), ("tls_destructors", 1),
    ("thread_churn", 1), ("exit_quick", 1), ("thread_forks_first", 8)])
def test_musl_tallies(small: Elsewhere, repository: Path, tmp_path: Path, name: str,
                      logs: int) -> None:
    assert small.check_tallies(musl_target(repository, tmp_path, name), tmp_path) == logs


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(5))
def test_musl_threads(small: Elsewhere, repository: Path, tmp_path: Path, repetition: int) -> None:
    """The first calls of the process come from four threads at once: none may be lost."""
    folder = tmp_path / str(repetition)
    folder.mkdir()
    small.check_threads(musl_target(repository, folder, "threads_exchange"), folder)


# ---- Systems older than the one that heaptape was built on: the loader ends a program whose preloaded library needs a newer one.

GLIBC_NEWEST = (2, 17)


@pytest.mark.parametrize("name", ["libmalloc_wrap.so", "libmalloc_wrap_full.so"])
def test_needs_no_newer_libc(tools: Tools, name: str) -> None:
    done = run(["readelf", "-W", "--version-info", tools.shim.with_name(name)])
    needed = re.findall(r"Name: (GLIBC_\S+)", done.stdout.decode())
    assert done.returncode == 0 and {"GLIBC_2.2.5", "GLIBC_2.17"} & set(needed), done
    newer = [version for version in needed
             if not re.fullmatch(r"GLIBC_[\d.]+", version) or
             tuple(int(part) for part in version.removeprefix("GLIBC_").split(".")) > GLIBC_NEWEST]
    assert not newer


def test_libc_that_cannot_find_call_sites(tools: Tools, tmp_path: Path) -> None:
    """As before glibc 2.35. The calls are recorded, and `record` and `convert` say that the sites are not."""
    if run([tools.heaptape, "record", "--sites", "--", "true"]).returncode == 2:
        pytest.skip("call sites are not recorded on this processor")
    done = run([tools.heaptape, "record", "--sites", "-o", tmp_path / "logs", "--", tools.target("finds_no_objects")])
    assert done.returncode == 0, done
    assert re.search(rb"warning: .*: no call sites are recorded: .*glibc 2.35", done.stderr)
    [log] = (tmp_path / "logs").iterdir()
    converted = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert converted.returncode == 0 and b"no call sites are recorded: " in converted.stderr
    assert tools.info(tmp_path / "t.bin")["events"] >= 200
