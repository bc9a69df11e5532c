# SPDX-License-Identifier: Apache-2.0
"""What a recording says of the program's heap must hold nothing that the program got elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from heaptape import read_trace
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
