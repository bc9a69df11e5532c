# SPDX-License-Identifier: Apache-2.0
"""A running process, looked at once or several times: what `heaptape walk` found (docs/reference/walk.md), whether to believe it, and
what rises from look to look. Needs no package but ours: it is started where the process runs."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..base.errors import HeaptapeError
from ..base.programs import ToolFailed, as_ours, run_tool
from ..base.units import byte_count, counted
from .sums import ACCOUNTS, Sums, verdict_of

_CACHES = ("tcache", "fastbins")
_CACHED_SHARE = 0.5
"""Thread caches and fastbins that hold this share of what is free are the cause."""

_TORN_SHARE, _TORN_LOOKS = 0.002, 3
"""A walk that lost more than this share of the heaps met a process that changed, which is looked at again, so often at most."""

_OFF_SHARE, _OFF_BYTES, _OFF_HEAP_BYTES, _LOST_BYTES = 0.01, 1 << 20, 256 << 10, 16 << 10
"""A figure of a check may differ by this share and by these bytes: the process goes on while it is read, and the kernel counts pages in
batches. Heaps grow by 132 KB, unless the process stands still. What was lost is known to the byte."""

_PADDED_SHARE = 0.03
"""A smaller share of the live bytes is not said."""

_RISES_Z = 1.96
"""The statistic of Mann (1945), with the variance of Kendall (1975), at which growth counts: live bytes that rise so clearly do so by chance in 2.5 % of cases."""

LOOKS_MIN = 5
"""Even a rise in each step of fewer may be chance: the statistic of four is 1.70."""


@dataclass(frozen=True)
class Look:
    """found: what the walk printed. at_s: since the first look."""

    found: dict[str, Any]
    at_s: float

    @property
    def walked(self) -> bool:
        """Whether its heap is known; if not, found["why_not"] says why."""
        return self.found["why_not"] is None

    @property
    def sums(self) -> Sums:
        """The sums of malloc's memory. What a walk cannot tell from the rest is 0 here: rounding and untouched bytes are among the live ones."""
        accounts = self.found["accounts_bytes"]
        known = {name: int(accounts.get(name) or 0) for name in ACCOUNTS}
        known["tables"] += int(accounts["unknown"])
        return Sums(known, sum(known.values()), int(self.found["not_resident_bytes"]))

    @property
    def by_counts(self) -> bool:
        """Whether the allocator's own counts were found, as of those other than glibc, and no single blocks."""
        return self.found["allocator"].get("layout") is not None

    @property
    def free_bytes(self) -> dict[str, int]:
        """By the list of the free chunks, in pages with and without live blocks."""
        holes, pages = self.found["holes_bytes"], self.found["free_pages_bytes"]
        return {name: int(holes[name]) + int(pages[name]) for name in holes}

    @property
    def cached_bytes(self) -> int:
        """Free, in thread caches and fastbins."""
        return sum(self.free_bytes[name] for name in _CACHES)

    def verdict(self, rises: bool) -> str:
        """A name of VERDICTS."""
        named = verdict_of(self.sums, rises)
        cached = self.cached_bytes >= _CACHED_SHARE * sum(self.free_bytes.values())
        return "caches" if named in ("fragmentation", "retention") and cached else named

    @property
    def doubts(self) -> list[str]:
        """Why it is not to be relied on: checks that do not hold, each as a clause."""
        checks, doubts = self.found["checks"], []
        stands = self.found["stopped"] or "pid" not in self.found
        if checks["heap_bytes_said"] is not None and _off(checks["heap_bytes"], checks["heap_bytes_said"], _LOST_BYTES if stands else _OFF_HEAP_BYTES):
            doubts.append(f"heaps of {byte_count(checks['heap_bytes'])} were walked, malloc says {byte_count(checks['heap_bytes_said'])}")
        if checks["mapped_bytes_said"] is not None and _off(checks["mapped_bytes"], checks["mapped_bytes_said"]):
            doubts.append(f"{counted(checks['mapped_blocks'], 'mapped block')} of {byte_count(checks['mapped_bytes'])} were found, malloc says "
                          f"{checks['mapped_blocks_said']:,} of {byte_count(checks['mapped_bytes_said'])}")
        if checks["lost_bytes"] > max(_OFF_SHARE * checks["heap_bytes"], _LOST_BYTES):
            doubts.append(f"{byte_count(checks['lost_bytes'])} of heaps could not be followed")
        if checks["anonymous_bytes_said"] is not None and _off(checks["anonymous_bytes"], checks["anonymous_bytes_said"]):
            doubts.append(f"pages of {byte_count(checks['anonymous_bytes'])} were named, the kernel says {byte_count(checks['anonymous_bytes_said'])}")
        if checks.get("aligned_bytes", 0) > _PADDED_SHARE * self.found["usable_bytes"]:
            doubts.append(f"{byte_count(checks['aligned_bytes'])} of live bytes are of aligned blocks, and may be mostly what lies before them")
        if self.found["heap_swapped_bytes"]:
            doubts.append(f"{byte_count(self.found['heap_swapped_bytes'])} of malloc's memory are in swap and were not read")
        return doubts


