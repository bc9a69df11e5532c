# SPDX-License-Identifier: Apache-2.0
"""`explain --pid`: what is said of a process that nobody recorded. Needs no package but ours."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..base.errors import EXIT_UNDECIDED, HeaptapeError, UsageError
from ..base.files import STANDARD_OUTPUT, check_output
from ..base.programs import find_heaptape, find_replay
from ..base.text import printable, table_lines
from ..base.units import byte_count, change, counted, nanoseconds, percent
from .looks import LOOKS_MIN, Grown, Look, Rise, grown_of, looks, rise_of
from .sums import MEANING, OF_ACCOUNT

_OF_RSS_SHARE = 0.5
"""Something else that is more than malloc's memory is said first if the latter is less than this share of RSS."""

_TRIM_SHARE = 0.02
"""What malloc_trim would give back is next to nothing below this share of malloc's memory."""

_ROUNDING_MAX = 15
"""Bytes of a block that glibc may have added to what was asked for: chunks are multiples of 16."""

_FEW_ARENAS = 2
"""glibc makes no more with the setting that is advised."""

_ROWS = 6
_NOT_OF_A_TRACE = ("alloc", "extend", "budget", "snapshots", "html")
_COUNTED = {"bins": "free blocks beside live ones", "tcache": "free blocks in threads' and other caches", "other": "free pages"}
"""The lists of allocators other than glibc, which are known by their counts."""

_LISTS = {"bins": "free chunks in bins", "tcache": "free chunks in threads' caches", "fastbins": "free chunks in fastbins",
          "top": "top chunks of arenas", "other": "between chunks"}

_SAID = {
    "growth": "are blocks that the program has not freed, and they become more",
    "live": "are blocks that the program has not freed",
    "fragmentation": "are free gaps between blocks in use, and cannot go back to the system",
    "retention": "are free pages, which malloc keeps for later blocks",
    "caches": "are freed blocks, which malloc keeps for each thread",
    "headers": "are headers: malloc has 8 bytes beside each block",
    "tables": "are malloc's own data, or could not be followed",
}
"""By verdict: what these bytes are."""

_OUTSIDE = {
    "other": "memory that the program maps itself, as the heaps of Java, Go and V8, Python's small objects and allocators within the program are",
    "files": "code and data of the program and its libraries",
    "shared": "memory that it shares with other processes",
    "stacks": "stacks of its threads",
}


def _name(found: dict[str, Any]) -> str:
    command = str(found.get("command") or found.get("core") or "")
    return Path(command.split(" ", 1)[0]).name.rstrip(":") or "the process"


def _time(seconds: float) -> str:
    return nanoseconds(seconds * 1e9) if seconds else "0 s"


def _age(seconds: int) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _outside(found: dict[str, Any]) -> dict[str, int]:
    """What is not malloc's, by the names of _OUTSIDE."""
    private = found["outside_bytes"]
    return {"other": private["other"], "files": private["files"] + found.get("rss_file_bytes", 0), "shared": found.get("rss_shared_bytes", 0),
            "stacks": private["stacks"]}


def _whole(look: Look) -> int:
    """In RAM, or of a core what is in it."""
    return int(look.found.get("rss_bytes") or sum(_outside(look.found).values()) + (look.sums.rss_bytes if look.walked else 0))


def _of_whole(look: Look) -> str:
    name = _name(look.found)
    return f"of the {byte_count(_whole(look))} {f'that {name} has in RAM' if 'pid' in look.found else f'in the core of {name}'}"


def _memory_sentence(look: Look) -> str:
    found, allocator = look.found, look.found["allocator"]
    names = {"other": "that the program maps itself", "files": "of the program and its libraries", "shared": "shared", "stacks": "of stacks"}
    parts = [(size, names[part]) for part, size in _outside(found).items()] + [(look.sums.rss_bytes if look.walked else 0, "of malloc")]
    said = ", ".join(f"{byte_count(size)} {what}" for size, what in sorted(parts, key=lambda part: -part[0]) if size)
    words = [allocator["name"], allocator["version"], "in the program" if allocator.get("in_program") else ""]
    under = "allocator unknown" if allocator["name"] == "unknown" else " ".join(filter(None, words))
    if "pid" not in found:
        return f"The core ({under}) does not say what of it was in RAM. It has {said}."
    return f"Process {found['pid']} ({under}, up {_age(found['up_s'])}) has in RAM: {said}."


