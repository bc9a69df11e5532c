# SPDX-License-Identifier: Apache-2.0
"""What the recorder does apart from the program: by the program's only thread, on another stack, or
in a thread of its own, which is invisible afterwards, and may be refused."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from safety_checks import compare_mode, must_work, need_root
from tool_runner import Tools, outcome_of, run


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
