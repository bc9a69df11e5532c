# SPDX-License-Identifier: Apache-2.0
"""Programs that lock themselves in: no recorder's work may be what they are killed for."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import SANDBOX, STOPPED, compare_mode, disk_bytes, ending_of, must_work, need_root, recorded_tallies
from test_record_reach import compile_c
from tool_runner import Outcome, Tools, is_forked, logs_in, outcome_of, read_tallies, run

# targets/sandbox_kinds.c
SIZE_BEFORE, SIZE_AFTER, SIZE_CHILD, SIZE_THREAD = range(7840, 7844)
# targets/seal_early.c
SHORT_BEFORE, SHORT_AFTER = SIGN_BEFORE, SIGN_AFTER = 7960, 7961
SIGN_CHILD = 7962
# targets/seccomp_kinds.c
CALLS_BEFORE = 5000


def test_chroot(tools: Tools, tmp_path: Path) -> None:
    """The program is recorded on; its child, whose log has no place, runs all the same."""
    need_root()
    cage = tmp_path / "cage"
    cage.mkdir()
    compared = compare_mode(tools, tmp_path, "sandbox_kinds", "chroot", cage, status=80)
    assert list(cage.iterdir()) == []
    for size in (SIZE_BEFORE, SIZE_AFTER, SIZE_THREAD):
        assert compared.recorded[size] == compared.counted[size]
    assert compared.recorded[SIZE_CHILD] in (0, compared.counted[SIZE_CHILD])


def make_logs_folder(folder: Path) -> None:
    (folder / "logs").mkdir()
    (folder / "logs").chmod(0o777)


@pytest.mark.thorough
def test_another_user(tools: Tools, open_folder: Path) -> None:
    """root becomes nobody; the log is root's, the child's log nobody's."""
    need_root()
    make_logs_folder(open_folder)
    compared = compare_mode(tools, open_folder, "sandbox_kinds", "setuid", status=81)
    compared.assert_whole(processes=2)
    assert {is_forked(log): log.stat().st_uid for log in compared.recording.logs} == {
        False: 0, True: 65534}


def test_another_user_without_access(tools: Tools, tmp_path: Path) -> None:
    need_root()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    compared = compare_mode(tools, closed, "sandbox_kinds", "setuid", status=81)
    for size in (SIZE_BEFORE, SIZE_AFTER, SIZE_THREAD):
        assert compared.recorded[size] == compared.counted[size]
    assert compared.recorded[SIZE_CHILD] == 0 and len(compared.recording.logs) == 1


def test_no_new_privileges(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "sandbox_kinds", "no_new_privs", status=82)
    compared.assert_whole(processes=2)


@pytest.mark.thorough
def test_namespaces(tools: Tools, open_folder: Path) -> None:
    must_work(["unshare", "-Um", "true"], "nobody may unshare namespaces here")
    make_logs_folder(open_folder)
    compared = compare_mode(tools, open_folder, "sandbox_kinds", "unshare", status=83)
    compared.assert_whole(processes=2)


def test_folder_that_is_gone(tools: Tools, tmp_path: Path) -> None:
    """The current folder is removed under the program; logs were named relative to another."""
    compared = compare_mode(tools, tmp_path, "sandbox_kinds", "chdir", tmp_path / "away",
                            status=84, cwd=tmp_path, env={"MALLOC_WRAP_OUT": "logs"})
    compared.assert_whole(processes=2)


