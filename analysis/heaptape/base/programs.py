"""The programs that verbs start: where `replay` is, and a program run to its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .errors import (
    EXIT_BAD_INPUT,
    EXIT_UNDECIDED,
    EXIT_USAGE,
    BadTrace,
    HeaptapeError,
    Undecided,
    UsageError,
)

_ENDING_S = 10


class ToolFailed(HeaptapeError):
    """What a program said last before it failed, with its exit status, and what it printed all the same."""

    def __init__(self, words: str, exit_status: int, printed: str) -> None:
        super().__init__(words)
        self.exit_status = exit_status
        self.printed = printed


_ERRORS: dict[int, type[HeaptapeError]] = {EXIT_USAGE: UsageError, EXIT_BAD_INPUT: BadTrace, EXIT_UNDECIDED: Undecided}


def as_ours(error: ToolFailed) -> HeaptapeError:
    """What a verb of heaptape that we started said, with its status, to be said by the verb that the user started."""
    return _ERRORS.get(error.exit_status, HeaptapeError)(re.sub("^heaptape [a-z]+: ", "", str(error)))


def find_replay() -> str:
    """The replayer: $HEAPTAPE_REPLAY (the front end names its own), the source tree's, or the one in PATH."""
    named = os.environ.get("HEAPTAPE_REPLAY")
    built = Path(__file__).resolve().parents[3] / "build" / "replay"
    found = named or (str(built) if os.access(built, os.X_OK) else shutil.which("replay"))
    if not found:
        raise HeaptapeError("replay was not found: build it, or name it by $HEAPTAPE_REPLAY")
    return found


def list_allocators(replay: str, specification: str | None) -> list[dict[str, Any]]:
    """What `heaptape replay --list --json` says of all allocators, or of those of an --alloc."""
    command = [replay, "--list", "--json", *(["--alloc", specification] if specification else [])]
    try:
        found = json.loads(run_tool(command))
    except ValueError as error:
        raise HeaptapeError(f"{replay} --list --json: expected JSON: {error}") from error
    return [item for item in found if isinstance(item, dict)]


def find_heaptape(replay: str) -> str:
    """The front end beside the replayer."""
    beside = Path(shutil.which(replay) or replay).parent / "heaptape"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("heaptape")
    if not found:
        raise HeaptapeError(f"heaptape was found neither next to {replay} nor in PATH")
    return found


def run_tool(command: list[str], errors: str = "replace", env: Mapping[str, str] | None = None, group: bool = False) -> str:
    """What the command prints. If we are to end meanwhile, it ends first, so that no replay goes on alone. errors: as open() takes
    it; "surrogateescape" keeps any path. env: its environment, by default ours. group: what the command has started ends with it."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors=errors, env=env, start_new_session=group)
    except OSError as error:
        raise HeaptapeError(f"cannot run {command[0]}: {error.strerror}") from error
    try:
        printed, said = process.communicate()
    except BaseException:
        _send(process, signal.SIGTERM, group)
        try:
            process.communicate(timeout=_ENDING_S)
        except subprocess.TimeoutExpired:
            _send(process, signal.SIGKILL, group)
            process.communicate()
        raise
    if process.returncode:
        lines = [line for line in said.splitlines() if line.strip()]
        words = lines[-1] if lines else f"ended with status {process.returncode}"
        raise ToolFailed(words.removeprefix("heaptape replay: "), max(process.returncode, 1), printed)
    return printed


def _send(process: subprocess.Popen[str], number: signal.Signals, group: bool) -> None:
    """To the process, or to all that are left of its group, which outlives it."""
    if not group:
        process.send_signal(number)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
