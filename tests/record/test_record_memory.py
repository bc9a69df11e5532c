# SPDX-License-Identifier: Apache-2.0
"""What a recording says of the program's heap must hold nothing that the program got elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from heaptape import read_trace
from replay_traces import imported
from tool_runner import Outcome, Recording, Tools, logs_in, run

HEAP_BYTES = 8 << 20  # tests/targets/own_kinds.c
OWN_BYTES = 24 << 20
BLOCK_BYTES = 1 << 20
SLACK_BYTES = 300 << 10  # chunk headers take 128 KiB, libc's buffers some

# What is resident beside the heap.
KINDS = {
    "reserved": OWN_BYTES,
    "mapped_over": OWN_BYTES,
    "moved": OWN_BYTES,
    "refused": OWN_BYTES,
    "populated": OWN_BYTES,
    "stacks": OWN_BYTES,
    "library": OWN_BYTES,
    "thread_maps": OWN_BYTES,
    "main_stack": 2 << 20,
    "first_thread_ends": OWN_BYTES,
    "bare_call": OWN_BYTES,
    "program_break": OWN_BYTES,
    "written_file": OWN_BYTES,
    "many_ranges": OWN_BYTES,
    "silent_stacks": OWN_BYTES,
    "undumpable": OWN_BYTES,
}
# Where the kernel reports each page by itself, these kinds cannot be distinguished.
KINDS_BY_SEARCH = {"scattered": OWN_BYTES, "only_read": 0, "comes_and_goes": OWN_BYTES, "between_calls": OWN_BYTES}


def memory_of(tools: Tools, recording: Recording, folder: Path) -> tuple[int, int]:
    """The peaks of RssAnon and of the heap's part of it."""
    assert recording.outcome == Outcome(17, b"", b"")
    info = tools.convert_clean(recording.logs[-1], folder / "t.bin")
    return info["recorded_rss_peak_bytes"], info["recorded_heap_rss_peak_bytes"]


def measured_heap_bytes(trace: Path) -> int:
    """The most of the samples for which the program's own memory was counted. Between these it is estimated: what other
    threads have filled since may pass for heap."""
    with read_trace(trace) as opened:
        samples = opened.samples[opened.samples["own_fresh"]]
    return int((samples["rss_anon_bytes"] - samples["own_rss_bytes"]).max())


def command_of(tools: Tools, kind: str) -> list[str | Path]:
    return [tools.target("own_kinds"), kind, tools.targets / "data_plugin.so"]


def searches_page_tables() -> bool:
    release = Path("/proc/sys/kernel/osrelease").read_text().split(".")
    return (int(release[0]), int(release[1].split("-")[0])) >= (6, 7)


@pytest.mark.parametrize("kind", KINDS | KINDS_BY_SEARCH)
def test_memory_beside_the_heap_is_counted_apart(tools: Tools, tmp_path: Path, kind: str) -> None:
    if kind in KINDS_BY_SEARCH and not searches_page_tables():
        pytest.skip("the kernel cannot search page tables")
    whole, heap = memory_of(tools, tools.preload(command_of(tools, kind), tmp_path / "logs"), tmp_path)
    if kind in ("stacks", "thread_maps"):
        heap = measured_heap_bytes(tmp_path / "t.bin")
    assert whole >= HEAP_BYTES + (KINDS | KINDS_BY_SEARCH)[kind]
    assert HEAP_BYTES <= heap < HEAP_BYTES + SLACK_BYTES


@pytest.mark.parametrize("kind", ["reserved", "stacks", "library"])
def test_on_a_kernel_that_does_not_search(tools: Tools, tmp_path: Path, kind: str) -> None:
    """Page by page, the figures are the same. A sandbox that was there before the program is such a kernel."""
    check_in_sandbox(tools, tmp_path, "without_search", kind)


