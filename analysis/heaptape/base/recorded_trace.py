# SPDX-License-Identifier: Apache-2.0
"""The processes of a recorded run, the trace of one of them, and what `info` says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import HeaptapeError, UsageError
from .programs import ToolFailed, as_ours, run_tool


@dataclass(frozen=True)
class RecordedProcess:
    """A program that ran in a process, as `heaptape record --list --json` has it. A process that executes several programs has a log
    for each, numbered by `sequence`. None: unknown."""

    log: Path
    pid: int
    sequence: int
    parent: tuple[int, int]
    started: bool
    executable: str
    command: str
    calls: int
    cpu_ns: int | None
    rss_anon_peak_bytes: int | None

    @property
    def name(self) -> str:
        """The base name of what it executed."""
        return os.path.basename(self.executable)

    @property
    def number(self) -> str:
        """The number in the log's name: PID, or PID.N."""
        return log_number(self.pid, self.sequence)


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


def log_number(pid: int, sequence: int) -> str:
    """PID, or PID.N of a process that executed another program."""
    return f"{pid}.{sequence}" if sequence else str(pid)


def recorded_processes(heaptape: str, folder: Path) -> list[RecordedProcess]:
    """Those that made calls, the one that matters first. Raises HeaptapeError."""
    try:
        listed = json.loads(run_tool([heaptape, "record", "--list", str(folder), "--json"]))["processes"]
    except ToolFailed as error:
        raise as_ours(error) from error
    # JSON has no path that is not UTF-8; the log's name always is.
    return [RecordedProcess(folder / f"malloc-footprint.{log_number(one['pid'], one['sequence'])}.mraw", one["pid"], one["sequence"], (one["parent_pid"], one["parent_sequence"]), one["started"],
                            one["executable"] or "", one["command"] or "", one["calls"], one["cpu_ns"], one["rss_anon_peak_bytes"])
            for one in listed if one["calls"]]


def choose_process(processes: Sequence[RecordedProcess], wanted: str | None) -> RecordedProcess:
    """The first; or the first of that PID, PID.N or executable. Raises UsageError where there is none."""
    for process in processes:
        if wanted in (None, process.number, str(process.pid), process.name):
            return process
    names = ", ".join(dict.fromkeys(f"{process.number} ({process.name})" for process in processes[:10]))
    raise UsageError(f"--process {wanted}: no such process was recorded, only {names}{' and others' if len(processes) > 10 else ''}")


def convert_log(heaptape: str, log: Path, trace: Path) -> RecordedTrace:
    """Raises HeaptapeError."""
    try:
        run_tool([heaptape, "convert", "-q", "-o", str(trace), "--", str(log)])
        return RecordedTrace(trace, json.loads(run_tool([heaptape, "info", "--json", "--", str(trace)])))
    except ToolFailed as error:
        raise HeaptapeError(str(error)) from error
