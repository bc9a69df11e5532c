# SPDX-License-Identifier: Apache-2.0
"""Threads that free and reallocate each other's blocks: nothing lost, nothing out of order."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import Compared, compare, disk_bytes
from tool_runner import Tools, clean_environment


def counts_between_markers(tools: Tools, trace: Path) -> list[dict[str, int]]:
    """Calls per function of every thread that set markers, counted from the dump in a pipe."""
    dump = subprocess.Popen([tools.heaptape, "dump", "--no-time", trace], stdout=subprocess.PIPE,
                            env=clean_environment())
    count = subprocess.run([tools.target("count_dump_lines")], stdin=dump.stdout,
                           capture_output=True, check=False, timeout=120)
    assert dump.stdout is not None
    dump.stdout.close()
    assert dump.wait(timeout=60) == 0 and count.returncode == 0, count.stderr
    return [thread["calls"] for thread in json.loads(count.stdout)]


def in_any_order(threads: list[dict[str, int]]) -> list[list[tuple[str, int]]]:
    """Threads of the trace are numbered by first event, the program's by creation. Where another thread's free overtook a
    realloc the converter ends the new block by a drop, which is no call; unexplained ones are anomalies, and checked as such."""
    return sorted(sorted((name, n) for name, n in calls.items() if n and name != "drop") for calls in threads)


def record_and_compare(tools: Tools, folder: Path, name: str, calls: int, seed: int) -> dict:
    counted_file = folder / "counted.json"
    command = [tools.target(name), counted_file, str(calls), "4", str(seed)]
    recording = tools.preload(command, folder / "logs", timeout=600)
    assert recording.outcome.status == 0, recording.outcome.stderr
    assert len(recording.logs) == 1
    info = tools.convert_clean(recording.logs[0], folder / "t.bin")
    counted = json.loads(counted_file.read_text())
    assert counted["total"] >= calls
    assert in_any_order(counts_between_markers(tools, folder / "t.bin")) == in_any_order(
        [thread["calls"] for thread in counted["threads"]])
    assert info["threads"] == 5
    # Outside the markers there are libc's own calls, a few for each thread, and nothing else.
    assert 0 <= info["events"] - counted["total"] < 200
    return info


@pytest.mark.parametrize("allocator", quick(["", "_jemalloc"], ["", "_jemalloc", "_tcmalloc", "_mimalloc"]))
@pytest.mark.parametrize("seed", quick([1], [1, 2]))
def test_exchange(tools: Tools, tmp_path: Path, allocator: str, seed: int) -> None:
    record_and_compare(tools, tmp_path, f"threads_exchange{allocator}", 400_000, seed)


@pytest.mark.slow
@pytest.mark.parametrize("allocator", ["", "_jemalloc", "_tcmalloc", "_mimalloc"])
@pytest.mark.parametrize("repetition", range(20))
def test_exchange_24_million(tools: Tools, tmp_path: Path, allocator: str, repetition: int) -> None:
    info = record_and_compare(tools, tmp_path, f"threads_exchange{allocator}", 24_000_000,
                              repetition + 100)
    print(f"{info['events']} events, {info['repairs']} repairs")
    for path in [tmp_path / "t.bin", *(tmp_path / "logs").iterdir()]:
        path.unlink()  # pytest keeps folders; 80 of these would fill a disk


@pytest.mark.thorough
def test_slots_stay_near_the_peak(tools: Tools, tmp_path: Path) -> None:
    info = record_and_compare(tools, tmp_path, "threads_exchange", 400_000, 3)
    assert info["slots"] <= 1.25 * info["peak_live_objects"] + 64 * info["threads"]


def test_threads_keep_their_kernel_ids(tools: Tools, tmp_path: Path) -> None:
    """Each thread's calls under the id that the kernel gave it, as the Python reader has them."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    record_and_compare(tools, tmp_path, "threads_exchange", 100_000, 4)
    counted = json.loads((tmp_path / "counted.json").read_text())["threads"]
    with read_trace(tmp_path / "t.bin") as trace:
        recorded = dict(zip(trace.threads["tid"], trace.threads["calls"], strict=True))
    own = {thread["tid"]: sum(thread["calls"].values()) for thread in counted}
    assert set(recorded) == set(own)
    # The markers make four calls; libc makes some when a thread begins and ends.
    assert all(4 <= recorded[tid] - own[tid] < 100 for tid in own)


# ---- Ten thousand threads: what the recorder takes of memory and disk for them.

THREADS = {"joined": 10_000, "detached": 1_000}  # targets/many_threads.c
MEMORY_ADDED_MAX_KIB = 32 << 10
DISK_PER_THREAD_MAX_BYTES = 4096


def run_threads(tools: Tools, folder: Path, mode: str, status: int) -> Compared:
    compared = compare(tools, folder, lambda counts: [
        tools.target("many_threads"), counts, mode, counts.with_suffix(".report")])
    assert compared.recording.outcome.status == status
    compared.assert_whole(processes=1)
    return compared


@pytest.mark.parametrize("mode,status", quick(["detached"], [("joined", 110), ("detached", 111)]))
def test_memory_and_disk(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """Resident memory of all kinds as the program itself reads it, and the blocks of the log."""
    compared = run_threads(tools, tmp_path, mode, status)
    alone = int((tmp_path / "alone.report").read_text())
    recorded = int((tmp_path / "counts.report").read_text())
    print(f"{mode}: {alone} KiB alone, {recorded} KiB recorded")
    assert recorded - alone <= MEMORY_ADDED_MAX_KIB
    [log] = compared.recording.logs
    # A thread's few calls fit into its first chunk; the header and the main thread come on top.
    assert disk_bytes(log) <= THREADS[mode] * DISK_PER_THREAD_MAX_BYTES + (2 << 20)


def test_each_thread_is_one(tools: Tools, tmp_path: Path) -> None:
    """Detached threads, each under its id and with the name that it gave itself."""
    read_trace = pytest.importorskip("heaptape.trace.reader").read_trace
    compared = run_threads(tools, tmp_path, "detached", 111)
    with read_trace(tmp_path / f"{compared.recording.logs[0].stem}.bin") as trace:
        names = list(trace.threads["name"])
    assert len(names) == 1 + THREADS["detached"]
    assert sorted(name for name in names if name.startswith("worker ")) == sorted(
        f"worker {i}" for i in range(THREADS["detached"]))
