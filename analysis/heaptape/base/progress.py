# SPDX-License-Identifier: Apache-2.0
"""A line on stderr that is redrawn."""

from __future__ import annotations

import sys
import time

from .environment import terminal_columns
from .printable import printable

_LINE_S = 60


class ProgressLine:
    """Shown only if wanted; elsewhere than on a terminal at most once a minute, on a line of its own."""

    def __init__(self, wanted: bool) -> None:
        self._wanted, self._drawn, self._begun = wanted, False, time.monotonic()
        self._terminal, self._said = sys.stderr.isatty(), self._begun

    def left_s(self, done: float, total: float) -> float | None:
        """How long the rest takes at the pace so far; None where nothing is done yet."""
        return (time.monotonic() - self._begun) / done * (total - done) if done > 0 else None

    def show(self, words: str, left_s: float | None = None) -> None:
        """Replaces what is there."""
        if self._wanted and (self._terminal or time.monotonic() >= self._said + _LINE_S):
            if left_s is not None:
                words += f", about {left_s:.0f} s left" if left_s < 100 else f", about {left_s / 60:.0f} min left"
            self._drawn, self._said = self._terminal, time.monotonic()
            if not self._terminal:
                print(f"heaptape: {printable(words)}", file=sys.stderr, flush=True)
                return
            room = terminal_columns(sys.stderr) or 80
            print(f"\r\x1b[K{printable(words)[: room - 1]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leaves the line empty."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._drawn = False
