# SPDX-License-Identifier: Apache-2.0
"""Stacks with their figures, as other programs read them. Each function returns the bytes of a file."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from .figures import SiteFigures
from .frames import Frame, Stacks
from .table import MEANING, SUMMED


def _stacks(figures: SiteFigures, stacks: Stacks) -> Iterator[tuple[list[Frame], dict[str, Any]]]:
    """Each site that allocated anything; the innermost frame first."""
    for row in figures.sites.reset_index().to_dict("records"):
        if row["calls"] or row["blocks"]:
            yield stacks.of(int(row["index"])), row


def _collapsed_name(frame: Frame) -> str:
    return " ".join(frame.label.replace(";", ":").split())


def to_collapsed(figures: SiteFigures, stacks: Stacks, _name: str, measure: str) -> bytes:
    """A line for each stack, the outermost frame first: what flamegraph.pl and its kin read."""
    lines: Counter[str] = Counter()
    for frames, row in _stacks(figures, stacks):
        lines[";".join(_collapsed_name(frame) for frame in reversed(frames))] += row[measure]
    return "".join(f"{stack} {value}\n" for stack, value in lines.items() if value).encode()


def to_speedscope(figures: SiteFigures, stacks: Stacks, name: str, measure: str) -> bytes:
    """A profile for each figure; the one that is asked for is shown first."""
    numbers: dict[tuple[str, str, int], int] = {}
    samples = [([numbers.setdefault((frame.label, frame.file or frame.module, frame.line), len(numbers)) for frame in reversed(frames)], row)
               for frames, row in _stacks(figures, stacks)]
    frames = [{"name": label} | ({"file": file} if file else {}) | ({"line": line} if line else {}) for label, file, line in numbers]
    profiles = []
    for figure in SUMMED:
        shown = [(stack, row[figure]) for stack, row in samples if row[figure]]
        profiles.append({"type": "sampled", "name": MEANING[figure], "unit": "none" if figure == "calls" else "bytes", "startValue": 0,
                         "endValue": sum(weight for _, weight in shown), "samples": [stack for stack, _ in shown],
                         "weights": [weight for _, weight in shown]})
    return json.dumps({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": frames}, "profiles": profiles,
                       "name": name, "activeProfileIndex": SUMMED.index(measure) if measure in SUMMED else 0, "exporter": "heaptape"}).encode()


def to_dhat(figures: SiteFigures, stacks: Stacks, name: str, _measure: str) -> bytes:
    """Version 2 of what Valgrind's DHAT writes, without accesses."""
    numbers: dict[str, int] = {"[root]": 0}
    of_stack: dict[tuple[int, ...], Counter[str]] = {}  # its viewer refuses a stack that comes twice
    for frames, row in _stacks(figures, stacks):
        shown = [f"0x{frame.offset:X}: {frame.label} ({frame.place or 'unknown'})" for frame in frames]
        sums = of_stack.setdefault(tuple(numbers.setdefault(text, len(numbers)) for text in shown), Counter())
        sums.update(tb=row["bytes"], tbk=row["blocks"], tl=row["life_ns"] // 1000, mb=row["peak_bytes"], mbk=row["peak_blocks"], gb=row["peak_bytes"],
                    gbk=row["peak_blocks"], eb=row["end_bytes"], ebk=row["end_blocks"])
    points = [{**sums, "fs": list(stack)} for stack, sums in of_stack.items()]
    return json.dumps({"dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": True, "bkacc": False, "tu": "µs", "Mtu": "s", "tuth": 500,
                       "cmd": name, "pid": 0, "tg": figures.peak_ns // 1000, "te": figures.end_ns // 1000, "pps": points,
                       "ftbl": list(numbers)}).encode()


class _Numbers:
    """Tables of a pprof profile, filled as their rows are asked for. A row is numbered by what it is."""

    def __init__(self, profile: Any) -> None:
        self.profile = profile
        profile.string_table.append("")
        self._known: dict[object, int] = {"": 0}

    def string(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.profile.string_table)
            self.profile.string_table.append(text)
        return self._known[text]

    def _row(self, table: Any, key: object, **fields: int) -> int:
        if key not in self._known:
            self._known[key] = len(table) + 1
            table.add(id=len(table) + 1, **fields)
        return self._known[key]

    def mapping(self, path: str, build_id: str) -> int:
        """The mapping of a module; readers take the first one for the program."""
        if not path:
            return 0
        return self._row(self.profile.mapping, ("mapping", path), filename=self.string(path), build_id=self.string(build_id), has_functions=1,
                         has_inline_frames=1)

    def location(self, frame: Frame) -> int:
        """Inlined functions have locations of their own."""
        function = self._row(self.profile.function, ("function", frame.label, frame.file), name=self.string(frame.label),
                             system_name=self.string(frame.label), filename=self.string(frame.file))
        key = ("location", frame)
        new = key not in self._known
        number = self._row(self.profile.location, key, address=frame.offset, mapping_id=self.mapping(frame.module, frame.build_id))
        if new:
            self.profile.location[-1].line.add(function_id=function, line=frame.line)
        return number


def to_pprof(figures: SiteFigures, stacks: Stacks, name: str, measure: str) -> bytes:
    """profile.proto, packed by gzip."""
    from .profile_message import Profile  # needs a package that few verbs need

    numbers = _Numbers(Profile())
    profile = numbers.profile
    for figure in SUMMED:
        kind = {"calls": "alloc_calls", "bytes": "alloc_space", "peak_bytes": "peak_space", "end_bytes": "inuse_space"}[figure]
        profile.sample_type.add(type=numbers.string(kind), unit=numbers.string("count" if figure == "calls" else "bytes"))
    chosen = SUMMED.index(measure) if measure in SUMMED else 0
    profile.default_sample_type = profile.sample_type[chosen].type
    profile.comment.append(numbers.string(f"heaptape sites: {PurePath(name).name}"))
    profile.duration_nanos = figures.end_ns
    found = list(_stacks(figures, stacks))
    program = next((frame for frames, _ in found for frame in reversed(frames) if frame.module == stacks.program), None)
    if program:
        numbers.mapping(program.module, program.build_id)
    for frames, row in found:
        profile.sample.add(location_id=[numbers.location(frame) for frame in frames], value=[row[figure] for figure in SUMMED])
    return gzip.compress(profile.SerializeToString(), mtime=0)


EXPORTS: dict[str, Callable[[SiteFigures, Stacks, str, str], bytes]] = {
    "pprof": to_pprof, "collapsed": to_collapsed, "speedscope": to_speedscope, "dhat": to_dhat}
