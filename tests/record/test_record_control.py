# SPDX-License-Identifier: Apache-2.0
"""Which processes are recorded, from when to when, and how much of it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from safety_checks import SIZE_LIMIT, STOPPED, ending_of
from tool_runner import Tools, clean_environment, logs_in, read_tallies, run, tallies_in
from waiting import read_line, wait_until

STATUS = 19  # tests/targets/steady.c
SIZES = {7950, 7951}


@contextmanager
def steady(tools: Tools, folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that allocates until the block ends; it must then end well."""
    flag, logs = folder / "flag", folder / "logs"
    flag.touch()
    logs.mkdir(exist_ok=True)
    wanted = {"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs), **environment}
    with subprocess.Popen([tools.target("steady"), folder / "counts", flag], stderr=subprocess.PIPE,
                          env=clean_environment(wanted)) as program:
        try:
            # A log is there a moment before it says that it records.
            wait_until(lambda: bool(environment) or (bool(logs_in(logs)) and ctl(tools, program.pid, "status").startswith("recording: ")))
            yield program
        finally:
            flag.unlink()
            _, said = program.communicate(timeout=30)
    assert (program.returncode, said) == (STATUS, b"")


def ctl(tools: Tools, pid: int, action: str, status: int = 0) -> str:
    done = run([tools.heaptape, "ctl", str(pid), action])
    assert done.returncode == status, done.stderr
    return (done.stdout + done.stderr).decode()


def calls_in(tools: Tools, log: Path, folder: Path) -> int:
    return sum(tallies_in(tools.dump(tools.convert(log, folder / "t.bin"))).values())


def test_phases(tools: Tools, tmp_path: Path) -> None:
    """Dormant, recording, paused, recording, stopped: a log for each phase, none with an anomaly."""
    with steady(tools, tmp_path, MALLOC_WRAP_START="paused") as program:
        wait_until(lambda: bool(logs_in(tmp_path / "logs")))
        pid = program.pid
        assert "nothing recorded yet" in ctl(tools, pid, "status")
        assert "already" in ctl(tools, pid, "pause", status=1)
        for _ in range(2):
            assert "resumed" in tools.control(pid, "resume")
            assert "already" in ctl(tools, pid, "resume", status=1)
            time.sleep(0.2)
            assert ctl(tools, pid, "status").startswith("recording: ")
            assert "paused" in ctl(tools, pid, "pause")
            assert ctl(tools, pid, "status").startswith("paused: ")
            before = read_tallies(tmp_path / "counts")
            wait_until(lambda: read_tallies(tmp_path / "counts") != before)  # noqa: B023
        assert "stopped" in ctl(tools, pid, "stop")
        assert "ended and cannot resume" in ctl(tools, pid, "resume", status=1)
    logs = logs_in(tmp_path / "logs")
    assert len(logs) == 2
    counted = sum(read_tallies(tmp_path / "counts").values())
    recorded = 0
    for log in logs:
        assert log.stat().st_size < 1 << 30  # cut to length
        info = tools.info(tools.convert(log, tmp_path / "t.bin"))
        # What lived before a phase began is foreign where it is freed: of each of two threads the 16 blocks that it
        # keeps, and the one that it was about to free. What comes back is no anomaly.
        assert info["anomalies"] == 0 and info["foreign_frees"] <= 2 * (16 + 1)
        assert info["threads"] == 2
        assert info["duration_ns"] > 100_000_000
        calls = calls_in(tools, log, tmp_path)
        assert calls > 100
        recorded += calls
    assert recorded < counted


@pytest.mark.thorough
def test_many_phases_keep_no_address_space(tools: Tools, tmp_path: Path) -> None:
    def mapped_bytes() -> int:
        status = Path(f"/proc/{program.pid}/status").read_text()
        return int(status.partition("VmSize:")[2].split()[0]) << 10

    with steady(tools, tmp_path) as program:
        once = mapped_bytes()
        for _ in range(5):
            tools.control(program.pid, "pause")
            tools.control(program.pid, "resume")
        assert mapped_bytes() < once + (256 << 20)
    assert len(logs_in(tmp_path / "logs")) == 6


@pytest.mark.thorough
def test_a_pause_before_the_resumption_was_noticed(tools: Tools, tmp_path: Path) -> None:
    with steady(tools, tmp_path) as program:
        tools.control(program.pid, "pause")
        program.send_signal(signal.SIGSTOP)
        try:
            assert "at its next allocation" in ctl(tools, program.pid, "resume")
            assert "it is about to resume" in ctl(tools, program.pid, "pause", status=1)
        finally:
            program.send_signal(signal.SIGCONT)
        wait_until(lambda: ctl(tools, program.pid, "status").startswith("recording: "))


def test_pause_after_a_late_start_holds(tools: Tools, tmp_path: Path) -> None:
    with steady(tools, tmp_path, MALLOC_WRAP_START="0.1") as program:
        wait_until(lambda: bool(logs_in(tmp_path / "logs")))
        wait_until(lambda: ctl(tools, program.pid, "status").startswith("recording: "))
        ctl(tools, program.pid, "pause")
        time.sleep(0.2)
        assert ctl(tools, program.pid, "status").startswith("paused: ")


def test_logs_removed_between_phases(tools: Tools, tmp_path: Path) -> None:
    """A number that is free again is not taken again: the newest log has the highest."""
    with steady(tools, tmp_path) as program:
        first = logs_in(tmp_path / "logs")[0]
        for action in ("pause", "resume", "pause"):
            tools.control(program.pid, action)
        first.unlink()
        tools.control(program.pid, "resume")
        assert any(".2.mraw" in log.name for log in logs_in(tmp_path / "logs"))
        for log in logs_in(tmp_path / "logs"):
            log.unlink()
        assert "removed" in ctl(tools, program.pid, "pause", status=1)


def test_record_where_sigchld_is_ignored(tools: Tools, tmp_path: Path) -> None:
    done = run(["sh", "-c", 'trap "" CHLD; exec "$@"', "sh", tools.heaptape, "record", "-o", tmp_path,
                "--", "bash", "-c", "exit 5"])
    assert done.returncode == 5, done.stderr


def test_pipe_under_the_name_of_a_log(tools: Tools, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "malloc-footprint.1.mraw")
    done = run([tools.heaptape, "record", "-o", tmp_path, "--", "bash", "-c", "exit 5"], timeout=20)
    assert done.returncode == 5, done.stderr


def test_stop_before_the_start(tools: Tools, tmp_path: Path) -> None:
    with steady(tools, tmp_path, MALLOC_WRAP_START="paused") as program:
        wait_until(lambda: bool(logs_in(tmp_path / "logs")))
        assert "stopped" in ctl(tools, program.pid, "stop")
    [log] = logs_in(tmp_path / "logs")
    done = run([tools.heaptape, "convert", log])
    assert done.returncode == 3 and b"ctl" in done.stderr


def test_start_after_a_while(tools: Tools, tmp_path: Path) -> None:
    with steady(tools, tmp_path, MALLOC_WRAP_START="0.3") as program:
        wait_until(lambda: bool(logs_in(tmp_path / "logs")))
        time.sleep(0.5)
        assert ctl(tools, program.pid, "status").startswith("recording: ")
    [log] = logs_in(tmp_path / "logs")
    assert 0 < calls_in(tools, log, tmp_path) < sum(read_tallies(tmp_path / "counts").values())


def test_size_limit(tools: Tools, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    done = run([tools.heaptape, "record", "-o", logs, "--max-size", "200k", "--",
                tools.target("calls_printed"), tmp_path / "printed", "200000"])
    assert done.returncode == 0 and b"size limit" in done.stderr
    [log] = logs_in(logs)
    assert (ending_of(log).state, ending_of(log).reason) == (STOPPED, SIZE_LIMIT)
    assert 100_000 < log.stat().st_blocks * 512 <= 200 << 10
    tools.convert_clean(log, tmp_path / "t.bin")


@pytest.mark.parametrize("only,count", [("sort", 1), ("s*t,nothing", 1), ("ba?h", 2), ("bash,sort", 3),
                                        ("nothing", 0)])
def test_only_some_processes(tools: Tools, tmp_path: Path, only: str, count: int) -> None:
    """bash is two processes: the second becomes sort."""
    logs = tmp_path / "logs"
    logs.mkdir()
    done = run([tools.heaptape, "record", "-o", logs, "--only", only, "--",
                "bash", "-c", "sort /etc/passwd >/dev/null; exit 7"])
    assert done.returncode == 7, done.stderr
    assert len(logs_in(logs)) == count
    assert (b"no log was written" in done.stderr) == (count == 0)


def test_record_starts_paused(tools: Tools, tmp_path: Path) -> None:
    """record says how to begin; a program of which nothing was recorded is an error."""
    done = run([tools.heaptape, "record", "-o", tmp_path, "--start", "paused", "--",
                tools.target("exit_quick"), tmp_path / "counts"])
    assert b"begin the recording by heaptape ctl " in done.stderr
    assert b"paused throughout" in done.stderr


@pytest.mark.parametrize("arguments", [["0", "status"], ["x", "status"], ["1"], ["1", "begin"], []])
def test_bad_usage_of_ctl(tools: Tools, arguments: list[str]) -> None:
    assert run([tools.heaptape, "ctl", *arguments]).returncode == 2


def test_process_without_the_recorder(tools: Tools) -> None:
    said = ctl(tools, os.getpid(), "status", status=1)
    assert said.count("\n") == 1 and "it runs without the recorder" in said


@pytest.mark.parametrize("option", [["--max-size", "12"], ["--max-size", "x"], ["--start", "soon"],
                                    ["--start", "-1"]])
def test_bad_values(tools: Tools, option: list[str]) -> None:
    assert run([tools.heaptape, "record", *option, "--", "true"]).returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP,
                                    signal.SIGUSR1, signal.SIGUSR2])
