# SPDX-License-Identifier: Apache-2.0
"""A line on stderr that is redrawn."""

from __future__ import annotations

import sys
import time

from .environment import terminal_columns
from .printable import printable


class ProgressLine:
    """Shown on a terminal only, and only if wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._drawn, self._begun = wanted and sys.stderr.isatty(), False, time.monotonic()

    def left_s(self, done: float, total: float) -> float | None:
        """How long the rest takes at the pace so far; None where nothing is done yet."""
        return (time.monotonic() - self._begun) / done * (total - done) if done > 0 else None

    def show(self, words: str, left_s: float | None = None) -> None:
        """Replaces what is there."""
        if self._wanted:
            if left_s is not None:
                words += f", about {left_s:.0f} s left" if left_s < 100 else f", about {left_s / 60:.0f} min left"
            room = terminal_columns(sys.stderr) or 80
            print(f"\r\x1b[K{printable(words)[: room - 1]}", end="", file=sys.stderr, flush=True)
            self._drawn = True

    def end(self) -> None:
        """Leaves the line empty."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False
