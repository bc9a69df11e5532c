# SPDX-License-Identifier: Apache-2.0
"""--alloc NAME@LOADER: the measured child runs under another C library, which the proof of service names."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Tools, run


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("trace"), events=4000)


@pytest.fixture(scope="module")
def system(tools: Tools) -> dict[str, Path]:
    """The loader and the libraries that replay-glibc has of the system."""
    said = tools.succeed(["ldd", tools.build / "replay-glibc"]).stdout.decode()
    paths = [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]
    return {path.name: path for path in paths} | {"ld.so": next(p for p in paths if p.name.startswith("ld"))}


@pytest.fixture(scope="module")
def copy(system: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a C library and its loader."""
    folder = tmp_path_factory.mktemp("libc")
    for name, path in system.items():
        shutil.copy(path.resolve(), folder / name)
    return folder


def test_the_copy_serves_and_is_named(tools: Tools, trace: Path, copy: Path) -> None:
    results = copy / "r.jsonl"
    specs = ["glibc@./ld.so", "new=glibc@./ld.so:tcache_count=0", "glibc"]
    counts = ["--instructions"] if shutil.which("valgrind") else []
    done = tools.succeed([tools.replay_program, "--alloc", ",".join(specs), "--rounds", "1", "--json", "-q", *counts,
                          "-o", results, trace], cwd=copy)
    last = {row["allocator"]["name"]: row for row in replay_traces.rows(results) if row["pass"] == "memory"}
    assert set(last) == {"null", "glibc@./ld.so", "new", "glibc"}
    reported = {name: row["allocator"] for name, row in last.items()}
    for name in ("glibc@./ld.so", "new"):
        assert reported[name]["path"] == str(copy / "libc.so.6") != reported["glibc"]["path"]
        assert (reported[name]["kind"], reported[name]["version"], reported[name]["build_id"]) \
            == ("glibc", reported["glibc"]["version"], reported["glibc"]["build_id"])
        assert abs(last[name]["rss_peak_bytes"] / last["glibc"]["rss_peak_bytes"] - 1) < 0.2
    assert reported["new"]["knobs"]["tcache_count"] == "0"
    said = {one["name"]: one["instructions"] for one in json.loads(done.stdout)["allocators"]}
    assert not counts or 0.99 < said["glibc@./ld.so"] / said["glibc"] < 1.01 < said["new"] / said["glibc"]


PACKAGES = sorted(Path(os.environ.get("HEAPTAPE_TEST_PACKAGES", "/nowhere")).glob("libc6_*.deb"))


@pytest.mark.thorough
@pytest.mark.parametrize("package", PACKAGES or [pytest.param(None, marks=pytest.mark.skip(reason="no libc6_*.deb in $HEAPTAPE_TEST_PACKAGES"))],
                         ids=lambda path: path and path.name)
def test_each_release_has_its_own_knobs(tools: Tools, trace: Path, tmp_path: Path, package: Path) -> None:
    run(["dpkg-deb", "-x", package, tmp_path / "system"])
    loader, = (path for folder in ("lib64", "usr/lib64") for path in (tmp_path / "system" / folder).glob("ld-linux-*"))
    [said] = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", f"a=glibc@{loader}"]).stdout)
    version = tuple(map(int, said["version"].split(".")))
    assert package.name.startswith(f"libc6_{said['version']}-")
    knobs = {knob["name"]: knob for knob in said["knobs"]}
    assert knobs["mxfast"]["heeded"] == bool(knobs["mxfast"]["search"]) == (version < (2, 43))
    assert knobs["hugetlb"]["heeded"] == (version >= (2, 35))
    assert (knobs["tcache_max"]["highest"], knobs["tcache_count"]["default"]) \
        == (4194280 if version >= (2, 42) else 1032, "16" if version >= (2, 43) else "7")
    asked = {"mxfast=0": version < (2, 43), "tcache_max=4000": version >= (2, 42), "hugetlb=0": version >= (2, 35), "tcache_count=0": True}
    for knob, heeded in asked.items():
        done = run([tools.replay_program, "--alloc", f"a=glibc@{loader}:{knob}", "--pass", "memory", "--rounds", "1", "-q", trace])
        assert (done.returncode == 0) == heeded, done.stderr
        assert heeded or done.stderr.decode().startswith(f"heaptape replay: a: {'version' if 'max' not in knob else 'tcache_max=4000: version'}")


def test_replayers_need_nothing_that_is_newer_than_2_31(tools: Tools) -> None:
    for program in sorted(tools.build.glob("replay-*")):
        said = run(["readelf", "--wide", "--version-info", program]).stdout.decode()
        needed = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", said)}
        assert (2, 7) <= max(needed) <= (2, 31), f"{program}: {max(needed)}"


