# SPDX-License-Identifier: Apache-2.0
"""Several readers of one raw log, one of which punches holes into it; and followers in folders where others write."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from test_follow import (assert_nothing_beside, dump_digest, follow_command, in_use_bytes, make_log,
                         must_work, start_follower)
from tool_runner import Argument, Tools, clean_environment, run
from waiting import WITHIN_S, wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One where files may have holes."""
    probe = tmp_path / "probe"
    probe.write_bytes(b"x" * 65536)
    must_work(["fallocate", "--punch-hole", "--offset", "0", "--length", "65536", str(probe)],
              "no holes in files here")
    probe.unlink()
    return tmp_path


def bytes_read_of(process: subprocess.Popen[bytes]) -> int:
    for line in Path(f"/proc/{process.pid}/io").read_text().splitlines():
        if line.startswith("rchar: "):
            return int(line.split()[1])
    return 0


@contextmanager
def stopped_in_the_middle(command: list[Argument], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A reader of the log that has read a third of it when it is stopped."""
    reader = subprocess.Popen([str(word) for word in command], env=clean_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: bytes_read_of(reader) > log.stat().st_size // 3, "a third was read")
        reader.send_signal(signal.SIGSTOP)
        assert reader.poll() is None, "the reader was done before it could be stopped"
        yield reader
    finally:
        reader.kill()
        reader.communicate(timeout=60)


@pytest.mark.thorough
@pytest.mark.parametrize("verb", [
    ["convert", "-o", "peek.bin"], ["convert", "--to", "rep", "-o", "peek.rep"], ["lint"]], ids=["convert", "export", "lint"])
def test_reader_beside_a_follower_that_punches_holes(tools: Tools, folder: Path, verb: list[str]) -> None:
    """What it has read may be holes by then: it says so, and leaves nothing."""
    log = make_log(tools, folder / "log.mraw", 4_000_000)
    command = [tools.heaptape, verb[0], log, *(folder / word if "peek" in word else word for word in verb[1:])]
    with stopped_in_the_middle(command, log) as reader:
        tools.succeed(follow_command(tools, log, folder / "f.bin", "-q"))
        assert in_use_bytes(log) < log.stat().st_size // 4
        reader.send_signal(signal.SIGCONT)
        _, words = reader.communicate(timeout=WITHIN_S)
    assert reader.returncode == 3
    [line] = words.decode().splitlines()
    assert f"{log}: offset 12: expected a whole log, found one with holes: its trace is {folder / 'f.bin'}" in line
    assert sorted(path.name for path in folder.iterdir()) == ["f.bin", "log.mraw"]


@pytest.mark.thorough
def test_second_follower_is_refused(tools: Tools, folder: Path) -> None:
    """Another trace of the same log: one line, and nothing changes for the first, whatever becomes of it."""
    log = make_log(tools, folder / "log.mraw", 1_500_000)
    whole = tools.convert(log, folder / "whole.bin")
    before_bytes = in_use_bytes(log)
    first = start_follower(tools, log, folder / "a.bin", "-q")
    wait_until(lambda: in_use_bytes(log) < before_bytes, "holes were punched")
    first.send_signal(signal.SIGSTOP)
    before = sorted(path.name for path in folder.iterdir())
    link = folder / "link.mraw"
    link.symlink_to(log)
    for name, more in ((log, []), (log, ["--keep-raw"]), (link, [])):
        refused = run(follow_command(tools, name, folder / "b.bin", *more))
        assert refused.returncode == 1
        assert refused.stderr.decode() == f"heaptape convert: {name}: another process already follows this log\n"
    link.unlink()
    assert sorted(path.name for path in folder.iterdir()) == before
    # The lock ends with its process, and the next one has it.
    first.kill()
    first.communicate(timeout=60)
    other = run(follow_command(tools, log, folder / "b.bin"))
    assert other.returncode == 3 and f"-o {folder / 'a.bin'} resumes" in other.stderr.decode()
    tools.succeed(follow_command(tools, log, folder / "a.bin"))
    assert dump_digest(tools, folder / "a.bin") == dump_digest(tools, whole)
    assert_nothing_beside(folder / "a.bin")


def test_two_followers_at_once(tools: Tools, folder: Path) -> None:
    """Begun together: one of them does it all."""
    log = make_log(tools, folder / "log.mraw", 600_000)
    whole = tools.convert(log, folder / "whole.bin")
    followers = {name: start_follower(tools, log, folder / name, "-q") for name in ("a.bin", "b.bin", "c.bin")}
    words = {name: follower.communicate(timeout=WITHIN_S)[1] for name, follower in followers.items()}
    status = {name: follower.returncode for name, follower in followers.items()}
    assert sorted(status.values())[0] == 0, words
    done = [name for name in status if status[name] == 0]
    assert len(done) == 1, "the log cannot have served two"
    # One that came when the first was done finds no log any more.
    assert all(status[name] in (1, 3) and words[name].count(b"\n") == 1 for name in status if name not in done)
    assert dump_digest(tools, folder / done[0]) == dump_digest(tools, whole)
    assert sorted(path.name for path in folder.iterdir()) == sorted([done[0], "log.mraw", "whole.bin"])


@pytest.mark.thorough
def test_follower_that_kept_the_log_comes_back_to_holes(tools: Tools, folder: Path) -> None:
    """It left its state; then another one gave space back for a trace of its own."""
    log = make_log(tools, folder / "log.mraw", 3_000_000)
    first = start_follower(tools, log, folder / "a.bin", "-q", "--keep-raw")
    wait_until((folder / "a.bin.state").exists, "there was a checkpoint")
    first.kill()
    assert first.wait(timeout=60) == -signal.SIGKILL, "the follower was done before it could be killed"
    first.communicate(timeout=60)
    tools.succeed(follow_command(tools, log, folder / "b.bin", "-q"))
    refused = run(follow_command(tools, log, folder / "a.bin", "--keep-raw"))
    assert refused.returncode == 3
    assert f"found one with holes: its trace is {folder / 'b.bin'}" in refused.stderr.decode()
    assert not (folder / "a.bin").exists()


@pytest.mark.thorough
def test_moved_with_its_trace(tools: Tools, folder: Path) -> None:
    """The log names its trace by the place where it was; a state that gave space back knows better."""
    old, new = folder / "old", folder / "new"
    old.mkdir()
    log = make_log(tools, old / "log.mraw", 3_000_000)
    whole = tools.convert(log, folder / "whole.bin")
    before = in_use_bytes(log)
    follower = start_follower(tools, log, old / "a.bin", "-q")
    wait_until(lambda: in_use_bytes(log) < before * 3 // 4, "holes were punched twice")
    follower.kill()
    assert follower.wait(timeout=60) == -signal.SIGKILL, "the follower was done before it could be killed"
    follower.communicate(timeout=60)
    old.rename(new)
    tools.succeed(follow_command(tools, new / "log.mraw", new / "a.bin"))
    assert dump_digest(tools, new / "a.bin") == dump_digest(tools, whole)


VICTIM = b"dear to somebody\n" * 10000


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo"])
@pytest.mark.parametrize("name", ["log.forks", "f.bin.partial", "f.bin.state.new", "f.bin.state"])
def test_names_that_others_have_taken(tools: Tools, folder: Path, name: str, kind: str) -> None:
    """In a folder like /tmp: what lies there under a name that the follower will use leads nowhere."""
    log = make_log(tools, folder / "log.mraw", 300_000)
    victim = folder / "victim"
    victim.write_bytes(VICTIM)
    trap = folder / name
    if kind == "symlink":
        trap.symlink_to(victim)
    elif kind == "hardlink":
        os.link(victim, trap)
    else:
        os.mkfifo(trap)
    done = run(follow_command(tools, log, folder / "f.bin", "-q"), timeout=WITHIN_S)
    assert victim.read_bytes() == VICTIM
    if done.returncode == 0:
        assert tools.info(folder / "f.bin")["records"] > 100_000
    else:
        assert done.returncode in (1, 3) and done.stderr.count(b"\n") == 1, done.stderr
        assert not (folder / "f.bin").exists()
    # What is not kept from an earlier follower is removed, or made under a name that was free.
    assert done.returncode == 0 or name in ("f.bin.partial", "f.bin.state"), done.stderr
