# SPDX-License-Identifier: Apache-2.0
"""A tool may inherit ignored or blocked signals, from nohup, a script's `&` or a server's supervisor.
The tool keeps them for itself; nothing that it starts, or needs itself, fails by it."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Argument, Tools, clean_environment
from waiting import WITHIN_S, read_line, started, wait_until

CATCHABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
NOHUP = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD}
TALK_TO_OTHERS = {signal.SIGINT, signal.SIGHUP}  # how a run ends is the launcher's to say


def inheriting(ignored: set[signal.Signals], blocked: set[signal.Signals]) -> Callable[[], None]:
    def take() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return take


def run_with(command: Sequence[Argument], ignored: set[signal.Signals], blocked: set[signal.Signals],
             **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=120, check=False,
                          env=clean_environment(variables), preexec_fn=inheriting(ignored, blocked), restore_signals=False)


def signals_in(status: str) -> tuple[set[int], set[int]]:
    """Those that /proc/PID/status shows ignored, and blocked."""
    sets = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    return tuple({number for number in range(1, 65) if int(sets[name], 16) >> (number - 1) & 1}  # type: ignore[return-value]
                 for name in ("SigIgn", "SigBlk"))


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("signals"))


@pytest.mark.parametrize("options", [[], ["--convert"]], ids=["record", "record --convert"])
@pytest.mark.parametrize("blocked", [set(), {signal.SIGUSR1, signal.SIGTERM}, CATCHABLE], ids=["none", "two", "all"])
def test_record_hands_on_what_it_inherited(tools: Tools, tmp_path: Path, options: list[str],
                                           blocked: set[signal.Signals]) -> None:
    command = ["cat", "/proc/self/status"]
    alone = run_with(command, NOHUP, blocked)
    recorded = run_with([tools.heaptape, "record", "-q", "-o", tmp_path, *options, "--", *command], NOHUP, blocked)
    assert recorded.returncode == alone.returncode == 0, recorded.stderr
    assert signals_in(recorded.stdout.decode()) == signals_in(alone.stdout.decode())
    assert NOHUP <= signals_in(alone.stdout.decode())[0]


@pytest.mark.thorough
def test_record_leaves_a_daemon_behind(tools: Tools, tmp_path: Path) -> None:
    """The converter stops the followers of unfinished logs, whichever signals record inherited."""
    script = "sleep 1000 >/dev/null 2>&1 & echo $! >pid; sleep 0.5"
    try:
        done = run_with([tools.heaptape, "record", "--convert", "-o", tmp_path, "--", "sh", "-c",
                         f"cd {shlex.quote(str(tmp_path))}; {script}"], NOHUP, CATCHABLE)
    finally:
        subprocess.run(["kill", "-KILL", (tmp_path / "pid").read_text().strip()], check=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"still runs" in done.stderr or b"convert --follow" in done.stderr


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("options", [[], ["--convert"]], ids=["record", "record --convert"])
@pytest.mark.parametrize("name", ["STOP", "TTIN"])
def test_a_program_that_stops_itself_is_waited_for(tools: Tools, tmp_path: Path, options: list[str], name: str) -> None:
    """As by time(1): whoever continues the program does not know of record, which must not be stopped with it."""
    command = [tools.heaptape, "record", "-q", "-o", tmp_path, *options, "--", "sh", "-c", f"echo $$; kill -{name} $$; exit 7"]
    # A group of its own: in one without a parent in another one, the kernel lets SIGTTIN stop nobody.
    with started(command, env=clean_environment(), stdout=subprocess.PIPE, process_group=0) as record:
        program = int(read_line(record.stdout))
        wait_until(lambda: state_of(program) == "T", "the program stopped")
        assert state_of(record.pid) in "SR" and record.poll() is None
        os.kill(program, signal.SIGCONT)
        assert record.wait(WITHIN_S) == 7


def test_a_shell_stops_and_continues_record_with_its_program(tools: Tools, tmp_path: Path) -> None:
    """Ctrl-Z and fg reach both."""
    shell, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~termios.ECHO  # a line has what a program prints alone: newer bash begins none after ^Z
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    command = shlex.join(map(str, [tools.heaptape, "record", "-q", "-o", tmp_path, "--", "sh", "-c", "echo begun; read word; exit 7"]))
    script = f"{command}; echo status $?; fg; echo status $?"
    with open(shell, "r+b", buffering=0) as keys, started(
            ["bash", "-mc", script], env=clean_environment(), stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) as process:
        os.close(terminal)
        while read_line(keys).strip() != b"begun":
            pass
        keys.write(b"\x1a")
        while not (line := read_line(keys).strip()).startswith(b"status"):
            pass
        assert line == f"status {128 + signal.SIGTSTP}".encode()
        keys.write(b"word\n")
        while not (line := read_line(keys).strip()).startswith(b"status"):
            pass
        assert line == b"status 7" and process.wait(WITHIN_S) == 0


@pytest.mark.parametrize("blocked", [set(), CATCHABLE], ids=["none", "all"])
def test_measured_child_has_known_signals(tools: Tools, trace: Path, tmp_path: Path, blocked: set[signal.Signals]) -> None:
    wrapper = f"cat /proc/self/status >{shlex.quote(str(tmp_path / 'status'))}; exec \"$@\""
    (tmp_path / "wrapper").write_text(f"#!/bin/sh\n{wrapper}\n")
    (tmp_path / "wrapper").chmod(0o755)
    done = run_with([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--wrap", tmp_path / "wrapper", trace],
                    CATCHABLE, blocked)
    assert done.returncode == 0, done.stderr
    assert signals_in((tmp_path / "status").read_text()) == (TALK_TO_OTHERS, set())


def test_replay_knows_how_a_child_ended(tools: Tools, trace: Path) -> None:
    """Where SIGCHLD is ignored the kernel reports no child to its parent, unless the parent asks."""
    done = run_with([tools.replay_program, "--alloc", tools.target("faulty_malloc.so"), "--rounds", "1", trace],
                    NOHUP, set(), FAULTY_MALLOC="abort")
    assert done.returncode == 1 and b"killed by Aborted (SIGABRT)" in done.stderr, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("verb", ["fleet", "tune"])
def test_analysis_knows_how_a_child_ended(repository: Path, trace: Path, tmp_path: Path, verb: str) -> None:
    replay = tmp_path / "replay"
    replay.write_text("#!/bin/sh\necho 'replay: no such luck' >&2\nexit 3\n")
    replay.chmod(0o755)
    plan = tmp_path / "plan.toml"
    plan.write_text(f'traces = ["{trace}"]\nallocators = ["glibc"]\nrounds = 1\n')
    arguments = {"fleet": [plan, "-o", tmp_path / "r.jsonl"], "tune": [trace, "--alloc", "jemalloc"]}[verb]
    done = [run_with([sys.executable, "-m", "heaptape", verb, *arguments], ignored, set(),
                     PYTHONPATH=str(repository / "analysis"), HEAPTAPE_REPLAY=str(replay)) for ignored in (set(), NOHUP)]
    assert done[0].returncode != 0 and b"no such luck" in done[0].stderr, done[0].stderr
    assert (done[1].returncode, done[1].stdout, done[1].stderr) == (done[0].returncode, done[0].stdout, done[0].stderr)
