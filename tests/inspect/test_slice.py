# SPDX-License-Identifier: Apache-2.0
"""heaptape slice: against a plain model of what a part of a trace must be, and under replay."""

from __future__ import annotations

import json
import os
from pathlib import Path

import naive_writer
import numpy as np
import pytest
from quick_tier import quick
from dump_lines import Event, events_of
from dump_model import follow, objects_named
from heaptape import read_trace
from recorded_traces import NAMES
from tool_runner import Tools, run


@pytest.fixture
def traces(recorded: dict[str, Path]) -> dict[str, Path]:
    return recorded


def slice_of(tools: Tools, trace: Path, output: Path, *options: object) -> list[Event]:
    tools.succeed([tools.heaptape, "slice", "-q", trace, "-o", output, *map(str, options)])
    return events_of(tools, output)


# What an event is apart from its number and slot: thread, time, what it does to which object.
Reported = tuple[int, int, str, str, int, int, int]


def reported(events: list[Event]) -> list[Reported]:
    return [(e.thread, e.time_ns, e.function, e.variant, name, e.size, e.extra)
            for e, name in objects_named(events)]


class Model:
    """The slice of the events from `first` on to before `last`, by hand."""

    def __init__(self, events: list[Event], first: int, last: int, kept: set[int] | None,
                 base_ns: int) -> None:
        self.kept, self.base_ns = kept, base_ns
        self.live: dict[int, tuple[int, int, int]] = {}  # old slot: birth event, bytes, maker; of kept blocks
        self.name: dict[int, int] = {}  # old slot: the object's name in the slice
        self.owner: dict[int, int] = {}
        self.born = 0
        self.thread: dict[int, int] = {}
        self.out: list[Reported] = []
        self.started = False
        for event in events[:last]:
            if event.number < first or event.function == "inherit":
                self.follow(event)
            else:
                self.take(event)

    def wants(self, thread: int) -> bool:
        return self.kept is None or thread in self.kept

    def follow(self, event: Event) -> None:
        if (event.makes or event.resizes) and self.wants(event.thread):
            maker = self.live[event.slot][2] if event.resizes and event.slot in self.live else event.thread
            self.live[event.slot] = event.number, event.size_bytes, maker
        elif event.slot:
            self.live.pop(event.slot, None)

    def start(self) -> None:
        self.started = True
        for slot, (_, size, maker) in sorted(self.live.items(), key=lambda item: item[1]):
            self.born += 1
            thread = self.thread.setdefault(maker, len(self.thread))
            self.name[slot], self.owner[slot] = self.born, thread
            self.out.append((thread, 0, "inherit", "plain", self.born, size, None))

    def put(self, event: Event, thread: int, name: int, variant: str | None = None) -> None:
        self.out.append((thread, event.time_ns - self.base_ns, event.function,
                         variant or event.variant, name, event.size, event.extra))

    def take(self, event: Event) -> None:
        inside = event.slot in self.live
        if self.wants(event.thread) and not (event.function == "drop" and not inside):
            if not self.started:
                self.start()
            thread = self.thread.setdefault(event.thread, len(self.thread))
            self.emit(event, thread, inside)
        elif inside and self.started:
            self.out.append((self.owner[event.slot], event.time_ns - self.base_ns, "drop", "plain",
                             self.name[event.slot], None, None))
        self.follow(event)

    def emit(self, event: Event, thread: int, inside: bool) -> None:
        if event.makes or (event.resizes and not inside):
            self.born += 1
            self.name[event.slot], self.owner[event.slot] = self.born, thread
            self.put(event, thread, self.born, "foreign" if event.resizes else None)
        elif event.slot and not inside:
            self.put(event, thread, 0, "failed" if event.variant == "released" else "foreign")
        else:
            self.put(event, thread, self.name[event.slot] if event.slot else 0)


