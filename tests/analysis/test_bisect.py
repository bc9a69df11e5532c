# SPDX-License-Identifier: Apache-2.0
"""`heaptape bisect` in a real repository of a small allocator, one of whose commits makes it slower."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import toy_allocator
from tool_runner import Tools, clean_environment, run
from waiting import wait_until

pytestmark = [pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed") for name in ("git", "gcc", "valgrind")]

BUILD = "mkdir -p build && gcc -O2 -fPIC -shared -fno-builtin -o build/lib.so toy.c"


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bisect") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "5000", "200", "1", "1", "1000"])
    return path


def git(folder: Path, *words: str) -> str:
    identity = {f"GIT_{who}_{what}": f"{who}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(["git", *words], cwd=folder, env=os.environ | identity | {"GIT_CONFIG_GLOBAL": os.devnull}, check=True, timeout=60,
                          capture_output=True, text=True).stdout.strip()


def commit(folder: Path, subject: str, source: str) -> str:
    (folder / "toy.c").write_text(source)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


PLAIN, SLOWER = toy_allocator.toy_source(), toy_allocator.toy_source(nops=200)
BROKEN = "#error not now\n" + PLAIN


def made_of(folder: Path, sources: list[str]) -> Path:
    """A repository with a commit of each."""
    git(folder, "init", "-q", "-b", "main")
    for number, source in enumerate(sources, start=1):
        commit(folder, f"Change {number}", f"{source}\n// {number}\n")
        if number == 1:
            git(folder, "tag", "v1")
    (folder / "toy.c").write_text("not committed")
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four commits, of which the third is slower."""
    return made_of(tmp_path_factory.mktemp("repository"), [PLAIN, PLAIN, SLOWER, SLOWER])


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight, of which the third and the sixth do not build and the fifth is slower."""
    return made_of(tmp_path_factory.mktemp("longer"), [PLAIN, PLAIN, BROKEN, PLAIN, SLOWER, BROKEN, SLOWER, SLOWER])


def command(tools: Tools, trace: Path, *more: str, build: str) -> list[str | Path]:
    return [tools.build / "heaptape", "bisect", "--build", build, "--alloc", "build/lib.so", "--fail-if", "instructions>1.01", *more, trace]


def bisect(tools: Tools, repository: Path, trace: Path, *more: str, build: str = BUILD,
           env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return run(command(tools, trace, *more, build=build), cwd=repository, timeout=240, env=env)


def check_untouched(repository: Path) -> None:
    """What was at hand is as it was, and nothing of the search is left."""
    assert (repository / "toy.c").read_text() == "not committed" and not (repository / "build").exists()
    assert git(repository, "status", "--porcelain") == "M toy.c"
    assert git(repository, "worktree", "list").count("\n") == 0 and "bisect" not in git(repository, "for-each-ref")
    assert git(repository, "rev-parse", "--abbrev-ref", "HEAD") == "main"


@pytest.mark.thorough
def test_the_first_bad_commit_with_the_figures_on_both_sides(tools: Tools, repository: Path, trace: Path) -> None:
    done = bisect(tools, repository, trace, "--good", "v1", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["first_bad"]["subject"], said["before"]["subject"]) == ("Change 3", "Change 2")
    (at,), (before,) = said["first_bad"]["figures"], said["before"]["figures"]
    assert at["figure"] == before["figure"] == "instructions"
    assert before["ratio"] == 1 and at["ratio"] > 1.1 and at["value"] / before["value"] == pytest.approx(at["ratio"])
    check_untouched(repository)


@pytest.mark.thorough
def test_a_build_that_spoils_its_work_tree_in_an_environment_that_names_the_repository(tools: Tools, repository: Path, trace: Path) -> None:
    """As hooks of git have it. What the build leaves running holds nothing up."""
    build = f"{BUILD} && mv build/lib.so build/my,lib.so && echo >>toy.c && {{ git worktree lock . 2>&1; sleep 600 & echo $! >>\"$PIDS\"; }}"
    pids = trace.parent / "pids"
    env = {"GIT_DIR": str(repository / ".git"), "GIT_INDEX_FILE": str(repository / ".git/index"), "PIDS": str(pids)}
    try:
        done = bisect(tools, repository, trace, "--good", "v1", "--alloc", "build/my,lib.so", build=build, env=env)
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGTERM)
    assert done.returncode == 0 and b"Change 3" in done.stdout.splitlines()[0], done.stderr
    check_untouched(repository)


@pytest.mark.thorough
def test_a_build_that_removes_what_git_has_there(tools: Tools, repository: Path, trace: Path, tmp_path: Path) -> None:
    """Above is another repository, which git would take."""
    git(tmp_path, "init", "-q")
    done = bisect(tools, repository, trace, "--good", "v1", build=f"{BUILD} && rm -rf .git", env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 1 and b"not a git repository" in done.stderr, done.stderr
    assert os.listdir(tmp_path) == [".git"]
    check_untouched(repository)


def end_while_it_builds(tools: Tools, repository: Path, trace: Path, folder: Path, number: signal.Signals) -> int:
    """The process id of the build. Temporary files are in folder/tmp."""
    (folder / "tmp").mkdir()
    os.mkfifo(folder / "building")
    build = f"sh -c 'echo $$ >{folder}/building; exec sleep 600'; true"
    with subprocess.Popen(command(tools, trace, "--good", "v1", build=build), cwd=repository,
                          env=clean_environment() | {"TMPDIR": str(folder / "tmp")}, stderr=subprocess.DEVNULL) as process:
        pid = int((folder / "building").read_text())
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
    return pid


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_ended_while_it_builds(tools: Tools, repository: Path, trace: Path, tmp_path: Path, number: signal.Signals) -> None:
    pid = end_while_it_builds(tools, repository, trace, tmp_path, number)
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(), "the build has ended")
    assert not os.listdir(tmp_path / "tmp")
    check_untouched(repository)


@pytest.mark.thorough
@pytest.mark.parametrize("gone", [False, True])
def test_killed_and_run_again(tools: Tools, repository: Path, trace: Path, tmp_path: Path, gone: bool) -> None:
    """The next run removes what is left, also where somebody has removed the files."""
    os.kill(end_while_it_builds(tools, repository, trace, tmp_path, signal.SIGKILL), signal.SIGKILL)
    (left,) = (tmp_path / "tmp").iterdir()
    assert str(left) in git(repository, "worktree", "list")
    if gone:
        shutil.rmtree(left)
    done = bisect(tools, repository, trace, "--good", "v9")
    assert done.returncode == 2 and f"removed {left}, which a search that was killed had left".encode() in done.stderr
    assert not left.exists() and git(repository, "worktree", "prune", "--dry-run", "--verbose") == ""
    check_untouched(repository)


@pytest.mark.thorough
def test_another_search_that_goes_on_is_left_alone(tools: Tools, repository: Path, trace: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "building")
    build = f"sh -c 'echo $$ >{tmp_path}/building; exec sleep 600'; true"
    with subprocess.Popen(command(tools, trace, "--good", "v1", build=build), cwd=repository, env=clean_environment()) as process:
        (tmp_path / "building").read_text()
        done = bisect(tools, repository, trace, "--good", "v9")
        assert done.returncode == 2 and b"removed" not in done.stderr
        assert git(repository, "worktree", "list").count("heaptape-bisect-") == 1
        process.terminate()
        process.wait(timeout=60)
    check_untouched(repository)


@pytest.mark.thorough
def test_the_first_bad_commit_is_a_root(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Of another history, which was merged."""
    repository = made_of(tmp_path, [PLAIN, PLAIN])
    git(repository, "checkout", "-q", "--force", "--orphan", "other")
    root = commit(repository, "Another beginning", SLOWER)
    git(repository, "checkout", "-q", "main")
    git(repository, "merge", "-q", "-m", "Both", "--allow-unrelated-histories", "-X", "theirs", "other")
    (repository / "toy.c").write_text("not committed")
    done = bisect(tools, repository, trace, "--good", "v1")
    assert done.returncode == 0, done.stderr
    first, before, *_, row = done.stdout.decode().splitlines()
    assert first == f"first bad commit: {root[:12]} Another beginning" and before == "before it: nothing, it has no parent"
    assert "  n/a  " in row
    said = json.loads(bisect(tools, repository, trace, "--good", "v1", "--json").stdout)
    assert (said["first_bad"]["commit"], said["before"]) == (root, None)
    check_untouched(repository)