def test_where_no_range_can_be_closed(tools: Tools, tmp_path: Path) -> None:
    """A sandbox that refuses it in its own way: the recorder goes on in the way of older kernels."""
    check_in_sandbox(tools, tmp_path, "without_close_range", "reserved")


def check_in_sandbox(tools: Tools, tmp_path: Path, sandbox: str, kind: str) -> None:
    command = [tools.target("own_kinds"), sandbox, "/usr/bin/env", f"LD_PRELOAD={tools.shim}",
               f"MALLOC_WRAP_OUT={tmp_path}", *command_of(tools, kind)]
    done = tools.preload(command, tmp_path / "logs", env={"LD_PRELOAD": ""})
    logs = sorted(tmp_path.glob("*.mraw"))
    whole, heap = memory_of(tools, Recording(done.outcome, logs), tmp_path)
    if kind == "stacks":
        heap = measured_heap_bytes(tmp_path / "t.bin")
    assert whole >= HEAP_BYTES + KINDS[kind]
    assert HEAP_BYTES <= heap < HEAP_BYTES + SLACK_BYTES


def test_threads_that_lose_the_processor(tools: Tools, tmp_path: Path) -> None:
    """A sample is of the moment at which RssAnon was read: what other threads fill before that is the heap's."""
    recording = tools.preload([tools.target("shared_processors"), tmp_path / "counts", "heap"], tmp_path / "logs")
    info = tools.convert_clean(recording.logs[-1], tmp_path / "t.bin")
    if info["recorded_heap_rss_peak_bytes"] is None:  # the processor was lost at the peak, whenever own memory was counted there
        assert info["recorded_heap_rss_low_bytes"] > 20 << 20
        return
    assert info["recorded_heap_rss_peak_bytes"] > 20 << 20
    assert info["recorded_own_peak_bytes"] < 2 << 20


def fresh_heap(tools: Tools, folder: Path, kind: str) -> pd.Series:
    """The heap's bytes in those samples that know own memory, once the threads are at work."""
    if not searches_page_tables():
        pytest.skip("the kernel cannot search page tables")
    recording = tools.preload([tools.target("shared_processors"), folder / "counts", kind], folder / "logs")
    tools.convert_clean(recording.logs[-1], folder / "t.bin")
    with read_trace(folder / "t.bin") as trace:
        samples = trace.samples
    return samples["heap_rss_bytes"][samples["own_fresh"] & (samples["event"] >= 20_000)]


@pytest.mark.thorough
def test_own_memory_of_threads_that_lose_the_processor(tools: Tools, tmp_path: Path) -> None:
    """It is counted at the moment at which RssAnon is read, with what the kernel is about to unmap, or it is not fresh."""
    off = pd.Series(dtype=float)
    for run_number in range(4):  # a sample waits for a multiple of what the last one took: few where page faults are dear
        (folder := tmp_path / str(run_number)).mkdir()
        heap = fresh_heap(tools, folder, "maps")
        off = pd.concat([off, (heap - heap.iloc[-1]).abs()])  # at the end there is nothing else
        if len(off) > 20:
            break
    else:
        pytest.skip(f"this machine takes {len(off)} samples in four runs: too few to judge by")
    assert (off < 1 << 20).mean() > 0.75, off.describe()


@pytest.mark.thorough
def test_own_memory_that_the_kernel_is_at_work_on(tools: Tools, tmp_path: Path) -> None:
    """While another thread moves its memory, or has it filled by mmap, no count can find it: then none is fresh."""
    heap = fresh_heap(tools, tmp_path, "moves")
    assert len(heap) > 2
    assert heap.max() - heap.iloc[-1] < 1 << 20, heap.describe()


def test_block_that_no_allocation_follows_is_in_the_peak(tools: Tools, tmp_path: Path) -> None:
    whole, heap = memory_of(tools, tools.preload(command_of(tools, "late_block"), tmp_path / "logs"), tmp_path)
    assert HEAP_BYTES + BLOCK_BYTES <= heap < HEAP_BYTES + BLOCK_BYTES + SLACK_BYTES