def check_totals(tools: Tools, output: Path, events: list[Event], dropped: int) -> None:
    info = tools.info(output)
    live, heap = follow(events)
    inherited = [e for e in events if e.function == "inherit"]
    assert info["events"] == sum(e.is_call for e in events) == sum(info["ops"].values())
    assert info["records"] == len(events)
    assert info["peak_live_bytes"] == heap.peak_bytes
    assert info["peak_live_objects"] == heap.peak_objects
    assert (info["end_live_bytes"], info["end_live_objects"]) == (heap.live_bytes, len(live))
    assert info["inherited_objects"] == len(inherited)
    assert info["inherited_bytes"] == sum(e.size for e in inherited)
    assert info["foreign_frees"] == sum(e.variant == "foreign" for e in events)
    assert info["failed_calls"] == sum(e.variant == "failed" for e in events)
    assert info["anomalies"] == sum(e.function == "drop" for e in events) - dropped == 0
    threads = list(dict.fromkeys(e.thread for e in events))
    assert threads == list(range(info["threads"])), "threads are numbered by first event"
    assert max(e.slot for e in events) <= info["slots"]
    assert info["slots"] <= 1.25 * info["peak_live_objects"] + 64 * info["threads"]


def check_replay(tools: Tools, trace: Path, results: Path) -> None:
    lines = tools.replay(trace, "glibc", results, "--pass", "memory")
    assert lines and all(line["failures"] == 0 for line in lines)


@pytest.mark.parametrize("name", quick(set(NAMES) - {"python"}, NAMES))
@pytest.mark.parametrize(("from_part", "to_part"), quick([0.3], [(0, 1), (0, 0.5), (0.5, 1), (0.3, 0.31)]))
def test_slices_by_event(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]],
                         tmp_path: Path, name: str, from_part: float, to_part: float) -> None:
    old = dumped[name]
    inherited = sum(e.function == "inherit" for e in old)
    first, last = (inherited + int(part * (len(old) - inherited)) for part in (from_part, to_part))
    first = first if from_part else 0
    new = slice_of(tools, traces[name], tmp_path / "s.bin", "--from-event", first,
                   "--to-event", last)
    base_ns = old[first].time_ns if first else 0
    assert reported(new) == Model(old, first, last, None, base_ns).out
    check_totals(tools, tmp_path / "s.bin", new, 0)
    if from_part:
        check_replay(tools, tmp_path / "s.bin", tmp_path / "r.jsonl")
    context = tools.info(tmp_path / "s.bin")["context"]
    assert context["sliced_from"]["trace"] == traces[name].name
    assert context["sliced_from"]["to_event"] == last
    assert context["command"] == tools.info(traces[name])["command"]


@pytest.mark.parametrize("name", quick(set(NAMES) - {"python"}, NAMES))
def test_all_of_a_trace_is_the_trace(tools: Tools, traces: dict[str, Path],
                                     dumped: dict[str, list[Event]], tmp_path: Path, name: str) -> None:
    """But for slots: a thread's go to the others when it makes its last call, not when it ends."""
    events = slice_of(tools, traces[name], tmp_path / name)
    assert reported(events) == reported(dumped[name])
    if name == "made":  # not the converter's, and without totals
        return
    if name != "threads":
        assert events == dumped[name]
    old, new = tools.info(traces[name]), tools.info(tmp_path / name)
    for key in ("events", "ops", "threads", "peak_live_bytes", "end_live_objects",
                "inherited_objects", "anomalies", "foreign_frees",
                "recorded_rss_peak_bytes", "recorded_heap_rss_peak_bytes", "recorded_cpu_ns"):
        assert new[key] == old.get(key, 0), key
    assert 0 <= old.get("duration_ns", new["duration_ns"]) - new["duration_ns"] < old["time_unit_ns"]


def cpu_between(trace: Path, begin_ns: int, end_ns: int) -> float:
    """What the samples say of the CPU time between two moments, by straight lines."""
    with read_trace(trace) as opened:
        samples = opened.samples
    times, cpu = [0, *samples["time_ns"]], [0, *samples["cpu_ns"]]
    return float(np.interp(end_ns, times, cpu) - np.interp(begin_ns, times, cpu))


