# SPDX-License-Identifier: Apache-2.0
"""`replay` for a verb that judges its runs itself: what they show is no text to read, but a Comparison."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from ..base.programs import ToolFailed, run_attended
from .judging import Judging
from .model import Comparison, Ended, Matters, Talk
from .serve import Err


@dataclass(frozen=True)
class Replayed:
    """status: what replay ended with; said: what is on stderr otherwise; comparison: None where nothing came to be compared."""

    status: int
    said: str
    comparison: Comparison | None

    @property
    def failure(self) -> ToolFailed | None:
        """None where nothing failed."""
        return ToolFailed(self.said, self.status) if self.status else None

    def compared(self) -> Comparison:
        """Also where some runs failed. Raises ToolFailed where all did."""
        if self.comparison is None:
            raise ToolFailed(self.said, self.status)
        return self.comparison

    def whole(self) -> Comparison:
        """Raises ToolFailed where any run failed."""
        if self.failure:
            raise self.failure
        return self.compared()


def replay(command: Sequence[str], *, curves: bool = False, aloud: bool = False, matters: Matters | None = None, **more: Any) -> Replayed:
    """Runs the command, the first word of which is replay, to its end. curves: lines of results come with theirs; aloud: what is said
    goes to stderr; matters: ends it where it names no figure that is open; more: as Popen takes it. Raises HeaptapeError if it cannot
    be started."""
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.memfd_create("heaptape-said"), "w+", buffering=1, encoding="utf-8", errors="replace") as said:
        err: TextIO = Err() if aloud else said

        def attend(process: subprocess.Popen[bytes]) -> tuple[int, Comparison | None]:
            theirs.close()  # else its end would not show
            try:
                comparison = _judge(Talk(ours), err, curves, matters)
                return process.wait(), comparison
            finally:  # where a signal ends us, replay is not to wait for a word
                with contextlib.suppress(OSError):
                    ours.shutdown(socket.SHUT_RDWR)

        status, comparison = run_attended(
            list(command), attend, env=os.environ | {"HEAPTAPE_JUDGE_FD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None if aloud else said, **more)
        said.seek(0)
        return Replayed(status, said.read(), comparison)


def _judge(talk: Talk, err: TextIO, curves: bool, matters: Matters | None) -> Comparison | None:
    try:
        judging = Judging(talk.meet(), talk, err, curves=curves, matters=matters)
        judged = judging.run()
        talk.write({"status": judging.finish(judged)})
    except Ended:  # it says why, and its status does
        return None
    return judged.comparison if judged and judged.compares else None
