# SPDX-License-Identifier: Apache-2.0
"""heaptape dump of a part: the same lines as in the whole; and what info says of slices."""

from __future__ import annotations

from pathlib import Path

import pytest
from tool_runner import Tools, run


def lines(tools: Tools, trace: Path, *options: str) -> list[str]:
    return tools.succeed([tools.heaptape, "dump", trace, *options]).stdout.decode().splitlines()


@pytest.fixture(scope="module")
def made(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sections, five threads, an event each 100 ns."""
    trace = tmp_path_factory.mktemp("dump") / "made.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "200000", "300", "5", "3"])
    return trace


@pytest.mark.thorough
def test_ranges(tools: Tools, made: Path) -> None:
    whole = lines(tools, made)
    assert len(whole) == 200_000
    for first, last in ((0, 10), (65_536, 65_537), (65_530, 131_080), (199_999, 200_000)):
        events = ["--from-event", str(first), "--to-event", str(last)]
        assert lines(tools, made, *events) == whole[first:last]
        times = ["--from-time", f"{first / 10}us", "--to-time", f"{last * 100}ns"]
        assert lines(tools, made, *times) == whole[first:last]
    some = [line for line in whole[30_000:32_000] if line.split()[2] in ("t1", "t3", "t4")]
    assert some
    assert lines(tools, made, "--from-event", "30000", "--to-event", "32000",
                 "--threads", "1,3-4") == some


def test_a_part_of_a_cut_trace(tools: Tools, made: Path, tmp_path: Path) -> None:
    """What ends before the cut is whole, and says nothing of it."""
    (tmp_path / "cut.bin").write_bytes(made.read_bytes()[:-2000])
    assert run([tools.heaptape, "dump", tmp_path / "cut.bin"]).returncode == 3
    done = run([tools.heaptape, "dump", tmp_path / "cut.bin", "--to-event", "5"])
    assert done.returncode == 0 and done.stderr == b"" and done.stdout.count(b"\n") == 5


def test_info_names_what_a_slice_was_cut_from(tools: Tools, made: Path, tmp_path: Path) -> None:
    tools.succeed([tools.heaptape, "slice", "-q", made, "-o", tmp_path / "s.bin",
                   "--to-event", "9"])
    text = tools.succeed([tools.heaptape, "info", tmp_path / "s.bin"]).stdout.decode()
    assert ["sliced", "from", "made.bin"] in [line.split() for line in text.splitlines()]
