# SPDX-License-Identifier: Apache-2.0
"""The line of progress: on a terminal with the time left, elsewhere nothing."""

from __future__ import annotations

import io
import sys

import pytest

from heaptape.base.progress import ProgressLine


class _Stream(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_time_left(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    stream = _Stream()
    stream.terminal = terminal
    monkeypatch.setattr(sys, "stderr", stream)
    now = iter([10.0, 16.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    line = ProgressLine(wanted=True)
    assert line.left_s(0, 4) is None
    line.show("round 3", line.left_s(2, 4))
    line.show("the rest", 600)
    assert ("round 3, about 6 s left" in stream.getvalue(), "the rest, about 10 min left" in stream.getvalue()) == (terminal, terminal)
    assert bool(stream.getvalue()) == terminal
