# SPDX-License-Identifier: Apache-2.0
"""The accounts of resident memory, and one word for why there is so much of it. Needs no package but ours."""

from __future__ import annotations

from dataclasses import dataclass

ACCOUNTS = ("live", "rounding", "headers", "holes", "free_pages", "tables", "untouched")

MEANING = {
    "live": "requested bytes that the program wrote to",
    "rounding": "usable bytes of live blocks beyond the requested ones",
    "headers": "what the allocator keeps beside each live block",
    "holes": "empty parts of pages that hold live blocks",
    "free_pages": "pages that held a block and now hold none",
    "tables": "pages that never held a block: the allocator's own data",
    "untouched": "requested bytes of live blocks, never written to",
}

NEEDED_SHARE = 0.85
"""The rest explains nothing if this share of RSS is live."""

VERDICTS = {
    "growth": "live blocks, which become more: needed or leaked",
    "live": "live blocks, which do not become more",
    "fragmentation": "holes among live blocks",
    "retention": "free pages that the allocator keeps",
    "headers": "headers of live blocks",
    "rounding": "what live blocks have beyond the requested bytes",
    "tables": "the allocator's own data",
    "untouched": "requested, but never written to",
    "caches": "free blocks in thread caches",
    "none": "nothing",
}
"""What RSS mostly is, as a sentence goes on."""

OF_ACCOUNT = {"holes": "fragmentation", "free_pages": "retention", "headers": "headers", "rounding": "rounding", "tables": "tables", "untouched": "untouched"}


@dataclass(frozen=True)
class Sums:
    """bytes: by name of ACCOUNTS; their sum is rss_bytes, the null replayer's taken off. not_resident_bytes: requested ones of live
    blocks, no part of RSS."""

    bytes: dict[str, int]
    rss_bytes: int
    not_resident_bytes: int


def verdict_of(accounts: Sums, live_rises: bool) -> str:
    """A name of VERDICTS: the largest account above the live bytes, unless they are nearly all of RSS, or more was asked for and
    never written to than is anything of RSS. live_rises: along the trace."""
    if accounts.not_resident_bytes + accounts.bytes["untouched"] > max(accounts.bytes.values()):
        return "untouched"
    if not accounts.rss_bytes:
        return "none"
    if accounts.bytes["live"] >= NEEDED_SHARE * accounts.rss_bytes:
        return "growth" if live_rises else "live"
    return OF_ACCOUNT[max(OF_ACCOUNT, key=lambda name: accounts.bytes[name])]
