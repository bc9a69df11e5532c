# SPDX-License-Identifier: Apache-2.0
"""What the kernel reports of another process while it runs. A process that has ended meanwhile is no error."""

from __future__ import annotations

import os
import time
from pathlib import Path

COMM_BYTES = 15
"""Bytes of an executable's name that the kernel shows of another user's process."""


def children(pid: int) -> list[int]:
    """Of all its threads; those that nobody has waited for yet are among them."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except OSError:
            continue  # this thread has ended
    return found


def tree(roots: list[int]) -> list[int]:
    """These and all their descendants."""
    found = list(roots)
    for pid in found:
        found += children(pid)
    return found


def cpu_ns(pid: int) -> int | None:
    """CPU time of the process with all its threads and without its children, exact to the ns: the clock that the kernel has
    of every process. One that has ended keeps it until somebody waits for it; None where there is no such process."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None


def executable(pid: int) -> str:
    """The base name of the file that it executes, or the beginning of it."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except PermissionError:
        try:
            return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            return ""
    except OSError:
        return ""


def is_executable(pid: int, name: str) -> bool:
    """Whether it executes a file of that base name, as far as can be known."""
    return executable(pid) in (name, name[:COMM_BYTES])


def has_waited(pid: int) -> bool:
    """Whether it has waited for children of its own: then the kernel's account of it may have their highest RSS. Also set for
    one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return True
    return int(fields[8]) > 0  # page faults of children: no process does without


def memory_kb(status: bytes) -> tuple[int, int, int] | None:
    """VmHWM, RssAnon, and RssFile with RssShmem, of the text of /proc/PID/status. None where there is no memory any more."""
    at = status.find(b"VmHWM:")
    if at < 0:
        return None
    words = status[at: at + 200].split()
    return int(words[1]), int(words[7]), int(words[10]) + int(words[13])


def has_mapped(pid: int, library: str) -> bool:
    """Whether a file of the library's name is mapped in it."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return b"/" + os.path.basename(library).encode() + b"\n" in file.read()
    except OSError:
        return False
