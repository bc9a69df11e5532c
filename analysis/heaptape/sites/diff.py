"""The verb `diff`: what changed between two recordings, by call site. A difference counts where it is more than chance would
make of so many calls, and large enough to matter."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

from ..base.printable import printable
from ..base.units import byte_count, count, nanoseconds, null_unless_known
from ..trace.reader import Trace, read_trace
from .figures import SiteFigures, site_figures
from .frames import Frame, Stacks, place_text
from .table import by_place
from .verb import require_sites

_DEVIATIONS = 4
"""Standard deviations of a sum of so many independent calls."""

_CALLS_MIN, _SHARE_MIN = 10, 0.01
"""Means of fewer calls count only where they change a hundredth of all bytes or more."""

_CALLS_CHANGE, _SIZE_CHANGE, _LIVE_CHANGE = 0.02, 0.02, 0.05
"""Smaller changes of a figure, of the larger value, are none."""

_LIVE_SHARE = 0.2
"""Of all live bytes: so much is a difference even of one block."""

_LIFE_FACTORS = {"events": 1.25, "ns": 2.0}
"""A life must change by this much, and as a share of the whole trace, too. Times differ from run to run."""

_THREADS_CHANGE = 0.1
"""Of the calls, those that other threads make."""

_SUMS = ("calls", "blocks", "bytes", "square_bytes", "life_ns", "square_life_ns", "life_events", "square_life_events", "peak_blocks",
         "peak_bytes", "end_blocks", "end_bytes")

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Recording:
    """sites: sums by place; totals: of all, but of what is live at the end, too, all that is live at the peak; threads: calls by place and thread, by the threads' numbers and by their names."""

    path: str
    figures: SiteFigures
    sites: dict[Key, dict[str, float]]
    totals: dict[str, float]
    frames: dict[Key, tuple[Frame, ...]]
    threads: dict[Key, dict[int, int]]
    roles: dict[int, str]

    def of(self, key: Key) -> dict[str, float]:
        """The sums of a place; zeros where it is not there."""
        return self.sites.get(key, dict.fromkeys(_SUMS, 0.0))

    def share_of_calls(self, key: Key, by_name: bool) -> dict[object, float]:
        """By thread."""
        calls = self.threads.get(key, {})
        total = sum(calls.values())
        shares: dict[object, float] = {}
        for thread, of_thread in calls.items():
            name = self.roles.get(thread, "") if by_name else thread
            shares[name] = shares.get(name, 0) + of_thread / total
        return shares


@dataclass(frozen=True)
class Change:
    """words: what changed, the cause first; weight: the largest share of the recordings that it is of."""

    place: tuple[Frame, ...]
    words: list[str]
    old: dict[str, float]
    new: dict[str, float]
    weight: float


def recording(trace: Trace) -> Recording:
    """What a trace's call sites come to."""
    require_sites(trace)
    figures = site_figures(trace)
    places = by_place(figures.sites, Stacks(trace.sites))
    keys: list[Key] = [tuple(frame.identity for frame in place) for place in places["place"]]
    number = {site: key for key, sites in zip(keys, places["sites"], strict=True) for site in sites}
    threads: dict[Key, dict[int, int]] = {}
    for site, thread, calls in figures.threads.itertuples(index=False):
        of_key = threads.setdefault(number[int(site)], {})
        of_key[int(thread)] = of_key.get(int(thread), 0) + int(calls)
    sums: dict[Key, dict[str, float]] = {}
    for key, row in zip(keys, places[list(_SUMS)].to_dict("records"), strict=True):
        before = sums.get(key, dict.fromkeys(_SUMS, 0.0))
        sums[key] = {name: before[name] + float(row[name]) for name in _SUMS}
    main = trace.context.get("pid")
    roles = {int(thread): "" if tid == main else f"thread {name}" for thread, (tid, name) in
             enumerate(zip(trace.threads["tid"], trace.threads["name"], strict=True))}
    totals = {name: float(figures.sites[name].sum()) for name in _SUMS} | dict.fromkeys(("peak_bytes", "end_bytes"), float(figures.peak_bytes))
    return Recording(str(trace.path), figures, sums, totals, dict(zip(keys, places["place"], strict=True)), threads, roles)


def _counts_differ(old: float, new: float, least: float) -> bool:
    return abs(new - old) > max(_DEVIATIONS * sqrt(old + new), least * max(old, new))


def _mean(of: dict[str, float], name: str, rows: str) -> tuple[float, float]:
    """With its squared standard error."""
    number = max(of[rows], 1)
    mean = of[name] / number
    return mean, max(of[f"square_{name}"] / number - mean * mean, 0) / number


