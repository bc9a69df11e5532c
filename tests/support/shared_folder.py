# SPDX-License-Identifier: Apache-2.0
"""A folder that is filled once for all workers that run tests at the same time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from waiting import wait_until

FILLED_WITHIN_S = 250


def shared_folder(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], object],
                  within_s: float = FILLED_WITHIN_S) -> Path:
    """The first process that asks for it fills it, and the others wait."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each worker has a folder of its own in it
    folder, filled = base / name, base / f"{name}.filled"

    with (base / f"{name}.lock").open("w") as lock:
        def locked() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        wait_until(locked, f"the process that fills {folder}", within_s=within_s, every_s=0.05)
        if not filled.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            filled.touch()
    return folder
