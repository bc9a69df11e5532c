# SPDX-License-Identifier: Apache-2.0
"""What it costs to measure how much of a large block is touched, and which blocks are measured."""

from __future__ import annotations

import re
import resource
from collections import Counter
from pathlib import Path

import pytest

from tool_runner import Tools, run

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


def cpu_s(command: list) -> tuple[float, bytes]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def test_the_printed_cost_is_not_exceeded(tools: Tools, tmp_path: Path) -> None:
    """Of three runs each the least: what other programs do comes on top. Without what `record` takes itself."""
    target, record = tools.target("hardly_touched"), [tools.heaptape, "record", "-o", tmp_path, "--"]
    program = [target, "100000", str(MEGABYTE), "4096"]
    alone_s = min(cpu_s(program)[0] for _ in range(3))
    nothing_s = min(cpu_s([*record, target, "1", "100", "1"])[0] for _ in range(3))
    recorded = [cpu_s([*record, *program]) for _ in range(3)]
    seconds, printed = {b"s": 1.0, b"us": 1e-6}, []
    for _, said in recorded:
        found = re.search(rb"recording cost at least (\S+) (u?s) of CPU \(\d+ ns a call\), and at most (\S+) (u?s) more", said)
        assert found, said
        printed.append(float(found[1]) * seconds[found[2]] + float(found[3]) * seconds[found[4]])
    assert min(spent for spent, _ in recorded) - alone_s - nothing_s < max(printed) < 0.1