class _Judge:
    """What is different at one place."""

    def __init__(self, old: Recording, new: Recording, key: Key) -> None:
        self.recordings, self.key = (old, new), key
        self.old, self.new = old.of(key), new.of(key)
        self.words: list[str] = []
        self.weight = 0.0
        self.calls_share = self._share("calls")
        self.few = min(self.old["calls"], self.new["calls"]) < _CALLS_MIN

    def _share(self, name: str) -> float:
        """The change's, of all that there is of it."""
        total = max(one.totals[name] for one in self.recordings)
        return abs(self.new[name] - self.old[name]) / max(total, 1)

    def _found(self, words: str, weight: float) -> None:
        self.words.append(words)
        self.weight = max(self.weight, weight)

    def calls(self) -> None:
        """New, gone, more, fewer."""
        matters = self._share("bytes") >= _SHARE_MIN
        alone = not self.old["blocks"] or not self.new["blocks"]
        if not (_counts_differ(self.old["calls"], self.new["calls"], _CALLS_CHANGE) or (alone and matters)):
            return
        more = self.new["calls"] > self.old["calls"]
        words = ("new site" if more else "gone") if alone else ("more calls" if more else "fewer calls")
        self._found(words, max(self.calls_share, self._share("bytes")))

    def size(self) -> None:
        """Of the mean block."""
        (old, old_error), (new, new_error) = (_mean(one, "bytes", "calls") for one in (self.old, self.new))
        clear = abs(new - old) > max(_DEVIATIONS * sqrt(old_error + new_error), _SIZE_CHANGE * max(old, new))
        if self.old["calls"] and self.new["calls"] and clear and (not self.few or self._share("bytes") >= _SHARE_MIN):
            self._found("larger blocks" if new > old else "smaller blocks", self._share("bytes"))

    def life(self) -> None:
        """Of the mean block, in events or in time. As other sites' calls make a trace longer, it counts against the whole, too."""
        if self.few:
            return
        for unit, factor in _LIFE_FACTORS.items():
            (old, old_error), (new, new_error) = (_mean(one, f"life_{unit}", "blocks") for one in (self.old, self.new))
            whole = [max(one.figures.events if unit == "events" else one.figures.end_ns, 1) for one in self.recordings]
            absolute, relative = (new + 1) / (old + 1), (new + 1) / (old + 1) * whole[0] / whole[1]
            longer, shorter = min(absolute, relative) > factor, max(absolute, relative) < 1 / factor
            if (longer or shorter) and abs(new - old) > _DEVIATIONS * sqrt(old_error + new_error):
                share = min(one["calls"] / max(of.totals["calls"], 1) for one, of in zip((self.old, self.new), self.recordings, strict=True))
                self._found("longer life" if longer else "shorter life", share * (1 - 1 / max(absolute, 1 / absolute)))
                return

    def live(self) -> None:
        """At the peak and at the end."""
        for when in ("peak", "end"):
            share, (old, new) = self._share(f"{when}_bytes"), (one[f"{when}_bytes"] for one in (self.old, self.new))
            chance = sqrt(sum(one[f"{when}_bytes"] ** 2 / max(one[f"{when}_blocks"], 1) for one in (self.old, self.new)))
            clear = abs(new - old) > max(_DEVIATIONS * chance, _LIVE_CHANGE * max(old, new))
            if share >= _LIVE_SHARE or (clear and share >= _SHARE_MIN):
                more = new > old
                self._found(f"{'more' if more else 'less'} live at {'the peak' if when == 'peak' else 'the end'}", share)

    def moved(self, by_name: bool) -> float:
        """The share of the calls that other threads make now; 0 where that may be chance."""
        if self.few:
            return 0
        old, new = (one.share_of_calls(self.key, by_name) for one in self.recordings)
        distance = sum(abs(old.get(name, 0) - new.get(name, 0)) for name in {*old, *new}) / 2
        chance = _DEVIATIONS * sqrt(len({*old, *new}) / min(self.old["calls"], self.new["calls"])) / 2
        return distance if distance > max(_THREADS_CHANGE, chance) else 0

    def threads(self, numbers_mean_something: bool) -> None:
        """Who calls."""
        distance = self.moved(True) or (self.moved(False) if numbers_mean_something else 0)
        if distance:
            share = max(one["calls"] / max(of.totals["calls"], 1) for one, of in zip((self.old, self.new), self.recordings, strict=True))
            self._found("other threads", distance * share)


def _numbers_mean_something(judges: list[_Judge]) -> bool:
    """Whether most sites are called by threads of the same numbers in both recordings: not so where threads of one kind take what
    work there is."""
    of_threads = [judge for judge in judges if not judge.few and any({*one.threads.get(judge.key, {})} - {0} for one in judge.recordings)]
    stable = sum(not judge.moved(False) for judge in of_threads)
    return 2 * (stable + 1) >= len(of_threads) + 1


def changes(old: Recording, new: Recording) -> list[Change]:
    """What differs, by weight."""
    judges = [_Judge(old, new, key) for key in {**old.frames, **new.frames}]
    numbers = _numbers_mean_something(judges)
    for judge in judges:
        judge.calls()
        judge.size()
        judge.life()
        judge.live()
        judge.threads(numbers)
    found = [Change(new.frames.get(judge.key) or old.frames[judge.key], judge.words, judge.old, judge.new, judge.weight)
             for judge in judges if judge.words]
    return sorted(found, key=lambda change: -change.weight)


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


def run_diff(options: argparse.Namespace) -> None:
    """heaptape diff"""
    with read_trace(options.old) as old_trace, read_trace(options.new) as new_trace:
        old, new = recording(old_trace), recording(new_trace)
    found, compared = changes(old, new), len({**old.frames, **new.frames})
    if options.json:
        print(json.dumps({"old": old.path, "new": new.path, "compared": compared, "differences": [_object(change) for change in found]}, indent=1))
        return
    if not found:
        print(f"no difference: {compared:,} call sites compared")
        return
    shown = found[: options.rows or len(found)]
    lines = [f"{len(found):,} of {compared:,} call sites differ"]
    for number, change in enumerate(shown, start=1):
        lines += ["", *_lines(number, change)]
    left = len(found) - len(shown)
    lines += ["", f"{left:,} more; --rows 0 shows all"] * bool(left)
    print("\n".join(printable(line) for line in lines))
