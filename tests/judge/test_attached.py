# SPDX-License-Identifier: Apache-2.0
"""A judge that has started replay itself: what it gets, and how both end, whatever happens to either."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import replay_traces
from heaptape.base.programs import ToolFailed
from heaptape.judge import attached
from tool_runner import Tools, clean_environment
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("attached"), events=2000)


def words(tools: Tools, trace: Path, *more: str, alloc: str = "glibc", rounds: int = 2) -> list[str]:
    return [str(tools.replay_program), "-q", "--alloc", alloc, "--pass", "memory", "--rounds", str(rounds), *more, "--", str(trace)]


def test_what_is_judged(tools: Tools, trace: Path) -> None:
    found = attached.replay(words(tools, trace, alloc="glibc,other=glibc", rounds=3))
    assert (found.status, found.said, found.failure) == (0, "", None)
    comparison = found.whole()
    assert (comparison.names, comparison.rounds) == (["glibc", "other"], 3)
    peaks = [one.estimates["rss_peak"] for one in comparison.allocators]
    assert peaks[0].median > 0 and peaks[1].ratio.count == 3
    line = comparison.measurements.rounds[0][1].memory
    assert line and "timeline" not in line


def test_curves_and_counts(tools: Tools, trace: Path) -> None:
    cell = attached.replay(words(tools, trace, "--points", "50", rounds=1), curves=True).whole().measurements.rounds[0][1]
    assert cell.memory and 1 < len(cell.memory["timeline"]["rss_bytes"]) <= 51
    counted = attached.replay([str(tools.replay_program), "-q", "--pass", "count", "--instructions", "--alloc", "glibc", "--", str(trace)])
    assert counted.whole().instructions(0) > 0 and counted.said == ""


def test_an_allocator_that_fails(tools: Tools, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTY_MALLOC", "abort")
    found = attached.replay(words(tools, trace, alloc=f"glibc,bad={tools.target('faulty_malloc.so')}"))
    assert found.status == 1 and "bad" in str(found.failure)
    assert "glibc" in found.compared().names and found.compared().allocators[0].memory_runs == 2
    with pytest.raises(ToolFailed):
        found.whole()


@pytest.mark.parametrize(("more", "status", "said"), [
    (["--alloc", "nonsense"], 2, "--alloc: nonsense is not built"), (["--pass", "none"], 2, "--pass"), (["--fail-if", "time>1"], 2, "expected a baseline"),
    (["--baseline-file", "/dev/null"], 3, "/dev/null: offset 0: expected a baseline")])
def test_what_is_refused(tools: Tools, trace: Path, more: list[str], status: int, said: str) -> None:
    found = attached.replay(words(tools, trace, *more))
    assert found.status == status and found.comparison is None and said in found.said
    with pytest.raises(ToolFailed, match="."):
        found.compared()


def test_a_trace_that_is_refused(tools: Tools, tmp_path: Path) -> None:
    found = attached.replay(words(tools, tmp_path / "none"))
    assert found.status == 3 and found.said.count("\n") == 1 and "cannot open" in str(found.failure)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_replay_crashes(tools: Tools, trace: Path, tmp_path: Path, number: signal.Signals) -> None:
    """In the first round."""
    (tmp_path / "wrap").write_text(f'#!/bin/sh\nkill -{int(number)} $PPID\nexec "$@"\n')
    (tmp_path / "wrap").chmod(0o755)
    found = attached.replay(words(tools, trace, "--wrap", str(tmp_path / "wrap")))
    assert found.status == -number and found.comparison is None
    assert str(found.failure) == f"ended with status {-number}"


def test_no_child_has_the_socket(tools: Tools, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "wrap").write_text(f'#!/bin/sh\n{{ env; ls -l /proc/$$/fd; }} >>{tmp_path}/seen\nexec "$@"\n')
    (tmp_path / "wrap").chmod(0o755)
    attached.replay(words(tools, trace, "--wrap", str(tmp_path / "wrap"))).whole()
    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen and "HEAPTAPE_JUDGE_FD" not in seen and "socket:" not in seen


@contextmanager
def one_of(kind: str) -> Iterator[tuple[str, list[int]]]:
    """What $HEAPTAPE_JUDGE_FD is, and the descriptors that are handed over."""
    ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM if kind == "datagrams" else socket.SOCK_STREAM)
    with ours, theirs, socket.socket(socket.AF_UNIX) as alone, open(os.devnull) as file:
        descriptor = {"datagrams": theirs, "unconnected": alone, "file": file}.get(kind)
        yield (kind, []) if descriptor is None else (str(descriptor.fileno()), [descriptor.fileno()])


@pytest.mark.parametrize("kind", ["", "x", "-1", " 3", "999", "99999999999", "datagrams", "unconnected", "file"])
def test_a_bad_descriptor(tools: Tools, trace: Path, kind: str) -> None:
    with one_of(kind) as (given, passed):
        done = subprocess.run(words(tools, trace), env=clean_environment({"HEAPTAPE_JUDGE_FD": given}), pass_fds=passed, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"heaptape replay: HEAPTAPE_JUDGE_FD: expected the descriptor of a connected stream socket, found {given}\n"


def test_a_judge_that_ends(tools: Tools, trace: Path) -> None:
    """Without a word."""
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = subprocess.run(words(tools, trace), env=clean_environment({"HEAPTAPE_JUDGE_FD": str(theirs.fileno())}),
                              pass_fds=[theirs.fileno()], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.endswith("\nheaptape replay: --json: needs verdicts: nothing was measured\n")


JUDGE = """
import sys
from heaptape.judge import attached
attached.replay(sys.argv[1:], aloud=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_judge_is_told_to_end(tools: Tools, trace: Path, tmp_path: Path, number: signal.Signals) -> None:
    """By one who does not tell replay."""
    results = tmp_path / "r.jsonl"
    command = [sys.executable, "-c", JUDGE, *words(tools, trace, "-o", str(results), rounds=1_000_000)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=clean_environment({"PYTHONPATH": str(ROOT / "analysis")})) as process:
        wait_until(lambda: results.exists() and results.stat().st_size > 0, "a round", process=process)
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == -number
    wait_until(lambda: not Path(f"/proc/{child}").exists() or "\nState:\tZ" in Path(f"/proc/{child}/status").read_text(), "replay has ended")
    assert err.decode().count("heaptape replay: ") <= 1