@pytest.mark.thorough
def test_two_slices_are_the_whole(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]],
                                  tmp_path: Path) -> None:
    """Cut anywhere: each call is in one part, what the first leaves the second inherits, and the
    higher of the two peaks is the whole's."""
    for name, trace in traces.items():
        if name == "made":
            continue
        whole = tools.info(trace)
        for share in (0.1, 0.47, 0.9):
            k = whole.get("inherited_objects", 0) + int(whole["events"] * share)
            for part, option in (("a.bin", "--to-event"), ("b.bin", "--from-event")):
                tools.succeed([tools.heaptape, "slice", "-q", trace, "-o", tmp_path / part,
                               option, str(k)])
            a, b = tools.info(tmp_path / "a.bin"), tools.info(tmp_path / "b.bin")
            assert a["events"] + b["events"] == whole["events"], name
            assert b["inherited_objects"] == a["end_live_objects"]
            assert b["inherited_bytes"] == a["end_live_bytes"]
            assert b["end_live_bytes"] == whole["end_live_bytes"]
            for peak in ("peak_live_bytes", "peak_live_objects", "recorded_rss_peak_bytes"):
                higher = max(a[peak], b[peak])
                assert higher == whole.get(peak, higher), f"{name}: {peak}"
            # The CPU time of the pause at the cut is in neither. On a busy machine it may be most of a short program.
            cpu, whole_cpu = a["recorded_cpu_ns"] + b["recorded_cpu_ns"], whole["recorded_cpu_ns"]
            pause = cpu_between(trace, dumped[name][k - 1].time_ns, dumped[name][k].time_ns)
            assert 0.98 * whole_cpu - pause <= cpu <= whole_cpu + 1, (name, share, cpu, whole_cpu, pause)


