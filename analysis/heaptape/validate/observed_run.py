# SPDX-License-Identifier: Apache-2.0
"""Runs a real program and watches the processes of one executable: anonymous memory along time, its peak, CPU time.

Memory is RssAnon of /proc/PID/status, read every 0.2 ms at first, then every thousandth of the time that the program has run,
at most every 10 ms. Processes that the program starts, daemons too, are found through their parents, and none outlives the
run.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from array import array
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ..base.errors import HeaptapeError

COMM_BYTES = 15
"""Bytes of an executable's name that the kernel shows of another user's process."""


def children(pid: int) -> list[int]:
    """The children of all its threads; those that nobody has waited for yet are among them."""
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


POINTS_MAX = 2000


@dataclass
class Watched:
    """Readings of one process, in seconds since the run began and bytes."""

    pid: int
    cpu_before_ns: int
    cpu_ns: int = 0
    times_s: array[float] = field(default_factory=lambda: array("d"))
    rss_bytes: array[int] = field(default_factory=lambda: array("q"))
    missed_peak_bytes: int = 0
    has_library: bool = False
    ended: bool = False
    file_kb: int = 0
    high_water_kb: int = 0

    def add_reading(self, now_s: float, high_kb: int, anon_kb: int, file_kb: int) -> None:
        """Adds a reading of /proc/PID/status."""
        self.add_mark(high_kb, file_kb)
        self.times_s.append(now_s)
        self.rss_bytes.append(anon_kb * 1024)

    def add_mark(self, high_kb: int, file_kb: int) -> None:
        """The kernel's mark of the highest RSS, which counts files' pages too. What it has gained since the last reading, less
        the more of these at either, was anonymous, even if only between the two."""
        if self.times_s and high_kb > self.high_water_kb:
            self.missed_peak_bytes = max(self.missed_peak_bytes, (high_kb - max(file_kb, self.file_kb)) * 1024)
        self.high_water_kb, self.file_kb = high_kb, file_kb

    @property
    def sampled_peak_bytes(self) -> int:
        """The highest reading."""
        return max(self.rss_bytes, default=0)

    @property
    def peak_bytes(self) -> int:
        """The highest reading, or what the kernel's own mark proves beyond it."""
        return max(self.sampled_peak_bytes, self.missed_peak_bytes)

    @property
    def mean_bytes(self) -> float:
        """Over time, along straight lines between the readings; NaN without any."""
        times, rss = np.asarray(self.times_s), np.asarray(self.rss_bytes, dtype=float)
        if times.size < 2 or times[-1] == times[0]:
            return float(rss.mean()) if rss.size else float("nan")
        return float(np.sum((rss[1:] + rss[:-1]) / 2 * np.diff(times)) / (times[-1] - times[0]))

    def curve(self, points_max: int = POINTS_MAX) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Times in ns since the first reading, and bytes: of each stretch the highest reading."""
        times = np.asarray(self.times_s)
        times_ns = ((times - times[:1]) * 1e9).astype(np.int64)
        rss = np.asarray(self.rss_bytes, dtype=np.int64)
        if times_ns.size <= points_max:
            return times_ns, rss
        edges = np.linspace(0, times_ns.size, points_max + 1).astype(int)
        chosen = np.array([low + int(rss[low:high].argmax()) for low, high in pairwise(edges)])
        return times_ns[chosen], rss[chosen]


_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_INTERVAL_MIN_S, _INTERVAL_MAX_S, _INTERVAL_SHARE = 0.0002, 0.01, 1000
_MAPS_TRIES = 200
_LOOKING_SHARE = 4
_ENDING_S = 3.0
_FEW_READINGS = 300
_WAITERS = ("sh", "dash", "bash", "busybox", "heaptape")
_libc = ctypes.CDLL(None, use_errno=True)


class TimeLimit(HeaptapeError):
    """A run did not end in time, and was ended."""


@dataclass(frozen=True)
class Start:
    """How a program is started. A stream without a file is /dev/null."""

    argv: list[str]
    environment: dict[str, str]
    stdin: Path | None = None
    stdout: Path | None = None
    stderr: Path | None = None


class ObservedRun:
    """A program that runs and is watched; when it has ended there are its exit status (128 and the number of the signal that
    ended it), wall_s and cpu_ns. Leaving the context ends whatever of it is left. `name` is the base name of the executable
    whose processes are watched (None: none is), `library` what must be mapped in them; with `only_root` it is the program
    itself that is watched, and its descendants are not watched."""

    def __init__(self, start: Start, name: str | None = None, library: str | None = None, only_root: bool = False) -> None:
        self._start, self._name, self._only_root = start, name, only_root
        self._library = os.path.realpath(library) if library else None
        self._others: list[subprocess.Popen[bytes]] = []
        self._known: dict[int, Watched] = {}
        self._status_files: dict[int, int] = {}
        self._cpu_earlier_ns: dict[int, int] = {}
        self.pid = 0
        self.first_child: int | None = None
        self.watched: list[Watched] = []
        self.exit_status: int | None = None
        self.wall_s, self.cpu_ns, self._look_at_s = 0.0, 0, 0.0

    def __enter__(self) -> ObservedRun:
        self._was_subreaper = ctypes.c_int(0)
        _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(self._was_subreaper))
        # What has lost its parent becomes our child, and so is found.
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._before = set(children(os.getpid()))
        self._begun = time.monotonic()
        try:
            self.pid = self._launch()
            self._pidfd = os.pidfd_open(self.pid)
        except BaseException:
            self._end_what_is_left()
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, self._was_subreaper.value)
            raise
        return self

    def _launch(self) -> int:
        """Starts the program through something small, which is gone at once, so that it becomes our child. If we started it
        ourselves, our own memory would be in the first readings of it."""
        launcher = self._launcher = _popen(replace(self._start, argv=["setsid", "--fork", *self._start.argv]))
        self._others.append(launcher)
        while True:
            ended = launcher.poll() is not None
            found = [pid for pid in [*children(launcher.pid), *children(os.getpid())]
                     if pid not in self._before and pid != launcher.pid]
            if found:
                return found[0]
            if ended:
                raise HeaptapeError(f"cannot run {self._start.argv[0]}: setsid ended with status {launcher.returncode}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._end_what_is_left()
        finally:
            for fd in [self._pidfd, *self._status_files.values()]:
                os.close(fd)
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, self._was_subreaper.value)

    def aside(self, start: Start) -> subprocess.Popen[bytes]:
        """Starts another command, such as a load generator, which is not watched and does not outlive the run either."""
        process = _popen(start, new_session=True)
        self._others.append(process)
        return process

    def watch(self, until: subprocess.Popen[bytes] | None, limit_s: float, what: str) -> bool:
        """Until the other command has ended (False), or the program itself (True). Raises TimeLimit, which names `what`."""
        ends = time.monotonic() + limit_s
        other = os.pidfd_open(until.pid) if until else None
        fds = [fd for fd in (self._pidfd, other) if fd is not None]
        try:
            while True:
                now = time.monotonic()
                self._sample(now - self._begun)
                wait_s = min(max((now - self._begun) / _INTERVAL_SHARE, _INTERVAL_MIN_S), _INTERVAL_MAX_S)
                ready = select.select(fds, [], [], wait_s)[0]
                if self._pidfd in ready:
                    self._reap_root()
                    return True
                if until and ready:
                    until.wait()
                    return False
                if now > ends:
                    raise TimeLimit(f"{what} did not end within {limit_s:.0f} s")
        finally:
            if other is not None:
                os.close(other)

    def pause(self, seconds: float) -> bool:
        """Watches for so long. Whether the program has ended."""
        try:
            return self.watch(None, seconds, "")
        except TimeLimit:
            return False

    def cpu_by_pid(self) -> dict[int, int]:
        """CPU time in ns of each watched process by now."""
        self._sample(time.monotonic() - self._begun)
        return {item.pid: item.cpu_ns for item in self.watched}

    def send(self, number: signal.Signals) -> None:
        """A signal to the program; where that is a shell or a recorder, to what it waits for."""
        pid = self.pid
        while executable(pid) in _WAITERS and len(children(pid)) == 1:
            pid = children(pid)[0]
        _kill(pid, number)

    def _reap_root(self) -> None:
        if self.exit_status is not None:
            return
        self.wall_s = time.monotonic() - self._begun
        # Nobody has waited for it yet, so its clock is still there, and complete.
        self.cpu_ns, alone = cpu_ns(self.pid) or 0, not has_waited(self.pid)
        self._launcher.wait()  # from then on the program is our child
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.exit_status = 128 - code if code < 0 else code
        item = self._known.get(self.pid)
        if item:
            item.cpu_ns = self.cpu_ns - item.cpu_before_ns
            # Much may come after the last reading of a brief run, or of one on a busy machine. Else the last thing that comes
            # is pages of files, for what libraries do when they go, which would pass for anonymous ones.
            if alone and len(item.times_s) < _FEW_READINGS:
                item.add_mark(usage.ru_maxrss, item.file_kb)

    def _sample(self, now_s: float) -> None:
        if self._name is None:
            if self.first_child is None:
                self.first_child = next(iter(children(self.pid)), None)
            return
        for pid in [self.pid] if self._only_root else self._looked_for(now_s):
            if pid not in self._known:
                self._meet(pid)
        for item in self.watched:
            if not item.ended:
                self._read(item, now_s)

    def _looked_for(self, now_s: float) -> list[int]:
        """All descendants, if it is time to search new ones: that takes a quarter of a processor at most."""
        if now_s < self._look_at_s:
            return []
        begun = time.monotonic()
        others = {other.pid for other in self._others}
        found = tree([pid for pid in self._new_children() if pid not in others])
        self._look_at_s = now_s + _LOOKING_SHARE * (time.monotonic() - begun)
        return found

    def _meet(self, pid: int) -> None:
        """A process that may be one of the watched, by now. What it did before it became one does not count."""
        if not is_executable(pid, self._name or ""):
            self._cpu_earlier_ns[pid] = cpu_ns(pid) or 0
            return
        try:
            self._status_files[pid] = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        item = self._known[pid] = Watched(pid, self._cpu_earlier_ns.get(pid, 0))
        self.watched.append(item)

    def _read(self, item: Watched, now_s: float) -> None:
        try:
            memory = memory_kb(os.pread(self._status_files[item.pid], 4096, 0))
        except OSError:
            memory = None
        # It may have become something else: a copy of the program is what many others begin as.
        if memory is not None and not is_executable(item.pid, self._name or ""):
            memory = None
            del self._known[item.pid]  # what the process does from now on is another's
        else:
            used = cpu_ns(item.pid)
            item.cpu_ns = item.cpu_ns if used is None else used - item.cpu_before_ns
        if memory is None:
            item.ended = True
            os.close(self._status_files.pop(item.pid))
            return
        item.add_reading(now_s, *memory)
        if self._library and not item.has_library and len(item.times_s) <= _MAPS_TRIES:
            item.has_library = has_mapped(item.pid, self._library)

    def _left(self) -> list[int]:
        """All that this run has started and that still runs. Those that have ended are waited for."""
        others = {other.pid for other in self._others if other.poll() is None}
        for pid in self._new_children():
            if pid not in others:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
        return tree(self._new_children())

    def _new_children(self) -> list[int]:
        return [pid for pid in children(os.getpid()) if pid not in self._before]

    def _end_what_is_left(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            ends = time.monotonic() + _ENDING_S
            for pid in self._left():
                _kill(pid, number)
            while left := self._left():
                if time.monotonic() > ends:
                    break
                for pid in left if number == signal.SIGKILL else []:  # what was started meanwhile, too
                    _kill(pid, number)
                time.sleep(0.002)
            if not left:
                return


def _popen(start: Start, new_session: bool = False) -> subprocess.Popen[bytes]:
    """In a session of its own a Control-C ends us, and we end it."""
    files = []
    try:
        for path, mode in ((start.stdin, "rb"), (start.stdout, "wb"), (start.stderr, "wb")):
            files.append(open(path or os.devnull, mode))
        return subprocess.Popen(start.argv, env=start.environment, stdin=files[0], stdout=files[1], stderr=files[2],
                                start_new_session=new_session)
    except OSError as error:
        raise HeaptapeError(f"cannot run {os.fsdecode(error.filename or start.argv[0])}: {error.strerror}") from error
    finally:
        for file in files:
            file.close()


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or is another user's by now
        pass
