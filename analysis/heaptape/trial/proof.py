# SPDX-License-Identifier: Apache-2.0
"""One run of the real program under what is advised. A replay makes the recorded calls only: it cannot see that a program ends
under another malloc, as those do whose libraries are opened with RTLD_DEEPBIND and go past it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..base.programs import run_attended
from ..results.summary import Summary
from ..results.use import use_variables
from .answer import used_as
from .recorded import Recorded

LIMIT_S = 30.0
"""Of a program that ended within CHECKED_WITHIN."""


def input_position() -> int | None:
    """Where standard input is read on; None where it is no file."""
    with suppress(OSError):
        if stat.S_ISREG(os.fstat(0).st_mode):
            return os.lseek(0, 0, os.SEEK_CUR)
    return None


def why_refused(command: Sequence[str], variables: Sequence[str], status: int, position: int | None) -> str:
    """How the program ends otherwise than it did, with these variables (NAME=VALUE) set, such as "is ended by SIGSEGV"; "" where it
    ends with that status again. Its output goes nowhere; position: of its input."""
    environment = dict(os.environ)
    for variable in variables:
        name, _, value = variable.partition("=")
        environment[name] = ":".join(filter(None, [value, os.environ.get(name, "")])) if name == "LD_PRELOAD" else value
    if position is not None:
        os.lseek(0, position, os.SEEK_SET)

    def attend(process: subprocess.Popen[bytes]) -> int | None:
        try:
            return process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    ended = run_attended(list(command), attend, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if ended == status:
        return ""
    if ended is None:
        return f"had not ended after {LIMIT_S:.0f} s"
    return f"is ended by {signal.Signals(-ended).name}" if ended < 0 else f"ends with status {ended} in place of {status}"


@dataclass(frozen=True)
class Proof:
    """Of the program that was recorded; command: [] where it is not to be run. position: of its input."""

    command: list[str]
    recorded: Recorded
    summary: Summary
    position: int | None

    @property
    def is_possible(self) -> bool:
        """Whether the program was run again, so that it can be, and reaches a malloc that is preloaded."""
        context = self.recorded.context
        return bool(self.command and context.get("check") and not self.summary.own and not context.get("linked_allocator"))

    def variables(self, name: str) -> list[str]:
        """Of an allocator, as NAME=VALUE."""
        kind, path, _, variables = used_as(self.summary, name)
        return use_variables(kind, path, variables, str(self.recorded.context.get("allocator_name") or ""))

    def refused(self, advised: Callable[[Mapping[str, str]], Sequence[str]], say: Callable[[str], None]) -> dict[str, str]:
        """Those under which the program does not end as it did, and what it does. advised: who is advised where these are left out;
        each of them is run under once. say: called before that."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        while self.is_possible and (left := [name for name in advised(found) if name not in seen]):
            seen.add(left[0])
            if variables := self.variables(left[0]):
                say(left[0])
                why = why_refused(self.command, variables, self.recorded.exit_status, self.position)
                found |= {left[0]: why} if why else {}
        return found

    def missing(self, advised: Sequence[str]) -> list[str]:
        """What may end the program under these, where it was not run under them."""
        preloads = any(word.startswith("LD_PRELOAD=") for name in advised for word in self.variables(name))
        past = [Path(word).name for word in str(self.recorded.context.get("bypassed_by") or "").split(":") if word]
        if self.is_possible or not (preloads and past):
            return []
        more = f" and {len(past) - 1} more" if len(past) > 1 else ""
        return [f"{past[0]}{more} call libc's malloc whatever is preloaded (RTLD_DEEPBIND), which may end the program: run it once before you rely on this."]
