# SPDX-License-Identifier: Apache-2.0
"""Work done ahead of the one who asks for it, on the other processors, in order and bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS_MAX = 4
"""Between NumPy's calls only one thread runs, so more of them than this wait for one another."""


def done_ahead(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """work(item) of every item, in order; as many at once as there are processors, so that no more results than that wait
    to be fetched. Threads suffice, as NumPy and zstd let others run while they compute."""
    workers = min(len(os.sched_getaffinity(0)), WORKERS_MAX, len(items))
    if workers < 2:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # The one who asked may have had enough, or an item may have failed: the rest is not wanted then.
        pool.shutdown(cancel_futures=True)
