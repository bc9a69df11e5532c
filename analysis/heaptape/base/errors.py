# SPDX-License-Identifier: Apache-2.0
"""The errors that a user sees as one line. Each carries the exit status of the command that it ends."""

from __future__ import annotations

from pathlib import Path

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_BAD_INPUT = 3
EXIT_HOLDS = 4
"""A condition of --fail-if is shown to hold."""

EXIT_UNDECIDED = 5
"""A condition is neither shown to hold nor shown not to."""


class HeaptapeError(Exception):
    """Anything that ends a command with one clear line."""

    exit_status = EXIT_FAILED


class UsageError(HeaptapeError):
    """The command line asks for what the input does not have, such as an unknown baseline."""

    exit_status = EXIT_USAGE


class BadTrace(HeaptapeError):
    """A program that we started refuses the trace."""

    exit_status = EXIT_BAD_INPUT


class Undecided(HeaptapeError):
    """The input does not say."""

    exit_status = EXIT_UNDECIDED


class TraceError(HeaptapeError):
    """A trace that cannot be read: names the file, the offset in bytes (None: of no place in it) and what was expected there."""

    exit_status = EXIT_BAD_INPUT

    def __init__(self, path: str | Path, offset: int | None, expected: str) -> None:
        self.path = Path(path)
        self.offset = offset
        self.expected = expected
        super().__init__(f"{path}: {expected}" if offset is None else f"{path}: offset {offset}: {expected}")


class ResultsError(HeaptapeError):
    """A results file that cannot be read: names the file, the line (from 1; 0 for the whole file) and why."""

    exit_status = EXIT_BAD_INPUT

    def __init__(self, path: str | Path, line: int, why: str) -> None:
        self.path = Path(path)
        self.line = line
        self.why = why
        super().__init__(f"{path}:{line}: {why}" if line else f"{path}: {why}")
