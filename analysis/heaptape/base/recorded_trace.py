# SPDX-License-Identifier: Apache-2.0
"""The trace of a recorded process, and what `info` says of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import HeaptapeError
from .programs import ToolFailed, run_tool

SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "ash", "csh", "tcsh", "busybox"}
"""Often no more than a script around the program that was meant."""


@dataclass(frozen=True)
class RecordedTrace:
    """`info` is what `heaptape info --json` prints."""

    trace: Path
    info: dict[str, Any]

    @property
    def context(self) -> dict[str, Any]:
        """The circumstances of the recording: machine, command, allocator."""
        found = self.info.get("context")
        return found if isinstance(found, dict) else {}

    @property
    def executable(self) -> str:
        """The base name of what the recorded process executed."""
        return os.path.basename(str(self.context.get("executable") or ""))

    @property
    def rank(self) -> float:
        """By which the processes of a run are ordered, the largest first: calls, those of a shell count a tenth, as `heaptape
        record` orders its logs."""
        return float(self.info["events"]) / (10 if self.executable in SHELLS else 1)


def convert_log(heaptape: str, log: Path, trace: Path) -> RecordedTrace:
    """Raises HeaptapeError."""
    try:
        run_tool([heaptape, "convert", "-q", "-o", str(trace), "--", str(log)])
        return RecordedTrace(trace, json.loads(run_tool([heaptape, "info", "--json", "--", str(trace)])))
    except ToolFailed as error:
        raise HeaptapeError(str(error)) from error
