# SPDX-License-Identifier: Apache-2.0
"""`ctl` of a process in a container: its own log, never another's of the same name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tool_runner import Tools, clean_environment, logs_in, run
from waiting import wait_until

# A process in namespaces of its own, with a file system of its own where logs go, writes a log of the name that a
# process outside has. Arguments: the folder of logs, the number before the process's, and what it runs.
CONTAINER = """
mount -t tmpfs none "$1" && echo "$2" > /proc/sys/kernel/ns_last_pid || exit 77
shift 2
"$@" &
wait
"""


@pytest.fixture
def outside_and_inside(tools: Tools, tmp_path: Path) -> Iterator[tuple[int, int, Path]]:
    """Two recorded processes, the second in a container, both with a log of the same path; and that path."""
    logs, flag = tmp_path / "logs", tmp_path / "flag"
    logs.mkdir()
    flag.touch()
    steady = [tools.target("steady"), tmp_path / "counts", flag]
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs)})
    outside = subprocess.Popen(steady, env=environment)
    unshare = ["unshare", "-m", "-p", "-f", "--mount-proc"] if os.geteuid() == 0 else \
        ["unshare", "-r", "-m", "-p", "-f", "--mount-proc"]
    container = None
    try:
        wait_until(lambda: logs_in(logs), "the log outside")
        command = [*unshare, "sh", "-c", CONTAINER, "sh", logs, str(outside.pid - 1), "env",
                   f"LD_PRELOAD={tools.shim}", f"MALLOC_WRAP_OUT={logs}", *steady[:1], tmp_path / "others", flag]
        container = subprocess.Popen(command, env=clean_environment({}), stderr=subprocess.DEVNULL)
        inside = wait_until(lambda: container.poll() is not None or _steady_below(container.pid, tools),
                            "the process inside")
        if inside is True:
            pytest.skip(f"namespaces are not to be had here (unshare: {container.returncode})")
        root = Path(f"/proc/{inside}/root")
        wait_until(lambda: logs_in(Path(f"{root}{logs}")), "the log inside")
        if [log.name for log in logs_in(Path(f"{root}{logs}"))] != [log.name for log in logs_in(logs)]:
            pytest.skip("the process inside did not get the number of the one outside")
        yield outside.pid, int(inside), logs_in(logs)[0]
    finally:
        flag.unlink()
        for process in filter(None, (outside, container)):
            process.wait(timeout=60)


def _steady_below(parent: int, tools: Tools) -> int:
    """The number, as seen from here, of the program that runs somewhere below; 0 if it does not run yet."""
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in map(int, children):
            if os.path.basename(os.readlink(f"/proc/{child}/exe")) == tools.target("steady").name:
                return child
            if found := _steady_below(child, tools):
                return found
    except OSError:
        return 0
    return 0


def ctl(tools: Tools, pid: int, action: str) -> tuple[int, str]:
    done = run([tools.heaptape, "ctl", str(pid), action])
    return done.returncode, (done.stdout + done.stderr).decode()


def test_stops_the_one_inside_alone(tools: Tools, outside_and_inside: tuple[int, int, Path]) -> None:
    outside, inside, log = outside_and_inside
    assert ctl(tools, inside, "status")[1].startswith("recording: ")
    status, said = ctl(tools, inside, "stop")
    assert status == 0 and said.startswith(f"process {inside}: stopped") and str(log) in said
    assert ctl(tools, inside, "status")[1].startswith("stopped: ")
    assert ctl(tools, outside, "status")[1].startswith("recording: ")


def test_pauses_and_resumes_inside(tools: Tools, outside_and_inside: tuple[int, int, Path]) -> None:
    outside, inside, _ = outside_and_inside
    assert ctl(tools, inside, "pause")[0] == 0
    assert ctl(tools, inside, "status")[1].startswith("paused: ")
    status, said = ctl(tools, inside, "resume")
    assert status == 0 and ".1.mraw" in said  # a log of its own, which is not there outside
    assert ctl(tools, inside, "status")[1].startswith("recording: ")
    assert ctl(tools, outside, "status")[1].startswith("recording: ")


def test_child_that_shares_memory_is_no_way_to_its_parent(tools: Tools, tmp_path: Path) -> None:
    """A process has only logs under its own number: another's that it has mapped is the other's."""
    log = tmp_path / "logs"
    log.mkdir()
    script = ("import mmap, sys, time; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 4096); "
              "print('mapped', flush=True); sys.stdin.read()")
    recorded = tools.preload([tools.target("exit_quick"), tmp_path / "counts"], log).logs[0]
    with subprocess.Popen(["/usr/bin/python3", "-c", script, recorded], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=clean_environment({})) as other:
        assert other.stdout is not None and other.stdout.readline() == b"mapped\n"
        status, said = ctl(tools, other.pid, "stop")
        other.communicate(timeout=60)
    assert status == 1 and "it runs without the recorder" in said