@pytest.mark.parametrize("mode,status", quick(["opening_syscall", "strict_prctl", "strict_number", "all_threads", "no_counter"], [
    ("opening_prctl", 90), ("opening_syscall", 91), ("strict_prctl", 92), ("strict_syscall", 93),
    ("all_threads", 94), ("mode_strict", 95), ("no_counter", 96), ("strict_number", 97),
]))
def test_seccomp(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """The kernel kills for the first unforeseen system call. The recorder makes none: it goes on
    as long as it has room, and says that it stopped when it has none."""
    compared = compare_mode(tools, tmp_path, "seccomp_kinds", mode, status=status,
                            same_counts=mode != "all_threads")
    [log] = [log for log in compared.recording.logs if not is_forked(log)]
    assert compared.recorded[7850] == compared.counted[7850] == CALLS_BEFORE
    for size, counted in compared.counted.items():
        assert compared.recorded[size] <= counted
    in_sandbox = {7851, 7852, 7854} & set(compared.counted)
    lost = sum(compared.counted[size] - compared.recorded[size] for size in in_sandbox)
    if lost:
        assert ending_of(log).state == STOPPED and ending_of(log).reason != 0
    else:
        assert ending_of(log).state != STOPPED
    if mode not in ("mode_strict", "no_counter"):  # without its clock it may stop at once
        assert sum(compared.recorded[size] for size in in_sandbox) > 1000


@pytest.mark.thorough
def test_filter_on_a_thread_without_a_processor(tools: Tools, tmp_path: Path) -> None:
    """One processor has much to do, so that a thread there may have to wait within a call of the recorder's."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    script = "import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-S", "-c", script]) for _ in range(8)]
    try:
        for number in range(20):
            folder = tmp_path / str(number)
            folder.mkdir()
            compare_mode(tools, folder, "seccomp_kinds", "all_threads", status=94, same_counts=False)
    finally:
        for process in busy:
            process.kill()
            process.wait(60)


@pytest.mark.parametrize("unseen", [[], ["unseen"]], ids=["foreseen", "unseen"])
def test_filter_by_a_bare_system_call(tools: Tools, tmp_path: Path, unseen: list[str]) -> None:
    """No hook sees it. A strict one is foreseen, for PR_SET_NO_NEW_PRIVS comes before it by the C library, and `record` looks whether it
    has come; any that allows the question is found by asking the kernel, also without `record`."""
    command = [tools.target("seal_early"), tmp_path / "counts", "bare", *unseen]
    start = tools.preload if unseen else tools.record
    recording = start(command, tmp_path / "logs")
    assert recording.outcome.status == 121, recording.outcome
    [log] = recording.logs
    counted = read_tallies(tmp_path / "counts")
    recorded = recorded_tallies(tools, [log], tmp_path, unseen_max=1)
    assert recorded[SIGN_BEFORE] == counted[SIGN_BEFORE]
    assert 100 < recorded[SIGN_AFTER] <= counted[SIGN_AFTER]
    assert ending_of(log).state == STOPPED and ending_of(log).reason == SANDBOX
    assert b"stopped early: the program forbade system calls" in recording.outcome.stderr or unseen


@pytest.mark.parametrize("child", [[], ["child"]], ids=["alone", "child"])
def test_sign_of_a_filter_that_does_not_come(tools: Tools, tmp_path: Path, child: list[str]) -> None:
    """PR_SET_NO_NEW_PRIVS alone forbids nothing: whole, with samples, and a child that is forked at once has its log."""
    recording = tools.record([tools.target("seal_early"), tmp_path / "counts", "sign_alone", *child], tmp_path / "logs")
    assert recording.outcome.status == 122 and b"warning" not in recording.outcome.stderr, recording.outcome
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")
    [log] = [log for log in recording.logs if not is_forked(log)]
    assert tools.info(tmp_path / f"{log.stem}.bin")["recorded_rss_peak_bytes"] > 64 << 20


@pytest.mark.parametrize("unseen", [[], ["unseen"]], ids=["foreseen", "unseen"])
def test_bare_filter_in_a_child_before_its_first_call(tools: Tools, tmp_path: Path, unseen: list[str]) -> None:
    """A child that is to be forbidden system calls begins while it may; one of which that is not known until its first call begins
    nothing, and its parent's log, which it has not, is no concern of its."""
    command = [tools.target("seal_early"), tmp_path / "counts", "bare_in_child", *unseen]
    recording = (tools.preload if unseen else tools.record)(command, tmp_path / "logs")
    assert recording.outcome.status == 123, recording.outcome
    assert [is_forked(log) for log in sorted(recording.logs, key=is_forked)] == ([False] if unseen else [False, True])
    recorded, counted = recorded_tallies(tools, recording.logs, tmp_path), read_tallies(tmp_path / "counts")
    assert recorded[SIGN_AFTER] == counted[SIGN_AFTER]
    assert recorded[SIGN_CHILD] == (0 if unseen else counted[SIGN_CHILD])


def test_signs_of_filters_among_threads(tools: Tools, tmp_path: Path) -> None:
    """Which of the threads learns first that no filter has come makes no difference: whole, and no early end."""
    command = [tools.target("seal_early"), tmp_path / "counts", "signs_among_threads"]
    recording = tools.record(command, tmp_path / "logs")
    assert recording.outcome.status == 124 and b"stopped early" not in recording.outcome.stderr, recording.outcome
    assert recorded_tallies(tools, recording.logs, tmp_path) == read_tallies(tmp_path / "counts")


@pytest.mark.parametrize("mode,status,processes", [("before_the_first", 112, 1),
                                                   ("in_a_child", 113, 2)])
def test_filter_before_the_first_call(tools: Tools, tmp_path: Path, mode: str, status: int,
                                      processes: int) -> None:
    """The recorder begins while it still may: whole, a log for the sealed child too."""
    compared = compare_mode(tools, tmp_path, "seal_early", mode, status=status)
    compared.assert_whole(processes=processes)


@pytest.mark.parametrize("environment", [
    {"MALLOC_WRAP_MAX_BYTES": "70000"}, {"MALLOC_WRAP_START": "0.02"},
    {"MALLOC_WRAP_START": "paused"}])
def test_filter_while_nothing_is_recorded(tools: Tools, tmp_path: Path,
                                          environment: dict[str, str]) -> None:
    """A recording that has ended, or has not begun, must not try to under the filter."""
    recording = tools.preload([tools.target("seal_early"), tmp_path / "counts", "when_idle"],
                              tmp_path / "logs", env=environment)
    assert recording.outcome == Outcome(114, b"", b"")


@pytest.mark.thorough
def test_filter_that_is_refused(tools: Tools, tmp_path: Path) -> None:
    """It forbids nothing: the recording has room for more calls than are prepared for before a filter."""
    compared = compare_mode(tools, tmp_path, "seal_early", "is_refused", status=118)
    compared.assert_whole(processes=1)


SHORT_LOG_BYTES_MAX = 1 << 20


@pytest.mark.parametrize("in_vain", [[], ["in_vain"]], ids=["filter", "refused"])
def test_short_process_with_a_filter_takes_little_disk(tools: Tools, tmp_path: Path, in_vain: list[str]) -> None:
    """What is prepared for calls after a filter goes by what the process has logged before."""
    compared = compare_mode(tools, tmp_path, "seal_early", "is_short", *in_vain, status=120)
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    assert disk_bytes(log) <= SHORT_LOG_BYTES_MAX


@pytest.mark.thorough
def test_room_of_ended_processes_is_given_back(tools: Tools, tmp_path: Path) -> None:
    """While the run goes on: the shell waits until no log of an ended child has room behind its chunks."""
    logs = tmp_path / "logs"
    script = ('for i in 1 2 3 4 5; do "$1" "$2/counts$i" is_short || [ $? = 120 ] || exit 9; done\n'
              'for i in $(seq 100); do [ $(du -sk "$2/logs" | cut -f1) -gt 700 ] || exit 5; sleep 0.1; done; exit 8')
    done = run([tools.heaptape, "record", "-q", "-o", logs, "--only", "seal_early", "--", "sh", "-c", script, "sh",
                tools.target("seal_early"), tmp_path], timeout=60)
    assert done.returncode == 5, done
    assert len(logs_in(logs)) == 5
    assert recorded_tallies(tools, logs_in(logs), tmp_path) == Counter({SHORT_BEFORE: 50, SHORT_AFTER: 50})


def test_limit_under_a_filter(tools: Tools, tmp_path: Path) -> None:
    """The recorder calls nothing any more when the limit comes: it has given back its address space before."""
    compared = compare_mode(tools, tmp_path, "seal_early", "limits_sealed", status=117)
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("how", quick([["filter"]], [[], ["number"], ["filter"]]), ids=["function", "number", "filter"])
def test_system_calls_that_are_dispatched(tools: Tools, tmp_path: Path, how: list[str]) -> None:
    """The program has those that do not come from the C library handed to a handler of its own, as Wine does; the recorder makes
    none until it has that turned off, nor after that where a filter has come meanwhile."""
    command = [tools.target("seal_early"), tmp_path / "tried", "dispatches", *how]
    if run(command).returncode == 77:
        pytest.skip("the kernel dispatches no system calls here")
    compared = compare_mode(tools, tmp_path, "seal_early", "dispatches", *how, status=119)
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("locks", [[], ["lock"]], ids=["space", "locked"])
def test_limit_while_paused(tools: Tools, tmp_path: Path, locks: list[str]) -> None:
    """What is reserved for a recording that has not begun must not forbid the limit either. It begins under it."""
    outcome = Outcome(116, b"", b"")
    command = [tools.target("seal_early"), tmp_path / "counts", "limits_idle", *locks]
    alone = run(command)
    if locks and b"not locked" in alone.stderr:
        pytest.skip("nobody may lock as much memory here")
    assert outcome_of(alone) == outcome
    for start, recorded in (("paused", {}), ("0.4", {7961: 20_000})):
        logs = tmp_path / start
        logs.mkdir()
        logs.chmod(0o777)
        recording = tools.preload(command, logs, env={"MALLOC_WRAP_START": start})
        assert recording.outcome == outcome
        # On a slow machine it begins while the program still makes the calls before the limit: one block is live then.
        tallies = recorded_tallies(tools, recording.logs, tmp_path, unseen_max=1) if recorded else {}
        assert {size: tallies[size] for size in recorded} == recorded


@pytest.mark.parametrize("by", [
    [], ["prlimit64"],
    pytest.param(["setrlimit"], marks=pytest.mark.skipif(
        platform.machine() != "x86_64", reason="only x86-64 has a system call setrlimit"))])
def test_limit_that_the_program_sets_itself(tools: Tools, tmp_path: Path, by: list[str]) -> None:
    """RLIMIT_AS that comes later, by the C library or by the number of a system call: most of the
    reserved address space is given back."""
    compared = compare_mode(tools, tmp_path, "seal_early", "limits_itself", *by, status=115)
    compared.assert_whole(processes=1)


FORBIDS_ITSELF_FILES = r"""
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct landlock_ruleset_attr rules = {LANDLOCK_ACCESS_FS_WRITE_FILE | (argv[1] ? 0 : LANDLOCK_ACCESS_FS_MAKE_REG)};
    (void)argc;
    free(malloc(10));
    int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (set < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, set, 0)) return 77;
    pid_t child = fork();
    for (int i = 0; i < 100000; i++) free(malloc(100));
    if (!child) _exit(0);
    return wait(NULL) != child;
}
"""


@pytest.mark.parametrize("may_make", [[], ["may_make"]], ids=["made_by_nobody", "made_and_not_opened"])
def test_process_that_forbids_itself_files(tools: Tools, tmp_path: Path, may_make: list[str]) -> None:
    """Its own recording goes on in what is mapped; that a child has none is said, and no empty file is left of that."""
    program = compile_c(tmp_path, FORBIDS_ITSELF_FILES)
    if run([program]).returncode == 77:
        pytest.skip("the kernel has no landlock")
    recording = tools.record([program, *may_make], tmp_path / "logs")
    assert recording.outcome.status == 0 and len(recording.logs) == 1
    assert tools.convert_clean(recording.logs[0], tmp_path / "t.bin")["events"] > 200_000
    [said] = [line for line in recording.outcome.stderr.splitlines() if b"warning" in line]
    assert b"has forbidden itself this folder (landlock)" in said