def test_blocks_of_some_pages_that_are_not_used_take_none_in_replay(tools: Tools, tmp_path: Path) -> None:
    _, heap = memory_of(tools, tools.preload(command_of(tools, "unused_blocks"), tmp_path / "logs"), tmp_path)
    runs = tools.replay(tmp_path / "t.bin", "glibc", tmp_path / "r.jsonl", "--pass", "memory")
    peaks = [run["rss_peak_bytes"] for run in runs if run["allocator"]["name"] == "glibc"]
    assert peaks and all(0.95 * heap < peak < 1.1 * heap for peak in peaks)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["comes_and_goes", "between_calls"])
def test_the_process_peaks_where_its_own_memory_does(tools: Tools, tmp_path: Path, kind: str) -> None:
    """Between two events, too: RSS is read at the recorder's samples."""
    if not searches_page_tables():
        pytest.skip("the kernel cannot search page tables")
    whole, _ = memory_of(tools, tools.preload(command_of(tools, kind), tmp_path / "logs"), tmp_path)
    runs = tools.replay(tmp_path / "t.bin", "glibc", tmp_path / "r.jsonl", "--pass", "memory", "--rounds", "1")
    peaks = [run["process_rss_peak_bytes"] for run in runs if run["allocator"]["name"] == "glibc"]
    assert peaks and all(whole - SLACK_BYTES < peak < whole + SLACK_BYTES for peak in peaks)


@pytest.mark.parametrize("who", [[], ["child"]])
def test_memory_that_was_mapped_before_the_first_call(tools: Tools, tmp_path: Path, who: list[str]) -> None:
    """Given back, it is neither the program's any more, nor is the heap that takes its addresses."""
    recording = tools.preload([tools.target("early_maps"), *who], tmp_path / "logs")
    assert recording.outcome == Outcome(17, b"", b"")
    traces = [tools.convert(log, tmp_path / f"{i}.bin") for i, log in enumerate(recording.logs)]
    [trace] = [trace for trace in traces if tools.info(trace)["peak_live_bytes"] >= HEAP_BYTES]
    with read_trace(trace) as opened:
        last = opened.samples.iloc[-1]
    assert last["own_rss_bytes"] < BLOCK_BYTES and last["heap_rss_bytes"] >= HEAP_BYTES - BLOCK_BYTES


