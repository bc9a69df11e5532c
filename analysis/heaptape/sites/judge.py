# SPDX-License-Identifier: Apache-2.0
"""What is different between two recordings at a call site, work by work: what is more than chance would make, and large enough to matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np

from .frames import Frame
from .recordings import Key, Recording
from .spans import Floats
from .spread import (
    DEVIATIONS,
    Course,
    Error,
    clear_of,
    error_of_calls,
    error_of_mean,
    measures_work,
    spread_of_live,
)
from .threads import roles

_SITES_MAX = 200
"""If there are more equal sites, those with most calls are taken."""


class Work:
    """The work of two recordings."""

    def __init__(self, old: Recording, new: Recording) -> None:
        self._recordings = (old, new)
        self._totals = [one.figures.spans.of_all()["calls"] for one in (old, new)]

    def _calls(self, key: Key) -> list[Floats]:
        return [one.figures.spans.of(one.numbers.get(key, []))["calls"] for one in self._recordings]

    @cached_property
    def _equal(self) -> tuple[list[Floats], list[Floats]]:
        """Sites with as many calls in both: their calls along each trace, a row each, and these as shares."""
        keys = [key for key, old in self._recordings[0].sites.items() if old["calls"] == self._recordings[1].of(key)["calls"] >= 1]
        keys.sort(key=lambda key: -self._recordings[0].sites[key]["calls"])
        rows = [calls for key in keys[:_SITES_MAX] if all(map(measures_work, calls := self._calls(key)))]
        sides = [np.array([calls[side] for calls in rows]) for side in (0, 1)]
        return sides, [side / side.sum(axis=-1, keepdims=True) for side in sides]

    def of(self, key: Key) -> list[Floats] | None:
        """What the calls of a site are measured by, along each trace: the equal site that they follow most closely; all others where
        there is none. None where those say nothing either."""
        calls = self._calls(key)
        rows, shares = self._equal
        if len(rows[0]):
            apart = sum((np.diff(of - one / max(one.sum(), 1)) ** 2).sum(axis=1) for of, one in zip(shares, calls, strict=True))
            closest = int(np.argmin(apart))
            return [of[closest] for of in rows]
        others = [total - one for total, one in zip(self._totals, calls, strict=True)]
        return others if all(map(measures_work, others)) else None


_CALLS_MIN, _SHARE_MIN = 10, 0.01
"""Means of fewer calls count only where they change a hundredth of all bytes or more."""

_CALLS_CHANGE, _SIZE_CHANGE, _LIVE_CHANGE = 0.02, 0.02, 0.05
"""Smaller changes of a figure, of the larger value, are none."""

_UNSURE_CHANGE = 0.2
"""The least change of calls and sizes if the trace does not show how much they vary."""

_LIVE_SHARE = 0.2
"""This share of all live bytes is a difference even if it is one block."""

_LIVE_MIN = 4096
"""Less than a page is no difference of live bytes."""

_PEAK_SHARE = 0.25
"""By so much of a site's change the peak of all live bytes must change: which of two equal peaks is the higher is chance."""

_LIFE_FACTOR, _UNSURE_LIFE_FACTOR = 1.25, 2.0
"""A life in events must change by this much, and as a share of the whole trace, too; by the second in time, where the trace does not show
how much it varies, and where another thread frees the blocks."""

_LIFE_AGREES = 1.05
"""By so much a life must change in time, too, as it does in events; and a life in time may not change by more the other way in events."""

_LIFE_NS_MIN, _LIFE_SHARE = 10e6, 0.01
"""In time alone, a life must change by this much, and by this share of the whole trace: a program that loses the processor waits for
some milliseconds, and times are only known to a tick."""

_HANDED_SHARE, _HANDED_NS_MIN = 0.1, 2e6
"""Where other threads free so many of the blocks, a life must change by so much time, and so must it where nothing else says why more are
live at the peak: how soon a thread wakes is chance."""

_THREADS_CHANGE = 0.1
"""It is a difference if other threads make this share of the calls."""


@dataclass(frozen=True)
class Change:
    """words: what changed, the cause first; weight: the largest share of the recordings that it is of."""

    place: tuple[Frame, ...]
    words: list[str]
    old: dict[str, float]
    new: dict[str, float]
    weight: float


