# SPDX-License-Identifier: Apache-2.0
"""Where convert, slice and --to write: links, standard output, full devices, and being interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tool_runner import Tools, clean_environment, run
from waiting import wait_until

CALLS = b"".join(b"1: malloc 0x%x 16\n" % (4096 + 16 * i) for i in range(1000))
ENOUGH = CALLS * 100  # for it to begin: less might wait in the unpacker's buffers
KINDS = ("convert", "slice", "export")


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "calls.txt").write_bytes(CALLS)
    tools.succeed([tools.heaptape, "convert", "-q", folder / "calls.txt", "-o", folder / "a.bin"])
    return folder / "a.bin"


def command(tools: Tools, kind: str, trace: Path, output: str | Path) -> list[str]:
    words = {"convert": ["convert", trace.with_name("calls.txt")],
             "slice": ["slice", trace, "--to-event", "10"],
             "export": ["convert", trace, "--to", "rep"]}[kind]
    return [str(word) for word in [tools.heaptape, *words, "-q", "-o", output]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_followed(tools: Tools, trace: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    tools.succeed(command(tools, kind, trace, tmp_path / "link"))
    tools.succeed(command(tools, kind, trace, tmp_path / "straight"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == (tmp_path / "straight").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_standard_output_by_name(tools: Tools, trace: Path, tmp_path: Path, kind: str) -> None:
    """A link to it, as /dev/stdout is, stays one where the shell sent it to a file."""
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with open(tmp_path / "file", "wb") as file:
        subprocess.run(command(tools, kind, trace, tmp_path / "stdout"), stdout=file, check=True, timeout=60)
    tools.succeed(command(tools, kind, trace, tmp_path / "straight"))
    assert (tmp_path / "stdout").is_symlink()
    assert (tmp_path / "file").read_bytes() == (tmp_path / "straight").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_dash_is_standard_output(tools: Tools, trace: Path, tmp_path: Path, kind: str) -> None:
    done = run(command(tools, kind, trace, "-"), cwd=tmp_path)
    tools.succeed(command(tools, kind, trace, tmp_path / "straight"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == (tmp_path / "straight").read_bytes()
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_device_is_reported(tools: Tools, trace: Path, kind: str) -> None:
    done = run(command(tools, kind, trace, "/dev/full"))
    assert done.returncode == 1
    assert done.stderr.endswith(b"/dev/full: cannot write: No space left on device\n")


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_name_is_refused_at_once(tools: Tools, trace: Path, kind: str) -> None:
    done = run(command(tools, kind, trace, ""))
    assert done.returncode == 1
    assert done.stderr.endswith(b": cannot create: No such file or directory\n")


@pytest.mark.parametrize("words", [["compare", "--to", "bencher", "-o", "", "x"], ["explain", "--html", "", "x"], ["export", "-o", "", "x"],
                                   ["fleet", "-o", "", "x"], ["sites", "--to", "collapsed", "-o", "", "x"], ["try", "-o", "", "x"]],
                         ids=lambda words: words[0])
def test_an_empty_name_is_not_taken_for_none(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    done = run([tools.heaptape, *words], cwd=tmp_path)
    assert done.returncode == 2 and b" : expected a name" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["trace", "raw log"])
def test_a_file_named_dash_is_not_standard_input(tools: Tools, trace: Path, tmp_path: Path,
                                                 content: str) -> None:
    (tmp_path / "-").write_bytes(trace.read_bytes() if content == "trace" else b"HTAPERAW")
    done = run([tools.heaptape, "convert", "-", "--to", "malloc_wrap", "-o", "-"], cwd=tmp_path,
               stdin=b"1: malloc 0x10 77\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [b"m 1 77"]


def test_follow_makes_a_file(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "convert", "--follow", tmp_path / "no.mraw", "-o", "-"])
    assert done.returncode == 2 and b"standard output" in done.stderr


def test_a_slice_overwrites_no_raw_log(tools: Tools, trace: Path, tmp_path: Path) -> None:
    log = tmp_path / "kept.mraw"
    log.write_bytes(b"HTAPERAW")
    for output in (log, trace):
        before = output.read_bytes()
        done = run(command(tools, "slice", trace, output))
        assert done.returncode == 2 and b"would overwrite" in done.stderr
        assert output.read_bytes() == before


def wait_for_partial(folder: Path) -> None:
    wait_until(lambda: any(".partial." in path.name for path in folder.iterdir()), "a partial file")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("options", [(), ("--to", "rep")])
def test_interrupted_it_leaves_nothing(tools: Tools, tmp_path: Path, number: signal.Signals,
                                       options: tuple[str, ...]) -> None:
    program = subprocess.Popen([tools.heaptape, "convert", "-", *options, "-o", tmp_path / "out"],
                               stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=clean_environment())
    assert program.stdin is not None
    program.stdin.write(ENOUGH)
    program.stdin.flush()
    wait_for_partial(tmp_path)
    program.send_signal(number)
    assert program.wait(60) == -number
    program.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_an_ignored_signal_is_ignored(tools: Tools, tmp_path: Path) -> None:
    """Under nohup, say."""
    program = subprocess.Popen([tools.heaptape, "convert", "-q", "-", "-o", tmp_path / "out"],
                               stdin=subprocess.PIPE, env=clean_environment(),
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # noqa: PLW1509  no thread is running
    assert program.stdin is not None
    program.stdin.write(ENOUGH)
    program.stdin.flush()
    wait_for_partial(tmp_path)
    os.kill(program.pid, signal.SIGHUP)
    program.stdin.close()
    assert program.wait(60) == 0
    info = json.loads(tools.succeed([tools.heaptape, "info", "--json", tmp_path / "out"]).stdout)
    assert info["events"] == 100_000
