# SPDX-License-Identifier: Apache-2.0
"""The program's descriptors are its own: their numbers, their count, and that they stay open."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path

import pytest

from safety_checks import compare, compare_mode, must_work, need_root
from tool_runner import Tools, clean_environment, outcome_of, run


@pytest.mark.thorough
def test_numbers_are_as_without_the_recorder(tools: Tools, tmp_path: Path) -> None:
    """open, dup and pipe give the lowest free number, after closefrom(3) and without stdin too."""
    compared = compare_mode(tools, tmp_path, "descriptor_kinds", "numbers", status=60)
    compared.assert_whole(processes=1)


def test_no_descriptor_left(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "descriptor_kinds", "none_left", status=63)
    compared.assert_whole(processes=1)


def test_no_descriptor_from_the_start(tools: Tools, tmp_path: Path) -> None:
    """The program runs; its recording is whole if it could begin before the program forbade it."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("no_descriptors"), counts])
    assert compared.recording.outcome.status == 64
    if compared.recording.logs:
        compared.assert_whole(processes=1)


def test_one_descriptor_is_enough(tools: Tools, tmp_path: Path) -> None:
    """The loader needs one at a time to start a program; the recorder must not need more."""
    must_work(["prlimit", "--nofile=4", "true"], "the number of descriptors cannot be limited")
    compared = compare(tools, tmp_path, lambda counts: [
        "prlimit", "--nofile=4", tools.target("exit_quick"), counts])
    assert compared.recording.outcome.status == 14
    compared.assert_whole()


GROWS = """
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int i = 0; i < 2000; i++) memset(malloc(20000), 1, 20000);
    return 0;
}
"""


@pytest.mark.thorough
@pytest.mark.parametrize("highest_taken", [False, True])
def test_whether_descriptors_are_free_is_asked(tools: Tools, tmp_path: Path, highest_taken: bool) -> None:
    """Nothing is opened to know it, before each sample, unless one of the highest numbers that the limit allows is in use."""
    must_work(["strace", "-o", "/dev/null", "true"], "strace does not work here")
    (tmp_path / "grows.c").write_text(GROWS)
    tools.succeed(["gcc", "-O0", "-w", "-o", tmp_path / "grows", tmp_path / "grows.c"])
    logs, seen = tmp_path / "logs", tmp_path / "seen"
    logs.mkdir()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        if highest_taken:
            os.dup2(0, 63)

    done = subprocess.run(["strace", "-e", "trace=openat,fcntl", "-o", seen, "-E", f"LD_PRELOAD={tools.shim}", "-E", f"MALLOC_WRAP_OUT={logs}",
                           tmp_path / "grows"], preexec_fn=limit, close_fds=False, env=clean_environment({}), stdin=subprocess.DEVNULL,
                           check=False, timeout=100)
    calls = seen.read_text().splitlines()
    assert done.returncode == 0 and len([line for line in calls if "/proc/" in line and " = 3" in line]) > 20
    opened, asked = (len([line for line in calls if word in line]) for word in ('"/", O_', "F_GETFD"))
    assert asked > 20 and (opened > 20) == highest_taken and (opened == 0) != highest_taken, (opened, asked)
    [log] = logs.iterdir()
    assert tools.convert_clean(log, tmp_path / "t.bin")["ops"]["malloc"] == 2000


@pytest.mark.thorough
@pytest.mark.parametrize("mode,status", [("close_range", 65), ("dup2", 66), ("fork", 67)])
@pytest.mark.parametrize("seconds", ["1", "3"])
def test_no_descriptor_of_the_recorders_is_seen(tools: Tools, tmp_path: Path, mode: str,
                                                status: int, seconds: str) -> None:
    """A thread that closes every number and reads a file, one that puts a pipe at a free number,
    one whose children look at what they inherit, while another thread's memory is sampled."""
    compared = compare_mode(tools, tmp_path, "descriptor_threads", mode, seconds, status=status,
                            same_counts=False, unseen_max=1)
    assert compared.recording.outcome.stdout == b"0 found otherwise\n"
    compared.assert_whole()


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["clone", "clone_by_number"])
def test_no_descriptor_is_seen_by_who_shares_them(tools: Tools, tmp_path: Path, mode: str) -> None:
    """A process of one thread, whose table of descriptors another process has as well."""
    compared = compare_mode(tools, tmp_path, "descriptor_threads", mode, "1", status=69, same_counts=False)
    assert compared.recording.outcome.stdout == b"0 found otherwise\n"
    compared.assert_whole()


