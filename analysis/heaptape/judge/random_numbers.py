# SPDX-License-Identifier: Apache-2.0
"""Repeatable random numbers (splitmix64), the same as base/random_numbers.h: one seed gives one schedule and one bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


class Random:
    """A sequence; `state` continues it elsewhere."""

    def __init__(self, state: int) -> None:
        self.state = state & _MASK

    def next(self) -> int:
        """Of 64 bits."""
        self.state = (self.state + _STEP) & _MASK
        mixed = ((self.state ^ self.state >> 30) * _FIRST) & _MASK
        mixed = ((mixed ^ mixed >> 27) * _SECOND) & _MASK
        return mixed ^ mixed >> 31

    def below(self, limit: int) -> int:
        """0 to limit - 1."""
        return (self.next() >> 32) * limit >> 32

    def order(self, count: int) -> list[int]:
        """A random order of 0 to count - 1."""
        order: list[int] = []
        for number in range(count):
            at = self.below(number + 1)
            order.append(number)
            order[number], order[at] = order[at], number
        return order


def random_numbers(seed: int, start: int, count: int) -> NDArray[np.uint64]:
    """The numbers `start` to `start + count` of a sequence at once, shape (count,)."""
    import numpy as np

    steps = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    mixed = np.uint64(seed % 2**64) + steps * np.uint64(_STEP)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(_FIRST)
    mixed = (mixed ^ mixed >> np.uint64(27)) * np.uint64(_SECOND)
    numbers: NDArray[np.uint64] = mixed ^ mixed >> np.uint64(31)
    return numbers
