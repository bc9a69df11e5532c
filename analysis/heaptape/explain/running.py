# SPDX-License-Identifier: Apache-2.0
"""`explain --pid`: what is said of a process that nobody recorded. Needs no package but ours."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_UNDECIDED, UsageError
from ..base.printable import printable
from ..base.programs import find_heaptape, find_replay
from ..base.text_table import table_lines
from ..base.units import byte_count, counted, nanoseconds, percent
from .looks import Grown, Look, Rise, grown_of, looks, rise_of
from .sums import MEANING, VERDICTS

_OF_RSS_SHARE = 0.5
"""Where malloc's memory is less than this of RSS, what lies outside is said first."""

_TRIM_SHARE = 0.02
"""Of malloc's memory: what malloc_trim would give back is said to help from there on."""

_ROUNDING_MAX = 15
"""Bytes of a block that glibc may have added to what was asked for: chunks are multiples of 16."""

_ROWS = 6
_NOT_OF_A_TRACE = ("alloc", "extend", "budget", "snapshots", "html")
_LISTS = {"bins": "free chunks in bins", "tcache": "free chunks in threads' caches", "fastbins": "free chunks in fastbins",
          "top": "top chunks of arenas", "other": "between chunks"}


def _name(found: dict[str, Any]) -> str:
    command = str(found.get("command") or found.get("core") or "")
    return Path(command.split(" ", 1)[0]).name or "the process"


def _age(found: dict[str, Any]) -> str:
    days = found["up_s"] / 86400
    return f"{days:.0f} days" if days >= 3 else nanoseconds(found["up_s"] * 1e9)


def _allocator(found: dict[str, Any]) -> str:
    known = found["allocator"]
    return " ".join(filter(None, [known["name"], known["version"]]))


def _memory_sentence(look: Look) -> str:
    found, outside = look.found, look.found["outside_bytes"]
    parts = [(look.sums.rss_bytes if look.walked else 0, "malloc's"), (outside["other"], "other private memory"), (outside["stacks"], "stacks"),
             (outside["files"] + found.get("rss_file_bytes", 0), "the program's and libraries' own"), (found.get("rss_shared_bytes", 0), "shared")]
    said = ", ".join(f"{byte_count(size)} {what}" for size, what in sorted(parts, key=lambda part: -part[0]) if size)
    of = f" (process {found['pid']}, {_allocator(found)}, up {_age(found)})" if "pid" in found else f" ({_allocator(found)})"
    whole = found.get("rss_bytes") or sum(size for size, _ in parts)
    where = "RAM" if "pid" in found else "its core, which does not say what of it was in RAM"
    return f"{_name(found)}{of} has {byte_count(whole)} in {where}: {said}."


def _outside_sentence(look: Look) -> str:
    """Where malloc is not what takes the memory."""
    rss, mine, other = look.found.get("rss_bytes", 0), look.sums.rss_bytes, look.found["outside_bytes"]["other"]
    if not rss or mine >= _OF_RSS_SHARE * rss or other < mine:
        return ""
    return (f"Most of it is not malloc's: {byte_count(other)} are memory that the program maps itself, as the heaps of Java, Go, Python's small "
            f"objects and allocators within the program do. What follows is of {percent(mine / rss)} of RSS.")


def _verdict_sentence(look: Look, rise: Rise | None) -> str:
    sums = look.sums
    live, above = sums.bytes["live"], sums.rss_bytes - sums.bytes["live"]
    verdict = look.verdict(rise is not None and rise.rises)
    if verdict == "live":
        words = "live blocks" if rise is None else VERDICTS["live"]
        return f"Malloc's memory is {words} ({percent(live / sums.rss_bytes)}): {byte_count(live)}."
    if verdict == "growth":
        return f"Malloc's memory is {VERDICTS['growth']}: {byte_count(live)}, {percent(live / sums.rss_bytes)} of it."
    if verdict in ("none", "untouched"):
        return f"Malloc's memory: {VERDICTS[verdict]}."
    return f"Malloc's memory is {byte_count(live)} of live blocks and {byte_count(above)} above them, mostly {VERDICTS[verdict]}: {verdict}."


def _live_sentence(look: Look) -> str:
    found = look.found
    aside = f"; {byte_count(found['not_resident_bytes'])} more of them are not in RAM" if found["not_resident_bytes"] else ""
    return (f"Live: {counted(found['blocks'], 'block')}. Rounding cannot be told from what was asked for: 0 to "
            f"{byte_count(_ROUNDING_MAX * found['blocks'])}{aside}.")


