# SPDX-License-Identifier: Apache-2.0
"""What every test of safety asks: the program as it is alone, the recording whole."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tool_runner import (Argument, Recording, Tools, outcome_of, read_tallies, run, tallies_in)

# docs/reference/raw-log-format.md
HEADER_BYTES = 16384
STATE_OFFSET = 128
RECORDING, STOPPED, EXITED = 1, 2, 3
NO_SPACE, SIZE_LIMIT, SANDBOX, UNFIT_FOLDER, NO_MEMORY = 1, 2, 3, 5, 6
TIMEOUT_S = 60


@dataclass(frozen=True)
class Ending:
    """How a recording ended, as its log's header says."""

    state: int
    reason: int
    errno: int


def ending_of(log: Path) -> Ending:
    with log.open("rb") as file:
        return Ending(*struct.unpack_from("<III", file.read(4096), STATE_OFFSET))


def disk_bytes(log: Path) -> int:
    """What a sparse file really takes."""
    return log.stat().st_blocks * 512


def recorded_tallies(tools: Tools, logs: Sequence[Path], folder: Path,
                     unseen_max: int = 0) -> Counter[int]:
    """Allocations of tallied sizes over all logs, every log converted and without anomaly."""
    total: Counter[int] = Counter()
    for log in logs:
        trace = folder / f"{log.stem}.bin"
        tools.convert_clean(log, trace, unseen_max)
        total += tallies_in(tools.dump(trace))
    return total


@dataclass(frozen=True)
class Compared:
    """A target's run under the recorder, equal to its run alone."""

    recording: Recording
    counted: Mapping[int, int]
    recorded: Counter[int]

    def assert_whole(self, processes: int | None = None) -> None:
        lost = {size: (self.recorded[size], n) for size, n in self.counted.items()
                if self.recorded[size] != n}
        assert not lost, f"size: (recorded, counted): {lost}"
        assert set(self.recorded) <= set(self.counted)
        logs = len(self.recording.logs)
        assert processes in (None, logs), f"{logs} logs, {processes} expected"


def compare(tools: Tools, folder: Path, command: Callable[[Path], Sequence[Argument]], *,
            same_counts: bool = True, unseen_max: int = 0, **options) -> Compared:
    """Runs command(counts file) alone and under the shim, and requires the same outcome."""
    alone = outcome_of(run(command(folder / "alone"), timeout=TIMEOUT_S, **options))
    assert alone.status not in (99, 127, 126), alone
    recording = tools.preload(command(folder / "counts"), folder / "logs", timeout=TIMEOUT_S,
                              **options)
    assert recording.outcome == alone, f"recorded {recording.outcome}, alone {alone}"
    counted = read_tallies(folder / "counts")
    assert not same_counts or counted == read_tallies(folder / "alone")
    return Compared(recording, counted,
                    recorded_tallies(tools, recording.logs, folder, unseen_max))


def compare_mode(tools: Tools, folder: Path, name: str, mode: str, *more: Argument,
                 status: int, **options) -> Compared:
    """The same for a target that takes COUNTS MODE [ARGUMENT], whose own exit status is known."""
    compared = compare(tools, folder, lambda counts: [tools.target(name), counts, mode, *more],
                       **options)
    assert compared.recording.outcome.status == status, compared.recording.outcome
    return compared


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may do this")


def must_work(command: Sequence[Argument], why: str) -> None:
    """Skips the test where the machine does not let us do what it needs."""
    try:
        if run(command).returncode == 0:
            return
    except (FileNotFoundError, PermissionError):  # of a folder of PATH, when it is nowhere else
        pytest.skip(f"{command[0]} is not installed")
    pytest.skip(why)
