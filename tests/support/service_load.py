# SPDX-License-Identifier: Apache-2.0
"""Artificial services, as Android's text that `heaptape convert` reads: requests at a rate, blocks with lifetimes, and what the
rate or the leak is at each moment. The load is drawn, so that a stretch of it is steady only as real ones are."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tool_runner import Tools

MS = 1_000_000


class Service:
    """Requests of some calls each. lifetime_ms: of what a request keeps, on average; rate and leak: requests per ms, and kept
    blocks in a hundred that are never freed, by the share of the time that has passed; base_blocks: of what it sets up; ends_ms: how
    long it takes to free them all after that time."""

    def __init__(self, seed: int = 1, duration_ms: int = 20_000, lifetime_ms: float = 200,
                 rate: Callable[[float], float] = lambda part: 0.7, leak: Callable[[float], float] = lambda part: 0,
                 threads: int = 1, sessions: bool = False, base_blocks: int = 1000, ends_ms: int = 0) -> None:
        self.random, self.duration_ms, self.lifetime_ms = random.Random(seed), duration_ms, lifetime_ms
        self.rate, self.leak, self.threads, self.sessions, self.base_blocks = rate, leak, threads, sessions, base_blocks
        self.ends_ms, self.next_address = ends_ms, 0x10000

    def size(self) -> int:
        return 1 + min(20_000, int(self.random.lognormvariate(4.5, 0.7)))

    def address(self) -> int:
        self.next_address += 32
        return self.next_address

    def lines(self) -> Iterator[str]:
        due: list[tuple[int, int]] = []  # when, which block
        now, request = 0, 0
        base = [self.address() for _ in range(self.base_blocks)]
        for block in base:  # what a program sets up once
            yield f"1: malloc 0x{block:x} {self.size()} {now} {now}"
        while now < self.duration_ms * MS:
            part = now / (self.duration_ms * MS)
            now += int(self.random.expovariate(self.rate(part)) * MS)
            request += 1
            session = 100 + request // 20
            thread = session if self.sessions and request % 2 else 1 + request % self.threads
            while due and due[0][0] <= now:
                when, block = heapq.heappop(due)
                yield f"{thread}: free 0x{block:x} {when} {when}"
            scratch, kept = self.address(), self.address()
            yield f"{thread}: malloc 0x{scratch:x} {self.size()} {now} {now}"
            yield f"{thread}: calloc 0x{kept:x} 2 {self.size()} {now} {now}"
            if request % 5 == 0:
                grown = self.address()
                yield f"{thread}: realloc 0x{grown:x} 0x{kept:x} {2 * self.size()} {now} {now}"
                kept = grown
            yield f"{thread}: free 0x{scratch:x} {now} {now}"
            if self.random.random() * 100 >= self.leak(part):
                lives = self.random.expovariate(1 / self.lifetime_ms)
                heapq.heappush(due, (now + int(lives * MS), kept))
            if self.sessions and request % 20 == 19:
                yield f"{session}: thread_done 0x0 {now}"
        if self.ends_ms:
            for number, block in enumerate(base):
                now = (self.duration_ms + self.ends_ms * number // len(base)) * MS
                yield f"1: free 0x{block:x} {now} {now}"
            for _, block in due:
                yield f"1: free 0x{block:x} {now} {now}"


def write_service(tools: Tools, path: Path, service: Service) -> Path:
    source = path.with_suffix(".txt")
    source.write_text("\n".join(sorted_by_time(service.lines())) + "\n")
    tools.succeed([tools.heaptape, "convert", "-q", source, "-o", path])
    return path


def sorted_by_time(lines: Iterator[str]) -> list[str]:
    """A free that came due between two requests has its own time."""
    return sorted(lines, key=lambda line: int(line.split()[-1]))


def day(part: float) -> float:
    """Half a day of a load that has one maximum a day."""
    return 0.7 + 0.5 * math.sin(math.pi * part)
