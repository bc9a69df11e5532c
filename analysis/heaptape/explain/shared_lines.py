# SPDX-License-Identifier: Apache-2.0
"""Cache lines that hold live blocks of several threads: where both write, each write costs the other a miss ("false sharing").

A count of places, not of time: which blocks are written to at once is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.units import counted, percent

LINE_BYTES = 64


@dataclass(frozen=True)
class SharedLines:
    """lines: of 64 bytes, with requested bytes of live blocks; shared: those of them with blocks that different threads
    allocated; threads: that allocated any."""

    lines: int
    shared: int
    threads: int


def shared_lines(blocks: pd.DataFrame) -> SharedLines:
    """blocks: address, requested_bytes, thread. Only the first and the last line of a block can have another block too."""
    address, size = blocks["address"].to_numpy(), np.maximum(blocks["requested_bytes"].to_numpy(), 1)
    first, last = address // LINE_BYTES, (address + size - 1) // LINE_BYTES
    ends = pd.DataFrame({"line": np.concatenate([first, last]), "thread": np.tile(blocks["thread"].to_numpy(), 2)}).drop_duplicates()
    threads = ends.groupby("line").size()
    return SharedLines(len(threads) + int(np.maximum(last - first - 1, 0).sum()), int((threads > 1).sum()), int(blocks["thread"].nunique()))


def sentences(found: SharedLines | None) -> list[str]:
    """None of a program whose live blocks are of one thread; None: of whom they are is not known."""
    return [f"{counted(found.shared, 'cache line')} {'holds' if found.shared == 1 else 'hold'} blocks of two or more threads: {percent(found.shared / found.lines)} of the cache lines with blocks."] \
        if found and found.threads > 1 else []
