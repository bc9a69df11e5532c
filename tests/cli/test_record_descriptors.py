"""The program's descriptors are its own: their numbers, their count, and that they stay open."""

from __future__ import annotations

from pathlib import Path

import pytest

from safety_checks import compare, compare_mode, must_work
from tool_runner import Tools


def test_numbers_are_as_without_the_recorder(tools: Tools, tmp_path: Path) -> None:
    """open, dup and pipe give the lowest free number, after closefrom(3) and without stdin too."""
    compared = compare_mode(tools, tmp_path, "descriptor_kinds", "numbers", status=60)
    compared.assert_whole(processes=1)


def test_no_descriptor_left(tools: Tools, tmp_path: Path) -> None:
    compared = compare_mode(tools, tmp_path, "descriptor_kinds", "none_left", status=63)
    compared.assert_whole(processes=1)


def test_no_descriptor_from_the_start(tools: Tools, tmp_path: Path) -> None:
    """The program runs; its recording is whole if it could begin before the program forbade it."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("no_descriptors"), counts])
    assert compared.recording.outcome.status == 64
    if compared.recording.logs:
        compared.assert_whole(processes=1)


def test_one_descriptor_is_enough(tools: Tools, tmp_path: Path) -> None:
    """The loader needs one at a time to start a program; the recorder must not need more."""
    must_work(["prlimit", "--nofile=4", "true"], "the number of descriptors cannot be limited")
    compared = compare(tools, tmp_path, lambda counts: [
        "prlimit", "--nofile=4", tools.target("exit_quick"), counts])
    assert compared.recording.outcome.status == 14
    compared.assert_whole()
