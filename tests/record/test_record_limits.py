# SPDX-License-Identifier: Apache-2.0
"""Limits of the process, and a log that is taken away: the program goes on as it does alone."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import (SIZE_LIMIT, STOPPED, Compared, compare, compare_mode, ending_of,
                           must_work, recorded_tallies)
from tool_runner import (RECORDS_SITES, TALLY_SIZES, Argument, Tools, clean_environment, logs_in, read_tallies, run)
from waiting import read_byte

MIB = 1 << 20
SIZE_BEFORE, SIZE_AFTER, SIZE_THREAD, SIZE_CHILD = range(7830, 7834)  # targets/limit_kinds.c


def limited(tools: Tools, folder: Path, limit: str, mode: str) -> Callable[[Path], list[Argument]]:
    """The command of limit_kinds under a limit; what it reports goes into counts.report."""
    must_work(["prlimit", "true"], "prlimit does not work here")

    def command(counts: Path) -> list[Argument]:
        # There before the limit is: a file that must not grow.
        counts.write_bytes(bytes(8 * TALLY_SIZES))
        return ["prlimit", limit, tools.target("limit_kinds"), counts, mode,
                counts.with_suffix(".report")]
    return command


@pytest.mark.parametrize("limit", [0, 4096, 300_000, MIB, 2 * MIB])
def test_file_size_limit(tools: Tools, tmp_path: Path, limit: int) -> None:
    """The program's own file ends where it does alone, with as many signals; the log ends within
    the limit too, and says why."""
    compared = compare(tools, tmp_path, limited(tools, tmp_path, f"--fsize={limit}", "fsize"))
    assert compared.recording.outcome.status == 70
    assert compared.recording.outcome.stdout.startswith(f"{limit} bytes".encode())
    # prlimit, which becomes the program, has a log of its own, from before the limit.
    own = [log for log in compared.recording.logs if log.stat().st_size <= limit]
    if not own:
        assert limit < MIB and not compared.recorded
        return
    [log] = own
    if ending_of(log).state == STOPPED:
        assert ending_of(log).reason == SIZE_LIMIT
        assert 0 < compared.recorded[SIZE_AFTER] < compared.counted[SIZE_AFTER]
    else:
        compared.assert_whole()


def test_operator_new_without_memory_or_cxx(tools: Tools, tmp_path: Path) -> None:
    """Nothing can throw: one line, and the same end as by an uncaught exception. Nothing is lost."""
    command: list[Argument] = [tools.target("limit_kinds"), tmp_path / "counts", "new_without_cxx"]
    assert run(command).returncode == 3  # without the recorder there is no operator new at all
    recording = tools.preload(command, tmp_path / "logs", cwd=tmp_path)
    assert recording.outcome.status == -signal.SIGABRT
    assert recording.outcome.stderr == (b"libmalloc_wrap.so: operator new: out of memory, "
                                        b"without a C++ library to throw bad_alloc\n")
    recorded = recorded_tallies(tools, recording.logs, tmp_path)
    assert recorded[SIZE_BEFORE] == read_tallies(tmp_path / "counts")[SIZE_BEFORE] == 1


def test_record_tells_of_the_limit(tools: Tools, tmp_path: Path) -> None:
    command = limited(tools, tmp_path, f"--fsize={MIB}", "fsize")(tmp_path / "counts")
    recording = tools.record(command, tmp_path / "logs")
    assert recording.outcome.status == 70
    assert b"warning" in recording.outcome.stderr and b"stopped early" in recording.outcome.stderr


@pytest.mark.thorough
def test_file_size_limit_that_comes_later(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "limit_kinds", "fsize_later", tmp_path / "own-file",
                            status=71)
    compared.assert_whole(processes=1)


def reports(compared: Compared, folder: Path) -> tuple[int, int]:
    """What the program reported alone, and recorded."""
    assert compared.recording.outcome.stderr == b""
    return (int((folder / "alone.report").read_text()), int((folder / "counts.report").read_text()))


@pytest.mark.parametrize("limit", quick([f"--as={600 * MIB}"], [f"--as={600 * MIB}", f"--data={300 * MIB}"]))
@pytest.mark.parametrize("sites", [False, True], ids=["plain", "sites"])
def test_memory_limit(tools: Tools, tmp_path: Path, limit: str, sites: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit on its address space or data, the program can still allocate nearly as much; so it can where the call sites
    of a hundred thousand stacks are recorded."""
    if sites:
        monkeypatch.setenv("MALLOC_WRAP_SITES", "64")
    compared = compare(tools, tmp_path, limited(tools, tmp_path, limit, "many_stacks" if sites else "memory"))
    assert compared.recording.outcome.status == 72
    compared.assert_whole()
    alone, recorded = reports(compared, tmp_path)
    assert alone > 1000
    assert recorded >= 0.9 * alone


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["mlockall", "mlockall_by_number"])
def test_locked_memory(tools: Tools, tmp_path: Path, mode: str) -> None:
    """A program that may lock 64 MiB locks all it has, and all it will have, by the C library or by
    syscall(). A recorder's reserve must not forbid that, nor be filled by it."""
    compared = compare(tools, tmp_path, limited(tools, tmp_path, "--core=0", mode))
    assert compared.recording.outcome.status == 73
    if not RECORDS_SITES:  # with them the log may end sooner
        compared.assert_whole()
    alone, recorded = reports(compared, tmp_path)
    assert recorded - alone <= 32 << 10  # KiB


@pytest.mark.thorough
def test_locked_memory_with_call_sites(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reserved for them must not forbid it, either; the log may end sooner."""
    monkeypatch.setenv("MALLOC_WRAP_SITES", "64")
    compared = compare(tools, tmp_path, limited(tools, tmp_path, "--core=0", "mlockall"))
    assert compared.recording.outcome.status == 73


@pytest.mark.thorough
def test_little_stacks(tools: Tools, tmp_path: Path) -> None:
    """Threads with the least stack there is, which allocate, and fork; their children allocate."""
    compared = compare_mode(tools, tmp_path, "limit_kinds", "little_stacks", status=74)
    compared.assert_whole(processes=5)


def test_stack_limit(tools: Tools, tmp_path: Path) -> None:
    compared = compare(tools, tmp_path, limited(tools, tmp_path, "--stack=131072", "little_stacks"))
    assert compared.recording.outcome.status == 74
    compared.assert_whole()


def remove_log(log: Path) -> None:
    log.unlink()


def replace_log(log: Path) -> None:
    log.unlink()
    log.write_text("somebody else's\n")


def remove_folder(log: Path) -> None:
    shutil.rmtree(log.parent)


@pytest.mark.parametrize("disturb", [remove_log, replace_log, remove_folder])
def test_log_taken_away(tools: Tools, tmp_path: Path, disturb: Callable[[Path], None]) -> None:
    """Somebody tidies up while the program runs: it runs on, its children are recorded if they can
    be, and a file that took the log's name is left alone."""
    logs, counts = tmp_path / "logs", tmp_path / "counts"
    logs.mkdir()
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)})
    with subprocess.Popen([tools.target("limit_kinds"), counts, "wait"], env=environment,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert read_byte(process.stdout) == b"."
        [log] = logs_in(logs)
        disturb(log)
        assert process.communicate(b"!", timeout=60) == (b"", b"")
    assert process.returncode == 75
    if disturb is replace_log:
        assert log.read_text() == "somebody else's\n"
        log.unlink()
    if disturb is not remove_folder:
        recorded = recorded_tallies(tools, logs_in(logs), tmp_path)
        assert recorded == {SIZE_CHILD: read_tallies(counts)[SIZE_CHILD]}
