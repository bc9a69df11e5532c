# SPDX-License-Identifier: Apache-2.0
"""An allocator that fails again and again is given up."""

from __future__ import annotations

from heaptape.judge.model import Failing
from heaptape.judge.rounds import given_up, note


def test_given_up_after_rounds_in_a_row() -> None:
    failing = Failing()
    assert not note(failing, 0, "a")
    assert not note(failing, 0, "b")  # the same round, another pass
    assert not note(failing, 1, None)
    assert not note(failing, 2, "c")
    assert not given_up(failing)
    assert note(failing, 3, "d")
    assert not note(failing, 3, "e")  # told once
    assert given_up(failing)
    assert (failing.failed, failing.runs, failing.problem) == (5, 6, "e")
