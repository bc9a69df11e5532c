"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import HeaptapeError


def write_atomically(path: str | Path, text: str) -> None:
    """Write beside the target, make it durable, rename over it: a reader sees the old file or the new one."""
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise HeaptapeError(f"{target}: can't write: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner may read; a report is to be handed on.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError):
            raise HeaptapeError(f"{target}: can't write: {error.strerror}") from error
        raise