@pytest.mark.thorough
@pytest.mark.parametrize("words", [[], ["in_child"]])
def test_own_memory_of_a_process_that_changes_its_user(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    """The kernel shows it its page tables no more; what it maps is still told from its heap."""
    if os.geteuid():
        pytest.skip("only root becomes another user")
    folder = tmp_path / "logs"
    folder.mkdir()
    for above in (folder, tmp_path, *tmp_path.parents[: len(tmp_path.parents) - 2]):
        above.chmod(above.stat().st_mode | 0o011)
    folder.chmod(0o777)
    done = run([tools.heaptape, "record", "-q", "-o", folder, "--", tools.target("changes_user"), *words])
    assert done.returncode == 0, done.stderr
    trace = tools.convert(max(logs_in(folder), key=lambda log: log.stat().st_size), tmp_path / "t.bin")
    found = json.loads(tools.succeed([tools.heaptape, "info", "--json", trace]).stdout)
    assert 31 << 20 <= found["recorded_own_peak_bytes"] <= 34 << 20 and found["recorded_rss_peak_bytes"] >= 34 << 20


def test_a_sudden_exit_is_sampled(tools: Tools, tmp_path: Path) -> None:
    """The program fills a block after its last call, rests and ends by _exit."""
    logs = tmp_path / "logs"
    logs.mkdir()
    recording = tools.preload([tools.target("exit_quick"), tmp_path / "counts", "fills"], logs)
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    assert tools.info(trace)["recorded_rss_peak_bytes"] > 20 << 20


# ---- Of which large blocks it is measured how much is touched.

MEGABYTE = 1 << 20


def measured(tools: Tools, folder: Path, *words: int) -> Counter[int]:
    """How many blocks of each size have their residency in the trace."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    recording = tools.preload([tools.target("hardly_touched"), *words], folder / "logs")
    assert recording.outcome.status == 0
    tools.convert_clean(recording.logs[0], folder / "t.bin")
    lines = tools.dump(folder / "t.bin")
    with read_trace(folder / "t.bin") as trace:
        births = trace.residency["birth_event"].tolist()
    return Counter(int(re.search(r"\((\d+)\)", lines[birth])[1]) for birth in births)  # type: ignore[index]


@pytest.mark.parametrize("size", [20_000, MEGABYTE])
def test_few_are_measured_where_calls_follow_each_other(tools: Tools, tmp_path: Path, size: int) -> None:
    blocks = 200_000
    assert 10 < measured(tools, tmp_path, blocks, size, 4096)[size] < blocks / 5


def test_all_are_measured_where_time_passes(tools: Tools, tmp_path: Path) -> None:
    assert measured(tools, tmp_path, 40, MEGABYTE, 4096, 2000)[MEGABYTE] == 40


def test_larger_ones_come_first(tools: Tools, tmp_path: Path) -> None:
    """One in 4,000 is larger, and written whole: that takes a hundred times what measuring takes."""
    found = measured(tools, tmp_path, 100_000, 100_000, 4096, 0, 4_000, 16 * MEGABYTE)
    assert found[16 * MEGABYTE] > 20 and found[100_000] < 50_000


def test_what_was_resident_before_a_free_is_no_later_than_it(tools: Tools, tmp_path: Path) -> None:
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    recording = tools.preload([tools.target("hardly_touched"), 20, 16 * MEGABYTE, 16 * MEGABYTE, 2000], tmp_path / "logs")
    tools.convert_clean(recording.logs[0], tmp_path / "t.bin")
    with read_trace(tmp_path / "t.bin") as trace:
        times = [time for chunk in trace.events() for time in chunk["time_ns"].tolist()]
        samples = trace.samples
    before_events = samples[samples["event"] < len(times)]
    assert (samples["rss_anon_bytes"] > 16 * MEGABYTE).sum() >= 2
    assert all(time <= times[event] for time, event in zip(before_events["time_ns"], before_events["event"], strict=True))


# ---- A large block that the program filled bit by bit is recorded so, and touched so by a replay.

FILLED_BYTES = 32 << 20  # tests/targets/slow_fill.c
PAGES = FILLED_BYTES // 4096


def recorded(tools: Tools, folder: Path, kind: str) -> Path:
    recording = tools.preload([tools.target("slow_fill"), kind], folder / "logs")
    assert recording.outcome == Outcome(18, b"", b"")
    tools.convert_clean(recording.logs[0], folder / "t.bin")
    return folder / "t.bin"


def mean_rss(tools: Tools, trace: Path, *more: str) -> float:
    """As a share of the block, of glibc's replay."""
    results = trace.with_suffix(".jsonl")
    results.unlink(missing_ok=True)
    rows = tools.replay(trace, "glibc", results, "--pass", "memory", *more)
    [row] = [row for row in rows if row["allocator"]["name"] == "glibc"]
    return row["rss_mean_bytes"] / FILLED_BYTES


def filled(trace: Path, begin_ns: float, end_ns: float) -> tuple[float, float]:
    """Of the first block, from the trace's own steps, whatever the pace at which the program filled it: the mean share in
    a part of the time, or at a moment, and by how much it may be off, as what is filled between two steps was so at any
    time between them: much where the machine halted the program."""
    numpy = pytest.importorskip("numpy")
    with pytest.importorskip("heaptape.trace.reader").read_trace(trace) as opened:
        born = opened.residency[opened.residency["birth_event"] == 0]["pages_at_birth"].iloc[0]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == 0]
    times, pages = numpy.array([0, *steps["time_ns"]]), numpy.array([born, *steps["pages"]])
    moments = numpy.linspace(begin_ns, end_ns, 10_000)
    before = pages[numpy.searchsorted(times, moments, "right") - 1]
    after = pages[numpy.minimum(numpy.searchsorted(times, moments), len(pages) - 1)]
    return numpy.interp(moments, times, pages).mean() / PAGES, (after - before).mean() / 2 / PAGES


