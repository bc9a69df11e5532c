# SPDX-License-Identifier: Apache-2.0
"""Programs whose handlers answer faults: the signals of a fault are never blocked by the recorder."""

from __future__ import annotations

from pathlib import Path

import pytest

from safety_checks import compare_mode
from tool_runner import Tools


@pytest.mark.parametrize("depth", ["0", "1000", "2000", "3000", "3500"])
def test_start_on_a_stack_that_is_opened_by_faults(tools: Tools, tmp_path: Path, depth: str) -> None:
    """The first call of the process is made on a stack whose pages a handler opens."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed_first", depth, status=70)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_samples_on_stacks_that_are_opened_by_faults(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed", status=71)
    compared.assert_whole(processes=1)


def test_handler_of_a_fault_that_allocates(tools: Tools, tmp_path: Path) -> None:
    """How often the stack is opened depends on how much of it each call takes."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "closed", "allocates", status=71,
                            same_counts=False)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_program_that_notes_what_is_written(tools: Tools, tmp_path: Path) -> None:
    """All private memory is made read-only again and again, the recorder's with it; not what the
    kernel itself writes for libc."""
    compared = compare_mode(tools, tmp_path, "fault_kinds", "written", status=72,
                            env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
    compared.assert_whole(processes=1)
