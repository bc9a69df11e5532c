# SPDX-License-Identifier: Apache-2.0
"""Recorded traces through other formats and back: what is exported, or written by the tests' own
writers, and imported again is the same program, up to what the format cannot hold."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from quick_tier import quick

from dump_lines import ALIGNED, CONTROLS, PSEUDO, QUERY, REALLOCS, Event, events_of
from foreign_writers import FORMATS, Call, Format, expected_of, named_by_birth
from heaptape import read_trace
from tool_runner import Tools

REPOSITORY = Path(__file__).resolve().parents[2]

PAGE_BYTES = 4096
STRANGER = 1 << 20  # addresses that no object of the trace has
EXPORTED = {"malloc_wrap", "android", "rep"}


@dataclass
class Wording:
    """The calls of a trace as a format words them. `exported`: by convert --to, which leaves out
    what has no object; otherwise by the tests' writer."""

    form: Format
    exported: bool
    strangers: int = 0

    def calls(self, events: Iterable[Event]) -> list[Call]:
        worded = (self._call(event) for event in events)
        return [part for call in worded if call is not None for part in self._parts(call)]

    def _parts(self, call: Call) -> list[Call]:
        if not self.form.splits or call.function != "realloc":
            return [call]
        ended = [Call("free", call.old, thread=call.thread)] * bool(call.old)
        return [*ended, Call("malloc", call.address, call.size, thread=call.thread)]

    def _call(self, event: Event) -> Call | None:
        thread = event.thread + 1 if self.form.threads else 0
        if event.is_free:
            return self._free(event, thread)
        if event.variant == "failed":
            # A trace does not say which block could not grow; and no number holds some products.
            keeps = (self.form.fails and not self.exported and event.function not in REALLOCS
                     and event.size_bytes < 1 << 64)
            return replace(self._alloc(event, thread), address=0) if keeps else None
        if event.function in REALLOCS:
            return self._realloc(event, thread)
        return self._alloc(event, thread)

    def _size(self, event: Event) -> int:
        return event.size_bytes or 1 if self.form.name == "rep" else event.size_bytes

    def _stranger(self) -> int:
        self.strangers += 1
        return STRANGER + self.strangers

    def _free(self, event: Event, thread: int) -> Call | None:
        if event.variant == "foreign":
            keeps = self.form.foreign and not self.exported
            return Call("free", self._stranger(), thread=thread) if keeps else None
        if event.variant == "null" and (not self.form.null_operands or self.form.name == "rep"):
            return None
        return Call("free", event.slot, thread=thread)

    def _realloc(self, event: Event, thread: int) -> Call:
        old = event.slot
        if event.variant in ("null", "foreign"):
            foreign = event.variant == "foreign" and self.form.foreign and not self.exported
            old = self._stranger() if foreign else 0
            if old == 0 and (not self.form.null_operands or self.form.name == "rep"):
                return Call("malloc", event.slot, self._size(event), thread=thread)
        if event.variant == "released":
            if not self.form.released:
                return Call("free", event.slot, thread=thread)
            return Call("realloc", 0, 0, 0, old, thread)
        return Call("realloc", event.slot, self._size(event), 0, old, thread)

    def _alloc(self, event: Event, thread: int) -> Call:
        known = self.form.functions
        if event.function == "calloc" and "calloc" in known:
            if self.form.count_is_one:
                return Call("calloc", event.slot, event.size_bytes, 1, 0, thread)
            return Call("calloc", event.slot, event.size or 0, event.extra or 0, 0, thread)
        if event.function in ("valloc", "pvalloc") and event.function in known:
            return Call(event.function, event.slot, event.size_bytes, 0, 0, thread)
        if event.function in (*ALIGNED, "valloc", "pvalloc") and "memalign" in known:
            same = event.function in known
            alignment = PAGE_BYTES if event.extra is None else event.extra
            return Call(event.function if same else "memalign", event.slot, event.size_bytes,
                        alignment, 0, thread)
        return Call("malloc", event.slot, self._size(event), 0, 0, thread)


def holds_all(form: Format, events: list[Event]) -> bool:
    """Is there nothing in these events that the format cannot hold?"""
    functions = {*form.functions, "realloc", "free"}
    return (all(event.function in functions and event.function not in PSEUDO for event in events)
            and (form.threads or {event.thread for event in events} == {0})
            and ((form.null_operands and form.name != "rep")
                 or all(event.variant != "null" for event in events))
            and not (form.splits and any(event.function in REALLOCS for event in events))
            and not any(event.variant in ("foreign", "failed", "released") for event in events)
            and not (form.count_is_one and any(event.extra != 1 for event in events
                                               if event.function == "calloc")))


