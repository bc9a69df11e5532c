"""A line on stderr that is redrawn."""

from __future__ import annotations

import sys

from .environment import terminal_columns
from .printable import printable


class ProgressLine:
    """Shown on a terminal only, and only if wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._drawn = wanted and sys.stderr.isatty(), False

    def show(self, words: str) -> None:
        """Replaces what is there."""
        if self._wanted:
            room = terminal_columns(sys.stderr) or 80
            print(f"\r\x1b[K{printable(words)[: room - 1]}", end="", file=sys.stderr, flush=True)
            self._drawn = True

    def end(self) -> None:
        """Leaves the line empty."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False
