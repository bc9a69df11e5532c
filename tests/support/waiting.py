# SPDX-License-Identifier: Apache-2.0
"""Every wait of the tests has a deadline: these are the ways to wait."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TypeVar

WITHIN_S = 60  # of a machine that does other things besides

Found = TypeVar("Found")


def wait_until(holds: Callable[[], Found], what: str = "what was waited for", *,
               process: subprocess.Popen | None = None, within_s: float = WITHIN_S,
               every_s: float = 0.01) -> Found:
    """Asks until the answer is true, and gives it back. Ends early where the process that is to
    bring it about has ended without."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        if process is not None and process.poll() is not None and not (found := holds()):
            raise AssertionError(f"the process ended with status {process.returncode} before {what}")
        if found:
            break
        assert time.monotonic() < deadline, f"{what} did not come within {within_s} s"
        time.sleep(every_s)
    return found


def alive(pid: int) -> bool:
    """Whether it has not ended. A zombie has ended: the process that adopts orphans may be slow to wait for them, or never do so."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def read_line(stream: IO[bytes], within_s: float = WITHIN_S) -> bytes:
    """The next line of a pipe, up to the newline or the end of what is written."""
    line = b""
    while not line.endswith(b"\n") and (byte := read_byte(stream, within_s)):
        line += byte
    return line


def read_byte(stream: IO[bytes], within_s: float = WITHIN_S) -> bytes:
    """The next byte of a pipe; none where no writer is left. Nothing is read ahead."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        assert selector.select(within_s), f"nothing was written for {within_s} s"
    return os.read(stream.fileno(), 1)


@contextmanager
def started(command: Sequence[str | Path], **options) -> Iterator[subprocess.Popen]:
    """A process that is gone when the block is left, and its session with it where it leads one
    (start_new_session=True)."""
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        end(process, group=bool(options.get("start_new_session")))


def end(process: subprocess.Popen, *, group: bool = False) -> None:
    if group:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait(WITHIN_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
