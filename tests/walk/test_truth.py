# SPDX-License-Identifier: Apache-2.0
"""truth.py's blocks of a killed program are those that the program itself says it has."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tool_runner import Tools, clean_environment, logs_in, parent_pid
from truth import Log, live_blocks, touched_between
from waiting import read_line

# The program, its words, and how many threads it starts: glibc has a block for each, which the program does not know of.
PROGRAMS = {
    "pin": ("heap_shapes", ["pin", "3"], 0),
    "aligned": ("heap_shapes", ["aligned", "10"], 0),  # realloc, memalign, posix_memalign, mapped blocks
    "forked": ("thread_heaps", ["forked", "5", "4"], 4),  # a child that inherits the blocks of threads
    "unpaged": ("odd_breaks", ["unpaged", "3"], 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_blocks_of_a_killed_program(tools: Tools, tmp_path: Path, name: str) -> None:
    program, words, threads = PROGRAMS[name]
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(tmp_path)})
    with subprocess.Popen([tools.build / "tests" / "walk" / program, *words, tmp_path / "list"], env=environment,
                          stdout=subprocess.PIPE) as process:
        ready = read_line(process.stdout)
        process.send_signal(signal.SIGKILL)  # a child ends with it
    listed = {int(address, 16): int(size) for address, size in (line.split(",") for line in (tmp_path / "list").read_text().split())}
    assert ready.split()[:3] == [b"ready", str(len(listed)).encode(), str(sum(listed.values())).encode()]
    log = max(logs_in(tmp_path), key=lambda path: parent_pid(path) == process.pid)
    live = live_blocks(Log(log).events())
    assert {address: live.get(address) for address in listed} == listed
    unknown = Counter(size for address, size in live.items() if address not in listed)
    assert len(unknown) <= 1 and unknown.total() <= threads, unknown


def test_blocks_at_a_moment(tools: Tools, tmp_path: Path) -> None:
    """Of a busy program: as many are live at each moment, and what was not touched between two is in both."""
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(tmp_path)})
    with subprocess.Popen([tools.build / "tests" / "walk" / "busy_heap", "2", "2000", "100000"], env=environment,
                          stdout=subprocess.PIPE) as process:
        read_line(process.stdout)
        moments = []
        for _ in range(3):
            time.sleep(0.1)
            moments.append(time.monotonic_ns())
        process.send_signal(signal.SIGKILL)
    log = Log(*logs_in(tmp_path))
    events = log.events()
    stamps = [log.stamp_at(moment) for moment in moments]
    live = [live_blocks(events, stamp) for stamp in stamps]
    for blocks in live:
        assert 2000 - 2 <= len(blocks) - 2 <= 2000  # each thread may be between free and malloc; glibc has one of its own for each
    assert touched_between(events, stamps[0], stamps[-1])
    for i in range(len(stamps) - 1):
        touched = touched_between(events, stamps[i], stamps[i + 1])
        untouched = [{block for block in blocks.items() if block[0] not in touched} for blocks in live[i:i + 2]]
        assert untouched[0] == untouched[1]
