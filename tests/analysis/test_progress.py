# SPDX-License-Identifier: Apache-2.0
"""The line of progress, with the time left: on a terminal it is drawn again, elsewhere it comes once a minute."""

from __future__ import annotations

import io
import sys

import pytest

from heaptape.base.text import ProgressLine


class _Stream(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


def _shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, wanted: bool = True) -> str:
    stream = _Stream()
    stream.terminal = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    now = 10.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    line = ProgressLine(wanted)
    assert line.left_s(0, 4) is None
    for now, words, left_s in ((16.0, "round 3", None), (70.0, "round 4", None), (80.0, "round 5", None), (130.0, "the rest", 600.0)):
        line.show(words, line.left_s(2, 4) if left_s is None else left_s)
    line.end()
    return stream.getvalue()


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = ["round 3, about 6 s left", "round 4, about 60 s left", "round 5, about 70 s left", "the rest, about 10 min left", ""]
    assert _shown(monkeypatch, terminal=True) == "".join(f"\r\x1b[K{words}" for words in drawn)


def test_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, terminal=False) == "heaptape: round 4, about 60 s left\nheaptape: the rest, about 10 min left\n"
    assert not _shown(monkeypatch, terminal=False, wanted=False)
