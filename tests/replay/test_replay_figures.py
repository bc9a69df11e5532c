# SPDX-License-Identifier: Apache-2.0
"""Figures beside time and peak RSS, of calls that the tests made up and so know everything about."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import platform
import random
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest

from safety_checks import need_root
from shared_folder import shared_folder
from tool_runner import Argument, Tools, clean_environment

MIB = 1 << 20
BIG_BYTES = 40 * MIB  # above every threshold of glibc's, so each has a mapping of its own
BIG_BLOCKS, BIG_FREED = 20, 8
PAGE_BYTES = 4096
QUANTILES = ("p50", "p90", "p99", "p999", "max")
PROCESSOR = ("instructions", "cycles", "cache_misses", "llc_load_misses", "dtlb_load_misses",
             "branch_misses")


def write_rep(path: Path, lines: list[str]) -> None:
    """The text of CS:APP's malloc lab: `a ID SIZE`, `r ID SIZE`, `f ID`."""
    path.write_text("\n".join(["0", str(len(lines)), str(len(lines)), "1", *lines, ""]))


@dataclass
class Program:
    """Calls of which all is known."""

    trace: Path
    calls: Counter[str]
    live: dict[int, int]  # at the end
    peak: dict[int, int]  # where most is live
    reallocated: set[int]


def churn(tools: Tools, folder: Path, count: int = 40000) -> Program:
    """Small blocks come and go, more come than go; then half of all is freed."""
    choose = random.Random(5)
    lines, calls, live, reallocated = [], Counter(), {}, set()
    for number in range(count):
        size = int(2 ** choose.uniform(3, 13))
        lines.append(f"a {number} {size}")
        live[number] = size
        calls["malloc"] += 1
        if number % 10 == 9:
            changed = choose.choice(list(islice(reversed(live), 50)))
            live[changed] = size // 2 + 1
            reallocated.add(changed)
            lines.append(f"r {changed} {live[changed]}")
            calls["realloc"] += 1
        if number % 3 == 2:
            gone = choose.choice(list(islice(reversed(live), 100)))
            lines.append(f"f {gone}")
            del live[gone]
            calls["free"] += 1
    lines.append(f"a {count} 8388608")  # so that the peak is here, to the byte
    live[count] = 8388608
    calls["malloc"] += 1
    peak = dict(live)
    for gone in [count, *list(live)[:-1:2]]:
        lines.append(f"f {gone}")
        del live[gone]
        calls["free"] += 1
    write_rep(folder / "churn.rep", lines)
    trace = tools.convert(folder / "churn.rep", folder / "churn.bin")
    return Program(trace, calls, live, peak, reallocated)


@dataclass
class Replayed:
    program: Program
    time: dict[str, dict]  # lines of results by allocator
    memory: dict[str, dict]
    compared: dict[str, dict]
    text: str

    @property
    def real(self) -> list[str]:
        return [name for name in self.time if name != "null"]


# Those that tell everything there is to tell; those of them that are here.
TELLING = "telling"


def telling(tools: Tools) -> str:
    listed = tools.succeed([tools.replay_program, "--list"]).stdout.decode().splitlines()
    known = ("glibc", "jemalloc", "mimalloc", "tcmalloc")
    return ",".join(name for name in known if any(line.split()[0] == name for line in listed))


def replay(tools: Tools, trace: Path, folder: Path, *more: Argument, allocators: str = TELLING,
           rounds: int = 1, **options) -> tuple[list[dict], dict]:
    """The lines of results, and the comparison."""
    results = folder / "results.jsonl"
    command = [tools.replay_program, "--alloc", telling(tools) if allocators == TELLING else allocators, "--rounds", rounds, "--json", trace,
               "-o", results, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, check=False, timeout=120,
                          **{"env": clean_environment(), **options})
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return lines, json.loads(done.stdout)


def by_name(lines: list[dict], of_pass: str) -> dict[str, dict]:
    """The control is another run of an allocator that has one."""
    return {row["allocator"]["name"]: row for row in lines
            if row["pass"] == of_pass and not row["control"]}


