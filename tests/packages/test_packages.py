# SPDX-License-Identifier: Apache-2.0
"""What is given to users: Debian packages, the two commands from a clone, the wheels. Needs root, debootstrap and a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import story
from tool_runner import Tools

pytestmark = pytest.mark.slow
SUITES = ["bookworm", "trixie"]
FRESH = "gcc,g++,cmake,ninja-build,git,python3"  # what somebody who builds programs has


def run(command: list[str | Path]) -> str:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def bare_debian(suite: str, root: Path, include: str = "ca-certificates") -> Path:
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    run(["debootstrap", "--variant=minbase", f"--include={include}", suite, root])
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    return root


def inside(root: Path, *command: str) -> str:
    """Runs the command there, in namespaces, so that nothing stays mounted."""
    script = f'mount -t proc proc {root}/proc && mount -t tmpfs tmpfs {root}/dev/shm && exec chroot {root} "$@"'
    return run(["unshare", "--mount", "--pid", "--fork", "env", "-i", f"PATH={os.environ['PATH']}", "HOME=/root", "LC_ALL=C.UTF-8",
                "sh", "-c", script, "sh", *command])


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    run(["git", "clone", "-q", "--bare", repository, tmp_path / "heaptape.git"])
    return tmp_path / "heaptape.git"


@pytest.mark.parametrize("suite", SUITES)
def test_packages_are_built_installed_used_and_removed(clone: Path, tmp_path: Path, suite: str) -> None:
    tree = tmp_path / "heaptape"
    run(["git", "clone", "-q", clone, tree])
    builder = bare_debian(suite, tmp_path / "builder")
    shutil.copytree(tree, builder / "heaptape")
    # A tree that was built, on a machine that has what its build installs: none of it may get into the packages.
    inside(builder, "/heaptape/build.sh")
    inside(builder, "/heaptape/debian/build.sh", "/debs")
    user = bare_debian(suite, tmp_path / "user")
    shutil.copytree(tree, user / "heaptape")
    shutil.copytree(builder / "debs", user / "debs")
    assert "use.sh: installed, used and removed" in inside(user, "/heaptape/tests/packages/use.sh", "/debs")


@pytest.mark.parametrize("suite", SUITES)
def test_two_commands_from_a_clone_to_the_answer(clone: Path, tmp_path: Path, suite: str) -> None:
    root = bare_debian(suite, tmp_path / "root", FRESH)
    shutil.copytree(clone, root / "heaptape.git")
    shutil.copy(Path(__file__).with_name("two_commands.sh"), root)
    print(said := inside(root, "/two_commands.sh", "/heaptape.git"))
    assert re.search(r"build/heaptape try after \d+ s", said)


@pytest.fixture(scope="module")
def wheels(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() or not shutil.which("debootstrap") or not shutil.which("cargo"):
        pytest.skip("needs root, debootstrap and cargo")
    folder = tmp_path_factory.mktemp("wheels")
    run([repository / "packaging/wheel.sh", folder])
    return folder


@pytest.mark.parametrize("suite", [*SUITES, "sid"])
def test_the_wheels_give_an_answer_without_a_compiler(repository: Path, wheels: Path, tmp_path: Path, suite: str) -> None:
    root = bare_debian(suite, tmp_path / "root", "ca-certificates,python3,python3-venv")
    shutil.copytree(wheels, root / "wheels")
    shutil.copy(repository / "tests/packages/use_wheel.sh", root)
    print(said := inside(root, "/use_wheel.sh", "/wheels"))
    assert "use_wheel.sh: installed, used and removed" in said


def test_the_recorder_alone_records_on_debian_11(wheels: Path, tools: Tools, tmp_path: Path) -> None:
    root = bare_debian("bullseye", tmp_path / "root")
    [archive] = wheels.glob("heaptape-recorder-*.tar.gz")
    run(["tar", "-C", root, "--strip-components=1", "-xzf", archive])
    inside(root, "env", "LD_PRELOAD=/glibc/libmalloc_wrap.so", "MALLOC_WRAP_OUT=/var/tmp", "perl", "-e", '$h{$_} = "x" for 1..9999')
    [log] = (root / "var/tmp").glob("*.mraw")
    assert tools.info(tools.convert(log, tmp_path / "perl.bin"))["events"] > 9999


def test_the_pure_wheel(repository: Path, tmp_path: Path) -> None:
    results, _ = story.write_story(tmp_path)
    shutil.copytree(repository / "analysis", tmp_path / "analysis")
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, tmp_path / "analysis"])
    [wheel] = tmp_path.glob("heaptape-*-py3-none-any.whl")
    run([sys.executable, "-m", "venv", tmp_path / "venv"])
    run([tmp_path / "venv/bin/pip", "install", "-q", wheel])
    assert "mimalloc is fastest" in run([tmp_path / "venv/bin/heaptape-analysis", "compare", results])
