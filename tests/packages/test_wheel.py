# SPDX-License-Identifier: Apache-2.0
"""How the wheels are made: packaging/. What it takes a chroot for is in test_packages.py."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from tool_runner import Tools, run

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging/wheel.sh"


@pytest.mark.parametrize("words", [[], ["--source", "folder"], ["one", "two"], ["--sources"]])
def test_wrong_usage(words: list[str]) -> None:
    done = run([SCRIPT, *words])
    assert (done.returncode, done.stderr) == (2, b"wheel.sh: usage: packaging/wheel.sh [--sources] FOLDER\n")


def test_without_root_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    others = [] if os.geteuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = run([*others, "sh", "-s", "--", tmp_path / "made"], stdin=SCRIPT.read_bytes())
    assert (done.returncode, done.stderr) == (1, b"wheel.sh: this takes root, for a chroot of Debian 11\n")
    assert not (tmp_path / "made").exists()


@pytest.fixture
def wheels(tools: Tools, tmp_path: Path) -> list[Path]:
    """Made of this machine's build: the programs run here, whatever the tag says."""
    made = tmp_path / "made"
    tools.succeed(["cmake", "--install", tools.build, "--prefix", made / "prefix"])
    if (made / "prefix/libexec/heaptape/valgrind").exists():
        shutil.copy(ROOT / "packaging/launch_tool.sh", made / "prefix/libexec/heaptape/valgrind/valgrind")
    for folder in ("licences", "licences-simulate"):
        (made / folder).mkdir()
        shutil.copy(ROOT / "LICENSE", made / folder)
    version = (ROOT / "analysis/heaptape/VERSION").read_text().strip()
    pure = tmp_path / f"heaptape-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pure, "w") as archive:
        for path in sorted((ROOT / "analysis/heaptape").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT / "analysis"))
        info = f"heaptape-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: heaptape\nVersion: {version}\n")
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\nheaptape-analysis = heaptape.__main__:run\n")
    found = []
    for number in range(2):
        (to := tmp_path / str(number)).mkdir()
        tools.succeed([sys.executable, ROOT / "packaging/make_wheels.py", pure, made, to], env={"SOURCE_DATE_EPOCH": "1700000000"})
        found.append(sorted(to.iterdir()))
    assert [path.read_bytes() for path in found[0]] == [path.read_bytes() for path in found[1]]
    return found[0]


@pytest.mark.thorough
def test_what_is_installed_finds_its_parts(tools: Tools, wheels: list[Path], tmp_path: Path) -> None:
    programs, simulation = wheels
    venv = tmp_path / "venv"
    tools.succeed([sys.executable, "-m", "venv", "--system-site-packages", venv])
    (venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages/tests.pth").write_text("\n".join(
        path for path in sys.path if path.endswith("site-packages")))
    install = [venv / "bin/pip", "install", "-q", "--no-index", "--no-deps", "--ignore-installed", "--disable-pip-version-check"]
    tools.succeed([*install, programs])
    assert not [path for path in venv.rglob("*") if path.is_symlink() and "heaptape" in path.name]
    heaptape, home = venv / "bin/heaptape", {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = run([heaptape, "try", "-q", "--no-check", "--budget", "5s", "--alloc", "glibc", "-o", tmp_path / "trial", "--", "ls"], env=home)
    assert done.returncode in (0, 5) and (tmp_path / "trial/report.html").exists(), done
    # The interpreter is the environment's, and the replayer that beside it.
    tools.succeed([heaptape, "compare", tmp_path / "trial/results.jsonl"], env=home)
    replayed = tools.succeed([venv / "bin/replay", "--rounds", "1", "--pass", "memory", "--alloc", "glibc", tmp_path / "trial/trace.bin"], env=home)
    assert replayed.stdout
    if (tools.build / "valgrind/heaptape-amd64-linux").exists():
        tools.succeed([*install, simulation])
        # By the launcher of the package, and the programs that the program starts, too.
        counted = tools.succeed([heaptape, "count", "-i", "--", "/bin/sh", "-c", "/bin/true; :"], env=home | {"PATH": "/nowhere"})
        assert counted.stderr.count(b"dynamic loader") == 2