@dataclass(frozen=True)
class _Life:
    """How the mean life changes: by a factor, as a share of the whole trace, and by how much. known: whether the traces show how
    much it varies; clear: whether it is more than chance."""

    absolute: float
    relative: float
    difference: float
    known: bool
    clear: bool

    def changes(self, factor: float) -> int:
        """1: longer, -1: shorter."""
        longer, shorter = min(self.absolute, self.relative) > factor, max(self.absolute, self.relative) < 1 / factor
        return self.clear * (longer - shorter)


def _counts_differ(old: float, new: float, least: float) -> bool:
    return abs(new - old) > max(DEVIATIONS * sqrt(old + new), least * max(old, new))


def _mean(of: dict[str, float], name: str, rows: str) -> tuple[float, float]:
    """With its squared standard error, of independent rows."""
    number = max(of[rows], 1)
    mean = of[name] / number
    return mean, max(of[f"square_{name}"] / number - mean * mean, 0) / number


def _clear(difference: float, alone: Sequence[float], along: Sequence[Error | None]) -> bool:
    """alone: squared standard errors of independent rows; along: as the traces vary, as far as they show it."""
    errors = [Error(max(square, error.square if error else 0.0), error.freedom if error else inf) for square, error in zip(alone, along, strict=True)]
    return clear_of(difference, *errors)


