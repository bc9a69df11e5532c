# SPDX-License-Identifier: Apache-2.0
"""The recorded program's allocator is replayed as it was set, whatever the environment of whoever replays it sets."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from naive_writer import Event, TraceSpec, build
from tool_runner import Tools, run

MALLOC, FREE = 1, 5
TODAY = {"MALLOC_ARENA_MAX": "3", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.pthread.stack_cache_size=9", "MALLOC_CONF": "narenas:5",
         "TCMALLOC_AGGRESSIVE_DECOMMIT": "1", "MIMALLOC_ARENA_EAGER_COMMIT": "0", "MALLOC_PERTURB_": "7", "SCUDO_OPTIONS": "zero_contents=1"}

SETTINGS = [
    ({"allocator_name": "glibc", "env.MALLOC_ARENA_MAX": "1", "env.MALLOC_TRIM_THRESHOLD_": "-1", "env.MALLOC_CHECK_": "3"},
     "glibc", {"arena_max": "1", "trim_threshold": "-1"}, ["MALLOC_CHECK_=3"]),
    ({"allocator_name": "glibc", "env.MALLOC_ARENA_MAX": "1", "env.MALLOC_CONF": "narenas:1",
      "env.GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.pthread.rseq=0:glibc.malloc.mmap_threshold=0x8000:glibc.malloc.nope=1"},
     "glibc", {"arena_max": "2", "mmap_threshold": "0x8000"}, ["nope=1"]),
    ({"allocator_name": "jemalloc", "env.MALLOC_CONF": "dirty_decay_ms:0,slab_sizes:1-4096:17,prof:true,narenas:0,stats_print:true"},
     "jemalloc", {"dirty_decay_ms": "0", "slab_sizes": "1-4096:17"}, ["prof=true", "narenas=0", "stats_print=true"]),
    ({"allocator_name": "jemalloc", "linked_allocator": "jemalloc", "env._RJEM_MALLOC_CONF": "tcache:false", "env.MALLOC_CONF": "narenas:1"},
     "jemalloc", {"tcache": "false"}, []),
    ({"allocator_name": "jemalloc", "env._RJEM_MALLOC_CONF": "tcache:false", "env.MALLOC_CONF": "narenas:1"}, "jemalloc", {"narenas": "1"}, []),
    ({"allocator_name": "tcmalloc", "env.TCMALLOC_RELEASE_RATE": "0.5", "env.TCMALLOC_MEMFS_MALLOC_PATH": "/x"},
     "tcmalloc", {"release_rate": "0.5"}, ["TCMALLOC_MEMFS_MALLOC_PATH=/x"]),
    ({"allocator_name": "mimalloc", "env.MIMALLOC_EAGER_COMMIT": "no", "env.MIMALLOC_SHOW_STATS": "1"},
     "mimalloc", {"eager_commit": "no"}, ["MIMALLOC_SHOW_STATS=1"]),
    ({"allocator": "/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.scudo_standalone-x86_64.so",
      "env.SCUDO_OPTIONS": "release_to_os_interval_ms=0 quarantine_size_kb=64:help=1"},
     "scudo19", {"release_to_os_interval_ms": "0", "quarantine_size_kb": "64"}, ["help=1"]),
    ({"allocator_name": "tbbmalloc", "env.TBB_MALLOC_USE_HUGE_PAGES": "0"}, "tbbmalloc", {"TBB_MALLOC_USE_HUGE_PAGES": "0"}, []),
]


def written(folder: Path, context: dict[str, str]) -> Path:
    """A few blocks of a page, and those freed."""
    events = [Event(MALLOC, time=i, slot=i + 1, size=4096) for i in range(50)] + [Event(FREE, time=50 + i, slot=i + 1) for i in range(40)]
    path = folder / "t.bin"
    path.write_bytes(build(TraceSpec(events, context={"command": "job", "page_bytes": 4096, "pid": 7} | context))[0])
    return path


def listed(tools: Tools, trace: Path, alloc: str) -> dict:
    one, = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", alloc, trace], env=TODAY).stdout)
    return one


def need(tools: Tools, name: str) -> None:
    if not (tools.build / f"replay-{name}").exists():
        pytest.skip(f"replay-{name} is not built")


@pytest.mark.parametrize(("context", "name", "settings", "left_out"), SETTINGS, ids=[f"{number}-{case[1]}" for number, case in enumerate(SETTINGS)])
def test_settings_of_the_recording(tools: Tools, tmp_path: Path, context: dict[str, str], name: str, settings: dict[str, str], left_out: list[str]) -> None:
    need(tools, name)
    trace = written(tmp_path, context)
    found = listed(tools, trace, name)
    assert (found["name"], found["settings"], found["left_out"]) == (name, settings, left_out)
    for word in [*settings.values(), *(item.rpartition("=")[2] for item in left_out)]:
        assert word in " ".join(found["environment"])
    plain = listed(tools, trace, f"{name}:default")
    assert (plain["name"], plain["settings"], plain["environment"]) == (f"{name}:default", {}, [])
    other = "jemalloc" if name == "glibc" else "glibc"
    assert not (tools.build / f"replay-{other}").exists() or listed(tools, trace, other)["settings"] == {}


def test_a_knob_changes_one_of_them(tools: Tools, tmp_path: Path) -> None:
    trace = written(tmp_path, {"allocator_name": "glibc", "env.MALLOC_ARENA_MAX": "1", "env.MALLOC_MMAP_MAX_": "5",
                               "env.GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
    found = listed(tools, trace, "glibc:arena_max=4")
    assert found["settings"] == {"mmap_max": "5"}
    assert found["environment"] == ["MALLOC_MMAP_MAX_=5", "GLIBC_TUNABLES=glibc.pthread.rseq=0:glibc.malloc.arena_max=4"]
    found = listed(tools, trace, "glibc:default,arena_max=4")
    assert (found["name"], found["settings"], found["environment"]) == ("glibc:default,arena_max=4", {}, ["GLIBC_TUNABLES=glibc.malloc.arena_max=4"])


def test_the_baseline_is_as_it_was_set(tools: Tools, tmp_path: Path) -> None:
    """It has its knobs in tables, its name in results, and nothing of today's environment."""
    trace, results = written(tmp_path, {"allocator_name": "glibc", "env.MALLOC_MMAP_THRESHOLD_": "4096", "env.MALLOC_CHECK_": "3"}), tmp_path / "r.jsonl"
    done = run([tools.replay_program, "--pass", "memory", "--rounds", "1", "--alloc", "glibc,glibc:default", "-o", results, trace], env=TODAY)
    assert done.returncode == 0 and b"\nglibc:mmap_threshold=4096 " in done.stdout
    assert b"warning: the program ran with MALLOC_CHECK_=3, which no replay has; " in done.stderr
    rows = {row["allocator"]["name"]: row for row in map(json.loads, results.read_text().splitlines()) if not row["control"]}
    default = rows["glibc:default"]["allocator"]["knobs"]
    assert default in ({}, {"top_pad": "131072"})  # later releases of glibc list that default
    assert rows["glibc"]["allocator"]["knobs"] == default | {"mmap_threshold": "4096"}
    assert rows["glibc"]["allocator"]["settings"] == {"mmap_threshold": "4096"} and rows["glibc"]["allocator"]["left_out"] == ["MALLOC_CHECK_=3"]
    # What the first 132 KiB of the heap have no room for is mapped, block by block.
    if rows["glibc"]["syscalls"]:
        assert rows["glibc"]["syscalls"]["mmap"]["calls"] >= 15 > rows["glibc:default"]["syscalls"]["mmap"]["calls"]
    assert rows["null"]["allocator"]["knobs"] == {}