@pytest.fixture(scope="module")
def recorded(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recorded")
    programs: dict[str, list[str | Path]] = {
        "python": [Path(sys.executable).resolve(), "-c",
                   "import json; json.loads('[' + '{},' * 500 + '0]')"],
        "threads": [tools.target("threads_exchange"), folder / "exchanged", "10000", "3"],
        "churn": [tools.target("thread_churn"), folder / "churned", "20"],
        "big": [tools.target("big_blocks"), folder / "big_counts"],
        "edges": [tools.target("edge_calls"), folder / "edge_counts"]}
    found = {"golden": REPOSITORY / "tests" / "golden" / "sqlite3.bin"}
    for name, command in programs.items():
        recording = tools.preload(command, folder / name)
        assert recording.outcome.status != 99, recording.outcome  # the targets' own complaint
        found[name] = tools.convert(recording.logs[0], folder / f"{name}.bin")
    return found


def check_back(tools: Tools, form: Format, foreign: Path, events: list[Event], exported: bool,
               back: Path) -> bool:
    """Imports the file and compares; says whether nothing at all was lost."""
    tools.convert(foreign, back, "--from", form.name)
    lines = named_by_birth(tools.dump(back))
    heap = expected_of(Wording(form, exported).calls(events))
    assert lines == heap.lines
    info = tools.info(back)
    assert info["peak_live_bytes"] == heap.peak_bytes and info["anomalies"] == 0
    if not holds_all(form, events):
        return False
    return lines == named_by_birth([line_of(event) for event in events])


def line_of(event: Event) -> str:
    """The dump's line of a call that every format words alike."""
    if event.is_free:
        operand = f"#{event.slot}" if event.slot else "NULL"
        return f"t{event.thread} {event.function}({operand})"
    operands = [str(number) for number in (event.extra, event.size) if number is not None]
    if event.function in REALLOCS:
        operands.insert(0, "NULL" if event.variant == "null" else f"#{event.slot}")
    return f"t{event.thread} {event.function}({', '.join(operands)}) = #{event.slot}"


LOSSLESS = {
    "malloc_wrap": {"golden", "python"}, "malloc_wrap_raw": {"golden", "python"},
    "android": {"golden", "python", "churn"}, "logalloc": {"golden", "python", "churn"},
    "logalloc_munged": {"golden", "python", "churn"}, "trace_utils": {"golden"},
    "wl": {"golden"}, "rep": set(), "mtrace": set(), "heaptrack_raw": set(), "heaptrack_named": set()}


def replayed(events: Iterable[Event]) -> list[Event]:
    """Without queries of sizes and control calls, which no other format has."""
    return [event for event in events if event.function not in (QUERY, *CONTROLS)]


@pytest.mark.parametrize("form", quick([form for form in FORMATS if form.name in ("android", "mtrace")], FORMATS), ids=lambda form: form.write.__name__)
def test_written_calls_come_back(tools: Tools, tmp_path: Path, recorded: dict[str, Path],
                                 form: Format) -> None:
    whole = set()
    for name, trace in recorded.items():
        events = replayed(events_of(tools, trace))
        foreign = tmp_path / "foreign"
        foreign.write_bytes(form.write(Wording(form, False).calls(events)))
        if check_back(tools, form, foreign, events, False, tmp_path / "back.bin"):
            whole.add(name)
    assert whole >= LOSSLESS[form.write.__name__]


@pytest.mark.parametrize("name", quick(["malloc_wrap"], sorted(EXPORTED)))
def test_exports_come_back(tools: Tools, tmp_path: Path, recorded: dict[str, Path],
                           name: str) -> None:
    form = next(form for form in FORMATS if form.name == name)
    whole = set()
    for which, trace in recorded.items():
        out, back = tmp_path / "out", tmp_path / "back.bin"
        tools.succeed([tools.heaptape, "convert", "-q", trace, "--to", name, "-o", out])
        if check_back(tools, form, out, replayed(events_of(tools, trace)), True, back):
            whole.add(which)
        again = tools.succeed([tools.heaptape, "convert", "-q", back, "--to", name, "-o", "-"])
        if name == "malloc_wrap":  # ids are slots, which another merge may give out otherwise
            assert again.stdout.count(b"\n") == out.read_bytes().count(b"\n")
        elif name == "rep":
            assert again.stdout == out.read_bytes()
    assert whole >= LOSSLESS[name]


@pytest.mark.thorough
def test_android_keeps_times_threads_and_residency(tools: Tools, tmp_path: Path,
                                                   recorded: dict[str, Path]) -> None:
    residency_seen = ends_seen = 0
    for trace in recorded.values():
        out, back = tmp_path / "out", tmp_path / "back.bin"
        tools.succeed([tools.heaptape, "convert", "-q", trace, "--to", "android", "-o", out])
        tools.convert(out, back, "-u", "1")
        kept = [event for event in replayed(events_of(tools, trace))
                if event.variant != "failed" and not (event.is_free and event.variant == "foreign")]
        first_ns = kept[0].time_ns
        assert [event.time_ns for event in events_of(tools, back)] == [
            event.time_ns - first_ns for event in kept]
        with read_trace(trace) as before, read_trace(back) as after:
            assert list(after.threads["tid"]) == list(before.threads["tid"])
            assert list(after.threads["ended"]) == list(before.threads["ended"])
            ended = before.threads["ended"]
            ends_seen += int(ended.sum())
            at_end = after.threads["end_ns"][ended] + first_ns
            assert list(at_end) == list(before.threads["end_ns"][ended])
            # Of blocks that the program ended: what was resident at the exit, no line can say.
            number = {event.number: i for i, event in enumerate(kept)}
            reported = {row.birth_event: row.pages_at_end for row in after.residency.itertuples()}
            residency = {number[row.birth_event]: row.pages_at_end
                         for row in before.residency.itertuples()}
            assert reported.items() <= residency.items()
            assert set(reported) == ended_births(kept) & set(residency)
            residency_seen += len(reported)
    assert ends_seen >= 20 and residency_seen >= 5


def ended_births(events: list[Event]) -> set[int]:
    """The births, by place in the list, of the objects that an event ended or gave another size."""
    births: dict[int, int] = {}
    ended = set()
    for i, event in enumerate(events):
        if event.slot and not event.makes:
            ended.add(births.pop(event.slot))
        if not event.is_free and event.variant != "released":
            births[event.slot] = i
    return ended