def _malloc_is_little(look: Look) -> bool:
    mine = look.sums.rss_bytes
    return mine < _OF_RSS_SHARE * _whole(look) and mine < max(_outside(look.found).values())


def _outside_sentence(look: Look) -> str:
    """The sentence that malloc is not what takes the memory, if that is so."""
    if not _malloc_is_little(look):
        return ""
    mine, outside = look.sums.rss_bytes, _outside(look.found)
    largest = max(outside, key=lambda part: outside[part])
    return (f"Not malloc: {byte_count(outside[largest])} ({percent(outside[largest] / _whole(look))}) {_of_whole(look)} are {_OUTSIDE[largest]}. "
            f"Malloc has {byte_count(mine)} ({percent(mine / _whole(look))}).")


def _bytes_of(look: Look, verdict: str) -> int:
    """The bytes that the verdict is about."""
    if verdict == "caches":
        return look.cached_bytes
    return look.sums.bytes[next((account for account, named in OF_ACCOUNT.items() if named == verdict), "live")]


def _verdict_sentence(look: Look, verdict: str, rise: Rise | None) -> str:
    if verdict == "none":
        return f"Nothing of malloc's is in RAM: {byte_count(look.found['usable_bytes'])} are in use."
    if verdict == "untouched":
        return (f"Untouched: {byte_count(look.found['not_resident_bytes'])} that the program has asked malloc for are not in RAM, more than malloc "
                "has there: they were never written to, or are in swap.")
    size, whole, of = _bytes_of(look, verdict), _whole(look), _of_whole(look)
    if _malloc_is_little(look):
        whole, of = look.sums.rss_bytes, "of malloc's memory"
    steady = verdict == "live" and rise is not None and rise.is_known
    return f"{verdict.capitalize()}: {byte_count(size)} ({percent(size / whole)}) {of} {_SAID[verdict]}{', and they do not clearly become more' * steady}."


def _live_sentence(look: Look) -> str:
    found = look.found
    aside = f" Another {byte_count(found['not_resident_bytes'])} of live blocks are not in RAM." if found["not_resident_bytes"] else ""
    if look.by_counts:
        caches = "" if found["cached_bytes"] is not None else ", those that threads' caches hold among them"
        return (f"Live blocks, which the program has not freed: {found['blocks']:,} with {byte_count(look.sums.bytes['live'])}{caches}. Some of that "
                f"is rounding to size classes: how much was asked for is unknown.{aside}")
    return (f"Live blocks, which the program has not freed: {found['blocks']:,} with {byte_count(look.sums.bytes['live'])}. Up to "
            f"{byte_count(_ROUNDING_MAX * found['blocks'])} of that may be rounding: how much was asked for is unknown.{aside}")


def _rise_sentence(rise: Rise | None, taken: list[Look]) -> str:
    if rise is None:
        return ("Unknown after one look: whether live blocks become more, as in a leak. To see: --every 60s --for 10m."
                if "pid" in taken[-1].found else "Unknown of a core: whether live blocks become more, as in a leak.")
    over = f"{change(rise.live_bytes, 'bytes')} in {_time(rise.seconds)}, up in {rise.up} of {counted(rise.steps, 'step')}; RSS {change(rise.rss_bytes, 'bytes')}"
    if not rise.is_known:
        return f"Unknown after {counted(rise.steps + 1, 'look')}: whether live blocks become more; it takes {LOOKS_MIN} or more. So far {over}."
    if rise.rises:
        return f"Live bytes rise: {over}. That is {byte_count(rise.live_bytes * 3600 / max(rise.seconds, 1e-9))} an hour, if it goes on so."
    return f"Live bytes do not clearly rise: {over}."


def _cure_sentence(look: Look, verdict: str) -> str:
    size, whole = look.found["trim_bytes"], look.sums.rss_bytes
    if size is None:
        return ""
    would = "would give back" if "pid" in look.found else "would have given back"
    share = "next to nothing" if size < _TRIM_SHARE * whole or not size else f"{percent(size / whole)} of malloc's memory"
    arenas = len(look.found["arenas"])
    then = {"growth": "The code that allocates them is shown by a recording from the next start on: heaptape record --sites.",
            "fragmentation": "From the next start on another allocator may help: heaptape try tells which.",
            "retention": (f"From the next start on MALLOC_ARENA_MAX={_FEW_ARENAS} may help: now there are {arenas} arenas (parts of the heap, for different threads), each with free pages."
                          if arenas > _FEW_ARENAS else "From the next start on another allocator may help: heaptape try tells which."),
            "caches": "From the next start on GLIBC_TUNABLES=glibc.malloc.tcache_count=0 may help, which makes malloc slower."}.get(verdict, "")
    return f"malloc_trim {would} {byte_count(size)}, {share}. {'' if _malloc_is_little(look) else then}".rstrip()