def expected_mean(tools: Tools, trace: Path, kind: str) -> tuple[float, float]:
    """And by how much it may be off. As the steps say, or evenly: where no call shows how, filling took the time in which
    the program had a processor; other programs may have had it for the rest."""
    info = tools.info(trace)
    if kind == "calls":
        return filled(trace, 0, info["duration_ns"])
    return 1 - min(info["recorded_cpu_ns"] / info["duration_ns"], 1) / 2, 0


@pytest.mark.parametrize("kind", ["calls", "silent", "sleeps"])
def test_filled_as_recorded(tools: Tools, tmp_path: Path, kind: str) -> None:
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    trace = recorded(tools, tmp_path, kind)
    with read_trace(trace) as opened:
        [birth] = opened.residency[opened.residency["pages_at_end"] >= PAGES]["birth_event"]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == birth]
    assert PAGES <= steps["pages"].iloc[-1] <= PAGES + 1 and steps["pages"].is_monotonic_increasing
    # A reading of the pages waits until the program has run a multiple of what the last one took: few where it is dear.
    assert len(steps) > 5 if kind == "calls" else len(steps) == 1
    expected, doubt = expected_mean(tools, trace, kind)
    assert mean_rss(tools, trace) == pytest.approx(expected, abs=0.2 + doubt)


@pytest.mark.thorough
def test_filled_where_the_program_did(tools: Tools, tmp_path: Path) -> None:
    """A block's second half, from its end on: when the first half is all that is kept, nothing of it is left."""
    trace = recorded(tools, tmp_path, "downward")
    with pytest.importorskip("heaptape.trace.reader").read_trace(trace) as opened:
        [birth] = opened.residency[opened.residency["pages_at_end"] >= PAGES / 2]["birth_event"]
        steps = opened.residency_steps[opened.residency_steps["birth_event"] == birth]
    last = steps[steps["pages"] == steps["pages"].max()]
    assert last["run_pages"].sum() == last["pages"].iloc[0] >= PAGES / 2
    assert last["first_page"].max() + last["run_pages"].iloc[-1] >= PAGES
    piece = tmp_path / "late.bin"
    tools.succeed([tools.heaptape, "slice", trace, "--from-time", f"{int(steps['time_ns'].median())}ns", "-o", piece])
    for half in (trace, piece):
        rows = tools.replay(half, "glibc", tmp_path / f"{half.stem}.jsonl", "--pass", "memory", "--rounds", "1")
        [row] = [row for row in rows if row["allocator"]["name"] == "glibc"]
        assert row["rss_peak_bytes"] == pytest.approx(FILLED_BYTES / 2, rel=0.02)
        assert row["rss_end_bytes"] < FILLED_BYTES / 32


@pytest.mark.thorough
def test_other_passes_know_of_it(tools: Tools, tmp_path: Path) -> None:
    """What is untouched falls with each portion; all of it is there when asked for; patterns are checked to the end."""
    trace = recorded(tools, tmp_path, "silent")
    rows = tools.replay(trace, "glibc", tmp_path / "r.jsonl", "--verify")
    [memory] = [row for row in rows if row["pass"] == "memory" and row["allocator"]["name"] == "glibc"]
    assert memory["decomposition"]["peak"]["untouched_bytes"] < FILLED_BYTES / 16
    assert mean_rss(tools, trace, "--touch", "pages") > 0.9
    twice = mean_rss(tools, trace, "--scale", "2", "--threads", "1")
    assert twice == pytest.approx(2 * expected_mean(tools, trace, "silent")[0], abs=0.4)