def test_no_descriptor_is_seen_from_outside(tools: Tools, tmp_path: Path) -> None:
    """/proc/PID/fd, read as fast as can be during some thousand samples."""
    logs = tmp_path / "logs"
    logs.mkdir()
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)})
    program = subprocess.Popen([str(tools.target("descriptor_threads")), str(tmp_path / "counts"),
                                "watched", "3"], env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    table, seen, looks = Path(f"/proc/{program.pid}/fd"), set(), 0
    # The loader and the target itself open files before the first sample.
    while not any(logs.iterdir()) and program.poll() is None:
        pass
    counts = str(tmp_path / "counts")
    while program.poll() is None:
        for number in os.listdir(table) if table.exists() else []:
            try:
                seen.add(os.readlink(table / number))
            except OSError:
                continue
        looks += 1
    assert program.returncode == 68
    assert looks > 100
    assert {name for name in seen if name != "/dev/null"} <= {counts}, seen
    trace = tools.convert(next(logs.iterdir()), tmp_path / "trace")
    assert tools.info(trace)["ops"]


@pytest.mark.thorough
@pytest.mark.parametrize("mode,status", [("told", 90), ("asked", 91)])
def test_program_that_watches_files(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """It is told of no change in the log's folder; and what only it can allow is not waited for."""
    if mode == "asked":
        need_root()
    (tmp_path / "logs").mkdir()
    compared = compare_mode(tools, tmp_path, "watches_files", mode, tmp_path / "logs", status=status)
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    assert log.stat().st_blocks * 512 > 1 << 20  # several large chunks


# ---- What the recorder does apart from the program: by the program's only thread, on another stack, or in a thread of its own, which
# is invisible afterwards, and may be refused.

# With a thread before, the recorder's work is done by a thread of its own from then on.
BEFORE = pytest.mark.parametrize("before", [[], ["thread"]], ids=["alone", "after a thread"])


@pytest.mark.thorough
@BEFORE
@pytest.mark.parametrize("mode,status", [("one_thread", 80), ("no_child", 81)])
def test_the_program_is_alone_again(tools: Tools, tmp_path: Path, mode: str, status: int,
                                    before: list[str]) -> None:
    """After each call the kernel counts one thread, and there is no child to wait for."""
    compared = compare_mode(tools, tmp_path, "apart_kinds", mode, *before, status=status)
    assert compared.recording.outcome.stdout == b"0\n"
    compared.assert_whole(processes=1)


@pytest.mark.thorough
@BEFORE
def test_the_program_is_alone_again_though_it_has_priority(tools: Tools, tmp_path: Path,
                                                           before: list[str]) -> None:
    """The other thread does not inherit it, and needs the processor to be gone."""
    must_work(["chrt", "--fifo", "10", "true"], "no such priority is granted")
    compared = compare_mode(tools, tmp_path, "apart_kinds", "priority", *before, status=83)
    assert compared.recording.outcome.stdout == b"0\n"
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_no_thread_waits_for_one_of_lower_priority(tools: Tools, tmp_path: Path) -> None:
    """What the kernel starts for a real-time thread may be ordinary. All calls are recorded."""
    alone = run([tools.target("realtime_reset")])
    if alone.returncode == 3:
        pytest.skip("no such priority is granted")
    recording = tools.preload([tools.target("realtime_reset")], tmp_path)
    assert recording.outcome.status == 0, recording.outcome.stderr
    [log] = recording.logs
    tools.convert_clean(log, tmp_path / "trace.bin")
    assert tools.info(tmp_path / "trace.bin")["events"] >= 4 * 20 * 60


@pytest.mark.thorough
def test_short_threads_wait_for_no_thread(tools: Tools, tmp_path: Path) -> None:
    """One that has run for less than 50 ms samples only where nobody has for 100 ms."""
    must_work(["strace", "-o", "/dev/null", "true"], "strace does not work here")
    begun = time.monotonic()
    run(["strace", "-f", "--seccomp-bpf", "-e", "trace=clone", "-e", "signal=none", "-o", tmp_path / "calls",
         "-E", f"LD_PRELOAD={tools.shim}", "-E", f"MALLOC_WRAP_OUT={tmp_path}", tools.target("short_threads")])
    took_s = time.monotonic() - begun
    lines = (tmp_path / "calls").read_text().splitlines()
    main = lines[0].split()[0]
    waits = [line for line in lines if " clone(" in line and line.split()[0] != main]
    assert len(waits) <= 10 * took_s + 1, f"{len(waits)} waits in {took_s:.2f} s"


@pytest.mark.thorough
@BEFORE
def test_message_queue(tools: Tools, tmp_path: Path, before: list[str]) -> None:
    """The process is notified of a message: no thread of it has closed the queue. Sampling
    continues."""
    if not Path("/proc/sys/fs/mqueue").exists():
        pytest.skip("the kernel has no message queues")
    compared = compare_mode(tools, tmp_path, "apart_kinds", "queue", *before, status=84)
    assert compared.recording.outcome.stdout == b"0\n"
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    assert tools.info(tmp_path / f"{log.stem}.bin")["recorded_rss_peak_bytes"] > 7 << 20


@BEFORE
def test_another_pid_namespace(tools: Tools, tmp_path: Path, before: list[str]) -> None:
    """The kernel grants no more threads then; a process instead would be that namespace's first,
    and with it the namespace would end."""
    must_work(["unshare", "--pid", "--fork", "true"], "no namespaces can be made here")
    compared = compare_mode(tools, tmp_path, "apart_kinds", "pid_namespace", *before, status=82)
    compared.assert_whole()


def test_no_thread_is_granted(tools: Tools, tmp_path: Path) -> None:
    """RLIMIT_NPROC is reached from the start: the program runs as alone, unrecorded."""
    need_root()
    nobody = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "prlimit", "--nproc=1"]
    must_work([*nobody, "true"], "setpriv or prlimit does not work here")
    # A folder of everybody's: that user may not enter pytest's.
    logs = Path("/tmp") / f"heaptape-test-{os.getpid()}"
    logs.mkdir(mode=0o777)
    logs.chmod(0o777)
    try:
        for name in (tools.shim, tools.target("exit_quick")):
            (logs / Path(name).name).write_bytes(Path(name).read_bytes())
            (logs / Path(name).name).chmod(0o755)
        program = [*nobody, "env", f"LD_PRELOAD={logs}/{Path(tools.shim).name}",
                   f"MALLOC_WRAP_OUT={logs}", logs / "exit_quick", logs / "counts"]
        outcome = outcome_of(run(program))
        assert outcome.status == 14 and not outcome.stderr
        assert not list(logs.glob("*.mraw"))
    finally:
        for path in logs.iterdir():
            path.unlink()
        logs.rmdir()