@pytest.mark.parametrize("name", quick(["made", "threads"], ["made", "threads", "python"]))
def test_slices_by_time(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]],
                        tmp_path: Path, name: str) -> None:
    """The slice begins at the time that was given, not at its first event."""
    old = dumped[name]
    from_ns, to_ns = old[len(old) // 3].time_ns - 9, old[len(old) // 2].time_ns + 1
    new = slice_of(tools, traces[name], tmp_path / "s.bin",
                   "--from-time", f"{from_ns}ns", "--to-time", f"{to_ns / 1000}us")
    first = next(e.number for e in old if e.time_ns >= from_ns)
    last = next((e.number for e in old if e.time_ns >= to_ns), len(old))
    unit_ns = tools.info(traces[name])["time_unit_ns"]
    assert reported(new) == Model(old, first, last, None, from_ns // unit_ns * unit_ns).out
    check_totals(tools, tmp_path / "s.bin", new, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", ["0", "1", "2,4", "0-2", "5,0-4"])
@pytest.mark.parametrize("first", [0, 7000])
def test_slices_by_thread(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]],
                          tmp_path: Path, threads: str, first: int) -> None:
    old = dumped["made"]
    kept = {"0": {0}, "1": {1}, "2,4": {2, 4}, "0-2": {0, 1, 2}}.get(threads, set(range(6)))
    new = slice_of(tools, traces["made"], tmp_path / "s.bin", "--threads", threads,
                   "--from-event", first)
    model = Model(old, first, len(old), kept, old[first].time_ns if first else 0)
    assert reported(new) == model.out
    dropped = sum(call[2] == "drop" for call in model.out)
    check_totals(tools, tmp_path / "s.bin", new, dropped)
    check_replay(tools, tmp_path / "s.bin", tmp_path / "r.jsonl")
    calls = [e for e in old[first:] if e.thread in kept and e.is_call]
    info = tools.info(tmp_path / "s.bin")
    assert info["events"] == len(calls)
    # Where threads are left out, blocks go both ways; where none is, none is lost.
    assert (dropped > 100) == (info["foreign_frees"] > 100) == (len(kept) < 6)
    assert info["recorded_rss_peak_bytes"] == 0
    # Blocks that left-out threads ended are no defects of the program.
    tools.succeed([tools.heaptape, "lint", tmp_path / "s.bin"])


def test_names_of_threads_stay(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    """Kernel ids too: stats prints them of both."""
    def rows(trace: Path) -> dict[int, tuple[int, str]]:
        done = tools.succeed([tools.heaptape, "stats", "--json", trace])
        return {row["thread"]: (row["tid"], row["name"])
                for row in json.loads(done.stdout)["threads"]["rows"]}
    slice_of(tools, traces["made"], tmp_path / "s.bin", "--threads", "3,1")
    old, new = rows(traces["made"]), rows(tmp_path / "s.bin")
    assert sorted(new.values()) == sorted((old[1], old[3]))


@pytest.mark.thorough
def test_a_slice_of_a_slice(tools: Tools, traces: dict[str, Path], dumped: dict[str, list[Event]],
                            tmp_path: Path) -> None:
    slice_of(tools, traces["threads"], tmp_path / "a.bin", "--from-event", 1000)
    inherited = tools.info(tmp_path / "a.bin")["inherited_objects"]
    new = slice_of(tools, tmp_path / "a.bin", tmp_path / "b.bin", "--from-event", inherited + 500,
                   "--to-event", inherited + 900)
    old = dumped["threads"]
    assert reported(new) == Model(old, 1500, 1900, None, old[1500].time_ns).out
    context = tools.info(tmp_path / "b.bin")["context"]
    assert context["sliced_from"]["sliced_from"]["from_event"] == 1000


@pytest.mark.thorough
def test_a_slice_of_a_slice_by_threads(tools: Tools, traces: dict[str, Path],
                                       tmp_path: Path) -> None:
    """Its drops are no anomalies, whatever else it was cut by since."""
    first = slice_of(tools, traces["made"], tmp_path / "a.bin", "--threads", "1,3")
    second = slice_of(tools, tmp_path / "a.bin", tmp_path / "b.bin", "--from-event", 100)
    for trace, events in (("a.bin", first), ("b.bin", second)):
        assert any(e.function == "drop" for e in events)
        assert tools.info(tmp_path / trace)["anomalies"] == 0
        tools.succeed([tools.heaptape, "lint", tmp_path / trace])


def test_a_cut_trace_is_sliced_as_far_as_it_goes(tools: Tools, traces: dict[str, Path],
                                                 tmp_path: Path) -> None:
    bytes_ = traces["golden"].read_bytes()
    (tmp_path / "cut.bin").write_bytes(bytes_[:-40])
    done = run([tools.heaptape, "slice", tmp_path / "cut.bin", "-o", tmp_path / "s.bin"])
    assert done.returncode == 3 and b"cut short" in done.stderr
    assert tools.dump(tmp_path / "s.bin") == tools.dump(traces["golden"])
    # What ends before the cut is whole.
    assert run([tools.heaptape, "slice", tmp_path / "cut.bin", "-o", tmp_path / "t.bin",
                "--to-event", "100"]).returncode == 0
    # Where not one section is whole, it is not the range's fault.
    (tmp_path / "cut.bin").write_bytes(bytes_[:1000])
    done = run([tools.heaptape, "slice", tmp_path / "cut.bin", "-o", tmp_path / "u.bin"])
    assert done.returncode == 3 and b"cut short" in done.stderr
    assert not (tmp_path / "u.bin").exists()


@pytest.mark.parametrize(("options", "status", "words"), [
    (["--from-event", "999999999"], 1, "no call"),
    (["--threads", "9"], 1, "no thread 9"),
    (["--from-event", "5", "--to-event", "5"], 2, "range"),
    (["--from-time", "1d"], 2, "time"),
    (["--from-time", "-1s"], 2, "time"),
    (["--to-event", "many"], 2, "number"),
    (["--threads", "3-1"], 2, "threads"),
    (["--threads", "1,"], 2, "threads"),
    (["--threads", ""], 2, "threads"),
], ids=str)
def test_bad_ranges(tools: Tools, traces: dict[str, Path], tmp_path: Path, options: list[str],
                    status: int, words: str) -> None:
    done = run([tools.heaptape, "slice", traces["golden"], "-o", tmp_path / "s.bin", *options])
    assert done.returncode == status, done.stderr
    assert words in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_not_overwritten_by_its_slice(tools: Tools, traces: dict[str, Path],
                                                 tmp_path: Path) -> None:
    copy = tmp_path / "t.bin"
    copy.write_bytes(traces["golden"].read_bytes())
    done = run([tools.heaptape, "slice", copy, "-o", tmp_path / "." / "t.bin", "--to-event", "9"])
    assert done.returncode == 2 and b"overwrite" in done.stderr
    assert copy.read_bytes() == traces["golden"].read_bytes()


def test_a_name_that_is_not_utf8(tools: Tools, traces: dict[str, Path], tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff.bin"))
    odd.symlink_to(traces["golden"])
    slice_of(tools, odd, tmp_path / "s.bin", "--to-event", 9)
    assert tools.info(tmp_path / "s.bin")["context"]["sliced_from"]["trace"] == "odd?.bin"
    done = run([tools.heaptape, "lint", "--json", odd])
    assert json.loads(done.stdout)["file"].endswith("/odd?.bin")


# ---- blocks left out ----


@pytest.mark.thorough
@pytest.mark.parametrize("without", ["size=1-64,born", "live=T", "size=1-64,live=T", "size=0-100000,thread=0", "thread=1", "born"])
def test_without_blocks(tools: Tools, traces: dict[str, Path], tmp_path: Path, without: str) -> None:
    """All calls on such blocks are gone, all others are there, in order and at their times; --only has the rest. born: in the middle of the trace."""
    named = list(objects_named(events_of(tools, traces["threads"])))
    times = sorted(event.time_ns for event, _ in named)
    born = [times[len(times) // 4], times[len(times) * 3 // 4]] if "born" in without else [0, 1 << 62]
    without = without.replace("born", f"born={born[0]}ns-{born[1]}ns")
    without = without.replace("live=T", f"live={times[len(times) // 2]}ns")
    words = dict(word.split("=") for word in without.split(","))
    stays = {}
    for event, name in named:
        if event.time_ns <= times[len(times) // 2] and (event.makes or event.ends):
            stays[name] = event.makes
    low, high = (int(size) for size in words.get("size", f"0-{1 << 62}").split("-"))
    gone: set[int] = set()
    expected, others = [], []
    for event, name in named:
        if event.makes and low <= event.size_bytes <= high and born[0] <= event.time_ns <= born[1] and \
                words.get("thread", str(event.thread)) == str(event.thread) and ("live" not in words or stays.get(name)):
            gone.add(name)
        (others if name in gone else expected).append((event.time_ns, event.function, event.variant, event.size))
    found = slice_of(tools, traces["threads"], tmp_path / "s.bin", "--without", without)
    assert [(e.time_ns, e.function, e.variant, e.size) for e in found] == expected and gone
    assert tools.info(tmp_path / "s.bin")["anomalies"] == tools.info(traces["threads"])["anomalies"]
    rest = slice_of(tools, traces["threads"], tmp_path / "o.bin", "--only", without)
    assert [(e.time_ns, e.function, e.variant, e.size) for e in rest] == others


@pytest.mark.parametrize("words", [["--only", "live=1s,live=2s"], ["--only", ""], ["--without", "size=2-1"], ["--without", "live=soon"],
                                   ["--without", "size=1", "--only", "size=2"]])
def test_blocks_that_are_named_badly(tools: Tools, traces: dict[str, Path], tmp_path: Path, words: list[str]) -> None:
    done = run([tools.heaptape, "slice", *words, "-o", tmp_path / "s.bin", traces["threads"]])
    assert done.returncode == 2 and b"expected" in done.stderr and not (tmp_path / "s.bin").exists()


@pytest.mark.parametrize("words", [["--threads", "77"], ["--without", "thread=77"], ["--only", "size=1-64,thread=77"]])
def test_a_thread_that_the_trace_does_not_have(tools: Tools, traces: dict[str, Path], tmp_path: Path, words: list[str]) -> None:
    done = run([tools.heaptape, "slice", *words, "-o", tmp_path / "s.bin", traces["threads"]])
    assert done.returncode == 1 and b": there is no thread 77: the trace has " in done.stderr and not (tmp_path / "s.bin").exists()


@pytest.mark.parametrize("at_ns,expected", [
    (500, [(0, 20, 0, 4), (0, 20, 30, 16), (500, 40, 0, 4), (500, 40, 30, 20), (500, 40, 60, 16)]),  # half of them, by time
    (1000, [(0, 40, 0, 4), (0, 40, 30, 20), (0, 40, 60, 16)]),
    (2000, [(0, 40, 0, 4), (0, 40, 30, 20), (0, 40, 60, 16)]),
])
def test_which_pages_a_block_has_where_the_slice_begins(tools: Tools, tmp_path: Path, at_ns: int,
                                                        expected: list[tuple[int, ...]]) -> None:
    """It was filled in three runs, of which the trace knows from 1000 ns on."""
    block, other = naive_writer.Event(1, slot=1, size=1 << 20), naive_writer.Event(1, slot=2, size=8, time=3000)
    spec = naive_writer.TraceSpec([block, other], residency=[(0, 0, 40)], threads=[(7, 0, 0, 2, 3000, 0, "main")],
                                  steps=[(0, 1000, 40, first, pages) for first, pages in ((0, 4), (30, 20), (60, 16))])
    (tmp_path / "t.bin").write_bytes(naive_writer.build(spec)[0])
    slice_of(tools, tmp_path / "t.bin", tmp_path / "s.bin", "--from-time", f"{at_ns}ns")
    with read_trace(tmp_path / "s.bin") as piece:
        steps = piece.residency_steps[["time_ns", "pages", "first_page", "run_pages"]]
    assert [tuple(row) for row in steps.to_numpy().tolist()] == expected


@pytest.mark.parametrize("from_words", [["--from-time", "1000ns"], ["--from-event", "1"]])
@pytest.mark.parametrize("runs", [((0, 0), (0, 0)), ((0, 20), (0, 40)), ((0, 0), (30, 40))])
def test_pages_seen_at_the_time_of_the_cut_are_kept_once(tools: Tools, tmp_path: Path, from_words: list[str],
                                                         runs: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Also where the block's pages were seen before. runs: the first page and the pages, at both times."""
    block, other = naive_writer.Event(1, slot=1, size=1 << 20), naive_writer.Event(1, slot=2, size=8, time=1000)
    spec = naive_writer.TraceSpec([block, other], residency=[(0, 0, 40)], threads=[(7, 0, 0, 2, 3000, 0, "main")],
                                  steps=[(0, 500, 20, *runs[0]), (0, 1000, 40, *runs[1])])
    (tmp_path / "t.bin").write_bytes(naive_writer.build(spec)[0])
    slice_of(tools, tmp_path / "t.bin", tmp_path / "s.bin", *from_words)
    with read_trace(tmp_path / "s.bin") as piece:
        steps = piece.residency_steps[["time_ns", "pages", "first_page", "run_pages"]]
    assert [tuple(row) for row in steps.to_numpy().tolist()] == [(0, 40, *runs[1])]


MS = 1_000_000


@pytest.fixture
def two_workers(tmp_path: Path) -> Path:
    """Two threads that free their own blocks alone, and a buffer of 25 pages of which the trace says that 25 were resident
    at its end: filled in the 20 ms of CPU time that the program took until 50 ms. Nothing happens between 60 and 100 ms."""
    at = [(0, 0, 1), (1, MS, 2), (0, 2 * MS, 3), (1, 3 * MS, 4)]
    events = [naive_writer.Event(1, thread=thread, time=time, slot=slot, size=100) for thread, time, slot in at]
    events.append(naive_writer.Event(1, thread=1, time=4 * MS, slot=5, size=100 * 1024))
    events += [naive_writer.Event(5, thread=thread, time=50 * MS + time, slot=slot) for thread, time, slot in at]
    events.append(naive_writer.Event(5, thread=1, time=100 * MS, slot=5))
    samples = [(4 * MS, 4, 1 << 20, 0, 4 * MS, 1), (50 * MS, 5, 3 << 20, 0, 24 * MS, 1), (100 * MS, 9, 3 << 20, 0, 24 * MS, 1)]
    spec = naive_writer.TraceSpec(events, samples=samples, residency=[(4, 0, 25)], steps=[(4, 100 * MS, 25)],
                                  threads=[(7, 0, 0, 4, 52 * MS, 0, "main"), (8, 1, MS, 6, 100 * MS, 0, "worker")],
                                  totals={"events": 10, "records": 10, "duration_ns": 100 * MS})
    path = tmp_path / "t.bin"
    path.write_bytes(naive_writer.build(spec)[0])
    return path


def test_blocks_from_before_are_of_the_threads_that_made_them(tools: Tools, two_workers: Path, tmp_path: Path) -> None:
    piece = tmp_path / "s.bin"
    events = slice_of(tools, two_workers, piece, "--from-time", "30ms", "--to-time", "90ms")
    assert [(e.thread, e.function) for e in events] == [(0, "inherit"), (1, "inherit"), (0, "inherit"), (1, "inherit"), (1, "inherit"),
                                                        (0, "free"), (1, "free"), (0, "free"), (1, "free")]
    done = run([tools.heaptape, "stats", piece])
    assert b"\n  0 frees, 0.0 %, of blocks of other threads\n" in done.stdout
    assert b" in 5 blocks from before the slice\n" in done.stdout
    assert b"from before the slice    5\n" in run([tools.heaptape, "info", piece]).stdout
    lint = run([tools.heaptape, "lint", piece]).stdout
    assert b" block from before the slice live at the end, 102.4 kB\n" in lint


def test_a_slice_ends_when_it_was_asked_to(tools: Tools, two_workers: Path, tmp_path: Path) -> None:
    """Its samples go from its start to its end, though none was taken then."""
    piece = tmp_path / "s.bin"
    slice_of(tools, two_workers, piece, "--from-time", "30ms", "--to-time", "90ms")
    assert tools.info(piece)["duration_ns"] == 60 * MS
    with read_trace(piece) as opened:
        samples = opened.samples[["time_ns", "event", "rss_anon_bytes"]].to_numpy().tolist()
    assert samples == [[0, 5, 1 << 20], [20 * MS, 5, 3 << 20], [60 * MS, 9, 3 << 20]]
    slice_of(tools, two_workers, piece, "--from-time", "30ms", "--to-time", "200ms")
    assert tools.info(piece)["duration_ns"] == 70 * MS, "the trace ends earlier"
    slice_of(tools, two_workers, piece, "--from-time", "30ms", "--to-event", "6")
    assert tools.info(piece)["duration_ns"] == 20 * MS, "asked for an event"


@pytest.mark.parametrize("at_ms,pages", [(9, 2), (14, 5), (24, 10), (49, 24)])
def test_a_block_is_filled_while_the_program_is_busy(tools: Tools, two_workers: Path, tmp_path: Path, at_ms: int, pages: int) -> None:
    slice_of(tools, two_workers, tmp_path / "s.bin", "--from-time", f"{at_ms}ms")
    with read_trace(tmp_path / "s.bin") as piece:
        steps = piece.residency_steps[["time_ns", "pages"]].to_numpy().tolist()
    assert steps == [[0, pages], [(100 - at_ms) * MS, 25]]


# ---- preludes ----

@pytest.fixture
def holes(tmp_path: Path) -> Path:
    """Two threads, of which the second ends before the first one's last calls: each fills 8,000 blocks of 200 bytes, and frees 9
    of 10. Then the first allocates and frees now and then."""
    events, time = [], 0

    def put(function: int, thread: int, slot: int) -> None:
        nonlocal time
        time += 1000
        events.append(naive_writer.Event(function, thread=thread, time=time, slot=slot, size=200 if function == 1 else 0))

    for i in range(8000):
        for thread in (0, 1):
            put(1, thread, 1 + 2 * i + thread)
    for i in range(8000):
        for thread in (0, 1):
            if i % 10:
                put(5, thread, 1 + 2 * i + thread)
    second_ends, quiet = time, time + 1000
    for _ in range(500):
        put(1, 0, 16001)
        put(5, 0, 16001)
    calls = [sum(e.thread == thread for e in events) for thread in (0, 1)]
    spec = naive_writer.TraceSpec(events, threads=[(7, 0, 0, calls[0], time, 0, "main"), (8, 1, 0, calls[1], second_ends, 1, "second")],
                                  totals={"events": len(events), "records": len(events), "duration_ns": time})
    path = tmp_path / f"from_{quiet}.bin"
    path.write_bytes(naive_writer.build(spec)[0])
    return path


def cut(tools: Tools, trace: Path, name: str, *options: object) -> Path:
    piece = trace.parent / name
    done = run([tools.heaptape, "slice", "-q", trace, "-o", piece, *options])
    assert done.returncode == 0, done.stderr
    return piece


def from_quiet(holes: Path) -> str:
    return f"{holes.stem.removeprefix('from_')}ns"


def replayed(tools: Tools, trace: Path, *options: object) -> dict:
    results = trace.parent / "results.jsonl"
    results.unlink(missing_ok=True)
    done = run([tools.heaptape, "replay", "-q", "--alloc", "glibc", "--rounds", "1", "--seed", "1", "-o", results, *options, trace])
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return next(line for line in lines if line["allocator"]["name"] == "glibc")


def test_a_slice_replays_what_led_to_it(tools: Tools, holes: Path) -> None:
    """The same memory as at that moment of the whole trace; no call before it is counted."""
    piece = cut(tools, holes, "piece.bin", "--from-time", from_quiet(holes))
    whole, part = replayed(tools, holes, "--pass", "memory"), replayed(tools, piece, "--pass", "memory")
    assert part["trace"]["prelude"] == "whole" and part["trace"]["events"] == 1000 == tools.info(piece)["events"]
    assert whole["rss_end_bytes"] > 2e6, "ten times what is live"
    assert part["rss_end_bytes"] == pytest.approx(whole["rss_end_bytes"], rel=0.02)
    fresh = replayed(tools, cut(tools, holes, "fresh.bin", "--from-time", from_quiet(holes), "--fresh"), "--pass", "memory")
    assert fresh["trace"]["prelude"] == "none" and fresh["rss_end_bytes"] < whole["rss_end_bytes"] / 3
    assert piece.stat().st_size > 2 * (holes.parent / "fresh.bin").stat().st_size


def test_replays_of_a_fresh_heap_warn(tools: Tools, holes: Path) -> None:
    words = ["--from-time", from_quiet(holes)]
    for piece, expected in ((cut(tools, holes, "piece.bin", *words), 0), (cut(tools, holes, "fresh.bin", *words, "--fresh"), 1),
                            (cut(tools, holes, "start.bin", "--to-time", "1ms"), 0)):
        done = run([tools.heaptape, "replay", "--alloc", "null", "--rounds", "1", "--pass", "memory", piece])
        assert done.stderr.count(b"1,600 blocks from before the slice lie in a fresh heap") == expected, done.stderr


@pytest.mark.thorough
def test_slices_of_slices(tools: Tools, holes: Path) -> None:
    """One that begins where the slice does keeps its prelude; of another what led to it is not to be had."""
    piece = cut(tools, holes, "piece.bin", "--from-time", from_quiet(holes))
    for options, prelude in ((["--to-time", "100us"], "whole"), (["--from-time", "100us"], "none"), (["--threads", "0"], "none"), (["--fresh"], "none")):
        part = cut(tools, piece, "part.bin", *options)
        assert tools.info(part)["context"]["prelude"] == prelude, options
        replay = replayed(tools, part, "--pass", "memory")
        assert (replay["rss_end_bytes"] > 2e6) is (prelude == "whole"), options


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("--threads", "0"), ("--threads", "1"), ("--without", "thread=1"), ("--only", "size=100-300,thread=0")])
def test_a_prelude_is_of_the_blocks_that_the_slice_has(tools: Tools, holes: Path, options: tuple[str, str]) -> None:
    at = "12000us" if options[1] == "1" else from_quiet(holes)
    part = replayed(tools, cut(tools, holes, "part.bin", "--from-time", at, *options), "--pass", "verify")
    assert part["trace"]["prelude"] == "whole"


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("--pass", "time"), ("--pass", "both", "--verify"), ("--threads", "1"), ("--scale", "2"), ("--threads", "1", "--scale", "2"),
                                     ("--pass", "limit", "--memory-max", "64MiB"), ("--decoded-memory", "4MiB", "--pass", "both"), ("--pace", "x100")])
def test_all_kinds_of_replays_after_a_prelude(tools: Tools, traces: dict[str, Path], tmp_path: Path, options: tuple[str, ...]) -> None:
    for name in ("threads", "made"):
        whole = tools.info(traces[name])
        piece = tmp_path / "s.bin"
        slice_of(tools, traces[name], piece, "--from-event", whole["events"] // 2)
        done = run([tools.heaptape, "replay", "-q", "--alloc", "glibc,null", "--rounds", "1", *options, piece])
        assert done.returncode == 0, done.stderr


def test_copies_have_the_prelude(tools: Tools, holes: Path) -> None:
    piece = cut(tools, holes, "piece.bin", "--from-time", from_quiet(holes))
    expected = replayed(tools, piece, "--pass", "memory")["rss_end_bytes"]
    for name, words in (("shared.bin", ["share"]), ("coarse.bin", ["share", "--coarsen", "sizes=4,times=1us"])):
        copy = holes.parent / name
        assert run([tools.heaptape, *words, "-q", piece, "-o", copy]).returncode == 0
        assert tools.info(copy)["context"]["prelude"] == "whole"
        assert replayed(tools, copy, "--pass", "memory")["rss_end_bytes"] == pytest.approx(expected, rel=0.1)
