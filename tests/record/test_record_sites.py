# SPDX-License-Identifier: Apache-2.0
"""Call sites: every allocation has the stack that a full unwinding finds, whatever the program does meanwhile."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from heaptape.trace.reader import Trace, read_trace
from safety_checks import compare_mode
from sites_truth import allocations, record
from tool_runner import RECORDS_SITES, Argument, Tools, clean_environment, logs_in, run
from waiting import wait_until

FRAMES = "64"
KINDS = ("recursion", "alloca", "left_over", "threads", "signal", "coroutine", "guarded", "plugins")


@pytest.fixture
def needs_unwinder(tools: Tools) -> None:
    if not (tools.build / "tests" / "targets" / "libunwind_every_call.so").exists():
        pytest.skip("the allocator that unwinds every call was not built (sanitizers, another processor)")


def site_kinds(tools: Tools, kind: str) -> list[Argument]:
    plugins = [tools.target(f"site_plugin_{which}.so") for which in ("one", "other")]
    return [tools.target("site_kinds"), kind, *(plugins if kind.startswith("plugin") else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_right_stacks(tools: Tools, needs_unwinder: None, kind: str) -> None:
    """Stacks of one depth that differ in a single address, with frames that vary, also around what others have left over, of
    threads, handlers and coroutines, also of one below the guard of a thread's stack; code that comes to lie where other code
    was."""
    found = record([str(word) for word in site_kinds(tools, kind)], tools.build)
    assert (found["right"], found["unknown"]) == (found["allocations"], 0)


def test_threads_beside_dlclose(tools: Tools, needs_unwinder: None) -> None:
    """What one thread's dlclose makes the recorder forget, no other thread guesses from what is left. A call may come between an
    unloading and its notice."""
    found = record([str(word) for word in site_kinds(tools, "plugin_threads")], tools.build)
    assert found["right"] >= 0.9999 * found["allocations"]


def test_stripped(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """.eh_frame is enough."""
    stripped = tmp_path / "site_kinds"
    tools.succeed(["strip", "-s", "-o", stripped, tools.target("site_kinds")])
    found = record([str(stripped), "recursion"], tools.build)
    assert found["right"] == found["allocations"]


def sites_of(tools: Tools, log: Path, folder: Path) -> Trace:
    return read_trace(tools.convert(log, folder / f"{log.stem}.bin"))


def require_known(trace: Trace) -> None:
    """All sites are, and have a stack."""
    site = allocations(trace)["site"]
    assert site.size and (site > 0).all() and int(site.max()) <= len(trace.sites.sites)
    assert (trace.sites.sites["caller"] > 0).all()


def test_a_stack_within_the_threads_own(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """A coroutine's, below a page that must not be touched: no walk reads what an earlier one found beyond it."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("carved_stack")])
    assert done.returncode == 0, done.stderr


