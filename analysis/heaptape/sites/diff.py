"""The verb `diff`: what changed between two recordings, by call site. A difference counts where it is more than chance would
make of so many calls, and large enough to matter."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from math import nan, sqrt
from pathlib import PurePath
from typing import Any, TypeVar

from ..base.printable import printable
from ..base.units import byte_count, count, counted, nanoseconds, null_unless_known
from ..trace.reader import Trace, read_trace
from .figures import SiteFigures, site_figures
from .frames import Frame, Stacks, place_text
from .options import ROWS
from .table import by_place
from .threads import Threads, roles
from .verb import require_sites, say_cut_short

_DEVIATIONS = 4
"""Standard deviations of a sum of so many independent calls."""

_CALLS_MIN, _SHARE_MIN = 10, 0.01
"""Means of fewer calls count only where they change a hundredth of all bytes or more."""

_CALLS_CHANGE, _SIZE_CHANGE, _LIVE_CHANGE = 0.02, 0.02, 0.05
"""Smaller changes of a figure, of the larger value, are none."""

_LIVE_SHARE = 0.2
"""Of all live bytes: so much is a difference even of one block."""

_LIVE_MIN = 4096
"""Less than a page is no difference of live bytes."""

_LIFE_FACTORS = {"events": 1.25, "ns": 2.0}
"""A life must change by this much, and as a share of the whole trace, too. Times differ from run to run."""

_LIFE_NS_MIN, _LIFE_SHARE = 10e6, 0.01
"""In time alone, a life must change by this much, and by this share of the whole trace: a program that loses the processor waits for
some milliseconds, and times are only known to a tick."""

_NAME_BYTES = 15
"""Of a thread: the kernel keeps no more."""

_PATH_PARTS_MAX = 4
"""Parts of a path, from its end, by which files in different folders are the same."""

_THREADS_CHANGE = 0.1
"""Of the calls, those that other threads make."""

_SUMS = ("calls", "blocks", "bytes", "square_bytes", "life_ns", "square_life_ns", "life_events", "square_life_events", "peak_blocks",
         "peak_bytes", "end_blocks", "end_bytes")

Key = tuple[tuple[str, str], ...]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Recording:
    """sites: sums by place; totals: of all, but of what is live at the end, too, all that is live at the peak; calls: by place and thread."""

    path: str
    figures: SiteFigures
    sites: dict[Key, dict[str, float]]
    totals: dict[str, float]
    frames: dict[Key, tuple[Frame, ...]]
    threads: Threads

    def of(self, key: Key) -> dict[str, float]:
        """The sums of a place; zeros where it is not there."""
        return self.sites.get(key, dict.fromkeys(_SUMS, 0.0))

    def share_of_calls(self, key: Key, roles: dict[int, str]) -> dict[str, float]:
        """By the roles of threads."""
        calls = self.threads.calls.get(key, {})
        total = sum(calls.values())
        shares: dict[str, float] = {}
        for thread, of_thread in calls.items():
            role = roles.get(thread, "")
            shares[role] = shares.get(role, 0) + of_thread / total
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
    totals = {name: float(figures.sites[name].sum()) for name in _SUMS} | dict.fromkeys(("peak_bytes", "end_bytes"), float(figures.peak_bytes))
    return Recording(str(trace.path), figures, sums, totals, dict(zip(keys, places["place"], strict=True)), _threads(trace, threads))


def _threads(trace: Trace, calls: dict[Key, dict[int, int]]) -> Threads:
    """A thread that nobody has named has the name of the process."""
    tids, names = list(trace.threads["tid"]), [str(name) for name in trace.threads["name"]]
    pid, program = trace.context.get("pid"), PurePath(str(trace.context.get("executable") or "")).name[:_NAME_BYTES]
    main = tids.index(pid) if pid in tids else None
    unnamed = {"", program} | ({names[main]} if main is not None else set(names[:1]))
    return Threads(main, {number: "" if name in unnamed else name for number, name in enumerate(names)}, calls)


def _elsewhere(old: Recording, new: Recording) -> Recording:
    """The new recording with the old one's keys where a call site differs in its files' folders alone: of another checkout."""
    lost, came = ([key for key in one.frames if key not in other.frames] for one, other in ((old, new), (new, old)))
    renamed: dict[Key, Key] = {}
    for parts in range(_PATH_PARTS_MAX, 0, -1):
        by_end: list[dict[Key, list[Key]]] = [{}, {}]
        for keys, found in zip((lost, came), by_end, strict=True):
            for key in keys:
                found.setdefault(tuple((function, "/".join(PurePath(file).parts[-parts:])) for function, file in key), []).append(key)
        for end, keys in by_end[1].items():
            if len(keys) == len(by_end[0].get(end, [])) == 1:
                renamed[keys[0]] = by_end[0][end][0]
        lost, came = [key for key in lost if key not in renamed.values()], [key for key in came if key not in renamed]

    def moved(of: dict[Key, _Value]) -> dict[Key, _Value]:
        return {renamed.get(key, key): value for key, value in of.items()}

    threads = replace(new.threads, calls={renamed.get(key, key): calls for key, calls in new.threads.calls.items()})
    return replace(new, sites=moved(new.sites), frames=moved(new.frames), threads=threads)


def _counts_differ(old: float, new: float, least: float) -> bool:
    return abs(new - old) > max(_DEVIATIONS * sqrt(old + new), least * max(old, new))


def _mean(of: dict[str, float], name: str, rows: str) -> tuple[float, float]:
    """With its squared standard error."""
    number = max(of[rows], 1)
    mean = of[name] / number
    return mean, max(of[f"square_{name}"] / number - mean * mean, 0) / number


class _Judge:
    """What is different at one place."""

    def __init__(self, old: Recording, new: Recording, roles: tuple[dict[int, str], dict[int, str]], key: Key) -> None:
        self.recordings, self.roles, self.key = (old, new), roles, key
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
            matters = unit == "events" or abs(new - old) >= max(_LIFE_NS_MIN, _LIFE_SHARE * max(whole))
            if matters and (longer or shorter) and abs(new - old) > _DEVIATIONS * sqrt(old_error + new_error):
                share = min(one["calls"] / max(of.totals["calls"], 1) for one, of in zip((self.old, self.new), self.recordings, strict=True))
                self._found("longer life" if longer else "shorter life", share * (1 - 1 / max(absolute, 1 / absolute)))
                return

    def live(self) -> None:
        """At the peak and at the end."""
        for when in ("peak", "end"):
            share, (old, new) = self._share(f"{when}_bytes"), (one[f"{when}_bytes"] for one in (self.old, self.new))
            chance = sqrt(sum(one[f"{when}_bytes"] ** 2 / max(one[f"{when}_blocks"], 1) for one in (self.old, self.new)))
            clear = abs(new - old) > max(_DEVIATIONS * chance, _LIVE_CHANGE * max(old, new))
            if abs(new - old) >= _LIVE_MIN and (share >= _LIVE_SHARE or (clear and share >= _SHARE_MIN)):
                more = new > old
                self._found(f"{'more' if more else 'less'} live at {'the peak' if when == 'peak' else 'the end'}", share)

    def threads(self) -> None:
        """Who calls."""
        if self.few:
            return
        old, new = (one.share_of_calls(self.key, roles) for one, roles in zip(self.recordings, self.roles, strict=True))
        distance = sum(abs(old.get(role, 0) - new.get(role, 0)) for role in {*old, *new}) / 2
        chance = _DEVIATIONS * sqrt(len({*old, *new}) / min(self.old["calls"], self.new["calls"])) / 2
        if distance > max(_THREADS_CHANGE, chance):
            share = max(one["calls"] / max(of.totals["calls"], 1) for one, of in zip((self.old, self.new), self.recordings, strict=True))
            self._found("other threads", distance * share)


def changes(old: Recording, new: Recording) -> list[Change]:
    """What differs, by weight. new: as _elsewhere makes it."""
    of_threads = roles(old.threads, new.threads)
    judges = [_Judge(old, new, of_threads, key) for key in {**old.frames, **new.frames}]
    for judge in judges:
        judge.calls()
        judge.size()
        judge.life()
        judge.live()
        judge.threads()
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


def run_diff(options: argparse.Namespace) -> int:
    """heaptape diff"""
    with read_trace(options.old) as old_trace, read_trace(options.new) as new_trace:
        old, new = recording(old_trace), recording(new_trace)
        status = max(say_cut_short("diff", trace) for trace in (old_trace, new_trace))
    new = _elsewhere(old, new)
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