def replay_churn(tools: Tools, folder: Path) -> None:
    program = churn(tools, folder)
    lines, compared = replay(tools, program.trace, folder)
    text = tools.succeed([tools.replay_program, "--alloc", telling(tools), "-v", "--rounds", "1",
                           program.trace]).stdout
    done = Replayed(program,
                    by_name(lines, "time"),
                    by_name(lines, "memory"),
                    {row["name"]: row for row in compared["allocators"]}, text.decode())
    (folder / "replayed").write_bytes(pickle.dumps(done))


@pytest.fixture(scope="module")
def replayed(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    folder = shared_folder(tmp_path_factory, "figures", lambda folder: replay_churn(tools, folder))
    return pickle.loads((folder / "replayed").read_bytes())


def test_latencies(replayed: Replayed) -> None:
    for row in replayed.time.values():
        by_function, by_size = row["latency_ns"], row["latency_by_size_ns"]
        assert set(by_function) == set(replayed.program.calls)
        for found in [*by_function.values(), *by_size]:
            assert found["count"] > 0
            values = [found[name] for name in QUANTILES]
            assert values == sorted(values) and values[0] >= 0
        for counts in (by_function.values(), by_size):
            assert sum(found["count"] for found in counts) == row["timed_calls"]
        assert 0 < row["latency_floor_ns"] < 10000
        kinds = {"allocate": "malloc", "reallocate": "realloc", "free": "free"}
        for kind, function in kinds.items():
            found = sum(size["count"] for size in by_size if size["kind"] == kind)
            assert found == by_function[function]["count"]
    for name in replayed.real:
        assert replayed.memory[name]["latency_ns"] is None


@pytest.mark.thorough
def test_latencies_of_all_rounds_are_merged(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    lines, compared = replay(tools, replayed.program.trace, tmp_path, "--pass", "time",
                             allocators="glibc", rounds=3)
    rows = [row for row in lines if row["allocator"]["name"] == "glibc"]
    merged = compared["allocators"][0]
    assert len(rows) == 3
    for function, found in merged["latency_ns"].items():
        singles = [row["latency_ns"][function] for row in rows]
        assert found["count"] == sum(single["count"] for single in singles)
        for name in QUANTILES:
            values = [single[name] for single in singles]
            assert min(values) * 0.99 <= found[name] <= max(values) * 1.01
    assert merged["latencies_dropped"] == sum(row["timed_calls_dropped"] for row in rows)
    # What takes a pass of its own is measured once.
    assert [row["syscalls"] is None for row in rows] == [False, True, True]


def test_slop_counts_every_live_block(replayed: Replayed) -> None:
    requested = sum(replayed.program.peak.values())
    by_class = Counter((size - 1).bit_length() for size in replayed.program.peak.values())
    for name in replayed.real:
        row = replayed.memory[name]
        classes = row["slop_by_size"]
        assert {int(found["to_bytes"]): found["blocks"] for found in classes} == {
            2 ** order: blocks for order, blocks in by_class.items()}
        assert sum(found["requested_bytes"] for found in classes) == requested
        slop = sum(found["usable_bytes"] - found["requested_bytes"] for found in classes)
        assert row["slop_bytes"] == slop
        assert all(found["usable_bytes"] >= found["requested_bytes"] for found in classes)
        assert 0 < row["slop_bytes"] < 0.5 * requested
        assert 0 < row["slop_mean_bytes"] < 0.5 * requested and row["slop_end_bytes"] > 0
        assert max(row["timeline"]["slop_bytes"]) >= row["slop_end_bytes"]
    assert replayed.memory["null"]["slop_bytes"] is None


@pytest.mark.thorough
def test_copies_have_as_much_of_everything(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    """Held and streamed, on one thread and side by side."""
    for number, more in enumerate((["--threads", "1"], [], ["--decoded-memory", "1"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines, _ = replay(tools, replayed.program.trace, folder, "--pass", "memory", "--scale", 3, *more,
                          allocators="jemalloc" if "jemalloc" in replayed.real else "glibc")
        row = next(row for row in lines if row["allocator"]["name"] != "null")
        one = replayed.memory[row["allocator"]["name"]]
        # Side by side the copies need not be where most is live at the same time.
        assert 0.7 * 3 * one["slop_bytes"] <= row["slop_bytes"] <= 3.1 * one["slop_bytes"]
        if number == 0:
            assert row["slop_bytes"] == 3 * one["slop_bytes"]
        assert row["allocator_stats"]["end"]["live_bytes"] == 3 * sum(replayed.program.live.values())
        assert row["slop_end_bytes"] == 3 * one["slop_end_bytes"]
        assert row["rss_after_purge_bytes"] < 0.75 * row["rss_end_bytes"]


def test_slop_of_glibc(replayed: Replayed) -> None:
    """Its chunks are multiples of 16 bytes, 8 of them its own; now and then one is 16 larger."""
    if "glibc" not in replayed.real or struct.calcsize("P") != 8:
        pytest.skip("another C library's malloc")
    small = {k: v for k, v in replayed.program.peak.items() if v <= 8192}
    least = sum(max(24, (size + 8 + 15) // 16 * 16 - 8) - size for size in small.values())
    found = sum(row["usable_bytes"] - row["requested_bytes"]
                for row in replayed.memory["glibc"]["slop_by_size"] if row["to_bytes"] <= 8192)
    assert least <= found <= least + 16 * (len(replayed.program.reallocated) + 0.05 * len(small))


def test_allocators_say_of_themselves_what_is_live(replayed: Replayed) -> None:
    """What an allocator says is allocated is what is live and its slop, and what its caches hold."""
    requested = sum(replayed.program.live.values())
    for name, key in (("jemalloc", "allocated_bytes"), ("tcmalloc", "allocated_bytes")):
        if name not in replayed.real:
            continue
        row = replayed.memory[name]
        end = row["allocator_stats"]["end"]
        assert end["live_bytes"] == requested
        assert end["usable_bytes"] - requested == row["slop_end_bytes"]
        assert -0.01 * requested <= end[key] - end["usable_bytes"] <= 0.03 * requested + MIB
    if "glibc" in replayed.real:
        end = replayed.memory["glibc"]["allocator_stats"]["end"]
        chunks = end["usable_bytes"] + 8 * len(replayed.program.live)
        # What thread caches hold counts as in use: since 2.43 16 blocks of each size, before 7.
        assert abs(end["in_use_bytes"] + end["mmapped_bytes"] - chunks) < 0.05 * requested
        assert end["in_use_bytes"] + end["free_bytes"] == end["arena_bytes"]
    if "mimalloc" in replayed.real:
        end = replayed.memory["mimalloc"]["allocator_stats"]["end"]
        assert end["committed_peak_bytes"] >= end["committed_bytes"] >= requested


def test_curves_of_what_allocators_say(replayed: Replayed) -> None:
    for name in replayed.real:
        row = replayed.memory[name]
        reports, kernel = row["timeline"]["allocator"], row["timeline"]["kernel"]
        names = set(row["allocator_stats"]["end"]) - {"usable_bytes"}
        assert set(reports) == names | {"time_ns", "event"}
        assert set(kernel) == {"time_ns", "event", "lazyfree_bytes", "anon_huge_bytes", "swap_bytes"}
        for curves in (reports, kernel):
            lengths = {len(curve) for curve in curves.values()}
            assert len(lengths) == 1 and 2 < lengths.pop() <= 512
            assert curves["event"] == sorted(curves["event"])


def test_freeing_everything_leaves_less(replayed: Replayed) -> None:
    slack = 128 << 10
    for name in replayed.real:
        row = replayed.memory[name]
        assert row["rss_end_bytes"] > sum(replayed.program.live.values())
        assert 0 < row["rss_after_free_bytes"] <= row["rss_end_bytes"] + slack
        assert row["rss_after_purge_bytes"] <= row["rss_after_free_bytes"] + slack
        # Much of what was live can be given back, by all of them; tcmalloc's caches keep some.
        assert row["rss_after_purge_bytes"] < 0.75 * row["rss_end_bytes"]
        assert row["purge_call"]
        assert row["swap_bytes"] == 0 or row["swap_bytes"] > 0
        assert replayed.compared[name]["rss_after_purge_bytes"] == row["rss_after_purge_bytes"]
    null = replayed.memory["null"]
    assert null["rss_after_purge_bytes"] is None and null["purge_call"] is None
    assert null["rss_after_free_bytes"] <= null["rss_end_bytes"] + 4096


@pytest.mark.thorough
def test_pages_that_the_kernel_may_take(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    """jemalloc, set to return its free pages lazily, and soon."""
    if "jemalloc" not in replayed.real:
        pytest.skip("jemalloc is not here")
    blocks, times = 200, iter(range(0, 10 ** 12, 10 ** 7))
    calls = [f"malloc 0x{i:x}0000000 262144" for i in range(1, blocks + 1)]
    calls += [f"free 0x{i:x}0000000" for i in range(1, blocks - 9)]
    calls += ["malloc 0x10 64", "free 0x10"] * 3000  # decay is looked at every so many calls
    (tmp_path / "big.txt").write_text("".join(
        f"7: {call} {start} {start + 9}\n" for call, start in zip(calls, times, strict=False)))
    trace = tools.convert(tmp_path / "big.txt", tmp_path / "big.bin")
    rows, _ = replay(tools, trace, tmp_path, "--pass", "memory", "--touch", "all",
                     allocators="jemalloc=jemalloc:dirty_decay_ms=100,muzzy_decay_ms=-1,tcache=false")
    row = next(row for row in rows if row["allocator"]["name"] == "jemalloc")
    freed = (blocks - 10) * 262144
    assert 0.9 * freed <= row["lazyfree_bytes"] <= 1.1 * freed
    assert max(row["timeline"]["kernel"]["lazyfree_bytes"]) <= 1.1 * freed
    assert row["lazyfree_bytes"] < row["rss_end_bytes"]


def big_blocks(tools: Tools, folder: Path) -> Path:
    lines = [f"a {i} {BIG_BYTES}" for i in range(BIG_BLOCKS)]
    lines += [f"f {i}" for i in range(BIG_FREED)]
    write_rep(folder / "blocks.rep", lines)
    return tools.convert(folder / "blocks.rep", folder / "blocks.bin")


@pytest.mark.thorough
def test_system_calls(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    """Of the C library's malloc, whose calls cannot be interposed, they are known to the call."""
    allocators = telling(tools).replace("jemalloc", "jemalloc=jemalloc:retain=0,dirty_decay_ms=0,muzzy_decay_ms=0")
    lines, _ = replay(tools, big_blocks(tools, tmp_path), tmp_path, "--touch", "none", allocators=allocators)
    rows = by_name(lines, "time")
    if rows["glibc"]["syscalls"] is None:
        pytest.skip(f"system calls cannot be counted here: {rows['glibc']['syscalls_missing']}")
    calls = rows["glibc"]["syscalls"]
    assert calls["mmap"]["calls"] == BIG_BLOCKS and calls["munmap"]["calls"] == BIG_FREED
    assert 0 <= calls["mmap"]["bytes"] - BIG_BLOCKS * BIG_BYTES <= BIG_BLOCKS * PAGE_BYTES
    assert 0 <= calls["munmap"]["bytes"] - BIG_FREED * BIG_BYTES <= BIG_FREED * PAGE_BYTES
    assert calls["mremap"]["calls"] == 0 and calls["madvise"]["calls"] == 0
    assert all(found["calls"] == 0 for found in rows["null"]["syscalls"].values())
    for name, row in rows.items():
        assert row["syscalls_missing"] is None
        if name == "jemalloc":
            assert row["syscalls"]["mmap"]["bytes"] >= BIG_BLOCKS * BIG_BYTES
            assert row["syscalls"]["munmap"]["bytes"] >= BIG_FREED * BIG_BYTES


@pytest.mark.thorough
def test_system_calls_of_threads(tools: Tools, tmp_path: Path) -> None:
    """Threads are counted too, and the stacks that the replayer maps for them are not."""
    trace = tmp_path / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "60000", "2000", "6", "1", "1000"])
    lines, _ = replay(tools, trace, tmp_path, "--pass", "time")
    rows = by_name(lines, "time")
    if rows["null"]["syscalls"] is None:
        pytest.skip(f"system calls cannot be counted here: {rows['null']['syscalls_missing']}")
    assert all(found["calls"] == 0 for found in rows["null"]["syscalls"].values())
    for name, row in rows.items():
        if name != "null":
            assert sum(found["calls"] for found in row["syscalls"].values()) > 0


def forbid_counting() -> None:
    """In a child that is about to exec: seccomp(2) and perf_event_open(2) are refused from now on."""
    allow, refuse = 0x7fff0000, 0x00050000 | 1
    program = [(0x20, 0, 0, 0), (0x15, 2, 0, 317), (0x15, 1, 0, 298), (0x06, 0, 0, allow),
               (0x06, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter_, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")


@pytest.mark.thorough
def test_what_is_forbidden_is_not_reported(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the filter is written for x86-64")
    lines, compared = replay(tools, replayed.program.trace, tmp_path, allocators="glibc",
                             preexec_fn=forbid_counting)
    row = next(row for row in lines if row["allocator"]["name"] == "glibc" and row["pass"] == "time")
    assert row["syscalls"] is None and "not permitted" in row["syscalls_missing"]
    assert "not permitted" in row["perf"]["missing"]
    assert all(row["perf"][name] is None
               for name in (*PROCESSOR, "context_switches", "cpu_migrations", "scope"))
    assert compared["allocators"][0]["syscalls"] is None
    assert isinstance(row["voluntary_switches"], int)  # the kernel tells these to everybody
    assert compared["allocators"][0]["slop_bytes"] > 0  # the rest is there
    done = subprocess.run([str(tools.replay_program), "-v", "--alloc", "glibc", "--rounds", "1",
                           str(replayed.program.trace)], capture_output=True, check=True,
                          timeout=120, env=clean_environment(), preexec_fn=forbid_counting)
    counts = [line for line in done.stdout.decode().splitlines() if line.startswith("glibc  ")]
    assert sum(line.count("n/a") >= len(PROCESSOR) for line in counts) == 2


@pytest.mark.thorough
def test_as_nobody(tools_for_all: Tools, replayed: Replayed, tmp_path: Path) -> None:
    """Where counting of the kernel's work is forbidden there is no number for it."""
    need_root()
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    trace = replayed.program.trace.read_bytes()

    def become_nobody() -> None:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)

    done = subprocess.run(
        [str(tools_for_all.replay_program), "--alloc", "glibc", "--rounds", "1", "--json", "/dev/stdin"],
        stdin=as_file(tmp_path / "t.bin", trace), capture_output=True, preexec_fn=become_nobody,
        check=False, timeout=120, env=clean_environment())
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    found = json.loads(done.stdout)["allocators"][0]
    if paranoid >= 2:
        assert found["perf"]["context_switches"] is None
        assert found["perf"]["scope"] in (None, "user")
    assert isinstance(found["involuntary_switches"], int)


def as_file(path: Path, content: bytes):
    path.write_bytes(content)
    path.chmod(0o644)
    return path.open("rb")


def test_counters(replayed: Replayed) -> None:
    for row in replayed.time.values():
        perf = row["perf"]
        assert set(perf) == {*PROCESSOR, "context_switches", "cpu_migrations", "scope", "missing"}
        assert (perf["missing"] is None) == all(perf[name] is not None for name in PROCESSOR)
        assert (perf["scope"] is None) == all(perf[name] is None for name in PROCESSOR)
        switches = row["voluntary_switches"] + row["involuntary_switches"]
        if perf["context_switches"] is not None:  # counted twice, over nearly the same span
            assert abs(perf["context_switches"] - switches) <= 3 + 0.1 * switches
        assert row["voluntary_switches"] >= 0 and row["involuntary_switches"] >= 0


def test_harness_share(replayed: Replayed) -> None:
    for name in replayed.real:
        row = replayed.time[name]
        share = row["harness_time_ns"] / (row["harness_time_ns"] + row["alloc_time_ns"])
        assert row["harness_share"] == pytest.approx(share, rel=1e-6)
        assert replayed.compared[name]["harness_share"] == pytest.approx(share, rel=1e-6)
        assert f"{name} " in next(line for line in replayed.text.splitlines()
                                  if line.startswith("harness's share of the time measured:"))
    assert replayed.time["null"]["harness_share"] is None


@pytest.mark.thorough
def test_points(tools: Tools, replayed: Replayed, tmp_path: Path) -> None:
    lengths = {}
    for points in (2, 50, 2000, 30000):
        folder = tmp_path / str(points)
        folder.mkdir()
        lines, _ = replay(tools, replayed.program.trace, folder, "--pass", "memory", "--points", points,
                          allocators="glibc")
        row = next(row for row in lines if row["allocator"]["name"] == "glibc")
        lengths[points] = len(row["timeline"]["rss_bytes"])
        assert max(row["timeline"]["rss_bytes"]) == row["rss_peak_bytes"]
    assert lengths[2] == 2 and 25 <= lengths[50] <= 50
    assert 1000 <= lengths[2000] <= 2000
    assert lengths[30000] > 15000


def parts_add_up(part: dict) -> None:
    internal = part["internal_bytes"] or 0
    rss = part["requested_bytes"] + internal - part["untouched_bytes"] + part["other_bytes"]
    assert part["rss_bytes"] == rss
    for name in ("requested", "internal", "untouched", "other", "lazyfree"):
        assert part["percent"][name] == pytest.approx(100 * part[f"{name}_bytes"] / part["rss_bytes"])


def test_decomposition(replayed: Replayed) -> None:
    for name in replayed.real:
        row = replayed.memory[name]
        parts = row["decomposition"]
        peak, end = parts["peak"], parts["end"]
        for part in (peak, end):
            parts_add_up(part)
            assert 0 <= part["internal_bytes"] < 0.5 * part["requested_bytes"]
            # What is not touched is rounding of blocks above a page.
            assert 0 <= part["untouched_bytes"] <= part["internal_bytes"]
            assert part["other_bytes"] > 0
        assert peak["rss_bytes"] == row["rss_peak_bytes"] and end["rss_bytes"] == row["rss_end_bytes"]
        assert sum(replayed.program.live.values()) == end["requested_bytes"]
        assert peak["requested_bytes"] <= sum(replayed.program.peak.values())
        assert end["internal_bytes"] == row["slop_end_bytes"]
        assert parts["after_free_bytes"] == row["rss_after_free_bytes"]
        assert parts["after_purge_bytes"] == row["rss_after_purge_bytes"]
        assert replayed.compared[name]["decomposition"] == parts
        assert replayed.time[name]["decomposition"] is None
    assert replayed.memory["null"]["decomposition"] is None


@pytest.mark.thorough
def test_decomposition_of_several_rounds_is_one_of_them(tools: Tools, replayed: Replayed,
                                                        tmp_path: Path) -> None:
    lines, compared = replay(tools, replayed.program.trace, tmp_path, "--pass", "memory",
                             allocators="glibc", rounds=3)
    rows = [row for row in lines if row["allocator"]["name"] == "glibc"]
    found = compared["allocators"][0]
    for where in ("peak", "end"):
        assert found["decomposition"][where] in [row["decomposition"][where] for row in rows]
        assert found["decomposition"][where]["rss_bytes"] == found[f"rss_{where}_bytes"]["median"]


@pytest.mark.thorough
def test_what_is_untouched(tools: Tools, tmp_path: Path) -> None:
    """Of blocks above a page only what was written need be resident, whatever is usable."""
    blocks = 30
    lines = [f"a {i} {MIB + 5000 * i}" for i in range(blocks)] + [f"r 0 {3 * MIB}"]
    write_rep(tmp_path / "t.rep", lines)
    trace = tools.convert(tmp_path / "t.rep", tmp_path / "t.bin")
    for touch, touched in (("none", 0), ("first", blocks * PAGE_BYTES), ("pages", None)):
        folder = tmp_path / touch
        folder.mkdir()
        rows, _ = replay(tools, trace, folder, "--pass", "memory", "--touch", touch)
        for row in (row for row in rows if row["decomposition"]):
            end = row["decomposition"]["end"]
            parts_add_up(end)
            usable = end["requested_bytes"] + end["internal_bytes"]
            assert end["requested_bytes"] == blocks * MIB + sum(5000 * i for i in range(1, blocks)) + 2 * MIB
            if touched is None:
                assert end["untouched_bytes"] <= end["internal_bytes"]
            else:
                assert usable - end["untouched_bytes"] == touched
            # tcmalloc's tables of 4 MB, glibc's copy of the block that grew.
            assert -0.1 * MIB < end["other_bytes"] < 6 * MIB


@pytest.mark.thorough
def test_a_copy_touches_the_pages_that_stores_touch(tools: Tools, tmp_path: Path) -> None:
    """`recorded` fills blocks above a page as programs do, across the pages' bounds, and makes no other page resident."""
    sizes = [PAGE_BYTES + 1 + 977 * i for i in range(150)]
    lines = [f"a {i} {size}" for i, size in enumerate(sizes)] + [f"r {i} {2 * size}" for i, size in enumerate(sizes[:50])]
    write_rep(tmp_path / "t.rep", lines)
    trace, faults = tools.convert(tmp_path / "t.rep", tmp_path / "t.bin"), {}
    for touch in ("recorded", "pages", "first"):
        folder = tmp_path / touch
        folder.mkdir()
        rows, _ = replay(tools, trace, folder, "--pass", "time", "--touch", touch, "--repeats", "1", "--layout", "fixed")
        faults[touch] = {name: row["minor_faults"] for name, row in by_name(rows, "time").items()}
    for name in faults["recorded"].keys() - {"null"}:
        assert faults["recorded"][name] == pytest.approx(faults["pages"][name], abs=20), name
        assert faults["recorded"][name] > faults["first"][name] + 1000


@pytest.mark.thorough
def test_the_last_byte_of_a_block_is_touched(tools: Tools, tmp_path: Path) -> None:
    """A block that does not begin with a page, as jemalloc's of 16 KiB, lies in a page more, and the program filled that too."""
    write_rep(tmp_path / "t.rep", [f"a {i} {4 * PAGE_BYTES}" for i in range(2000)])
    trace, peaks = tools.convert(tmp_path / "t.rep", tmp_path / "t.bin"), {}
    for touch in ("recorded", "pages", "all"):
        folder = tmp_path / touch
        folder.mkdir()
        rows, _ = replay(tools, trace, folder, "--pass", "memory", "--touch", touch)
        peaks[touch] = {name: row["rss_peak_bytes"] for name, row in by_name(rows, "memory").items()}
    for touch in ("recorded", "pages"):
        assert peaks[touch] == pytest.approx(peaks["all"], rel=0.01, abs=200_000), touch


def test_tables(replayed: Replayed) -> None:
    lines = replayed.text.splitlines()
    for heading in ("p50", "allocator  instructions", "system calls", "allocator  slop at peak",
                    "at peak RSS", "at the end "):
        assert any(line.lstrip().startswith(heading) for line in lines), heading
    for name in replayed.real:
        for where in ("at the live peak", "at the end"):
            assert any(line.startswith(f"{name}'s own figures {where}") for line in lines)
        assert any("the clock's own" in line for line in lines)