def test_a_signal_where_the_stack_ends(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """Of the interrupted frame, the handler's walk reads nothing below the stack."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("stack_bottom")])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind, flag", [("nowhere", 2), ("beyond", 2), ("untold", 2), ("round", 1)])
def test_stacks_of_which_no_unwinder_finds_the_end(tools: Tools, needs_unwinder: None, tmp_path: Path, kind: str,
                                                   flag: int) -> None:
    """What lies where a return address would be leads nowhere, or there is no memory, or a table does not say where that is: the
    stack ends before that, and is flagged as broken. One that goes round is cut."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("lost_stacks"), kind])
    assert done.returncode == 0, done.stderr
    with sites_of(tools, logs_in(tmp_path)[0], tmp_path) as trace:
        require_known(trace)
        sites, calls = trace.sites.sites, allocations(trace)
        flags = sites["flags"][calls["site"][calls["size"] <= 12] - 1]
        assert flags.size == 300 and (flags == flag).all()


def test_deep_coroutine(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """What lies beyond the frames that are kept costs next to nothing: of 10,000 an allocation took a millisecond."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("deep_coroutine")])
    assert done.returncode == 0, done.stderr
    near, far = (int(word) for word in done.stdout.split())
    assert far < 6 * near


def test_child_of_a_thread_that_has_not_allocated(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """Its stack is known: each of its allocations was unwound."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("child_of_thread")])
    assert done.returncode == 0, done.stderr
    first, child = (int(word) for word in done.stdout.split())
    assert child < 6 * first


def test_memory_for_call_sites_is_not_the_programs(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """It is of tens of megabytes here, and was said to be the program's own."""
    peaks = []
    for options in ([], ["--sites"]):
        folder = tmp_path / f"logs{len(options)}"
        done = run([tools.heaptape, "record", "-q", *options, "-o", folder, "--", *site_kinds(tools, "recursion")])
        assert done.returncode == 0, done.stderr
        info = tools.succeed([tools.heaptape, "info", "--json", tools.convert(logs_in(folder)[0], tmp_path / "t.bin")])
        peaks.append(json.loads(info.stdout))
    for figure in ("recorded_rss_peak_bytes", "recorded_own_peak_bytes", "recorded_heap_rss_peak_bytes"):
        assert abs(peaks[0][figure] - peaks[1][figure]) < 512 << 10, (figure, peaks[0][figure], peaks[1][figure])


@pytest.mark.thorough
def test_beside_a_thread_that_registers_frames(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """libgcc calls malloc under the lock that a walk takes: such a call never waits for the walk. What libgcc allocates within a
    walk is no call of the program's."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("registered_frames")])
    assert done.returncode == 0, done.stderr
    with sites_of(tools, logs_in(tmp_path)[0], tmp_path) as trace:
        calls = allocations(trace)
    own = calls["site"][calls["size"] == 10]
    assert own.size == 20_000 and (own == 0).sum() < 1000


@pytest.mark.thorough
def test_children_that_are_forked_beside_a_walk(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """No walk of another thread's holds libgcc's lock while a process forks: it would stay held in the child."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("forks_beside_walks")])
    assert done.returncode == 0, done.stderr
    with sites_of(tools, sorted(logs_in(tmp_path), key=lambda log: log.stat().st_size)[0], tmp_path) as trace:
        require_known(trace)


def test_children_of_fork(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """Their logs say themselves what their numbers mean."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path / "logs", "--", tools.target("fork_children"),
                tmp_path / "counts"])
    logs = logs_in(tmp_path / "logs")
    assert done.returncode < 125, done.stderr
    assert len(logs) > 2
    for log in logs:
        with read_trace(tools.convert(log, tmp_path / "t.bin", "--no-parent")) as trace:
            require_known(trace)


def test_child_forked_within_malloc(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """It ends the call that was interrupted. What that finds of its stack was written in the parent's log."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path / "logs", "--", tools.target("signal_inside"),
                tmp_path / "counts", "fork_once"])
    assert done.returncode == 45, done.stderr
    logs = logs_in(tmp_path / "logs")
    assert len(logs) == 2
    for log in logs:
        with read_trace(tools.convert(log, tmp_path / "t.bin", "--no-parent")) as trace:
            require_known(trace)


@pytest.mark.thorough
def test_no_memory_for_more(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """New stacks have no site then, and leave nothing in the log. The others keep theirs, in a child's log, too."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", *site_kinds(tools, "no_memory")])
    assert done.returncode == 0, done.stderr
    logs, known = logs_in(tmp_path), []
    assert len(logs) == 2
    for log in logs:
        with read_trace(tools.convert(log, tmp_path / "t.bin", "--no-parent")) as trace:
            known.append(allocations(trace)["site"] > 0)
        assert log.stat().st_blocks * 512 < (1 << 20) + 16 * known[-1].size
    assert known[0][:100].all() and known[0][-100:].all() and known[1].all()


@pytest.mark.thorough
def test_handler_at_each_instruction(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """A signal handler that allocates may change all that a thread knows of its stacks while a call uses it. One frame, so that
    the handler's stacks are regular."""
    done = run([tools.heaptape, "record", "-q", "--sites=1", "-o", tmp_path, "--", tools.target("stepped")])
    assert done.returncode == 0, done.stderr


def logs_of_phases(tools: Tools, folder: Path, command: list[str | Path], began_s: float, phase_s: float, resumed: int) -> list[Path]:
    """The logs of a program that runs until the file that it is given last is gone, and is paused and resumed so many times."""
    flag, logs = folder / "flag", folder / "logs"
    flag.touch()
    logs.mkdir()
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs), "MALLOC_WRAP_SITES": FRAMES})
    with subprocess.Popen([*command, flag], env=environment) as program:
        wait_until(lambda: bool(logs_in(logs)))
        time.sleep(began_s)
        for action in ["pause", "resume"] * resumed:
            tools.control(program.pid, action)
            time.sleep(phase_s)
        flag.unlink()
        program.wait(timeout=30)
    assert len(logs_in(logs)) == 1 + resumed
    return logs_in(logs)


@pytest.mark.thorough
def test_resumed_log(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """A log of the same process that begins later, too."""
    for log in logs_of_phases(tools, tmp_path, [tools.target("steady"), tmp_path / "counts"], 0.05, 0.05, 1):
        with sites_of(tools, log, tmp_path) as trace:
            require_known(trace)


@pytest.mark.thorough
def test_log_that_begins_beside_a_fork(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """A fork may take long. A log that began meanwhile had no stack of all the sites that were known before."""
    for log in logs_of_phases(tools, tmp_path, [tools.target("held_forks")], 0.1, 0.07, 4):
        with sites_of(tools, log, tmp_path) as trace:
            assert trace.sites.sites["caller"].size and (trace.sites.sites["caller"] > 0).all(), log


@pytest.mark.thorough
def test_a_handler_behind_each_instruction_of_a_fork(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """It never waits for a lock of its own thread's, for a second and more: no later stack had a site then."""
    done = run([tools.heaptape, "record", "-q", "--sites", "-o", tmp_path, "--", tools.target("stepped_fork")])
    assert done.returncode == 0, done.stderr
    longest_us, handled = (int(word) for word in done.stdout.split())
    assert longest_us < 500_000 and handled > 100
    with sites_of(tools, logs_in(tmp_path)[0], tmp_path) as trace:
        calls = allocations(trace)
        later = calls["site"][calls["size"] == 7000]
        assert later.size == 100 and (later > 0).all()


def test_fewer_frames(tools: Tools, needs_unwinder: None, tmp_path: Path) -> None:
    """Stacks that are deeper are flagged as cut."""
    done = run([tools.heaptape, "record", "-q", "--sites=3", "-o", tmp_path, "--", *site_kinds(tools, "recursion")])
    assert done.returncode == 0, done.stderr
    with sites_of(tools, logs_in(tmp_path)[0], tmp_path) as trace:
        require_known(trace)
        sites, callers = trace.sites.sites, trace.sites.callers
        depth = np.zeros(len(callers) + 1, dtype=int)
        for number, parent in enumerate(callers["parent"], 1):
            depth[number] = depth[parent] + 1
        assert depth.max() == 3
        assert ((sites["flags"] & 1 == 1) == (depth[sites["caller"]] == 3)).all()


@pytest.mark.thorough
def test_small_stack_of_a_handler(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the unwinder has no room, the call is recorded without its site."""
    monkeypatch.setenv("MALLOC_WRAP_SITES", FRAMES)
    compared = compare_mode(tools, tmp_path, "signal_kinds", "small_stack", status=32, same_counts=False)
    compared.assert_whole(processes=1)


@pytest.mark.skipif(RECORDS_SITES, reason="this run of tests has it on")
def test_nothing_of_it_without_the_option(tools: Tools, tmp_path: Path) -> None:
    run([tools.heaptape, "record", "-q", "-o", tmp_path, "--", *site_kinds(tools, "signal")])
    log = logs_in(tmp_path)[0]
    assert int.from_bytes(log.read_bytes()[12:16], "little") & 4 == 0
    with sites_of(tools, log, tmp_path) as trace:
        assert trace.sites.sites.empty
        assert not {9, 10, 11, 12, 13, 14} & {section.kind for section in trace.sections}


@pytest.mark.parametrize("frames", ["0", "129", "many", ""])
def test_wrong_number_of_frames(tools: Tools, tmp_path: Path, frames: str) -> None:
    done = run([tools.heaptape, "record", f"--sites={frames}", "-o", tmp_path, "--", "true"])
    assert done.returncode == 2
    assert b": expected a number of frames from 1 to 128" in done.stderr
