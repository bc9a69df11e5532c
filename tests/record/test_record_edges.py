# SPDX-License-Identifier: Apache-2.0
"""The edges of the malloc family, and calls as early and as late as there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from safety_checks import compare
from tool_runner import Tools


@pytest.mark.parametrize("tunables", ["", "glibc.malloc.check=0", "glibc.malloc.tcache_count=0"])
def test_results_and_errno_are_as_without_the_recorder(tools: Tools, tmp_path: Path,
                                                       tunables: str) -> None:
    """Sizes of nothing and of everything, overflows, bad alignments, realloc to 0; usable sizes
    and mallinfo2; errno left alone by what succeeds and set by what fails."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("edge_calls"), counts],
                       env={"GLIBC_TUNABLES": tunables})
    outcome = compared.recording.outcome
    assert outcome.status == 120
    lines = outcome.stdout.decode().splitlines()
    assert "malloc(huge): NULL, errno 12" in lines and "malloc: a block, errno 4242" in lines
    assert "posix_memalign(3): 22, errno 4242" in lines
    compared.assert_whole(processes=1)


def test_earliest_calls(tools: Tools, tmp_path: Path) -> None:
    """An indirect function's resolver, preinit_array, a constructor."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("early_calls"), counts])
    assert compared.recording.outcome.status == 121
    assert compared.counted[7690] == 1
    compared.assert_whole(processes=1)
    assert tools.info(tmp_path / f"{compared.recording.logs[0].stem}.bin")["threads"] == 1
