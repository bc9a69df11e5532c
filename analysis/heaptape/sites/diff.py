# SPDX-License-Identifier: Apache-2.0
"""The verb `diff`: what changed between two recordings, by call site."""

from __future__ import annotations

import argparse
import json
import sys
from math import nan
from typing import Any

from ..base.text import printable
from ..base.units import byte_count, count, counted, nanoseconds, null_unless_known
from ..trace.reader import read_trace
from .frames import place_text
from .judge import Change, changes
from .options import ROWS
from .recordings import Recording, recordings
from .verb import say_cut_short


def _means(of: dict[str, float]) -> dict[str, float]:
    calls, blocks = of["calls"] or nan, of["blocks"] or nan
    return {"calls": of["calls"], "bytes": of["bytes"], "mean_bytes": of["bytes"] / calls, "mean_life_ns": of["life_ns"] / blocks,
            "peak_bytes": of["peak_bytes"], "end_bytes": of["end_bytes"]}


def _lines(number: int, change: Change) -> list[str]:
    show = {"calls": ("calls", count), "bytes": ("bytes", byte_count), "mean_bytes": ("mean size", byte_count),
            "mean_life_ns": ("mean life", nanoseconds), "peak_bytes": ("live at peak", byte_count), "end_bytes": ("live at end", byte_count)}
    old, new = _means(change.old), _means(change.new)
    pairs = [(title, unit(old[name]), unit(new[name])) for name, (title, unit) in show.items()]
    figures = "; ".join(f"{title} {before} → {after}" for title, before, after in pairs if before != after)
    return [f"{number}. {place_text(change.place)}: {', '.join(change.words)}", *([f"   {figures}"] if figures else [])]


def _object(change: Change) -> dict[str, Any]:
    old, new = ({name: null_unless_known(value) for name, value in _means(one).items()} for one in (change.old, change.new))
    return {"frames": [frame.object() for frame in change.place], "changes": change.words, "weight": change.weight, "old": old, "new": new}


def _say_unlike(old: Recording, new: Recording) -> None:
    """What the C library does for itself is in all programs."""
    if any(not place[-1].in_runtime for key, place in old.frames.items() if key in new.frames) or not (old.frames and new.frames):
        return
    print(f"heaptape diff: warning: no call site is in both {printable(old.path)} and {printable(new.path)}: expected two recordings of one program, "
          "of one build where it has no names", file=sys.stderr)


def run_diff(options: argparse.Namespace) -> int:
    """heaptape diff"""
    with read_trace(options.old) as old_trace, read_trace(options.new) as new_trace:
        old, new = recordings(old_trace, new_trace)
        status = max(say_cut_short("diff", trace) for trace in (old_trace, new_trace))
    _say_unlike(old, new)
    found, compared = changes(old, new), len({**old.frames, **new.frames})
    if options.json:
        print(json.dumps({"old": old.path, "new": new.path, "compared": compared, "differences": [_object(change) for change in found[: options.rows or len(found)]]}, indent=1))
        return status
    if not found:
        print(f"no difference: {counted(compared, 'call site')} compared")
        return status
    shown = found[: (ROWS if options.rows is None else options.rows) or len(found)]
    lines = [f"{len(found):,} of {counted(compared, 'call site')} {'differs' if len(found) == 1 else 'differ'}"]
    for number, change in enumerate(shown, start=1):
        lines += ["", *_lines(number, change)]
    left = len(found) - len(shown)
    lines += ["", f"{left:,} more; --rows 0 shows all"] * bool(left)
    print("\n".join(printable(line) for line in lines))
    return status
