# SPDX-License-Identifier: Apache-2.0
"""Runs a program of the compatibility table in a temporary folder, and ends all that it leaves."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.compatibility.programs import Program

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = REPOSITORY / "bench" / "compatibility" / "work"
FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/games")
TIMEOUT_S = 120
SITE_FRAMES = 64  # as `record --sites` has it
ORPHANS_MAY_TAKE_S = 10
PR_SET_CHILD_SUBREAPER = 36


@dataclasses.dataclass(frozen=True)
class Run:
    """What one run of a program came to."""

    status: int
    output: bytes  # standard output, then standard error; normalised
    cpu_s: float  # of all its processes
    left_running: int  # processes that outlived it and had to be killed
    timed_out: bool

    def outcome(self) -> tuple[int, bytes, int, bool]:
        return self.status, self.output, self.left_running, self.timed_out


def find_program(name: str) -> Path | None:
    """An executable's file, the distribution's own first: others may be wrappers in a shell."""
    postgres = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    for folder in (*FOLDERS, *postgres, *os.environ.get("PATH", "").split(":")):
        path = Path(folder) / name
        if os.access(path, os.X_OK) and path.is_file():  # in this order: a folder of PATH may be closed to us
            return path
    return None


def kill_descendants() -> int:
    """Kills what the program left behind. It became our child, and so will its children."""
    killed: set[int] = set()
    while True:
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, rest = int(status.parent.name), status.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if int(rest[1]) == os.getpid() and rest[0] != "Z":
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return len(killed)


def wait_for_all(main_pid: int, limit_s: float) -> tuple[int, int, bool]:
    """Reaps the program and its orphans: its wait status, how many were killed, whether it hung."""

    class TimeIsUp(Exception):
        pass

    def ring(*_: object) -> None:
        raise TimeIsUp

    status = None
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        while True:
            pid, one = os.waitpid(-1, 0)
            if pid == main_pid:
                status = one
                signal.setitimer(signal.ITIMER_REAL, ORPHANS_MAY_TAKE_S)
    except (TimeIsUp, ChildProcessError):
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        killed = kill_descendants()
    return (signal.SIGKILL if status is None else status), killed, status is None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    """The temporary folder of one program, and how it is run there."""

    def __init__(self, program: Program, build: Path, folder: Path, sites: bool = False, limit_s: float = TIMEOUT_S) -> None:
        self.program, self.limit_s = program, limit_s
        self.sites = sites
        self.folder = folder
        self.work, self.input, self.logs = folder / "work", folder / "input", folder / "logs"
        self.user = self._user()
        self.heaptape, self.shim = build / "heaptape", build / "libmalloc_wrap.so"
        if self.user:
            # The build may be in a folder that only its owner may read.
            self.heaptape = Path(shutil.copy(self.heaptape, folder))
            self.shim = Path(shutil.copy(self.shim, folder))
        folder.chmod(0o755)
        self.files = Path(shutil.copytree(FILES, folder / "files"))
        self.input.mkdir()
        subprocess.run(["bash", "-euc", program.prepare], cwd=self.input, env=self.environment(),
                       check=True, stdin=subprocess.DEVNULL)

    def _user(self) -> pwd.struct_passwd | None:
        if not self.program.unprivileged or os.getuid() != 0:
            return None
        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        return names.get(self.program.name) or names["nobody"]

    def environment(self) -> dict[str, str]:
        """Nothing of the user's own but where tools live; the home is the work folder."""
        found = [str(path.parent) for name in self.program.needs if (path := find_program(name))]
        environment = {
            "PATH": ":".join(dict.fromkeys([*FOLDERS, *found])), "HOME": str(self.work),
            "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "screen", "INPUT": str(self.input),
            "FILES": str(self.files), "SOURCE": str(REPOSITORY), "PYTHONHASHSEED": "0",
            "PORT": str(free_port()),
            "RUSTUP_HOME": str(Path.home() / ".rustup"), "CARGO_HOME": str(Path.home() / ".cargo"),
        }
        return environment

    def run(self, recorder: str) -> Run:
        """One run in a fresh folder; recorder is 'none', 'record' or 'preload'."""
        for folder in (self.work, self.logs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if self.user:
                os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.logs.chmod(0o1777)  # servers that drop their privileges write logs as another user
        environment = self.environment()
        command = [word.replace("$FILES", str(self.files)) for word in self.program.command]
        if recorder == "record":
            more = ["--sites"] if self.sites else []
            command = [str(self.heaptape), "record", "-q", *more, "-o", str(self.logs), "--", *command]
        elif recorder == "preload":
            environment |= {"LD_PRELOAD": str(self.shim), "MALLOC_WRAP_OUT": str(self.logs)}
            environment |= {"MALLOC_WRAP_SITES": str(SITE_FRAMES)} if self.sites else {}
        return self._measured(command, environment)

    def _measured(self, command: Sequence[str], environment: dict[str, str]) -> Run:
        out, err = self.folder / "stdout", self.folder / "stderr"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            started = subprocess.Popen(
                command, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=stdout,
                stderr=stderr, start_new_session=True, user=self.user and self.user.pw_uid,
                group=self.user and self.user.pw_gid, extra_groups=[] if self.user else None)
            status, killed, hung = wait_for_all(started.pid, self.limit_s)
            started.returncode = status  # reaped here, not by the Popen object
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Run(self.shell_status(status), self.normalised(out.read_bytes() + err.read_bytes()),
                   cpu_s, killed, hung)

    @staticmethod
    def shell_status(wait_status: int) -> int:
        code = os.waitstatus_to_exitcode(wait_status)
        return 128 - code if code < 0 else code

    def normalised(self, output: bytes) -> bytes:
        # What the recorder itself has to say is not the program's.
        output = re.sub(rb"heaptape record: warning: .*\n", b"", output)
        for pattern, replacement in self.program.ignore:
            output = re.sub(pattern.encode(), replacement.encode(), output)
        return output


@contextmanager
def orphans_become_ours() -> Iterator[None]:
    """Daemons and other orphans become children of this process, which can then end them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    try:
        yield
    finally:
        kill_descendants()