@pytest.mark.thorough
def test_a_bare_repository(tools: Tools, repository: Path, trace: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    done = bisect(tools, tmp_path / "bare.git", trace, "--good", "v1")
    assert done.returncode == 0 and b"Change 3" in done.stdout.splitlines()[0], done.stderr
    assert git(tmp_path / "bare.git", "worktree", "list").count("\n") == 0 and "bisect" not in git(tmp_path / "bare.git", "for-each-ref")


@pytest.mark.thorough
def test_files_of_the_build_before(tools: Tools, repository: Path, trace: Path, tmp_path: Path) -> None:
    """A build that makes nothing anew finds the first commit's objects in the later ones, unless they are cleaned away."""
    build = "mkdir -p build && { [ -e toy.o ] || gcc -O2 -fPIC -fno-builtin -c toy.c; } && gcc -shared -o build/lib.so toy.o"
    kept = bisect(tools, repository, trace, "--good", "v1", build=build)
    assert kept.returncode == 1 and b"expected it to be bad, found good" in kept.stderr
    cleaned = bisect(tools, repository, trace, "--good", "v1", "--clean", build=build)
    assert cleaned.returncode == 0 and b"Change 3" in cleaned.stdout.splitlines()[0], cleaned.stderr


@pytest.mark.thorough
def test_commits_that_do_not_build_are_skipped(tools: Tools, longer: Path, trace: Path) -> None:
    done = bisect(tools, longer, trace, "--good", "v1")
    assert done.returncode == 0, done.stderr
    first, before, *_ = done.stdout.decode().splitlines()
    assert first.startswith("first bad commit: ") and first.endswith("Change 5")
    assert before.startswith("before it: ") and before.endswith("Change 4")
    assert b"skip: " in done.stderr and b"the build failed" in done.stderr


@pytest.mark.thorough
def test_only_skipped_commits_left(tools: Tools, repository: Path, trace: Path) -> None:
    """All between the ends fail to build."""
    build = f"grep -q '// 1\\|// 4' toy.c && {BUILD}"
    done = bisect(tools, repository, trace, "--good", "v1", build=build)
    assert done.returncode == 5
    listed = done.stdout.decode()
    assert all(f"Change {number}" in listed for number in range(2, 5)) and "Change 1" not in listed
    assert b"skip: " in done.stderr and b"the build failed" in done.stderr


@pytest.mark.thorough
def test_the_last_commit_that_can_be_tested_is_good(tools: Tools, repository: Path, trace: Path) -> None:
    """The third does not build, so that the third or the fourth is the first bad one."""
    done = bisect(tools, repository, trace, "--good", "v1", build=f"! grep -q '// 3' toy.c && {BUILD}")
    assert done.returncode == 5, done.stderr
    listed = done.stdout.decode()
    assert [number for number in range(1, 5) if f"Change {number}" in listed] == [3, 4]


@pytest.mark.parametrize(("more", "status", "said"), [
    pytest.param(["--good", "v1", "--bad", "v1"], 1, b"expected it to be bad, found good, instructions 1.0000", marks=pytest.mark.thorough),
    (["--good", "v9"], 2, b"v9: expected a commit of this repository"),
    pytest.param(["--good=--output=written"], 2, b"--output=written: expected a commit of this repository", marks=pytest.mark.thorough),
    pytest.param(["--good", "HEAD", "--bad", "v1"], 2, b"expected --good to be an ancestor of --bad", marks=pytest.mark.thorough),
    pytest.param(["--good", "v1", "--fail-if", "faults>1", "--fail-if", "rss_peak>1"], 2, b"expected them alone", marks=pytest.mark.thorough),
    pytest.param(["--good", "v1", "--alloc", "/usr/lib/libmine.so"], 2, b"expected a path within the work tree", marks=pytest.mark.thorough),
    pytest.param(["--good", "v1", "--alloc", "../libmine.so"], 2, b"expected a path within the work tree", marks=pytest.mark.thorough),
    pytest.param(["--good", "v1", "--alloc", "."], 2, b"expected a path within the work tree", marks=pytest.mark.thorough),
    pytest.param(["--good", "v1", "--fail-if", "speed>1"], 2, b"--fail-if speed>1: expected one of time", marks=pytest.mark.thorough),
])
def test_what_cannot_be_searched(tools: Tools, repository: Path, trace: Path, more: list[str], status: int, said: bytes) -> None:
    done = bisect(tools, repository, trace, *more)
    assert done.returncode == status and said in done.stderr and done.stdout == b"", done.stderr
    check_untouched(repository)


@pytest.mark.thorough
def test_outside_of_a_repository(tools: Tools, trace: Path, tmp_path: Path) -> None:
    done = bisect(tools, tmp_path, trace, "--good", "v1")
    assert done.returncode == 2 and b"expected to be run in a git repository" in done.stderr


@pytest.mark.thorough
def test_a_good_commit_that_does_not_build(tools: Tools, repository: Path, trace: Path) -> None:
    done = bisect(tools, repository, trace, "--good", "v1~0", build="false")
    assert done.returncode == 1 and b"the good commit" in done.stderr and b"the build failed" in done.stderr


@pytest.mark.thorough
def test_a_bad_trace(tools: Tools, repository: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.bin").write_bytes(b"no trace")
    done = bisect(tools, repository, tmp_path / "bad.bin", "--good", "v1")
    assert done.returncode == 3 and b"bad.bin" in done.stderr
