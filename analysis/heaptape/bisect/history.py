# SPDX-License-Identifier: Apache-2.0
"""The repository: a work tree of its own, in which git bisect chooses the commits."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..base.errors import HeaptapeError, UsageError
from ..base.programs import ToolFailed, run_tool

_PREFIX = "heaptape-bisect-"
_FIRST_BAD = re.compile(r"^# first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Commit:
    """One commit and the first line of its message."""

    sha: str
    subject: str

    def __str__(self) -> str:
        return f"{self.sha[:12]} {self.subject}"


def _try_lock(folder: Path, create: int = 0) -> int | None:
    """Who works in a folder holds its lock, and loses it when it is killed. A descriptor; None where somebody else holds it, or
    there is none."""
    try:
        lock = os.open(folder / "lock", create | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


class History:
    """A temporary work tree of the repository at hand, removed at the end with all that was built in it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        self._lock = _try_lock(self.folder, os.O_CREAT)
        self.tree = Path(self._folder.name) / "tree"
        self._repository = ""
        self.environment: dict[str, str] = {}
        """All that runs in the work tree gets it."""
        self.swept: list[Path] = []
        """Folders that searches which were killed had left, and that are removed."""

    @property
    def folder(self) -> Path:
        """Beside the work tree."""
        return Path(self._folder.name)

    def __enter__(self) -> History:
        try:
            self._repository = run_tool(["git", "rev-parse", "--absolute-git-dir"], "surrogateescape").rstrip("\n")
            self.environment = self._own_environment()
            self._sweep()
            self._outside("add", "--quiet", "--detach")
        except ToolFailed as error:
            self._remove()
            raise UsageError(f"expected to be run in a git repository: {error}") from error
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _remove(self) -> None:
        """The files first: git forgets a work tree that is gone, whatever was left in it, with its bisect."""
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
        if self.environment:
            with suppress(HeaptapeError):
                self._outside("remove", "--force", "--force")  # a locked one, too

    def _sweep(self) -> None:
        """Removes the work trees of killed searches: those of this repository whose lock nobody holds."""
        listed = run_tool([*self._git_outside, "worktree", "list", "--porcelain", "-z"], "surrogateescape", env=self.environment)
        for line in listed.split("\0"):
            tree = Path(line.removeprefix("worktree "))
            if not line.startswith("worktree ") or tree.name != "tree" or not tree.parent.name.startswith(_PREFIX):
                continue
            lock = _try_lock(tree.parent) if tree.parent.exists() else None
            if lock is None and tree.parent.exists():
                continue  # somebody's that goes on, or of another user
            shutil.rmtree(tree.parent, ignore_errors=True)
            if lock is not None:
                os.close(lock)
            with suppress(HeaptapeError):
                self._outside("remove", "--force", "--force", tree=tree)
                self.swept.append(tree.parent)

    @property
    def _git_outside(self) -> list[str]:
        return ["git", f"--git-dir={self._repository}"]

    def _own_environment(self) -> dict[str, str]:
        """Ours without what names a repository, as within hooks: git would change that one. Nor is the work tree's looked for above it,
        where a build has removed it."""
        names = set(run_tool(["git", "rev-parse", "--local-env-vars"]).split())
        kept = {name: value for name, value in os.environ.items() if name not in names or name.startswith("GIT_CONFIG")}
        return kept | {"GIT_CEILING_DIRECTORIES": f"{self.folder.resolve()}:{self.folder}"}

    def _outside(self, what: str, *options: str, tree: Path | None = None) -> None:
        run_tool([*self._git_outside, "worktree", what, *options, str(tree or self.tree)], env=self.environment)

    def _git(self, *words: str) -> str:
        try:
            return run_tool(["git", "-C", str(self.tree), *words], env=self.environment)
        except ToolFailed as error:  # git's statuses are not ours
            raise HeaptapeError(f"git {words[0]}: {error}") from error

    def commit(self, revision: str) -> Commit:
        """Raises UsageError where there is none."""
        try:
            sha = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
            subject = self._git("log", "-1", "--no-show-signature", "--format=%s", sha, "--").strip()
        except HeaptapeError as error:
            raise UsageError(f"{revision}: expected a commit of this repository") from error
        return Commit(sha, subject)

    def parent(self, commit: Commit) -> Commit | None:
        """None of a root: of histories that were merged, another one than the good commit's."""
        with suppress(UsageError):
            return self.commit(f"{commit.sha}^")
        return None

    def check_out(self, commit: Commit, clean: bool = False) -> None:
        """clean: without what git does not know, such as an earlier build."""
        self._git("checkout", "--quiet", "--force", "--detach", commit.sha)
        if clean:
            self._git("clean", "-ffdxq")

    def check_order(self, good: Commit, bad: Commit) -> None:
        """Raises UsageError where the good one does not lie before the bad one."""
        try:
            self._git("merge-base", "--is-ancestor", good.sha, bad.sha)
        except HeaptapeError as error:
            raise UsageError(f"expected --good to be an ancestor of --bad: {good} and {bad}") from error

    def start(self, good: Commit, bad: Commit) -> None:
        """git checks nothing out: it would stop at files that a build has changed."""
        self._git("bisect", "start", "--no-checkout", bad.sha, good.sha)

    def here(self) -> Commit:
        """The next commit to be looked at."""
        return self.commit("BISECT_HEAD")

    def mark(self, outcome: str) -> None:
        """good, bad or skip; git chooses the next commit, if there is one."""
        with suppress(HeaptapeError):  # a status of its own where only skipped ones are left: the log says it
            self._git("bisect", outcome)

    def first_bad(self) -> Commit | None:
        """Once it is known."""
        found = _FIRST_BAD.findall(self._git("bisect", "log"))
        return self.commit(found[-1]) if found else None

    def possible(self) -> list[Commit]:
        """The commits of which each may be the first bad one, when only skipped ones are left."""
        return [self.commit(sha) for sha in dict.fromkeys(_POSSIBLE.findall(self._git("bisect", "log")))]
