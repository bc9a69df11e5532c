# SPDX-License-Identifier: Apache-2.0
"""Every way to come by another process: each has a log of its own, and all calls are in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import (EXITED, RECORDING, compare_mode, ending_of, must_work, need_root,
                           recorded_tallies)
from tool_runner import Tools, is_forked, logs_in, outcome_of, read_tallies, run

# mode: exit status, logs. A shell between program and image has a log as well, if it allocates.
MODES = {
    "system": (51, None), "popen": (52, None), "daemon": (0, 2), "double_fork": (54, 2),
    "raw_clone": (55, 3), "raw_fork": (56, 3), "fifty": (57, 51), "chdir": (58, 3),
    "clearenv": (59, 2), "bare_fork": (61, 3), "clone": (62, 3), "atfork": (63, 2), "clone_on_stack": (64, 1),
}


@pytest.mark.parametrize("mode", quick(set(MODES) - {"fifty"}, MODES))
def test_process(tools: Tools, tmp_path: Path, mode: str) -> None:
    status, processes = MODES[mode]
    if mode == "bare_fork" and run([tools.target("process_kinds"), tmp_path / "tried", mode]).returncode == 77:
        pytest.skip("this C library has no _Fork")
    compared = compare_mode(tools, tmp_path, "process_kinds", mode, status=status)
    compared.assert_whole(processes)
    if processes:
        # The first process is nobody's child; all others are forks of one that was recorded.
        assert sum(is_forked(log) for log in compared.recording.logs) == processes - 1


@pytest.mark.parametrize("mode", quick(["daemon", "chdir"], ["daemon", "chdir", "fifty"]))
def test_folder_named_relatively(tools: Tools, tmp_path: Path, mode: str) -> None:
    """Logs go where the name pointed when the program began, wherever its children go."""
    status, processes = MODES[mode]
    compared = compare_mode(tools, tmp_path, "process_kinds", mode, status=status,
                            cwd=tmp_path, env={"MALLOC_WRAP_OUT": "logs"})
    compared.assert_whole(processes)


LINGER = {
    "daemon": '"$1" "$2" linger & while ! [ -s "$2" ]; do sleep 0.02; done',
    # Its process number means nothing to `record`, or another process.
    "pid_namespace": """unshare -pf sh -c 'echo 3999990 >/proc/sys/kernel/ns_last_pid; "$1" "$2" linger
                     true' sh "$1" "$2" & while ! [ -s "$2" ]; do sleep 0.02; done""",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LINGER)
def test_record_ends_before_the_program(tools: Tools, tmp_path: Path, kind: str) -> None:
    """`record` tidies up the logs of processes that are gone. One that is not gone writes on; had
    its log been cut, it would be killed by SIGBUS."""
    if kind == "pid_namespace":
        need_root()
        must_work(["unshare", "-pf", "true"], "no process namespaces here")
    recording = tools.record(["sh", "-c", LINGER[kind], "sh", tools.target("process_kinds"),
                              tmp_path / "counts"], tmp_path / "logs")
    assert recording.outcome.stdout == b"still here\n", recording.outcome
    recorded = recorded_tallies(tools, logs_in(tmp_path / "logs"), tmp_path)
    assert recorded == read_tallies(tmp_path / "counts")


BEGIN_A_LOG = ("allocate", "inotify", "fanotify")


@pytest.mark.parametrize("what", ["allocate", "dlclose", "clone", "inotify", "fanotify", "queue"])
@pytest.mark.parametrize("where", ["here", "child"])
@pytest.mark.parametrize("options", [[], ["--sites"]], ids=["plain", "sites"])
def test_loader_is_locked(tools: Tools, tmp_path: Path, options: list[str], where: str, what: str) -> None:
    """By another thread until the exit, or for ever by one that a forked child does not have. The process calls a function
    that the recorder hooks, for the first time, and exits as alone."""
    done = run([tools.heaptape, "record", "-q", *options, "-o", tmp_path, "--", tools.target("loader_locked"), where, what],
               timeout=60)
    assert done.returncode == 43, done
    assert len(logs_in(tmp_path)) == (2 if where == "child" and what in BEGIN_A_LOG else 1)


@pytest.mark.thorough
@pytest.mark.parametrize("mode,status", [("limit", 45), ("exit", 46), ("no_counter", 47)])
def test_child_of_vfork_limits_itself(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """What it does to itself is not done to its parent, whose memory and recording it runs on."""
    compared = compare_mode(tools, tmp_path, "vfork_limits", mode, status=status)
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    # A child that exits has run its parent's destructors.
    assert ending_of(log).state == (RECORDING if mode == "exit" else EXITED)


def test_what_the_kernel_refuses(tools: Tools, tmp_path: Path) -> None:
    """Bad pointers, and limits that are not granted, get the kernel's own answers, and change nothing."""
    command = [tools.target("bad_pointers")]
    alone = outcome_of(run(command))
    assert alone.status == 44 and alone.stdout.count(b"EFAULT") >= 5
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone
    logs = recording.logs
    assert len(logs) == (2 if b"clone3: 7" in alone.stdout else 1)
    states = {ending_of(log).state for log in logs}
    assert states == ({RECORDING, EXITED} if len(logs) == 2 else {EXITED})


def test_process_on_its_parents_memory(tools: Tools, tmp_path: Path) -> None:
    """It runs beside its parent, on the storage of its parent's thread: each is a thread of the one log."""
    compared = compare_mode(tools, tmp_path, "shared_states", "clone_vm", status=123, same_counts=False)
    compared.assert_whole(processes=1)
    assert tools.info(tmp_path / f"{compared.recording.logs[0].stem}.bin")["threads"] == 2
