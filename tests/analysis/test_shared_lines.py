# SPDX-License-Identifier: Apache-2.0
"""What explain says of live bytes and RSS, and of the cache lines that threads share."""

from __future__ import annotations

import pandas as pd
import pytest
from heaptape.explain.verdict import SharedLines, sentences, shared_lines


def counted(*blocks: tuple[int, int, int]) -> SharedLines:
    return shared_lines(pd.DataFrame(blocks, columns=["address", "requested_bytes", "thread"]))


@pytest.mark.parametrize("blocks,lines,shared", [
    ([(0, 32, 1), (32, 32, 2)], 1, 1),
    ([(0, 32, 1), (32, 32, 1), (64, 16, 2)], 2, 0),       # neighbours, but not on one line
    ([(16, 1000, 1), (1024, 16, 2)], 17, 0),              # 1016 bytes on 16 lines
    ([(16, 1010, 1), (1040, 16, 2)], 17, 1),              # its last two bytes lie on the other's line
    ([(0, 16, 1), (16, 16, 2), (32, 16, 3), (48, 100, 1), (160, 0, 2)], 3, 2)])
def test_lines_by_whose_blocks_they_hold(blocks: list[tuple[int, int, int]], lines: int, shared: int) -> None:
    assert counted(*blocks) == SharedLines(lines, shared, len({block[2] for block in blocks}))


def test_one_sentence_where_several_threads_have_blocks() -> None:
    assert sentences(SharedLines(2000, 16, 2)) == ["16 cache lines hold blocks of two or more threads: 0.8 % of the cache lines with blocks."]
    assert sentences(SharedLines(2000, 0, 2))[0].startswith("0 cache lines")
    assert sentences(SharedLines(2000, 0, 1)) == [] == sentences(counted())