def _rise_sentence(rise: Rise | None, taken: list[Look]) -> str:
    if rise is None:
        return "One look cannot tell a leak from a large need: --every 60s --for 10m shows what grows." if "pid" in taken[-1].found else ""
    steps = f"in {rise.up} of {counted(rise.steps, 'step')}"
    over = nanoseconds(rise.seconds * 1e9)
    if rise.rises:
        hourly = rise.live_bytes * 3600 / max(rise.seconds, 1e-9)
        return f"Live bytes rise: {byte_count(rise.live_bytes)} in {over} ({byte_count(hourly)} an hour), {steps}; RSS by {_signed(rise.rss_bytes)}."
    return f"Live bytes do not clearly rise: {_signed(rise.live_bytes)} in {over}, up {steps}; RSS {_signed(rise.rss_bytes)}."


def _signed(size: int) -> str:
    return f"{'+' if size >= 0 else '−'}{byte_count(abs(size))}"


def _trim_sentence(look: Look) -> str:
    size, whole = look.found["trim_bytes"], look.sums.rss_bytes
    if size < _TRIM_SHARE * whole:
        return f"malloc_trim would give back next to nothing ({byte_count(size)})."
    return f"malloc_trim would give back {byte_count(size)} now, {percent(size / whole)} of malloc's memory."