@pytest.mark.thorough
def test_a_slice_begins_where_the_block_was(tools: Tools, tmp_path: Path) -> None:
    """From the middle on it is filled from about half to whole; up to there, from nothing to half."""
    trace = recorded(tools, tmp_path, "calls")
    end_ns = tools.info(trace)["duration_ns"]
    for name, option, begin, end in (("early", "--to-time", 0, 0.5), ("late", "--from-time", 0.5, 1)):
        piece = tmp_path / f"{name}.bin"
        tools.succeed([tools.heaptape, "slice", trace, option, f"{end_ns // 2}ns", "-o", piece])
        at_begin, _ = filled(trace, begin * end_ns, begin * end_ns)
        assert filled(piece, 0, 0)[0] == pytest.approx(at_begin, abs=0.01)
        expected, doubt = filled(trace, begin * end_ns, end * end_ns)
        assert mean_rss(tools, piece) == pytest.approx(expected, abs=0.08 + doubt), name


@pytest.mark.parametrize(("size", "touched"), [(30_000, True), (200_000, False)])
def test_blocks_of_calloc_of_which_nothing_is_known(tools: Tools, tmp_path: Path, size: int, touched: bool) -> None:
    """A program uses what it asks calloc for, but of large blocks perhaps little."""
    lines = [f"1: calloc 0x{(i + 1) << 20:x} 1 {size}" for i in range(FILLED_BYTES // size)]
    trace = imported(tools, tmp_path / "t.bin", "\n".join(lines) + "\n", "android")
    [row] = [row for row in tools.replay(trace, "glibc", tmp_path / "r.jsonl", "--pass", "memory")
             if row["allocator"]["name"] == "glibc"]
    assert (row["rss_peak_bytes"] > 0.95 * FILLED_BYTES) == touched
    assert (row["decomposition"]["peak"]["untouched_bytes"] < 0.05 * FILLED_BYTES) == touched


# ---- A program whose memory is mostly not from malloc: every verb says so before anything else, and none of ordinary ones.

WORDS = "most of this program's memory does not come from malloc"
UNSEEN = [["64", "1"], ["64", "1", "bare"]]
SEEN = [["64", "32"], ["1", "64"], ["4", "0"]]


def said_by_record(tools: Tools, folder: Path, *options: str | Path, program: list[str]) -> list[str]:
    done = run([tools.heaptape, "record", "-o", folder, *options, "--", tools.target("mmap_own"), *program])
    assert done.returncode == 17, done.stderr
    return [line for line in done.stderr.decode().splitlines() if WORDS in line]


def the_trace(tools: Tools, folder: Path) -> Path:
    [log] = folder.glob("*.mraw")
    done = tools.succeed([tools.heaptape, "convert", log, "-o", folder / "t.bin"])
    assert WORDS in done.stderr.decode()
    return folder / "t.bin"


@pytest.mark.parametrize("program", UNSEEN, ids=" ".join)
@pytest.mark.parametrize("options", [[], ["-q"], ["--convert"], ["-q", "--convert"]], ids=" ".join)
def test_record(tools: Tools, tmp_path: Path, program: list[str], options: list[str]) -> None:
    said = said_by_record(tools, tmp_path, *options, program=program)
    assert len(said) == 1 and said[0].startswith("heaptape record: warning: "), said


@pytest.mark.parametrize("program", SEEN, ids=" ".join)
def test_record_of_an_ordinary_program(tools: Tools, tmp_path: Path, program: list[str]) -> None:
    assert said_by_record(tools, tmp_path / "raw", program=program) == []
    assert said_by_record(tools, tmp_path / "traces", "--convert", program=program) == []
    [trace] = (tmp_path / "traces").glob("*.bin")
    assert tools.info(trace)["mostly_unseen"] is False
    assert WORDS not in tools.succeed([tools.heaptape, "info", trace]).stdout.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("program", UNSEEN, ids=" ".join)
def test_all_that_reads_the_trace(tools: Tools, tmp_path: Path, program: list[str]) -> None:
    (recorded,) = said_by_record(tools, tmp_path, program=program)
    trace = the_trace(tools, tmp_path)
    first, *_ = tools.succeed([tools.heaptape, "info", trace]).stdout.decode().splitlines()
    sentence = first.removeprefix("caution: ")
    assert WORDS in sentence and sentence in recorded  # the log has the same figures as the trace
    info = tools.info(trace)
    assert info["mostly_unseen"] is True
    assert 1 << 20 <= info["recorded_explained_bytes"] < 3 << 20

    results = tmp_path / "r.jsonl"
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "2", "--alloc", "again=glibc", trace, "-o", results])
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode().splitlines()
    assert out[0] == first
    assert all("of malloc's part alone" in line for line in out if "fastest:" in line or "smallest peak:" in line)
    assert done.stderr.decode().splitlines()[0].startswith(f"heaptape replay: warning: {sentence}")
    reported = json.loads(results.read_text().splitlines()[0])["trace"]
    assert reported["explained_bytes"] == info["recorded_explained_bytes"]
    assert reported["rss_peak_bytes"] == info["recorded_rss_peak_bytes"]
    assert reported["own_bytes"] == info["recorded_own_peak_bytes"]
    compared = tools.succeed([tools.heaptape, "compare", results]).stdout.decode().splitlines()
    assert compared[0] == f"Caution: {sentence}." and compared[-1].startswith(f"{compared[0]} Of malloc's part alone: ")


