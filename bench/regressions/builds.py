# SPDX-License-Identifier: Apache-2.0
"""Releases of allocators: their sources from crates, by cargo, and the shared libraries built from them. Both are kept in a folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUILD_LIMIT_S = 1200
LIBRARY, RELEASE = "lib.so", "RELEASE"


class Failed(Exception):
    """What kept a release from being built or compared, in one line."""


def decoded(said: str) -> str:
    """A release as the sources name it: mimalloc has numbers, whose digits depend on their count (206, 3206, 30300)."""
    if not said.isdigit():
        return said
    number = int(said)
    divisors = {3: (100, 10), 4: (1000, 100), 5: (10_000, 100)}.get(len(said))
    if not divisors:
        raise Failed(f"expected a version of 3 to 5 digits, found {said}")
    major, minor = divisors
    return f"{number // major}.{number % major // minor}.{number % minor}"


@dataclass(frozen=True)
class Release:
    """One release, as regressions.toml has it."""

    allocator: str
    number: str
    crate: str
    version: str
    folder: str
    also: str
    says: dict[str, str]
    build: str

    @property
    def subject(self) -> str:
        """For commits."""
        return f"{self.allocator} {self.number} ({self.crate} {self.version})"

    @property
    def library_name(self) -> str:
        """Of another build command's, another name."""
        return f"{self.allocator}-{self.number}-{zlib.crc32(self.build.encode()):08x}.so"


def read_release(allocators: dict[str, Any], allocator: str, number: str) -> Release:
    """Raises Failed where the file has none such."""
    table = allocators.get(allocator, {})
    entry = table.get("releases", {}).get(number)
    if entry is None:
        raise Failed(f"{allocator} {number}: expected it in regressions.toml")
    return Release(allocator, number, entry["crate"], entry["version"], entry["folder"], entry.get("also", ""), table["says"], table["build"])


def check_release(release: Release, text: str) -> None:
    """Raises Failed where the sources name another release than regressions.toml."""
    found = re.search(release.says["pattern"], text, re.MULTILINE)
    said = decoded(found.group(1)) if found else "none"
    if said != release.number:
        raise Failed(f"{release.crate} {release.version}: expected {release.allocator} {release.number} in {release.says['file']}, found {said}")


def _run(command: list[str], folder: Path, limit_s: float = BUILD_LIMIT_S) -> str:
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit_s,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Failed(f"{' '.join(command[:2])}: {lines[-1] if lines else f'status {done.returncode}'}")
    return done.stdout


class Releases:
    """Fetches and builds, each release once."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        cache.mkdir(parents=True, exist_ok=True)

    def _crate(self, release: Release) -> Path:
        """The crate's folder in cargo's own store. A package that depends on it alone makes cargo fetch it."""
        if not shutil.which("cargo"):
            raise Failed("cargo is not installed")
        folder = self._cache / "fetch" / f"{release.crate}-{release.version}"
        (folder / "src").mkdir(parents=True, exist_ok=True)
        (folder / "src" / "lib.rs").write_text("")
        (folder / "Cargo.toml").write_text('[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
                                           f'{release.crate} = "={release.version}"\n')
        _run(["cargo", "fetch", "-q"], folder)
        packages = json.loads(_run(["cargo", "metadata", "--offline", "--format-version=1"], folder))["packages"]
        return next(Path(package["manifest_path"]).parent for package in packages if package["name"] == release.crate)

    def sources(self, release: Release) -> Path:
        """A copy of them, which names its release in the file RELEASE. Raises Failed."""
        copy = self._cache / "sources" / f"{release.allocator}-{release.number}"
        if (copy / RELEASE).is_file():
            return copy
        crate = self._crate(release)
        check_release(release, (crate / release.folder / release.says["file"]).read_text(errors="replace"))
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(crate / release.folder, copy, symlinks=True)
        if release.also:
            shutil.copytree(crate / release.also, copy, dirs_exist_ok=True)
        (copy / RELEASE).write_text(f"{release.number}\n")
        return copy

    def library(self, release: Release) -> Path:
        """The shared library. Raises Failed."""
        library = self._cache / release.library_name
        if not library.is_file():
            with tempfile.TemporaryDirectory(prefix="build-", dir=self._cache, ignore_cleanup_errors=True) as folder:
                built = Path(folder) / "sources"
                shutil.copytree(self.sources(release), built, symlinks=True)
                _run(["sh", "-c", release.build], built)
                if not (built / LIBRARY).is_file():
                    raise Failed(f"{release.subject}: the build left no {LIBRARY}")
                (built / LIBRARY).rename(library)
        return library

    def repository(self, releases: list[Release], folder: Path) -> None:
        """A git repository with a commit, and a tag, for each release in the order given. Raises Failed."""
        git = ["git", "-c", "user.name=heaptape", "-c", "user.email=heaptape@example.org", "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false"]
        folder.mkdir()
        _run([*git, "init", "-q", "-b", "main"], folder)
        for release in releases:
            for old in folder.iterdir():
                if old.name != ".git":
                    shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
            shutil.copytree(self.sources(release), folder, symlinks=True, dirs_exist_ok=True)
            _run([*git, "add", "-A", "-f"], folder)
            _run([*git, "commit", "-q", "-m", release.subject], folder)
            _run([*git, "tag", f"v{release.number}"], folder)


def default_cache() -> Path:
    """Outside the tree."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heaptape" / "releases"
