# SPDX-License-Identifier: Apache-2.0
"""The trace that an experiment replayed, found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import TraceError
from ..base.files import digest_of
from ..trace.reader import Trace, read_trace
from ..trace.sections import open_regular
from .comparison import Experiment


@dataclass(frozen=True)
class FoundTrace:
    """A trace for an experiment, or the reason why there is none."""

    trace: Trace | None
    why_not: str


def find_trace(experiment: Experiment, given: Sequence[Path]) -> FoundTrace:
    """The trace that an experiment replayed: one of those given, else the path in its results, tried as it stands and
    beside the results file. A file with another checksum is not taken for it."""
    for path in given:
        if not experiment.trace_sha256 or trace_sha256(path) == experiment.trace_sha256:
            return FoundTrace(read_trace(path), "")
    if given:
        return FoundTrace(None, f"none of the traces given is the one replayed (sha256 {experiment.trace_sha256})")
    if not experiment.trace_path:
        return FoundTrace(None, "the results do not say where the trace is")
    folder = Path(str(experiment.runs["source"].iloc[0])).parent
    named = Path(experiment.trace_path)
    for path in (named, folder / named, folder / named.name):
        if not path.is_file():
            continue
        try:
            if experiment.trace_sha256 and trace_sha256(path) != experiment.trace_sha256:
                return FoundTrace(None, f"{path} has changed since it was replayed: its checksum differs")
            return FoundTrace(read_trace(path), "")
        except TraceError as error:
            return FoundTrace(None, str(error))
    return FoundTrace(None, f"{experiment.trace_path} does not exist")


def trace_sha256(path: Path) -> str:
    """Raises TraceError."""
    with open_regular(path) as file:
        try:
            return digest_of(file)
        except OSError as error:
            raise TraceError(path, None, f"cannot read: {error.strerror}") from error