@pytest.mark.thorough
def test_replay_for_machines(tools: Tools, tmp_path: Path) -> None:
    said_by_record(tools, tmp_path, program=UNSEEN[0])
    done = tools.succeed([tools.replay_program, "--json", "--alloc", "glibc", "--rounds", "2", the_trace(tools, tmp_path)])
    found = json.loads(done.stdout)
    assert found["warnings"][0]["kind"] == "mostly_unseen" and WORDS in found["warnings"][0]["message"]
    assert 1 << 20 <= found["recorded"]["explained_bytes"] < 3 << 20


def test_memory_of_before_the_recording_is_no_stranger(tools: Tools, tmp_path: Path) -> None:
    """What the program got from malloc before its recording began is not called another's, and the heap is unknown."""
    script = "import time; a = [bytes(1000) for _ in range(50000)]; time.sleep(1.5); b = [bytes(700) for _ in range(1000)]"
    done = run([tools.heaptape, "record", "-o", tmp_path, "--start", "1", "--", "/usr/bin/python3", "-c", script])
    assert done.returncode == 0, done.stderr
    assert WORDS not in done.stderr.decode()
    trace = tools.convert(next(tmp_path.glob("*.mraw")), tmp_path / "t.bin")
    info = json.loads(tools.succeed([tools.heaptape, "info", "--json", trace]).stdout)
    assert info["recorded_heap_rss_peak_bytes"] is None and info["recorded_own_peak_bytes"] is None
    assert info["recorded_heap_rss_low_bytes"] < 10 << 20 and info["recorded_heap_rss_high_bytes"] > 50_000_000
    assert b"in the heap            unknown: " in tools.succeed([tools.heaptape, "info", trace]).stdout
    found = json.loads(tools.succeed([tools.replay_program, "--json", "--alloc", "glibc", "--pass", "memory", "--rounds", "1", trace]).stdout)
    assert found["warnings"][0]["kind"] == "unknown_heap" and found["baseline_check"] is None
    assert found["recorded"]["heap_peak_bytes"] is None and found["recorded"]["heap_high_bytes"] > 50_000_000