class _Judge:
    """What is different at one place."""

    def __init__(self, old: Recording, new: Recording, roles: tuple[dict[int, str], dict[int, str]], work: Work, key: Key) -> None:
        self.recordings, self.roles, self.work, self.key = (old, new), roles, work, key
        self.old, self.new = self.sums = old.of(key), new.of(key)
        self.courses: tuple[Course, Course] = (old.course(key), new.course(key))
        self.words: list[str] = []
        self.weight = 0.0
        self.calls_share = self._share("calls")
        self.handed = max(one["handed"] / max(one["blocks"], 1) for one in self.sums) >= _HANDED_SHARE
        self.few = min(self.old["calls"], self.new["calls"]) < _CALLS_MIN

    def _share(self, name: str) -> float:
        """The change's, of all that there is of it."""
        total = max(one.totals[name] for one in self.recordings)
        return abs(self.new[name] - self.old[name]) / max(total, 1)

    def _least_share_of_calls(self) -> float:
        return min(one["calls"] / max(of.totals["calls"], 1) for one, of in zip(self.sums, self.recordings, strict=True))

    def _found(self, words: str, weight: float) -> None:
        self.words.append(words)
        self.weight = max(self.weight, weight)

    def calls(self) -> None:
        """New, gone, more, fewer."""
        matters = self._share("bytes") >= _SHARE_MIN
        alone = not self.old["blocks"] or not self.new["blocks"]
        counts = self.old["calls"], self.new["calls"]
        if not (_counts_differ(*counts, _CALLS_CHANGE) or (alone and matters)) or not (alone or self._calls_clear()):
            return
        more = counts[1] > counts[0]
        words = ("new site" if more else "gone") if alone else ("more calls" if more else "fewer calls")
        self._found(words, max(self.calls_share, self._share("bytes")))

    def _calls_clear(self) -> bool:
        """Whether they are more than batches of calls would make."""
        difference, works = self.new["calls"] - self.old["calls"], self.work.of(self.key)
        errors = [error_of_calls(course.of["calls"], work) for course, work in zip(self.courses, works, strict=True)] if works else []
        known = [error for error in errors if error]
        return clear_of(difference, *known) if len(known) == 2 else abs(difference) > _UNSURE_CHANGE * max(self.old["calls"], self.new["calls"])

    def size(self) -> None:
        """The size of the mean block."""
        (old, old_error), (new, new_error) = (_mean(one, "bytes", "calls") for one in self.sums)
        errors = [error_of_mean(course, "bytes", "calls") for course in self.courses]
        known = all(errors) or not old_error + new_error
        clear = _clear(new - old, (old_error, new_error), errors) and abs(new - old) > (_SIZE_CHANGE if known else _UNSURE_CHANGE) * max(old, new)
        if self.old["calls"] and self.new["calls"] and clear and (not self.few or self._share("bytes") >= _SHARE_MIN):
            self._found("larger blocks" if new > old else "smaller blocks", self._share("bytes"))

    def _life(self, unit: str) -> _Life:
        """The life of the mean block. As other sites' calls make a trace longer, it counts against the whole, too."""
        (old, old_error), (new, new_error) = (_mean(one, f"life_{unit}", "blocks") for one in self.sums)
        whole = [max(one.figures.events if unit == "events" else one.figures.end_ns, 1) for one in self.recordings]
        # Blocks that live at the same time share what happens in it.
        errors = [error_of_mean(course, f"life_{unit}", "blocks", one["life_ns"] / max(one["blocks"], 1)) for one, course in zip(self.sums, self.courses, strict=True)]
        absolute = (new + 1) / (old + 1)
        return _Life(absolute, absolute * whole[0] / whole[1], new - old, all(errors), _clear(new - old, (old_error, new_error), errors))

    def _waits(self) -> bool:
        """Whether blocks wait for another thread, about as long in both."""
        old, new = (one["life_ns"] / max(one["blocks"], 1) for one in self.sums)
        return self.handed and abs(new - old) < _HANDED_NS_MIN

    def life(self) -> None:
        """The life of the mean block, in events and not against it in time; or in time, and not against it in events."""
        if self.few:
            return
        events, time = self._life("events"), self._life("ns")
        changed = events.changes(_UNSURE_LIFE_FACTOR if self.handed or not events.known else _LIFE_FACTOR)
        if (time.absolute ** changed if changed else 0) < _LIFE_AGREES or self._waits():
            changed = 0
        absolute = events.absolute
        if not changed and time.known and abs(time.difference) >= max(_LIFE_NS_MIN, _LIFE_SHARE * max(one.figures.end_ns for one in self.recordings)):
            changed, absolute = time.changes(_UNSURE_LIFE_FACTOR), time.absolute
            changed *= events.absolute**changed > 1 / _LIFE_AGREES
        if changed:
            self._found("longer life" if changed > 0 else "shorter life", self._least_share_of_calls() * (1 - 1 / max(absolute, 1 / absolute)))

    def live(self) -> None:
        """At the peak and at the end."""
        for when in ("peak", "end"):
            share, (old, new) = self._share(f"{when}_bytes"), (one[f"{when}_bytes"] for one in self.sums)
            chance = sqrt(sum(one[f"{when}_bytes"] ** 2 / max(one[f"{when}_blocks"], 1) for one in self.sums))
            spread = sqrt(sum(spread_of_live(course, when == "peak") ** 2 for course in self.courses))
            clear = abs(new - old) > max(DEVIATIONS * chance, _LIVE_CHANGE * max(old, new))
            if abs(new - old) < max(_LIVE_MIN, DEVIATIONS * spread) or not (share >= _LIVE_SHARE or (clear and share >= _SHARE_MIN)):
                continue
            peaks = [one.totals["peak_bytes"] for one in self.recordings]
            if when == "end" or ((peaks[1] - peaks[0]) / (new - old) >= _PEAK_SHARE and (self.words or not self._waits())):
                self._found(f"{'more' if new > old else 'less'} live at {'the peak' if when == 'peak' else 'the end'}", share)

    def threads(self) -> None:
        """Who calls."""
        if self.few:
            return
        old, new = (one.share_of_calls(self.key, roles) for one, roles in zip(self.recordings, self.roles, strict=True))
        distance = sum(abs(old.get(role, 0) - new.get(role, 0)) for role in {*old, *new}) / 2
        chance = DEVIATIONS * sqrt(len({*old, *new}) / min(self.old["calls"], self.new["calls"])) / 2
        if distance > max(_THREADS_CHANGE, chance):
            self._found("other threads", distance * self._least_share_of_calls())


def changes(old: Recording, new: Recording) -> list[Change]:
    """What differs, by weight. Both as recordings() makes them."""
    of_threads, work = roles(old.threads, new.threads), Work(old, new)
    judges = [_Judge(old, new, of_threads, work, key) for key in {**old.frames, **new.frames}]
    for judge in judges:
        judge.calls()
        judge.size()
        judge.life()
        judge.live()
        judge.threads()
    found = [Change(new.frames.get(judge.key) or old.frames[judge.key], judge.words, judge.old, judge.new, judge.weight)
             for judge in judges if judge.words]
    return sorted(found, key=lambda change: -change.weight)