@pytest.mark.thorough
def test_others_run_under_it_and_say_what_they_say_elsewhere(tools: Tools, trace: Path, copy: Path) -> None:
    """What an allocator tells by starting once more, it must tell under that C library, too."""
    names = [name for name in ("jemalloc", "mimalloc") if (tools.build / f"replay-{name}").exists()]
    if not names:
        pytest.skip("neither jemalloc nor mimalloc is built")
    wrapper, loaders = copy / "wrapper", copy / "loaders"
    wrapper.write_text(f'#!/bin/sh\necho "$1" >> {loaders}\nexec "$@"\n')
    wrapper.chmod(0o755)
    rows = tools.replay(trace, ",".join(f"{name},{name}@{copy}/ld.so" for name in names), copy / "others.jsonl",
                        "--pass", "time", "--repeats", "1", "-q", "--wrap", str(wrapper))
    reported = {row["allocator"]["name"]: row["allocator"] for row in rows}
    for name in names:
        ours, other = reported[name], reported[f"{name}@{copy}/ld.so"]
        assert ours["knobs"] and {**other, "name": name} == ours
    started = loaders.read_text().split()
    assert str(copy / "ld.so") in started and str(tools.build / f"replay-{names[0]}") in started


def test_a_link_in_an_unpacked_system_leads_to_its_own_loader(tools: Tools, trace: Path, copy: Path,
                                                              tmp_path: Path) -> None:
    folder = tmp_path / "srv/lib"
    shutil.copytree(copy, folder)
    (tmp_path / "srv/lib64").mkdir()
    (tmp_path / "srv/lib64/ld.so").symlink_to("/lib/ld.so")
    rows = tools.replay(trace, f"a=glibc@{tmp_path}/srv/lib64/ld.so", tmp_path / "r.jsonl", "--pass", "memory")
    assert {row["allocator"]["path"] for row in rows if row["allocator"]["name"] == "a"} == {f"{folder}/libc.so.6"}


def test_a_loader_that_takes_another_libc_is_refused(tools: Tools, trace: Path, copy: Path, tmp_path: Path) -> None:
    said = run([copy / "ld.so", "--help"]).stdout.decode()
    level = re.search(r"^ +(\S+) \(supported, searched\)", said, re.MULTILINE)
    if level is None:
        pytest.skip("this loader searches no folder of a processor's level")
    folder = tmp_path / "libc"
    shutil.copytree(copy, folder)
    better = folder / "glibc-hwcaps" / level[1]
    better.mkdir(parents=True)
    shutil.copy(copy / "libc.so.6", better)
    done = run([tools.replay_program, "--alloc", f"a=glibc@{folder}/ld.so", "--rounds", "1", "-q", trace])
    assert done.returncode == 1
    assert done.stderr.decode() == f"heaptape replay: a: its C library is {better}/libc.so.6, not its loader's\n"


def refused(tools: Tools, trace: Path, spec: str) -> str:
    done = run([tools.replay_program, "--alloc", spec, trace])
    assert done.returncode == 2 and done.stdout == b""
    line, = done.stderr.decode().splitlines()
    return line.removeprefix("heaptape replay: --alloc: ")


def test_what_is_no_loader_is_refused(tools: Tools, trace: Path, copy: Path, tmp_path: Path) -> None:
    no_loader = "expected the dynamic loader of a C library of this processor"
    text, fifo = tmp_path / "text", tmp_path / "fifo"
    text.write_text("no loader\n")
    os.mkfifo(fifo)
    for path in (tmp_path, text, fifo, tools.build / "replay-glibc", copy / "libc.so.6",
                 tools.shim):
        assert refused(tools, trace, f"glibc@{path}").startswith(f"{path}: {no_loader}")
    assert refused(tools, trace, "glibc@/nowhere/ld.so") == "/nowhere/ld.so: No such file or directory"
    assert refused(tools, trace, "glibc@") == (
        "glibc@: expected NAME@VERSION of an allocator that --list has, or NAME@LOADER with the loader's path")
    assert refused(tools, trace, f"no@{copy}/ld.so").startswith("no is not built; expected one of ")
    assert "null can be replayed under this C library only" in refused(tools, trace, f"null@{copy}/ld.so")


def test_a_loader_without_its_libc_is_refused(tools: Tools, trace: Path, copy: Path, tmp_path: Path) -> None:
    shutil.copy(copy / "ld.so", tmp_path)
    missing = f"{tmp_path}/ld.so: its libc.so.6 is neither in its folder nor in its root's library folders"
    assert refused(tools, trace, f"glibc@{tmp_path}/ld.so") == missing
    (tmp_path / "libc.so.6").write_text("no library\n")
    assert refused(tools, trace, f"glibc@{tmp_path}/ld.so") == missing
    colon = tmp_path / "a:b"
    shutil.copytree(copy, colon)
    assert "a path without colon" in refused(tools, trace, f"glibc@{colon}/ld.so")


def test_a_child_can_be_asked_before_it_has_looked_for_the_c_library(tools: Tools) -> None:
    """As on glibc before 2.34, where dlsym allocates when it is called first."""
    alone = run([tools.build / "replay-glibc"])
    early = run([tools.build / "replay-glibc"], env={"LD_PRELOAD": str(tools.target("early_dlsym.so"))})
    assert (early.returncode, early.stdout, early.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert alone.returncode > 0  # it asks for its arguments