def test_record_passes_signals_on(tools: Tools, tmp_path: Path, number: signal.Signals) -> None:
    """What somebody sends to record reaches the program; its answer is record's exit status."""
    script = f"trap 'exit 33' {int(number)}; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen([tools.heaptape, "record", "-q", "-o", tmp_path, "--", "bash", "-c", script],
                          stdout=subprocess.PIPE, env=clean_environment({})) as program:
        assert program.stdout is not None and read_line(program.stdout) == b"ready\n"
        program.send_signal(number)
        assert program.wait(timeout=30) == 33


# ---- `ctl` of a process in a container: its own log, never another's of the same name.

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


def ctl_says(tools: Tools, pid: int, action: str) -> tuple[int, str]:
    done = run([tools.heaptape, "ctl", str(pid), action])
    return done.returncode, (done.stdout + done.stderr).decode()


def test_stops_the_one_inside_alone(tools: Tools, outside_and_inside: tuple[int, int, Path]) -> None:
    outside, inside, log = outside_and_inside
    assert ctl_says(tools, inside, "status")[1].startswith("recording: ")
    status, said = ctl_says(tools, inside, "stop")
    assert status == 0 and said.startswith(f"process {inside}: stopped") and str(log) in said
    assert ctl_says(tools, inside, "status")[1].startswith("stopped: ")
    assert ctl_says(tools, outside, "status")[1].startswith("recording: ")


def test_pauses_and_resumes_inside(tools: Tools, outside_and_inside: tuple[int, int, Path]) -> None:
    outside, inside, _ = outside_and_inside
    assert ctl_says(tools, inside, "pause")[0] == 0
    assert ctl_says(tools, inside, "status")[1].startswith("paused: ")
    status, said = ctl_says(tools, inside, "resume")
    assert status == 0 and ".1.mraw" in said  # a log of its own, which is not there outside
    assert ctl_says(tools, inside, "status")[1].startswith("recording: ")
    assert ctl_says(tools, outside, "status")[1].startswith("recording: ")


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
        status, said = ctl_says(tools, other.pid, "stop")
        other.communicate(timeout=60)
    assert status == 1 and "it runs without the recorder" in said
