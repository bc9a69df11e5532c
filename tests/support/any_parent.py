# SPDX-License-Identifier: Apache-2.0
"""What the tests undo that they inherit: nohup, a script's `&` and some runners pass on
ignored or blocked signals, and programs keep those when they start others."""

from __future__ import annotations

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

# Handlers of Python's own, which it takes back in the programs that it starts.
OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
# In the environment of all that this process starts, however far removed.
MARK = "HEAPTAPE_TESTS_OF"


def let_signals_act() -> None:
    """Every signal acts by default in the programs started from here. What was to leave the tests
    themselves alone still does: a handler is not passed on to another program."""
    for number in signal.valid_signals() - OF_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def be_ordinary() -> None:
    """What people and runners set for their own sake. Tests that are about it set it themselves."""
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # some programs crash
    os.environ["LC_ALL"] = "C.UTF-8"  # what other programs say is read
    # What is missing is refused in other words where a folder may not be searched, such as another user's.
    os.environ["PATH"] = os.pathsep.join(folder for folder in os.get_exec_path() if os.access(folder, os.X_OK))


def mark_children() -> None:
    os.environ[MARK] = str(os.getpid())


def kill_children() -> None:
    """All that was started from here and has not ended, also where its own parent has."""
    for pid in _marked() | _descendants(os.getpid()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _marked() -> set[int]:
    mark = f"{MARK}={os.getpid()}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
    return found - {os.getpid()}


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found |= {int(word) for word in listing.read_text().split()}
    return found.union(*map(_descendants, found))
