# SPDX-License-Identifier: Apache-2.0
"""The programs that verbs start: where `replay` is, and a program run to its end."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from .errors import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    EXIT_UNDECIDED,
    EXIT_USAGE,
    BadTrace,
    HeaptapeError,
    Undecided,
    UsageError,
)

_T = TypeVar("_T")
_ENDING_S = 10
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class ToolFailed(HeaptapeError):
    """What a program said last before it failed, of all that it said, with its exit status and what it printed."""

    def __init__(self, said: str, exit_status: int, printed: str = "") -> None:
        lines = [line for line in said.splitlines() if line.strip()]
        super().__init__(lines[-1].removeprefix("heaptape replay: ") if lines else f"ended with status {exit_status}")
        self.exit_status = max(exit_status, 1)
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


def list_allocators(replay: str, specification: str | None, trace: str | None = None) -> list[dict[str, Any]]:
    """What `heaptape replay --list --json` says of all allocators, or of those of an --alloc. trace: as they are replayed with it. Of
    all some may have a `problem`, such as a library that is gone."""
    command = [replay, "--list", "--json", *(["--alloc", specification] if specification else []), *(["--", trace] if trace else [])]
    try:
        printed = run_tool(command, "surrogateescape")
    except ToolFailed as error:
        if error.exit_status == EXIT_BAD_INPUT:
            raise as_ours(error) from error
        if specification or not error.printed:
            raise
        printed = error.printed
    try:
        found = json.loads(printed)
    except ValueError as error:
        raise HeaptapeError(f"{replay} --list --json: expected JSON: {error}") from error
    return [item for item in found if isinstance(item, dict)]


def environment_of(base: Mapping[str, str], variables: Iterable[str]) -> dict[str, str]:
    """An environment with these variables (NAME=VALUE); a library to preload comes before what is preloaded already."""
    made = dict(base)
    for variable in variables:
        name, _, value = variable.partition("=")
        made[name] = ":".join(filter(None, [value, base.get(name, "")])) if name == "LD_PRELOAD" else value
    return made


def find_heaptape(replay: str) -> str:
    """The front end beside the replayer."""
    beside = Path(shutil.which(replay) or replay).parent / "heaptape"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("heaptape")
    if not found:
        raise HeaptapeError(f"heaptape was found neither next to {replay} nor in PATH")
    return found


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Signals that we handle are handled when the block has ended. A program is started in such a block: where a handler raises
    before its Popen is known, nobody could end it."""
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread
        yield
        return
    waiting: list[int] = []
    handlers = {number: handler for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: waiting.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in waiting:
            signal.raise_signal(late)


def ends_with_us(number: signal.Signals) -> Callable[[], None]:
    """What a program does before it begins (preexec_fn), so that it gets the signal when we end, however we do."""
    parent = os.getpid()

    def begin() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(EXIT_FAILED)

    return begin


def run_attended(command: list[str], attend: Callable[[subprocess.Popen[Any]], _T], group: bool = False,
                 patience_s: float | None = _ENDING_S, **more: Any) -> _T:
    """Starts the command and returns what attend() does with it. If we are to end meanwhile, it ends first, so that nothing goes on
    alone; if we are killed, it gets SIGTERM. group: what the command has started ends with it. patience_s: after so long it is
    killed; None: never. more: as Popen takes it. Raises HeaptapeError if it cannot be started."""
    process = None
    try:
        with _signals_wait():
            process = _start(command, start_new_session=group, **more)
        return attend(process)
    except BaseException:
        if process:
            _end(process, group, patience_s)
        raise


def _start(command: list[str], **more: Any) -> subprocess.Popen[Any]:
    try:
        return subprocess.Popen(command, **{"preexec_fn": ends_with_us(signal.SIGTERM), **more})
    except OSError as error:
        raise HeaptapeError(f"cannot run {command[0]}: {error.strerror}") from error


def _end(process: subprocess.Popen[Any], group: bool, patience_s: float | None) -> None:
    _send(process, signal.SIGTERM, group)
    try:
        process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        _send(process, signal.SIGKILL, group)
        process.communicate()


def run_tool(command: list[str], errors: str = "replace", env: Mapping[str, str] | None = None, group: bool = False) -> str:
    """What the command prints. errors: as open() takes it; "surrogateescape" keeps any path. env: its environment, by default ours.
    group: what the command has started ends with it, if we are to end meanwhile."""

    def attend(process: subprocess.Popen[str]) -> tuple[int, str, str]:
        printed, said = process.communicate()
        return process.returncode, printed, said

    status, printed, said = run_attended(command, attend, group, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, errors=errors, env=env)
    if status:
        raise ToolFailed(said, status, printed)
    return printed


def _send(process: subprocess.Popen[Any], number: signal.Signals, group: bool) -> None:
    """To the process, or to all that are left of its group, which outlives it."""
    if not group:
        process.send_signal(number)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
