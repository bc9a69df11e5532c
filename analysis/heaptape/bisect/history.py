"""The repository: a work tree of its own, in which git bisect chooses the commits."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ..base.errors import HeaptapeError, UsageError
from ..base.programs import ToolFailed, run_tool

_FIRST_BAD = re.compile(r"^# first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit and the first line of its message."""

    sha: str
    subject: str

    def __str__(self) -> str:
        return f"{self.sha[:12]} {self.subject}"


class History:
    """A temporary work tree of the repository at hand, removed at the end with all that was built in it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="heaptape-bisect-")
        self.tree = Path(self._folder.name) / "tree"

    @property
    def folder(self) -> Path:
        """Beside the work tree."""
        return Path(self._folder.name)

    def __enter__(self) -> Self:
        try:
            run_tool(["git", "worktree", "add", "--quiet", "--detach", str(self.tree)])
        except ToolFailed as error:
            self._folder.cleanup()
            raise UsageError(f"expected to be run in a git repository: {error}") from error
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(HeaptapeError):
            self._git("bisect", "reset")
        with suppress(HeaptapeError):
            run_tool(["git", "worktree", "remove", "--force", str(self.tree)])
        self._folder.cleanup()

    def _git(self, *words: str) -> str:
        return run_tool(["git", "-C", str(self.tree), *words])

    def commit(self, revision: str) -> Commit:
        """Raises UsageError where there is none."""
        try:
            sha, _, subject = self._git("log", "-1", "--format=%H %s", f"{revision}^{{commit}}", "--").strip().partition(" ")
        except ToolFailed as error:
            raise UsageError(f"{revision}: expected a commit of this repository") from error
        return Commit(sha, subject)

    def parent(self, commit: Commit) -> Commit:
        return self.commit(f"{commit.sha}^")

    def check_out(self, commit: Commit) -> None:
        self._git("checkout", "--quiet", "--force", "--detach", commit.sha)

    def check_order(self, good: Commit, bad: Commit) -> None:
        """Raises UsageError where the good one does not lie before the bad one."""
        try:
            self._git("merge-base", "--is-ancestor", good.sha, bad.sha)
        except ToolFailed as error:
            raise UsageError(f"expected --good to be an ancestor of --bad: {good} and {bad}") from error

    def start(self, good: Commit, bad: Commit) -> None:
        self._git("bisect", "start", bad.sha, good.sha)

    def here(self) -> Commit:
        return self.commit("HEAD")

    def mark(self, outcome: str) -> None:
        """good, bad or skip; git checks out the next commit to be looked at, if there is one."""
        with suppress(ToolFailed):  # a status of its own where only skipped ones are left: the log says it
            self._git("bisect", outcome)

    def first_bad(self) -> Commit | None:
        """Once it is known."""
        found = _FIRST_BAD.findall(self._git("bisect", "log"))
        return self.commit(found[-1]) if found else None

    def possible(self) -> list[Commit]:
        """Where only skipped commits are left: which may be the first bad one."""
        return [self.commit(sha) for sha in _POSSIBLE.findall(self._git("bisect", "log"))]