def _off(found: float, said: float, apart_bytes: int = _OFF_BYTES) -> bool:
    return abs(found - said) > max(_OFF_SHARE * max(found, said), apart_bytes)


def _torn(found: dict[str, Any]) -> bool:
    if found["why_not"] is not None or found["stopped"]:
        return False
    return bool(found["checks"]["lost_bytes"] > _TORN_SHARE * found["checks"]["heap_bytes"])


def _walk(command: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(run_tool(command, "surrogateescape"))
    except ToolFailed as error:
        raise as_ours(error) from error
    except ValueError as error:
        raise HeaptapeError(f"{' '.join(command)}: expected JSON: {error}") from error
    assert isinstance(found, dict)
    return found


def _look(command: list[str]) -> dict[str, Any]:
    """The best of some walks, if the process tore the first ones."""
    best = _walk(command)
    for _ in range(_TORN_LOOKS - 1):
        if not _torn(best):
            break
        best = min(best, _walk(command), key=lambda found: found["checks"]["lost_bytes"] if "checks" in found else math.inf)
    return best


def looks(command: list[str], every_s: float | None, for_s: float) -> Iterator[Look]:
    """command: of the walk. every_s: None: once."""
    began = time.monotonic()
    yield Look(_look(command), 0.0)
    number = 1
    while every_s and number * every_s <= for_s:
        time.sleep(max(began + number * every_s - time.monotonic(), 0))
        at_s = time.monotonic() - began
        yield Look(_look(command), at_s)
        number = max(number + 1, math.ceil(at_s / every_s))


# ---- several looks ----

@dataclass(frozen=True)
class Rise:
    """From the first look to the last, in bytes; rises: live bytes do, more clearly than by chance."""

    live_bytes: int
    rss_bytes: int
    seconds: float
    rises: bool
    up: int
    """How many of the steps from look to look were up, of `steps`."""
    steps: int

    @property
    def is_known(self) -> bool:
        """Whether the looks suffice to tell."""
        return self.steps + 1 >= LOOKS_MIN


def rise_of(taken: list[Look]) -> Rise | None:
    """None: of fewer than two that know their heap."""
    known = [look for look in taken if look.walked]
    if len(known) < 2:
        return None
    live = [int(look.found["usable_bytes"]) for look in known]
    steps = list(zip(live, live[1:], strict=False))
    count = len(live)
    score = sum((after > before) - (after < before) for i, before in enumerate(live) for after in live[i + 1:])
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return Rise(live[-1] - live[0], known[-1].found["rss_bytes"] - known[0].found["rss_bytes"], known[-1].at_s - known[0].at_s,
                score > 1 and (score - 1) / deviation >= _RISES_Z, sum(after > before for before, after in steps), len(steps))


@dataclass(frozen=True)
class Grown:
    """Blocks of a size class that became more between the first look and the last."""

    holder: dict[str, Any]
    bytes: int
    blocks: int


def grown_of(taken: list[Look]) -> list[Grown]:
    """Those of the last look's holders, the ones that grew most first."""
    known = [look for look in taken if look.walked]
    if len(known) < 2:
        return []
    before = {(holder["arena"], holder["size_class"]): holder for holder in known[0].found["holders"]}
    # Of a holder that the first look does not list, at most as much as the least of the list was there.
    least = min((holder["bytes"] for holder in known[0].found["holders"]), default=0)
    grown = []
    for holder in known[-1].found["holders"]:
        old = before.get((holder["arena"], holder["size_class"]), {"bytes": least, "blocks": 0})
        if holder["bytes"] > old["bytes"]:
            grown.append(Grown(holder, holder["bytes"] - old["bytes"], holder["blocks"] - old["blocks"]))
    return sorted(grown, key=lambda one: -one.bytes)
