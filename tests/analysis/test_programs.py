# SPDX-License-Identifier: Apache-2.0
"""Programs that verbs start end with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from heaptape.base.errors import HeaptapeError
from heaptape.base.programs import run_attended
from waiting import alive, read_line, started, wait_until


class Ended(BaseException):
    """What a handler raises."""


@pytest.fixture
def ended_by_term() -> Iterator[None]:
    def end(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("group", [False, True])
def test_a_signal_while_it_starts(ended_by_term: None, tmp_path: Path, group: bool) -> None:
    """It arrives before we know the program, which ends all the same."""
    def late() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(0.2)

    started = []

    def attend(process: subprocess.Popen[bytes]) -> None:
        started.append(process)

    with pytest.raises(Ended):
        run_attended(["sleep", "600"], attend, group, preexec_fn=late)
    assert not started and not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_signal_while_it_runs(ended_by_term: None) -> None:
    started = []

    def attend(process: subprocess.Popen[bytes]) -> None:
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)
        process.wait(timeout=60)

    with pytest.raises(Ended):
        run_attended(["sleep", "600"], attend)
    assert started[0].returncode == -signal.SIGTERM


def test_no_such_program() -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(HeaptapeError, match="cannot run nothing-like-it: No such file or directory"):
        run_attended(["nothing-like-it"], subprocess.Popen.wait)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_kill_while_it_runs() -> None:
    """Nobody is left then to end it."""
    script = ("from heaptape.base.programs import run_attended\n"
              "def attend(process):\n    print(process.pid, flush=True)\n    process.wait()\n"
              "run_attended(['sleep', '600'], attend)")
    with started([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(read_line(process.stdout))
        process.kill()
        wait_until(lambda: not alive(pid), "the program to end")
