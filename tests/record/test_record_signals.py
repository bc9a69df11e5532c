# SPDX-License-Identifier: Apache-2.0
"""Signal handlers that allocate, map, fork and jump, wherever they strike."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import compare, compare_mode
from tool_runner import Tools, outcome_of, read_tallies, run

SIZE_MAIN, SIZE_AFTER = 7720, 7723  # tests/targets/signal_inside.c
SIZE_SWITCHED = 7972  # tests/targets/shared_states.c


@pytest.mark.parametrize("signals", quick([1000], [1000, 6000]))
def test_handler_within_malloc(tools: Tools, tmp_path: Path, signals: int) -> None:
    """Signals at any instant, the recorder's own part of a call included: nothing is lost."""
    compared = compare(tools, tmp_path, lambda counts: [tools.target("signal_malloc"), counts, str(signals)],
                       same_counts=False)
    assert compared.recording.outcome.status == 12
    assert compared.counted[7701] == 2 * signals
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("mode,status", [("ordinary", 30), ("jump", 31), ("small_stack", 32)])
def test_handler_in_ordinary_code(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """A handler that allocates while the thread computes; one that maps memory and jumps out of
    mmap; one on a stack of the least size, which also starts the recording."""
    compared = compare_mode(tools, tmp_path, "signal_kinds", mode, status=status, same_counts=False)
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_fork_in_a_handler_within_malloc(tools: Tools, tmp_path: Path) -> None:
    """Sixty children of handlers that interrupted a call; half of them return into that call. What it does there is not recorded."""
    compared = compare_mode(tools, tmp_path, "signal_inside", "fork", status=41, same_counts=False,
                            unseen_max=1)
    assert len(compared.recording.logs) == 61
    # A call that the parent began and a child ended may be missing from the child's log.
    missing = compared.counted[SIZE_MAIN] - compared.recorded[SIZE_MAIN]
    assert 0 <= missing <= 30
    for size in set(compared.counted) - {SIZE_MAIN}:
        assert compared.recorded[size] == compared.counted[size], f"size {size}"


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["jump", "jump_first"])
def test_jump_out_of_a_handler_within_malloc(tools: Tools, tmp_path: Path, mode: str) -> None:
    """The calls that were left are not recorded; later ones are."""
    compared = compare_mode(tools, tmp_path, "signal_inside", mode, status=42, same_counts=False)
    assert compared.recorded[SIZE_AFTER] == compared.counted[SIZE_AFTER] == 1000


@pytest.mark.thorough
def test_jump_out_of_every_part_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """Wherever in a call the jump came, the records after it are whole, and none is lost."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 traps by itself behind each instruction")
    compared = compare(tools, tmp_path, lambda counts: [tools.target("jump_anywhere"), counts], same_counts=False)
    assert compared.recording.outcome.status == 43
    assert compared.recorded[7900] == compared.counted[7900] > 1050


def test_handler_behind_every_instruction_of_a_call(tools: Tools, tmp_path: Path) -> None:
    """A handler that allocates there and returns: neither its calls are lost, nor is the interrupted one
    recorded twice, as itself and as what its allocator calls within."""
    if platform.machine() != "x86_64":
        pytest.skip("only x86-64 traps by itself behind each instruction")
    compared = compare(tools, tmp_path, lambda counts: [tools.target("jump_anywhere"), counts, "allocates"],
                       same_counts=False)
    assert compared.recording.outcome.status == 45
    compared.assert_whole(processes=1)


@pytest.mark.thorough
def test_memory_of_interrupted_threads(tools: Tools, tmp_path: Path) -> None:
    """What the recorder keeps for a thread that was interrupted within malloc serves the next: two
    thousand threads do not take a kilobyte each."""
    compared = compare_mode(tools, tmp_path, "signal_inside", "threads", status=43)
    compared.assert_whole(processes=1)


@pytest.mark.parametrize("stack", quick([["alternate"]], [[], ["alternate"]]), ids=lambda words: "-".join(words) or "plain")
def test_threads_of_the_programs_own(tools: Tools, tmp_path: Path, stack: list[str]) -> None:
    """A handler switches to another stack, in the midst of calls too. One that comes between two certain instructions costs a chunk,
    and `convert` says why."""
    command = [tools.target("shared_states"), tmp_path / "counts", "switched", *stack]
    alone = outcome_of(run([*command[:1], tmp_path / "alone", *command[2:]]))
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone and alone.status == 124
    [log] = recording.logs
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    # The allocator's malloc calls memalign, which after a switch may look like a call of another's.
    recorded = sum(f" malloc({SIZE_SWITCHED}) " in line for line in tools.dump(tmp_path / "t.bin"))
    counted = read_tallies(tmp_path / "counts")[SIZE_SWITCHED]
    # Of each of the four a call may be under way at the end.
    assert 1000 < recorded <= counted + 4
    if recorded < counted:
        assert b"damaged" in done.stderr and b"switches from stack to stack" in done.stderr
