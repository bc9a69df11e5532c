# SPDX-License-Identifier: Apache-2.0
"""`heaptape walk` of a process that would harm it, or be harmed: the process stays as it was, and the walk ends, keeps no right
and believes nothing."""

from __future__ import annotations

import array
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heaptape.explain.looks import Look
from tool_runner import Tools, clean_environment
from waiting import read_line, wait_until

PAGE_BYTES = 4096
NOBODY = 65534


@contextmanager
def hostile(tools: Tools, kind: str, name: str | bytes = "hostile_heap") -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([name, kind], executable=tools.build / "tests" / "walk" / "hostile_heap", env=clean_environment(),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            read_line(process.stdout)
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def walk(tools: Tools, process: subprocess.Popen[bytes], *words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([tools.build / "heaptape", "walk", "--pid", str(process.pid), *words], capture_output=True, timeout=60, check=False)


@contextmanager
def held_up(tools: Tools, process: subprocess.Popen[bytes], fifo: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A walk that is in the middle of the heap, as nobody reads what it writes; the process of it that has no rights; the reader's end."""
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen([tools.build / "heaptape", "walk", "--pid", str(process.pid), "--blocks", fifo, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        def held() -> int | None:
            children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
            return next((int(pid) for pid in children[:1] if "\nSeccomp:\t2" in status(int(pid)) and _is_full(reader)), None)

        walker = wait_until(held, "a walk that is held up", process=started)
        try:
            yield started, walker, reader
        finally:
            os.close(reader)
            started.kill()


def _is_full(reader: int) -> bool:
    waiting = array.array("i", [0])
    fcntl.ioctl(reader, termios.FIONREAD, waiting)
    return waiting[0] >= 60000


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def field(pid: int, name: str) -> str:
    found = re.search(rf"^{name}:\t(.*)$", status(pid), re.MULTILINE)
    assert found
    return found[1]


def pages(pid: int) -> list[tuple[str, str]]:
    """Of each mapping what is in RAM, whose, and swapped."""
    text = Path(f"/proc/{pid}/smaps").read_text(errors="replace")
    return re.findall(r"^([0-9a-f]+-[0-9a-f]+|Rss|Anonymous|Private_Dirty|Swap):? +(.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["--stop"]])
def test_no_page_comes_into_ram(tools: Tools, words: list[str]) -> None:
    """Neither of the heap nor of the libraries, whose symbols and texts are looked through."""
    with hostile(tools, "plain") as process:
        time.sleep(0.1)  # until it waits
        before = pages(process.pid)
        done = walk(tools, process, *words)
        assert (done.returncode, done.stderr) == (0, b"")
        assert pages(process.pid) == before
    assert json.loads(done.stdout)["blocks"] >= 4000


@pytest.mark.parametrize("kind", ["bins", "heaps"])
def test_a_damaged_heap_is_doubted(tools: Tools, kind: str) -> None:
    with hostile(tools, kind) as process:
        began = time.monotonic()
        done = walk(tools, process)
    assert (done.returncode, done.stderr) == (0, b"") and time.monotonic() - began < 20
    found: dict[str, Any] = json.loads(done.stdout)
    assert any("could not be followed" in doubt for doubt in Look(found, 0.0).doubts)


def test_no_signal_is_lost(tools: Tools) -> None:
    """A thread that is stopped just when it gets a signal gets it when it goes on."""
    with hostile(tools, "signals") as process:
        for _ in range(5):
            assert walk(tools, process, "--stop").returncode == 0
        said = read_line(process.stdout).split()
    assert said[0] == b"got" and said[1] == said[3]


def test_the_walk_has_no_rights(tools: Tools, tmp_path: Path) -> None:
    with hostile(tools, "plain") as process, held_up(tools, process, tmp_path / "fifo", "--stop") as (started, walker, _):
        assert {name: int(field(walker, name), 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == dict.fromkeys(
            ("CapInh", "CapPrm", "CapEff", "CapAmb"), 0)
        assert field(walker, "NoNewPrivs") == "1" and field(walker, "Seccomp") == "2"
        assert Path(f"/proc/{walker}/mem").stat().st_uid == 0, "it may be dumped and traced"
        if os.geteuid() == 0:
            assert field(walker, "Uid").split() == [str(NOBODY)] * 4 and field(walker, "Groups").strip() == ""
            opened = {os.readlink(f"/proc/{walker}/fd/{fd}") for fd in os.listdir(f"/proc/{walker}/fd") if int(fd) > 2}
            assert {name for name in opened if name.startswith("/proc/")} == {f"/proc/{process.pid}{name}" for name in ("", "/status", "/mem", "/pagemap")}
        assert field(process.pid, "TracerPid") == str(walker)
        started.kill()  # and with it the one that walks: the process goes on
        started.wait(timeout=60)
        wait_until(lambda: field(process.pid, "TracerPid") == "0", "the end of tracing", within_s=10)
        assert field(process.pid, "State")[0] in "SR"


def test_a_process_that_ends_meanwhile(tools: Tools, tmp_path: Path) -> None:
    with hostile(tools, "plain") as process, held_up(tools, process, tmp_path / "fifo") as (started, _, reader):
        process.kill()
        process.wait(timeout=60)
        os.set_blocking(reader, True)
        while os.read(reader, 1 << 16):
            pass
        printed, said = started.communicate(timeout=30)
    assert (started.returncode, printed) == (1, b"") and b"ended while it was read" in said


def test_names_to_a_terminal(tools: Tools) -> None:
    """A command line that would clear the screen, with a control character beyond ASCII too."""
    with hostile(tools, "plain", "\x1b[2J\x9b2J\u202e".encode()) as process:
        leader, follower = pty.openpty()
        subprocess.run([tools.build / "heaptape", "walk", "--pid", str(process.pid)], stdout=follower, timeout=60, check=True)
        os.close(follower)
        printed = os.read(leader, 1 << 16)
        os.close(leader)
    assert b"2J" in printed and all(byte in (0x0a, 0x0d) or 0x20 <= byte < 0x7f for byte in printed)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a link of another user")
def test_blocks_through_anothers_link(tools: Tools, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "all"
    victim.write_text("kept")
    folder.mkdir()
    folder.chmod(0o1777)
    link = folder / "blocks.csv"
    link.symlink_to(victim)
    os.lchown(link, NOBODY, NOBODY)
    with hostile(tools, "plain") as process:
        done = walk(tools, process, "--blocks", link)
        assert done.returncode == 1 and b"Permission denied" in done.stderr and victim.read_text() == "kept"
        os.lchown(link, 0, 0)
        assert walk(tools, process, "--blocks", link).returncode == 0
    assert victim.read_text().startswith("address,") and victim.stat().st_mode & 0o777 == 0o600


def test_a_core_whose_segments_share_bytes(tools: Tools, tmp_path: Path) -> None:
    """A megabyte that says it is 18 GB of memory."""
    core, count, headers_at = tmp_path / "core", 18000, 64
    header = struct.pack("<4s5B7x2HI3QI6H", b"\x7fELF", 2, 1, 1, 0, 0, 4, 62, 1, 0, headers_at, 0, 0, 64, 56, count, 64, 0, 0)
    segments = b"".join(struct.pack("<2I6Q", 1, 6, 0, 0x10000000 + i * 0x200000, 0, 1 << 20, 1 << 20, PAGE_BYTES) for i in range(count))
    core.write_bytes(header + segments + bytes(1 << 20))
    done = subprocess.run([tools.build / "heaptape", "walk", "--core", core], capture_output=True, timeout=60, check=False)
    assert done.returncode == 3 and b"expected segments apart" in done.stderr
