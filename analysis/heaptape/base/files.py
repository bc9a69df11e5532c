# SPDX-License-Identifier: Apache-2.0
"""Writing a file whole or not at all, never over what it is made from. What may be named as an output, and what happens to
it, is as with the C verbs (base/output_file.c)."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import HeaptapeError, UsageError

STANDARD_OUTPUT = "-"


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's contents."""
    with open(path, "rb") as file:
        return digest_of(file)


def digest_of(file: BinaryIO) -> str:
    """The SHA-256 of the rest of a file."""
    found = hashlib.sha256()
    while part := file.read(1 << 18):
        found.update(part)
    return found.hexdigest()


def refuse_inputs(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raises UsageError where the output is one of the inputs, by whatever name. To be asked before any work is done."""
    if str(output) == STANDARD_OUTPUT:
        return
    for path in inputs:
        if _same_file(output, path):
            raise UsageError(f"{output}: would overwrite {path}, its input")


def _same_file(one: str | Path, other: str | Path) -> bool:
    try:
        first, second = os.stat(one), os.stat(other)
    except OSError:
        return False
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def final_path(path: str | Path) -> Path:
    """The path at which a file of that name is, or will be, once symbolic links are followed; these stay. Renaming would replace them, /dev/stdout for
    one. A link that leads nowhere is no way to make a file, and is replaced."""
    return Path(os.path.realpath(path)) if os.path.exists(path) else Path(path)


def _target(path: str | Path) -> Path | None:
    """The regular file that is, or will be; None of standard output, a device or a pipe, which are written as they are. Raises
    OSError where no file can have that name."""
    if str(path) == STANDARD_OUTPUT:
        return None
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not str(path):
            raise
        return final_path(path)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return final_path(path) if stat.S_ISREG(mode) else None


def check_output(path: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Raises what output_file would raise, before any work is done for it; changes nothing."""
    refuse_inputs(path, inputs)
    try:
        target = _target(path)
        if target:
            with tempfile.TemporaryFile(dir=target.parent):  # as root and on read-only file systems permissions don't tell
                pass
        elif str(path) != STANDARD_OUTPUT and not os.access(path, os.W_OK):  # a pipe would wait for its reader
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: str | Path, error: OSError) -> HeaptapeError:
    return HeaptapeError(f"{path}: cannot write: {error.strerror or error}")


@contextmanager
def output_file(path: str | Path, inputs: Iterable[str | Path] = ()) -> Iterator[BinaryIO]:
    """A file to write to. It is made beside the target and gets its name when it is complete and on the disk; if that never
    happens, nothing of it is left. "-" is standard output; it, devices and pipes are written as they are. Raises
    HeaptapeError, in which a writer's OSError becomes one line."""
    refuse_inputs(path, inputs)
    try:
        if str(path) == STANDARD_OUTPUT:
            sys.stdout.flush()
            yield sys.stdout.buffer
            sys.stdout.flush()
        elif (target := _target(path)) is None:
            with open(path, "wb", buffering=0, opener=_open_existing) as device:
                yield _Whole(device)  # type: ignore[misc]
        else:
            with _replacement(target) as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _open_existing(path: str, _flags: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


class _Whole:
    """A pipe takes what it has room for; this goes on until all is written, and keeps nothing back that could fail later."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left):]
        return len(data)


@contextmanager
def _replacement(target: Path) -> Iterator[BinaryIO]:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".heaptape.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner may read; a report is to be handed on.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def write_whole(path: str | Path, text: str, inputs: Iterable[str | Path] = ()) -> None:
    """Write a text. See output_file."""
    with output_file(path, inputs) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def appendable(path: str | Path, inputs: Iterable[str | Path], mark: bytes, what: str) -> None:
    """Raises UsageError unless lines of that kind may be appended: to nothing, to a device or a pipe, or to a file that begins
    with the mark that each line of the kind begins with; HeaptapeError where nothing can be written."""
    refuse_inputs(path, inputs)
    try:
        if not os.path.isfile(path):
            check_output(path)
            return
        with open(path, "r+b") as file:
            first = file.read(len(mark))
    except OSError as error:
        raise _cannot_write(path, error) from error
    if first and first != mark:
        raise UsageError(f"{path}: expected {what}, found something else")
