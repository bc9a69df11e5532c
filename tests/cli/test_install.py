# SPDX-License-Identifier: Apache-2.0
"""The three commands of the README, from any folder, from the build tree and once installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tool_runner import Tools, logs_in, outcome_of, run

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


def walk_the_path(heaptape: Path, replay: Path, shim: str, program: Path, folder: Path,
                  env: dict[str, str] | None = None) -> None:
    """Record by LD_PRELOAD, convert, replay: in a folder that is not the repository's."""
    folder.mkdir()
    variables = {"LD_PRELOAD": shim, "MALLOC_WRAP_OUT": ".", **(env or {})}
    done = run([program, "counts"], env=variables, cwd=folder)
    assert outcome_of(done) == outcome_of(run([program, "counts"], cwd=folder))
    [log] = logs_in(folder)
    done = run([heaptape, "convert", log.name, "-o", "trace.bin"], cwd=folder)
    assert done.returncode == 0, done.stderr
    done = run([replay, "--alloc", "tcmalloc", "--rounds", "1", "trace.bin", "-o", "r.jsonl"],
               cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    served = [row for row in rows if row["allocator"]["name"] == "tcmalloc"]
    assert {row["pass"] for row in served} == {"time", "memory"}
    assert all("tcmalloc" in row["allocator"]["path"] for row in served)


def test_from_another_folder(tools: Tools, tmp_path: Path) -> None:
    walk_the_path(tools.heaptape, tools.replay_program, str(tools.shim), tools.target("exit_quick"),
                  tmp_path / "elsewhere")


def test_relative_paths_of_the_tools(tools: Tools, tmp_path: Path) -> None:
    """Called by a relative path, and through a symbolic link, the tools find their own parts."""
    link = tmp_path / "bin"
    link.symlink_to(tools.build)
    folder = tmp_path / "elsewhere"
    relative = Path(os.path.relpath(link, folder))
    walk_the_path(relative / "heaptape", relative / "replay", str(tools.shim),
                  tools.target("exit_quick"), folder)


@pytest.fixture(scope="module")
def prefix(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    tools.succeed(["cmake", "--install", tools.build, "--prefix", folder])
    return folder


def test_installed(tools: Tools, prefix: Path, tmp_path: Path) -> None:
    [shim] = [p for p in prefix.rglob("libmalloc_wrap.so") if not p.is_symlink()]
    walk_the_path(prefix / "bin" / "heaptape", prefix / "bin" / "replay", str(shim),
                  tools.target("exit_quick"), tmp_path / "elsewhere")


def test_installed_by_bare_name(tools: Tools, prefix: Path, tmp_path: Path) -> None:
    """On the loader's path, as ldconfig would make it, the name alone is enough."""
    [shim] = [p for p in prefix.rglob("libmalloc_wrap.so") if not p.is_symlink()]
    walk_the_path(prefix / "bin" / "heaptape", prefix / "bin" / "replay", "libmalloc_wrap.so",
                  tools.target("exit_quick"), tmp_path / "elsewhere",
                  env={"LD_LIBRARY_PATH": str(shim.parent)})


def test_installed_record_finds_its_shim(tools: Tools, prefix: Path, tmp_path: Path) -> None:
    done = run([prefix / "bin" / "heaptape", "record", "-o", tmp_path, "--",
                tools.target("exit_quick")])
    assert done.returncode == 14, done.stderr
    [log] = logs_in(tmp_path)
    assert tools.convert_clean(log, tmp_path / "t.bin")["events"] >= 2000


def test_installed_pages(tools: Tools, prefix: Path) -> None:
    if not (tools.build / "pages").is_dir():
        pytest.skip("this build has no man pages: no python3, or a cross build")
    share = prefix / "share"
    for name in ("man/man1/heaptape.1", "man/man1/heaptape-replay.1", "man/man1/replay.1", "bash-completion/completions/heaptape",
                 "bash-completion/completions/replay", "zsh/site-functions/_heaptape", "fish/vendor_completions.d/heaptape.fish"):
        assert (share / name).stat().st_size > 20, name


@pytest.mark.thorough
def test_the_reader_example(tools: Tools, prefix: Path, repository: Path, tmp_path: Path) -> None:
    """The program of docs/reference/reader.md, compiled as the page says, in strict C."""
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    page = (repository / "docs" / "reference" / "reader.md").read_text()
    code = re.findall(r"```c\n(.*?)```", page, re.DOTALL)[0]
    [command] = re.findall(r"^cc .*", page, re.MULTILINE)
    assert len(code.splitlines()) <= 30
    (tmp_path / "peak.c").write_text(code)
    [settings] = prefix.rglob("heaptape.pc")
    strict = command.replace("cc ", "cc -std=c11 -pedantic -Wall -Wextra -Werror ").replace("pkg-config", "pkg-config --define-prefix")
    done = run(["sh", "-c", strict], cwd=tmp_path, env={"PKG_CONFIG_PATH": str(settings.parent)})
    assert done.returncode == 0, done.stderr
    library_path = {"LD_LIBRARY_PATH": str(settings.parent.parent)}
    trace = GOLDEN / "sqlite3.bin"
    info = json.loads(run([tools.heaptape, "info", "--json", trace]).stdout)
    done = run([tmp_path / "peak", trace], env=library_path)
    assert done.stdout.decode() == f"{info['events']} events, {info['peak_live_bytes']} bytes live at the peak\n" and not done.returncode
    (tmp_path / "cut.bin").write_bytes(trace.read_bytes()[:4000])
    done = run([tmp_path / "peak", tmp_path / "cut.bin"], env=library_path)
    assert done.returncode == 1 and b"cut.bin: offset" in done.stderr


@pytest.mark.thorough
def test_verbs_in_python_when_installed(prefix: Path, tmp_path: Path) -> None:
    """They take the installed package, and nothing of the folder that they are called in."""
    (tmp_path / "json.py").write_text("raise SystemExit('the module of somebody else')")
    done = run([prefix / "bin" / "heaptape", "compare", "none.jsonl"], cwd=tmp_path, env={"HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": ""})
    assert done.returncode == 3 and b"heaptape compare: none.jsonl" in done.stderr, done.stderr


def test_installed_tree_does_not_need_the_build(prefix: Path, build: Path) -> None:
    """No file that was installed may name the build folder as a place to load things from."""
    for program in prefix.rglob("*"):
        if not program.is_file() or program.is_symlink():
            continue
        done = run(["readelf", "-d", program])
        assert str(build).encode() not in done.stdout, program
