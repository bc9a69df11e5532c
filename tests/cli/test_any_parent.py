# SPDX-License-Identifier: Apache-2.0
"""The tests themselves: they pass however they are started, and none hangs."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import alive, wait_until

SIGNALS_OF_A_CHILD = """
import subprocess
def test_signals():
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, timeout=60, text=True).stdout
    sets = dict(line.split(":\\t") for line in status.splitlines() if line.startswith("Sig"))
    assert int(sets["SigIgn"], 16) == int(sets["SigBlk"], 16) == 0, sets
"""

HANGS = """
import subprocess
def test_hangs():
    # A child, and one in a session of its own that has lost its parent.
    with subprocess.Popen(["sh", "-c", "setsid sh -c 'echo $$ >>pids; trap \\"\\" TERM; sleep 1000' & echo $$ >>pids; sleep 1000"]):
        pass
def test_goes_on():
    pass
"""


def run_tests(repository: Path, folder: Path, text: str, *options: str, **more) -> subprocess.CompletedProcess[str]:
    """As a suite of its own, with the settings of this one."""
    (folder / "test_inner.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    folders = [repository / "tests", repository / "tests/support", *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    command = [sys.executable, "-m", "pytest", "-q", "-c", repository / "pytest.ini", "--rootdir", folder,
               "-p", "conftest", "-p", "no:cacheprovider", *options, folder / "test_inner.py"]
    return subprocess.run([str(word) for word in command], cwd=folder, env=environment, capture_output=True,
                          text=True, timeout=120, check=False, **more)


def leave_no_signal() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one", "workers"])
def test_signals_act(repository: Path, tmp_path: Path, options: list[str]) -> None:
    done = run_tests(repository, tmp_path, SIGNALS_OF_A_CHILD, *options, preexec_fn=leave_no_signal)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 passed") and done.stderr == ""


@pytest.mark.thorough
def test_hanging_children_end(repository: Path, tmp_path: Path) -> None:
    done = run_tests(repository, tmp_path, HANGS, "-o", "timeout=2")
    assert "1 failed, 1 passed" in done.stdout and "Timeout" in done.stdout, done.stdout + done.stderr
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    wait_until(lambda: not any(alive(int(pid)) for pid in pids), "the end of the children")


WAITS = {"run", "call", "check_call", "check_output", "wait", "communicate"}


def endless_waits(path: Path) -> Iterator[int]:
    """Lines of calls that wait for a process, without saying how long. (`wait` with an argument has a limit.)"""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in WAITS:
            continue
        of_subprocess = isinstance(node.func.value, ast.Name) and node.func.value.id == "subprocess"
        limited = any(word.arg in ("timeout", None) for word in node.keywords)
        if node.func.attr in ("wait", "communicate") and not of_subprocess:
            limited = limited or (node.func.attr == "wait" and bool(node.args))
        elif not of_subprocess:
            continue
        if not limited:
            yield node.lineno


def test_every_unit_test_has_a_time_limit(repository: Path) -> None:
    """CTest's own is 25 minutes: heaptape_test() sets one."""
    folders = [path for path in repository.iterdir() if not path.name.startswith((".", "build"))]
    paths = [path for folder in folders for path in folder.rglob("CMakeLists.txt")]
    adding = [path for path in paths if "add_test(" in path.read_text()]
    assert adding == [repository / "tests/CMakeLists.txt"]


def polls(path: Path) -> Iterator[int]:
    """Lines of loops that sleep: waiting.py's is the one to use."""
    for loop in ast.walk(ast.parse(path.read_text())):
        if isinstance(loop, ast.While) and any(
                isinstance(node, ast.Attribute) and node.attr == "sleep" for node in ast.walk(loop)):
            yield loop.lineno


@pytest.mark.thorough
def test_every_wait_has_a_deadline(repository: Path) -> None:
    paths = sorted((repository / "tests").rglob("*.py"))
    found = [f"{path.relative_to(repository)}:{line}" for path in paths
             for line in [*endless_waits(path), *(polls(path) if path.name != "waiting.py" else [])]]
    assert not found, "waits without a deadline, or in a way of their own (tests/support/waiting.py): " + " ".join(found)