@pytest.mark.parametrize(("context", "baseline"), [({"allocator_name": "jemalloc"}, "jemalloc"), ({}, "glibc"), ({"allocator_name": "mimalloc"}, "glibc"),
                                                   ({"allocator_name": "jemalloc", "linked_allocator": "jemalloc"}, "glibc")])
def test_the_program_ran_under_the_baseline(tools: Tools, tmp_path: Path, context: dict[str, str], baseline: str) -> None:
    """Where nobody names another: replay and compare agree. A linked one has to be of the same version."""
    need(tools, "jemalloc")
    trace, results = written(tmp_path, context), tmp_path / "r.jsonl"
    replayed = json.loads(tools.succeed([tools.replay_program, "-q", "--alloc", "glibc,jemalloc", "--rounds", "2", "--pass", "memory", "--json",
                                         "-o", results, trace]).stdout)
    compared = tools.succeed([tools.heaptape, "compare", results]).stdout.decode()
    assert replayed["baseline"] == baseline and f"vs {baseline}" in compared


def test_every_allocator_has_a_default(tools: Tools) -> None:
    names = [line.split()[0] for line in tools.succeed([tools.replay_program, "--list"]).stdout.decode().splitlines()]
    names = [name for name in names if name not in ("null", "bump")]
    found = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", ",".join(f"{name}:default" for name in names)]).stdout)
    assert [item["name"] for item in found] == [f"{name}:default" for name in names]
    refused = run([tools.replay_program, "--list", "--alloc", "glibc:arena_max=1,default"])
    assert refused.returncode == 2 and b"default is not built" in refused.stderr


@pytest.mark.parametrize(("name", "variable"), [("scudo19", "SCUDO_OPTIONS=release_to_os_interval_ms=0"), ("tbbmalloc", "TBB_MALLOC_USE_HUGE_PAGES=0"),
                                                ("jemalloc", "MALLOC_CONF=dirty_decay_ms:0")])
def test_recorded_under_a_preloaded_library(tools: Tools, tmp_path: Path, name: str, variable: str) -> None:
    """Which the trace names, though not all have a function for that, and whose settings it has."""
    need(tools, name)
    library, = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", name]).stdout)
    recording = tools.record(["sort", "/dev/null"], tmp_path / "logs", env={"LD_PRELOAD": library["path"], **dict([variable.split("=", 1)])})
    trace = tools.convert(recording.logs[0], tmp_path / "t.bin")
    assert tools.info(trace)["recorded_allocator"] == name
    found, = json.loads(tools.succeed([tools.replay_program, "--list", "--json", "--alloc", name, trace]).stdout)
    assert list(found["settings"].values()) == [re.split("[=:]", variable)[-1]]
