# SPDX-License-Identifier: Apache-2.0
"""The first sentence of all output where malloc explains little of a program's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import pandas as pd

from ..base.units import byte_count, known, nanoseconds

SMALL_SHARE = 5
SWOLLEN_TIMES = 4
UNEXPLAINED_MIN_BYTES = 8 << 20
"""All as in format/heap_share.c, which says why."""
NOT_HELD_AGAINST = "The program's memory is not in the trace: no replay is held against it."
ZEROED_SHARE_MAX = 0.05
"""The judge warns from the same share on (judge/warnings.py)."""


@dataclass(frozen=True)
class HeapShare:
    """How much of a recorded program's anonymous memory its recorded calls can have taken: bytes, each at its peak."""

    anon_bytes: float
    explained_bytes: float
    own_bytes: float = 0.0
    inside: str = ""
    """The words about libraries with an allocator of their own."""

    @property
    def is_small(self) -> bool:
        """Whether most of the memory is not from malloc."""
        return (self.explained_bytes < self.anon_bytes // SMALL_SHARE
                and self.anon_bytes - self.explained_bytes >= UNEXPLAINED_MIN_BYTES)

    def sentence(self) -> str:
        """The sentence, which the other verbs say too."""
        explained = self.explained_bytes / 1e6
        own = f"; its own mappings, stacks and data hold {self.own_bytes / 1e6:.1f} MB" \
            if self.own_bytes >= self.anon_bytes // 2 else ""
        return (f"Caution: the recorded heap explains {explained:.{2 if explained < 0.095 else 1}f} of "
                f"{self.anon_bytes / 1e6:.1f} MB of anonymous memory: most of this program's memory does not come from "
                f"malloc{own}{f'; {self.inside}' if self.inside else ''}.")


def heap_share(runs: pd.DataFrame, totals: Mapping[str, Any] | None = None) -> HeapShare | None:
    """From the trace's totals, or else the results; None where neither has it."""
    of_runs = {key: _first(runs, f"trace_{key}_bytes") for key in ("rss_peak", "explained", "own")}
    found = totals or {}
    inside = next((words for words in runs.get("trace_inner_allocators", ()) if isinstance(words, str)), "")
    explained = found.get("recorded_explained_bytes", found.get("recorded_heap_rss_peak_bytes"))
    of_trace = (found.get("recorded_rss_peak_bytes"), explained, found.get("recorded_own_peak_bytes"))
    for figures in (of_trace, tuple(of_runs.values())):
        anon, part, own = (float(item) if _is_figure(item) else None for item in figures)
        if anon and part is not None:
            return HeapShare(anon, part, own or 0.0, inside)
    return None


def _is_figure(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and known(value) and value >= 0


def caution(runs: pd.DataFrame, totals: Mapping[str, Any] | None = None) -> str:
    """One sentence where most of the program's memory is not from malloc, else ""."""
    share = heap_share(runs, totals)
    return share.sentence() if share and share.is_small else heap_caution(runs, totals)


def heap_caution(runs: pd.DataFrame, totals: Mapping[str, Any] | None = None) -> str:
    """One sentence where the recorded heap's peak is unknown, or many times its blocks, as `replay` says it."""
    found = totals or {}
    low, high = (found.get(f"recorded_heap_rss_{end}_bytes", _first(runs, f"trace_heap_{end}_bytes")) for end in ("low", "high"))
    if _is_figure(low) and _is_figure(high):
        return ("Caution: how much of the recorded program's memory was in its heap is unknown: "
                f"{low / 1e6:.1f} to {high / 1e6:.1f} MB.")
    heap, live = found.get("recorded_heap_rss_peak_bytes"), found.get("peak_live_bytes")
    if _is_figure(heap) and _is_figure(live) and 0 < live < heap // SWOLLEN_TIMES and heap - live >= UNEXPLAINED_MIN_BYTES:
        return (f"Caution: the recorded heap held {heap / 1e6:.1f} MB at its peak, and its blocks never more than {live / 1e6:.1f} MB: "
                "it is very fragmented, or holds memory that does not come from malloc.")
    return ""


def baseline_caution(runs: pd.DataFrame) -> str:
    """One sentence where the replay under the recorded allocator is not what the program ran under, else "": that of the run whose peak error
    is the median, as `replay` takes it."""
    checks = [check for check in runs["baseline_check"] if known(check.get("peak_error"))] if "baseline_check" in runs else []
    if not checks:
        return ""
    middle = pd.Series([check["peak_error"] for check in checks]).median()
    return as_caution(min(checks, key=lambda check: abs(check["peak_error"] - middle)))


def as_caution(check: Mapping[str, Any] | None) -> str:
    """The sentence of a baseline_check, or ""."""
    words = check.get("words") if check else None
    return f"Caution: {words}." if isinstance(words, str) else ""


def check_line(context: Mapping[str, Any]) -> str:
    """What the program took while it was recorded and once more without the recorder, where that was checked, else ""."""
    check = context.get("check")
    figures = [check.get(f"{run}_{of}") if isinstance(check, Mapping) else None for run in ("recorded", "alone") for of in ("rss_peak_bytes", "cpu_ns")]
    if not all(_is_figure(item) for item in figures):
        return ""
    recorded, recorded_ns, alone, alone_ns = figures
    return (f"With the recorder the program took {byte_count(recorded)} and {nanoseconds(recorded_ns)}, "
            f"without it {byte_count(alone)} and {nanoseconds(alone_ns)} (peak RSS, CPU).")


def was_forked(runs: pd.DataFrame) -> bool:
    """Whether the recorded process was forked from another one, with which it shares pages."""
    return "trace_forked" in runs and any(value is True for value in runs["trace_forked"])


def zeroed_line(runs: pd.DataFrame) -> str:
    """One sentence where predicted memory rests on what calloc wrote while recording, else ""."""
    recorded = runs[runs["touch"] == "recorded"]
    touched, zeroed = (_first(recorded, f"trace_{key}_bytes") for key in ("touched", "zeroed"))
    if not touched or not zeroed or zeroed / touched <= ZEROED_SHARE_MAX:
        return ""
    return (f"{100 * zeroed / touched:.0f} % of the memory at the peak ({zeroed / 1e6:.1f} MB) is what calloc wrote while recording; "
            "whether the program touched it is not known: under an allocator that takes such blocks from the kernel, RSS may be "
            "lower by that. Record under the allocator in question, too; --touch none is a lower bound.")


def cautioned(words: str, about: str) -> str:
    """No verdict stands without the caution that goes before it."""
    return f"{about} Of malloc's part alone: {words}" if about else words


def _first(runs: pd.DataFrame, column: str) -> float | None:
    if column not in runs:
        return None
    figures = pd.to_numeric(runs[column], errors="coerce").dropna()
    return None if figures.empty else float(figures.iloc[0])