def _size(holder: dict[str, Any]) -> str:
    low, high = holder["usable_low_bytes"], holder["usable_high_bytes"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _place(holder: dict[str, Any]) -> str:
    return "own mapping" if holder["arena"] is None else "main arena" if holder["arena"] == 0 else f"arena {holder['arena']}"


def _begins(holder: dict[str, Any]) -> str:
    return f"{holder['begins_with']} ({percent(holder['begins_share'])})" if holder["begins_with"] else ""


def _holder_lines(look: Look) -> list[str]:
    def block(title: str, key: str) -> list[str]:
        chosen = [holder for holder in sorted(look.found["holders"], key=lambda holder: -holder[key]) if holder[key]][:_ROWS]
        rows = [[title, "where", "blocks", "bytes", "holes they hold", "most begin with"]]
        rows += [[_size(holder), _place(holder), f"{holder['blocks']:,}", byte_count(holder["bytes"]), byte_count(holder["holes_bytes"]), _begins(holder)]
                 for holder in chosen]
        return table_lines(rows, right=(0, 2, 3, 4)) if chosen else []

    holes = look.sums.bytes["holes"] > look.sums.bytes["live"]
    return block("usable size", "holes_bytes" if holes else "bytes")


def _account_lines(look: Look) -> list[str]:
    sums, free = look.sums, look.free_bytes
    meaning = MEANING | {"live": "usable bytes of live blocks", "tables": "the allocator's own data, and what could not be followed"}
    rows = [["account", "bytes", "of malloc's", "what it is"]]
    rows += [[name, byte_count(size), percent(size / sums.rss_bytes), meaning[name]] for name, size in sums.bytes.items() if size]
    rows += [["  free:", byte_count(size), percent(size / sums.rss_bytes), _LISTS[name]] for name, size in free.items() if size]
    return table_lines(rows, right=(1, 2))


def _arena_lines(look: Look) -> list[str]:
    arenas = look.found["arenas"]
    if len(arenas) < 2:
        return []
    numbered = sorted(enumerate(arenas), key=lambda one: -one[1]["system_bytes"])[:_ROWS]
    rows = [["arena", "from the system", "live", "blocks", "free in bins", "in caches", "top"]]
    for number, arena in numbered:
        free = arena["free_bytes"]
        rows.append([str(number) if number else "main", byte_count(arena["system_bytes"]), byte_count(arena["live_bytes"]), f"{arena['blocks']:,}",
                     byte_count(free["bins"]), byte_count(free["tcache"] + free["fastbins"]), byte_count(free["top"])])
    rest = [f"{len(arenas) - _ROWS} more arenas"] if len(arenas) > _ROWS else []
    return table_lines(rows, right=range(1, 7)) + rest


def _grown_lines(grown: list[Grown]) -> list[str]:
    rows = [["what grew", "where", "bytes", "blocks", "most begin with"]]
    rows += [[_size(one.holder), _place(one.holder), _signed(one.bytes), f"{one.blocks:+,}", _begins(one.holder)] for one in grown[:_ROWS]]
    return table_lines(rows, right=(0, 2, 3)) if len(rows) > 1 else []


def _look_lines(taken: list[Look]) -> list[str]:
    rows = [["look at", "RSS", "live", "blocks", "holes", "free pages"]]
    for look in taken:
        if look.walked:
            sums = look.sums
            rows.append([nanoseconds(look.at_s * 1e9), byte_count(look.found.get("rss_bytes")), byte_count(look.found["usable_bytes"]),
                         f"{look.found['blocks']:,}", byte_count(sums.bytes["holes"]), byte_count(sums.bytes["free_pages"])])
    return table_lines(rows, right=range(6)) if len(rows) > 2 else []


def _check_line(look: Look) -> str:
    found, checks = look.found, look.found["checks"]
    mapped = ("" if checks["mapped_blocks_said"] is None else
              f"; {checks['mapped_blocks']:,} mapped blocks, malloc says {checks['mapped_blocks_said']:,}")
    pages = ("" if checks["anonymous_bytes_said"] is None else
             f"; pages of {byte_count(checks['anonymous_bytes'])} named, the kernel says {byte_count(checks['anonymous_bytes_said'])}")
    how = "the process stopped meanwhile" if found["stopped"] else "without stopping it" if "pid" in found else "read"
    again = f", {counted(checks['read_again'], 'place')} read again" if checks["read_again"] else ""
    return (f"Checks: {byte_count(checks['heap_bytes'])} of heaps walked, malloc says {byte_count(checks['heap_bytes_said'])}{mapped}{pages}. "
            f"{how[0].upper()}{how[1:]}, in {found['seconds']:.2g} s{again}.")


def _sentences(taken: list[Look], rise: Rise | None) -> list[str]:
    look = taken[-1]
    if not look.walked:
        ask = look.found["allocator"].get("ask")
        return [_memory_sentence(look), f"Unknown what its heap consists of: {look.found['why_not']}.", *([f"To ask it: {ask}"] if ask else [])]
    doubts = [f"Caution: do not rely on this: {'; '.join(look.doubts)}."] if look.doubts else []
    return [sentence for sentence in [*doubts, _memory_sentence(look), _outside_sentence(look), _verdict_sentence(look, rise), _rise_sentence(rise, taken),
                                      _live_sentence(look), _trim_sentence(look)] if sentence]


def text_of(taken: list[Look]) -> list[str]:
    """Lines: what is to be known first, then all figures of the last look."""
    rise, look = rise_of(taken), taken[-1]
    parts = [_sentences(taken, rise)]
    if look.walked:
        parts += [_look_lines(taken), _grown_lines(grown_of(taken)), _account_lines(look), _holder_lines(look), _arena_lines(look), [_check_line(look)]]
    return [line for part in parts if part for line in ["", *part]][1:]


def object_of(taken: list[Look]) -> dict[str, Any]:
    """For --json: of the last look all that the walk found (docs/reference/walk.md), with the verdict; unknown is null."""
    rise, look = rise_of(taken), taken[-1]
    found = dict(look.found)
    if look.walked:
        found["accounts_bytes"] = look.sums.bytes | {"rounding": None, "untouched": None}
    return found | {
        "verdict": look.verdict(rise is not None and rise.rises) if look.walked else None,
        "doubts": look.doubts if look.walked else None,
        "trend": rise and asdict(rise),
        "looks": [{"at_s": one.at_s, "rss_bytes": one.found.get("rss_bytes"), "usable_bytes": one.found["usable_bytes"], "blocks": one.found["blocks"],
                   "accounts_bytes": one.sums.bytes | {"rounding": None, "untouched": None}} for one in taken if one.walked]}


def _check(options: argparse.Namespace) -> None:
    for name in _NOT_OF_A_TRACE:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: expected with TRACE, not with {'--pid' if options.pid else '--core'}")
    if options.trace is not None:
        raise UsageError(f"expected TRACE, --pid or --core, found {options.trace} and another")
    if (options.every is None) != (options.for_ is None):
        raise UsageError("expected --every and --for, found one of them")
    if options.core is not None and (options.stop or options.every is not None):
        raise UsageError("--core: expected no --stop and --every: nothing goes on in a core")


def explain_running(options: argparse.Namespace) -> int:
    """Exit status: EXIT_UNDECIDED where the heap is not one that is known."""
    _check(options)
    command = [find_heaptape(find_replay()), "walk", *(["--pid", str(options.pid)] if options.pid else ["--core", options.core]),
               *(["--stop"] if options.stop else []), *(["--blocks", options.blocks] if options.blocks else [])]
    taken = []
    for look in looks(command, options.every, options.for_ or 0):
        taken.append(look)
        if options.every and not options.quiet:
            print(f"heaptape explain: look {len(taken)} at {nanoseconds(look.at_s * 1e9)}: {byte_count(look.found.get('rss_bytes'))} in RAM, "
                  f"{byte_count(look.found.get('usable_bytes'))} live", file=sys.stderr)
    if options.json:
        print(json.dumps(object_of(taken), indent=1))
    else:
        print("\n".join(printable(line) for line in text_of(taken)))
    return 0 if taken[-1].walked else EXIT_UNDECIDED
