# SPDX-License-Identifier: Apache-2.0
"""The judge as a process: whatever Python it runs under and whatever happens to it, replay prints its own words and ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tool_runner import Tools, clean_environment, run

import replay_traces
from waiting import wait_until
from heaptape.judge.model import Ended, Talk


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("judge"), events=2000)


def words(tools: Tools, trace: Path, *more: str) -> list[str | Path]:
    return [
        tools.replay_program,
        "--alloc",
        "glibc",
        "--pass",
        "memory",
        "--rounds",
        "1",
        "-q",
        *more,
        trace,
    ]


@pytest.mark.parametrize(
    "name,value",
    [("PYTHONIOENCODING", "utf-16"), ("PYTHONINSPECT", "1"), ("PYTHONWARNINGS", "error")],
)
def test_what_is_set_for_other_programs(tools: Tools, trace: Path, name: str, value: str) -> None:
    done = run(words(tools, trace), env={name: value})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"glibc" in done.stdout


def test_a_python_that_prints_by_itself(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """stdout is the comparison's alone."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit\nprint('begun')\natexit.register(print, 'ended')\n"
    )
    done = run(words(tools, trace, "--json"), env={"PYTHONPATH": str(tmp_path)})
    assert json.loads(done.stdout)["allocators"] and done.stderr == b"begun\n"


def test_streams_of_two_kinds(tools: Tools, trace: Path, tmp_path: Path) -> None:
    for to_file in ("stdout", "stderr"):
        with (tmp_path / to_file).open("wb") as file:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, to_file: file}
            done = subprocess.run(
                words(tools, trace), env=clean_environment(), check=False, **streams
            )
        told = {
            "stdout": done.stdout,
            "stderr": done.stderr,
            to_file: (tmp_path / to_file).read_bytes(),
        }
        assert b"glibc" in told["stdout"] and (done.returncode, told["stderr"]) == (0, b"")


def test_a_numpy_that_cannot_be_used(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """As one that was built for newer processors."""
    (tmp_path / "numpy.py").write_text("raise RuntimeError('needs X86_V2')\n")
    done = run([*words(tools, trace), "--rounds", "6"], env={"PYTHONPATH": str(tmp_path)})
    (line,) = done.stderr.decode().splitlines()
    assert (
        line.startswith("heaptape replay: no verdicts: ")
        and "cannot load numpy: needs X86_V2; " in line
    )


def test_a_judge_that_says_nothing(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Who is told to stop again and again does not wait for it."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    process = subprocess.Popen(
        words(tools, trace),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment({"HEAPTAPE_PYTHON": str(python)}),
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        for _ in range(200):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.05)
                break
            except subprocess.TimeoutExpired:
                continue
        out, err = process.communicate(timeout=1)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (
        -signal.SIGINT,
        b"",
        b"heaptape replay: stopped before the first round\n",
    )


def test_rounds_without_a_judge_end(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """By the budget, or when told to."""
    command = [
        tools.replay_program,
        "--alloc",
        "glibc",
        "--pass",
        "memory",
        "--rounds",
        "1000000",
        "-o",
        tmp_path / "r.jsonl",
        trace,
    ]
    environment = {"HEAPTAPE_PYTHON": "/bin/false"}
    done = run([*command, "--budget", "0.2s"], env=environment, timeout=30)
    assert done.returncode == 0 and b"glibc" in done.stdout
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(environment)
    )
    written = (tmp_path / "r.jsonl").stat().st_size
    wait_until(lambda: (tmp_path / "r.jsonl").stat().st_size > written)
    process.terminate()
    out, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM and not out
    assert b"heaptape replay: stopped in round " in err and err.endswith(
        f"completed runs are in {tmp_path / 'r.jsonl'}\n".encode()
    )


def test_input_that_is_refused_waits_for_no_judge(tools: Tools, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    done = run(words(tools, tmp_path / "none"), env={"HEAPTAPE_PYTHON": str(python)}, timeout=30)
    assert done.returncode == 3


def test_a_runner_that_ends_with_a_word_unread() -> None:
    """That is no end of what was sent, but an error."""
    ours, theirs = socket.socketpair()
    talk = Talk(ours)
    talk.write({"job": "turn"})
    theirs.close()
    with pytest.raises(Ended):
        talk.read()
