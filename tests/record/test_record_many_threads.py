# SPDX-License-Identifier: Apache-2.0
"""Ten thousand threads: what the recorder takes of memory and disk for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import Compared, compare, disk_bytes
from tool_runner import Tools

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
