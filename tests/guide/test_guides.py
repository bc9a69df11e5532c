# SPDX-License-Identifier: Apache-2.0
"""Every guide of docs/guide/, command by command: each succeeds, and prints what the page quotes but for the figures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from any_parent import kill_children
from guide_page import Page, has_shape, read_page
from tool_runner import clean_environment

GUIDES = Path(__file__).resolve().parents[2] / "docs/guide"
QUICK = {"own-allocator.md"}
MAY_BE_MISSING = ("cargo", "docker", "g++", "git", "initdb", "jupyter", "perl", "redis-server", "ruby", "rustc")
POSTGRES = "/usr/lib/postgresql/*/bin"
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
NOBODY = 65534
WITHIN_S = 600
BEGINS = "\x1e"  # in front of what a command prints


def is_missing(program: str) -> bool:
    if program == "docker":
        return not shutil.which(program) or subprocess.run([program, "info"], capture_output=True, check=False, timeout=60).returncode != 0
    return not shutil.which(program) and not list(Path("/").glob(f"{POSTGRES}/{program}".lstrip("/")))


def missing_of(command: str, folder: Path) -> list[str]:
    """Programs, packages, modes of the system. A package is taken from $HEAPTAPE_TEST_PACKAGES."""
    packages = [name for name in re.findall(r"\S+\.deb\b", command) if not (folder / name).exists()]
    modes = ["transparent huge pages at madvise"] if "--thp madvise" in command and "[madvise]" not in HUGE_PAGES.read_text() else []
    if "explain" in command and "--pid" in command and os.getuid() and YAMA.exists() and YAMA.read_text().strip() != "0":
        modes.append("kernel.yama.ptrace_scope at 0, or root")
    return packages + modes + [name for name in MAY_BE_MISSING
                               if re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])", command) and is_missing(name)]


def run_page(page: Page, folder: Path, build: Path, *, as_user: int | None = None) -> tuple[int, list[str]]:
    """All commands in one shell, which ends where one fails: its status, and what each of the commands that began printed."""
    for name, text in page.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    script = "".join(f"printf '{BEGINS}'\n{command.text}\n" for command in page.commands)
    environment = clean_environment({"PATH": f"{build}:{os.environ['PATH']}", "XDG_DATA_HOME": str(folder / "data")})
    environment.setdefault("HEAPTAPE_PYTHON", sys.executable)
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        try:
            done = subprocess.run(["bash", "-ec", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=printed,
                                  stderr=subprocess.STDOUT, check=False, timeout=WITHIN_S, user=as_user, group=as_user,
                                  extra_groups=None if as_user is None else [])
        finally:
            kill_children()  # servers that a page leaves running
        printed.seek(0)
        return done.returncode, printed.read().split(BEGINS)[1:]


def complaints(page: Page, status: int, outputs: list[str]) -> list[str]:
    wrong = [f"line {command.line}: {command.text}\nprints\n{output}"
             for command, output in zip(page.commands, outputs, strict=False) if not has_shape(command.quoted, output)]
    if status:
        wrong.append(f"line {page.commands[len(outputs) - 1].line}: status {status}\n{outputs[-1]}")
    return wrong


@pytest.mark.thorough
@pytest.mark.parametrize("name", [pytest.param(path.name, marks=[] if path.name in QUICK else pytest.mark.thorough)
                                  for path in sorted(GUIDES.glob("*.md")) if path.name != "README.md"])
def test_guide(request: pytest.FixtureRequest, repository: Path, build: Path, open_folder: Path, name: str) -> None:
    page = read_page((GUIDES / name).read_text())
    assert page.commands
    for package in Path(os.environ.get("HEAPTAPE_TEST_PACKAGES", "/nowhere")).glob("*.deb"):
        (open_folder / package.name).symlink_to(package)
    missing = [missing_of(command.text, open_folder) for command in page.commands]
    runs = next((number for number, names in enumerate(missing) if names), len(missing))
    lacks = ", ".join(dict.fromkeys(sum(missing, [])))
    del page.commands[runs:]
    as_user = None
    if os.getuid() == 0 and any("initdb" in command.text for command in page.commands):
        as_user = NOBODY  # PostgreSQL refuses root
        os.chown(open_folder, NOBODY, NOBODY)
        build = request.getfixturevalue("tools_for_all").build
    for link, target in (("bench", repository / "bench"), ("rust", repository / "rust"), ("traces", repository / "traces"), ("build", build)):
        (open_folder / link).symlink_to(target)
    if page.commands:
        wrong = complaints(page, *run_page(page, open_folder, build, as_user=as_user))
        assert not wrong, f"docs/guide/{name}\n" + "\n".join(wrong)
    if lacks:
        pytest.skip(f"not here, or out of reach: {lacks}; {runs} of {len(missing)} commands ran")


def test_every_guide_is_in_the_list() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (GUIDES / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in GUIDES.glob("*.md") if path.name != "README.md")


SMALL = """Into `a/b.txt`:

```text
one
```

```console
$ cat a/b.txt
one
$ printf '%s\\n' 'glibc 2.36  75.8 ms  1.02 [0.99, 1.04] unresolved' \\
>     end
jemalloc 5.3  3 s  0.9
[...]
```
"""


@pytest.mark.parametrize(("old", "new"), [("", ""), ("\none\n$", "\ntwo\n$"), ("end\n", "end | tac\n"), ("cat a", "cat c"), ("[...]\n", "")])
def test_what_is_wrong_is_found(tmp_path: Path, build: Path, old: str, new: str) -> None:
    assert old in SMALL
    page = read_page(SMALL.replace(old, new) if old else SMALL)
    wrong = complaints(page, *run_page(page, tmp_path, build))
    assert bool(wrong) == bool(old), wrong


def test_the_modelled_column_is_no_difference() -> None:
    quoted = ["allocator       time in malloc                             peak RSS",
              "glibc 2.36             23.8 ms                              18.3 MB",
              "jemalloc 5.3.0         17.7 ms  1.29× faster [1.19, 1.45]   17.9 MB  2 % less [2, 2]"]
    printed = ["allocator       time in malloc                             modelled      peak RSS",
               "glibc 2.36             29.2 ms                             16.0 ms        18.3 MB",
               "jemalloc 5.3.0         18.3 ms  not resolved [−62, 9]      1.34× faster   17.9 MB  2 % less [2, 2]"]
    assert has_shape(quoted, "\n".join(printed) + "\n")
    assert not has_shape(quoted, "\n".join(printed[:2]) + "\n")
