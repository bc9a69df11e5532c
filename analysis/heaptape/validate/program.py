# SPDX-License-Identifier: Apache-2.0
"""The program that is validated, as the user named it: a command, or a server with its load."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..base.errors import HeaptapeError
from .observed_run import ObservedRun, Start, TimeLimit

READY_LIMIT_S = 30.0
STOP_LIMIT_S = 60.0
_READY_EVERY_S = 0.05
_WITHOUT_READY_S = 1.0


@dataclass(frozen=True)
class Conduct:
    """How a run went: exit status as a shell has it, and of a server what its load printed, when the load ran, and the CPU
    time of each watched process before and after it."""

    exit_status: int
    wall_s: float
    stdout_sha256: str | None = None
    load_output: str | None = None
    cpu_before_load_ns: dict[int, int] = field(default_factory=dict)
    cpu_after_load_ns: dict[int, int] = field(default_factory=dict)


class CommandFailed(HeaptapeError):
    """A script of the user's, or the server itself, failed."""


@dataclass(frozen=True)
class Program:
    """Either a command, or the scripts of a server. It may take `slowdown` times longer than usual to start and to stop."""

    command: list[str]
    server: str | None
    load: str | None
    stop: str | None
    ready: str | None
    stdin: Path | None
    environment: dict[str, str]
    slowdown: float = 1.0

    @property
    def title(self) -> str:
        """For people."""
        return self.server or " ".join(self.command)

    def start(self, environment: dict[str, str], stdout: Path | None, stderr: Path | None,
              prefix: list[str] | None = None) -> Start:
        """How to start it, behind the words of `prefix`."""
        argv = ["sh", "-c", self.server] if self.server else self.command
        return Start([*(prefix or []), *argv], environment, self.stdin, stdout, stderr)

    def conduct(self, run: ObservedRun, folder: Path, limit_s: float, what: str) -> Conduct:
        """From the start to the end."""
        if self.server is None:
            run.watch(None, limit_s, what)
            return Conduct(run.exit_status or 0, run.wall_s)
        self._await_ready(run, folder)
        before = run.cpu_by_pid()
        output = self._script(run, "--load", self.load or "", folder, limit_s)
        after = run.cpu_by_pid()
        if self.stop is not None:
            self._script(run, "--stop", self.stop, folder, STOP_LIMIT_S * self.slowdown)
        else:
            run.send(signal.SIGTERM)
        run.watch(None, STOP_LIMIT_S * self.slowdown, f"the server of {what}, after the stop,")
        return Conduct(run.exit_status or 0, run.wall_s, None, output, before, after)

    def _await_ready(self, run: ObservedRun, folder: Path) -> None:
        limit_s = READY_LIMIT_S * self.slowdown
        ends = time.monotonic() + limit_s
        if self.ready is None:
            if run.pause(_WITHOUT_READY_S * self.slowdown):
                raise CommandFailed(f"--start: the server ended at once, with status {run.exit_status}")
            return
        while True:
            try:
                self._script(run, "--ready", self.ready, folder, limit_s)
                return
            except CommandFailed as error:
                if run.exit_status is not None or run.pause(_READY_EVERY_S):
                    raise CommandFailed(f"--start: the server ended before it was ready, with status {run.exit_status}") from error
                if time.monotonic() > ends:
                    raise TimeLimit(f"the server was not ready within {limit_s:.0f} s: {error}") from error

    def _script(self, run: ObservedRun, option: str, script: str, folder: Path, limit_s: float) -> str:
        """Runs it beside the server; what it printed. Raises CommandFailed."""
        out, err = folder / "script.out", folder / "script.err"
        process = run.aside(Start(["sh", "-c", script], self.environment, None, out, err))
        ended = run.watch(process, limit_s, option)
        if ended:
            # A --stop may well outlive the server by a moment.
            if option != "--stop":
                raise CommandFailed(f"{option}: the server ended meanwhile, with status {run.exit_status}")
            try:
                process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired as error:
                raise TimeLimit(f"{option} did not end within {limit_s:.0f} s") from error
        if process.returncode:
            said = err.read_text(errors="replace").strip().splitlines()
            raise CommandFailed(f"{option} ended with status {process.returncode}{': ' + said[-1] if said else ''}")
        return out.read_text(errors="replace") + err.read_text(errors="replace")