def _size(holder: dict[str, Any]) -> str:
    low, high = holder["usable_low_bytes"], holder["usable_high_bytes"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _place(holder: dict[str, Any]) -> str:
    return "own mapping" if holder["arena"] is None else "main arena" if holder["arena"] == 0 else f"arena {holder['arena']}"


def _begins(holder: dict[str, Any]) -> str:
    return f"{holder['begins_with']} ({percent(holder['begins_share'])})" if holder["begins_with"] else ""


def _without_empty_end(rows: list[list[str]]) -> list[list[str]]:
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def _holder_lines(look: Look) -> list[str]:
    holes = look.sums.bytes["holes"]
    key = "holes_bytes" if holes > look.sums.bytes["live"] else "bytes"
    chosen = [holder for holder in sorted(look.found["holders"], key=lambda holder: -holder[key]) if holder[key]][:_ROWS]
    rows = [["usable size", "where", "blocks", "bytes", "holes they hold", "most begin with"]]
    rows += [[_size(holder), "size class" if look.by_counts else _place(holder), f"{holder['blocks']:,}", byte_count(holder["bytes"]), byte_count(holder["holes_bytes"]), _begins(holder)]
             for holder in chosen]
    blocks, size, held = (total - sum(holder[name] for holder in chosen)
                          for name, total in (("blocks", look.found["blocks"]), ("bytes", look.found["usable_bytes"]), ("holes_bytes", holes)))
    if blocks > 0:
        rows.append(["all others", "", f"{blocks:,}", byte_count(size), byte_count(max(held, 0)), ""])
    return table_lines(_without_empty_end(rows), right=(0, 2, 3, 4)) if chosen else []


def _account_lines(look: Look) -> list[str]:
    sums, free = look.sums, look.free_bytes
    meaning = MEANING | {"live": "usable bytes of live blocks", "tables": "the allocator's own data, and what could not be followed"}
    rows = [["account", "bytes", "of malloc's", "what it is"]]
    rows += [[name, byte_count(size), percent(size / sums.rss_bytes), meaning[name]] for name, size in sums.bytes.items() if size]
    lists = _COUNTED if look.by_counts else _LISTS
    rows += [["  free:", byte_count(size), percent(size / sums.rss_bytes), lists[name]] for name, size in free.items() if size]
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
    rows += [[_size(one.holder), _place(one.holder), change(one.bytes, "bytes"), f"{one.blocks:+,}", _begins(one.holder)] for one in grown[:_ROWS]]
    return table_lines(_without_empty_end(rows), right=(0, 2, 3)) if len(rows) > 1 else []


def _look_lines(taken: list[Look]) -> list[str]:
    rows = [["look at", "RSS", "live", "blocks", "holes", "free pages"]]
    for look in taken:
        if look.walked:
            sums = look.sums
            rows.append([_time(look.at_s), byte_count(look.found.get("rss_bytes")), byte_count(look.found["usable_bytes"]),
                         f"{look.found['blocks']:,}", byte_count(sums.bytes["holes"]), byte_count(sums.bytes["free_pages"])])
    return table_lines(rows, right=range(6)) if len(rows) > 2 else []


def _check_line(look: Look) -> str:
    found, checks = look.found, look.found["checks"]
    mapped = ("" if checks["mapped_blocks_said"] is None else
              f"; {counted(checks['mapped_blocks'], 'mapped block')} found, malloc says {checks['mapped_blocks_said']:,}")
    pages = ("" if checks["anonymous_bytes_said"] is None else
             f"; {byte_count(checks['anonymous_bytes'])} of private memory found, the kernel says {byte_count(checks['anonymous_bytes_said'])}")
    how = "Read" if "pid" not in found else "Read while the process was stopped," if found["stopped"] else "Read without stopping the process,"
    again = f"; {counted(checks['read_again'], 'place')} changed meanwhile and {'was' if checks['read_again'] == 1 else 'were'} read again" if checks["read_again"] else ""
    if look.by_counts:
        return (f"Checks: {counted(checks['records'], 'record')} of memory found, laid out as by {found['allocator']['layout']}; "
                f"{checks['lost_records']:,} contradict others{pages}. {how} in {found['seconds']:.2g} s.")
    return (f"Checks: {byte_count(checks['heap_bytes'])} of heaps walked, malloc says {byte_count(checks['heap_bytes_said'])}{mapped}{pages}. "
            f"{how} in {found['seconds']:.2g} s{again}.")


def _sentences(taken: list[Look], rise: Rise | None) -> list[str]:
    look = taken[-1]
    if not look.walked:
        ask = look.found["allocator"].get("ask")
        return [f"Unknown: what the heap of {_name(look.found)} consists of: {look.found['why_not']}.", _memory_sentence(look),
                *([f"To ask it: {ask}"] if ask else [])]
    verdict = look.verdict(rise is not None and rise.rises)
    doubts = [f"Do not rely on this: {'; '.join(look.doubts)}."] if look.doubts else []
    return [sentence for sentence in [*doubts, _outside_sentence(look), _verdict_sentence(look, verdict, rise), _rise_sentence(rise, taken),
                                      _cure_sentence(look, verdict), _memory_sentence(look), _live_sentence(look)] if sentence]


def text_of(taken: list[Look]) -> list[str]:
    """Lines: what is to be known first, then all figures of the last look."""
    rise, look = rise_of(taken), taken[-1]
    parts = [_sentences(taken, rise)]
    if look.walked:
        parts += [_look_lines(taken), _grown_lines(grown_of(taken)) if rise and rise.rises else [], _account_lines(look), _holder_lines(look), _arena_lines(look), [_check_line(look)]]
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
    given = "--core" if options.pid is None else "--pid"
    for name in _NOT_OF_A_TRACE:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: expected with TRACE, not with {given}")
    if options.at != "peak":
        raise UsageError(f"--at: expected with TRACE, not with {given}")
    if options.trace is not None or (options.pid is not None and options.core is not None):
        raise UsageError(f"expected one of TRACE, --pid and --core, found {given} and {'--core' if options.trace is None else options.trace}")
    if (options.every is None) != (options.for_ is None):
        raise UsageError("expected --every and --for, found one of them")
    if options.core is not None and (options.stop or options.every is not None):
        raise UsageError("--core: expected no --stop and --every: nothing goes on in a core")
    if options.blocks == STANDARD_OUTPUT:
        raise UsageError("--blocks -: expected a file, standard output has the answer")
    if options.blocks is not None:
        check_output(options.blocks, [] if options.core is None else [options.core])


def _take(options: argparse.Namespace, command: list[str]) -> list[Look]:
    """All looks, or those before the process ended or the user did (Ctrl-C)."""
    taken: list[Look] = []
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        for look in looks(command, options.every, options.for_ or 0):
            taken.append(look)
            if options.every and interrupted != signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if options.every and not options.quiet:
                print(f"heaptape explain: look {len(taken)} at {_time(look.at_s)}: {byte_count(look.found.get('rss_bytes'))} in RAM, "
                      f"{byte_count(look.found.get('usable_bytes'))} live", file=sys.stderr)
    except (HeaptapeError, KeyboardInterrupt) as error:
        if not taken:
            raise
        print(f"heaptape explain: ended after {counted(len(taken), 'look')}: {printable(str(error)) or 'interrupted'}", file=sys.stderr)
    finally:
        signal.signal(signal.SIGINT, interrupted)
    return taken


def explain_running(options: argparse.Namespace) -> int:
    """Exit status: EXIT_UNDECIDED where the heap is not one that is known."""
    _check(options)
    command = [find_heaptape(find_replay()), "walk", *(["--pid", str(options.pid)] if options.pid else ["--core", options.core]),
               *(["--stop"] if options.stop else []), *(["--blocks", options.blocks] if options.blocks else [])]
    taken = _take(options, command)
    if options.json:
        print(json.dumps(object_of(taken), indent=1))
    else:
        print("\n".join(printable(line) for line in text_of(taken)))
    return 0 if taken[-1].walked else EXIT_UNDECIDED
