# SPDX-License-Identifier: Apache-2.0
"""Knobs of allocators: each is in force, says so, and has its effect in the direction expected.

All configurations of an allocator that look at the same small trace take part in one replay; a row
of the table is then held against the row of what it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pytest

from tool_runner import Tools, run

MS = 1_000_000
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@dataclass
class Calls:
    """Android's text: the one foreign format with times and ends of threads."""

    lines: list[str] = field(default_factory=list)
    used: int = 0
    ns: int = 0

    def at(self, tid: int, call: str, times: bool = True) -> None:
        self.ns += 1000
        self.lines.append(f"{tid}: {call}" + (f" {self.ns} {self.ns}" if times else ""))

    def block(self, size: int, tid: int = 1) -> int:
        self.used += 1
        self.at(tid, f"malloc {self.used << 26:#x} {size}")
        return self.used << 26

    def blocks(self, count: int, size: int, tid: int = 1) -> list[int]:
        return [self.block(size, tid) for _ in range(count)]

    def free(self, blocks: list[int], tid: int = 1) -> None:
        for address in blocks:
            self.at(tid, f"free {address:#x}")

    def pause(self, ms: int) -> None:
        self.ns += ms * MS


def middle(calls: Calls) -> None:
    """16 MB freed, and half a minute later a few calls."""
    calls.free(calls.blocks(1000, 16_000))
    calls.pause(100)
    for _ in range(20):
        calls.free(calls.blocks(1, 40_000))
    calls.pause(30_000)
    calls.free(calls.blocks(20, 20_000))
    calls.block(100)


def released(calls: Calls) -> None:
    """16 MB freed at the end: no time passes in which they could be given back."""
    calls.free(calls.blocks(1000, 16_000))
    calls.block(100)


def threads(calls: Calls) -> None:
    """Twelve threads that have blocks at the same time."""
    blocks = [(calls.block(1000 + k * 3000, tid), tid) for k in range(12) for tid in range(1, 13)]
    for address, tid in blocks:
        calls.free([address], tid)
    calls.pause(100)
    for tid in range(1, 13):
        calls.block(500, tid)


def small(calls: Calls) -> None:
    """More small blocks than caches keep, then a second of few calls: jemalloc 5.3.1 trims caches at most every 10 ms."""
    for _ in range(4):
        calls.free(calls.blocks(1000, 100))
        calls.free(calls.blocks(100, 3000))
    for _ in range(50):
        calls.pause(20)
        calls.free(calls.blocks(1, 1000))
    calls.blocks(100, 100)


def tiny(calls: Calls) -> None:
    """A megabyte of blocks that glibc's fast bins take."""
    calls.free(calls.blocks(10_000, 100))
    calls.pause(100)
    calls.block(40)


def cached(calls: Calls) -> None:
    """Seven blocks of each of many sizes."""
    for size in range(100, 1000, 16):
        calls.free(calls.blocks(7, size))


def holes(calls: Calls) -> None:
    """Free blocks with others between, for what only needs a trace."""
    calls.free(calls.blocks(60, 200)[::2])


def large(calls: Calls) -> None:
    for _ in range(4):
        calls.free(calls.blocks(8, 300_000))
    for _ in range(3):
        calls.free(calls.blocks(2, 9_000_000))
    calls.free(calls.blocks(30, 500_000))
    calls.pause(100)
    calls.block(100)


def turnover(calls: Calls) -> None:
    """2.3 GB allocated and freed, of which 9 MB exist at a time."""
    for _ in range(260):
        calls.free(calls.blocks(1, 9_000_000))


def aged(calls: Calls) -> None:
    """Five bursts, and calls two seconds after the last one."""
    for _ in range(5):
        calls.free(calls.blocks(300, 16_000))
        calls.pause(40)
        calls.free(calls.blocks(50, 500))
    calls.pause(2000)
    calls.free(calls.blocks(3, 50_000))
    calls.block(50)


def leavers(calls: Calls) -> None:
    """Threads that end, and leave blocks among free ones behind."""
    left = []
    for tid in range(2, 42):
        calls.block(100)
        blocks = calls.blocks(200, 3000, tid)
        calls.free([one for one in blocks if one not in blocks[::20]], tid)
        left += blocks[::20]
        calls.at(tid, "thread_done 0x0", times=False)
    calls.pause(1000)
    calls.free(calls.blocks(100, 3000))
    calls.free(left)
    calls.blocks(10, 3000)


TRACES: dict[str, Callable[[Calls], None]] = {
    made.__name__: made
    for made in (middle, released, threads, small, tiny, cached, holes, large, turnover, aged, leavers)}


@dataclass(frozen=True)
class Effect:
    allocator: str
    knobs: str  # with all that is needed for an effect; the last one is what is checked
    trace: str
    figure: str  # of the memory pass's row
    direction: str  # of that figure, compared with the same but without the last knob
    read_back: bool = True
    only_madvise: bool = False  # has an effect only where the kernel's huge pages are on request

    @property
    def base(self) -> str:
        return self.knobs.rpartition(",")[0]

    @property
    def knob(self) -> str:
        return self.knobs.rpartition(",")[2].partition("=")[0]

    @property
    def value(self) -> str:
        return self.knobs.rpartition("=")[2]


MMAPS, MADVISES, BRKS = "syscalls.mmap.calls", "syscalls.madvise.calls", "syscalls.brk.calls"
MPROTECTS, IN_USE = "syscalls.mprotect.calls", "allocator_stats.end.in_use_bytes"
ALLOCATED = "allocator_stats.end.allocated_bytes"
END, LAZY = "rss_end_bytes", "lazyfree_bytes"

EFFECTS = [
    Effect("glibc", "arena_max=1", "threads", MMAPS, "<"),
    Effect("glibc", "tcache_count=0", "cached", IN_USE, "<"),  # thread caches count as in use
    Effect("glibc", "tcache_max=64", "cached", IN_USE, "<"),
    Effect("glibc", "mxfast=0", "tiny", END, "<"),
    Effect("glibc", "mmap_threshold=65536", "large", MMAPS, ">"),
    Effect("glibc", "mmap_max=0", "large", MMAPS, "<"),
    Effect("glibc", "trim_threshold=1000000000", "middle", END, ">"),
    Effect("glibc", "top_pad=8000000", "middle", END, ">"),
    Effect("glibc", "hugetlb=1", "middle", MADVISES, ">", only_madvise=True),

    Effect("jemalloc", "narenas=1", "threads", MMAPS, "<"),
    Effect("jemalloc", "percpu_arena=percpu", "threads", MMAPS, "<"),
    Effect("jemalloc", "dirty_decay_ms=0", "released", END, "<"),
    Effect("jemalloc", "background_thread=1", "threads", "background_threads", ">"),
    # One to begin with, and one for each four arenas then.
    Effect("jemalloc", "background_thread=1,max_background_threads=1", "threads", "background_threads", "<"),
    Effect("jemalloc", "retain=0", "middle", "syscalls.mmap.calls", ">"),
    Effect("jemalloc", "oversize_threshold=400000", "large", END, "<"),
    Effect("jemalloc", "lg_extent_max_active_fit=0", "large", END, ">"),
    Effect("jemalloc", "dss=primary", "middle", BRKS, ">"),
    Effect("jemalloc", "tcache=0", "middle", ALLOCATED, "<"),  # caches count as allocated
    Effect("jemalloc", "tcache_max=64", "middle", ALLOCATED, "<"),
    Effect("jemalloc", "tcache_nslots_small_min=150", "small", ALLOCATED, ">"),
    Effect("jemalloc", "tcache_nslots_small_min=2,tcache_nslots_small_max=4", "small", ALLOCATED, "<"),
    Effect("jemalloc", "tcache_nslots_large=2", "middle", ALLOCATED, "<"),
    Effect("jemalloc", "lg_tcache_nslots_mul=-3", "small", ALLOCATED, "<"),
    Effect("jemalloc", "tcache_gc_incr_bytes=1024", "small", ALLOCATED, "<"),
    Effect("jemalloc", "metadata_thp=always", "threads", MADVISES, ">", only_madvise=True),
    Effect("jemalloc", "thp=always", "threads", MADVISES, ">", only_madvise=True),
    Effect("jemalloc", "hpa=1", "middle", "syscalls.mmap.bytes", ">"),
    Effect("jemalloc", "hpa=1,hpa_slab_max_alloc=4096", "middle", END, ">"),
    # New pages for used ones; into blocks below 8 MiB 5.3.1 writes zeros.
    Effect("jemalloc", "dirty_decay_ms=-1,zero=1", "large", MADVISES, ">"),

    Effect("tcmalloc", "max_total_thread_cache_bytes=524288", "middle",
           "allocator_stats.end.thread_cache_free_bytes", "<"),
    Effect("tcmalloc", "transfer_num_obj=128", "small",
           "allocator_stats.end.transfer_cache_free_bytes", ">", read_back=False),
    Effect("tcmalloc", "aggressive_decommit=1", "middle", END, "<"),
    Effect("tcmalloc", "release_rate=1000", "turnover", MADVISES, ">", read_back=False),
    Effect("tcmalloc", "disable_memory_release=1", "middle", "rss_after_purge_bytes", ">", read_back=False),
    Effect("tcmalloc", "skip_sbrk=1", "middle", BRKS, "<", read_back=False),

    Effect("mimalloc", "decommit_delay=10000", "aged", END, ">"),
    Effect("mimalloc", "segment_decommit_delay=0", "large", END, "<"),
    Effect("mimalloc", "allow_decommit=0", "aged", END, ">"),
    Effect("mimalloc", "page_reset=1", "middle", LAZY, ">"),
    Effect("mimalloc", "abandoned_page_decommit=1", "leavers", MADVISES, ">"),
    Effect("mimalloc", "eager_commit=0", "middle", MPROTECTS, ">"),
    Effect("mimalloc", "eager_commit_delay=0", "threads", MPROTECTS, "<"),
    Effect("mimalloc", "large_os_pages=1", "middle", MMAPS, ">"),
    Effect("mimalloc", "reserve_os_memory=65536", "middle", MMAPS, "<"),
    Effect("mimalloc", "purge_delay=0", "middle", MADVISES, ">"),
]

# What cannot be shown here: these need more processors, memory nodes or the kernel's pool of huge
# pages, a build whose muzzy pages stay resident, heaps larger than
# these, or threads that come and go in numbers; or they do not change what a small heap does.
READ_BACK = [
    ("glibc", "arena_test", "3"),
    ("glibc", "tcache_unsorted_limit", "3"),
    ("jemalloc", "muzzy_decay_ms", "-1"),
    ("mimalloc", "use_numa_nodes", "3"),
    ("mimalloc", "reserve_huge_os_pages", "1"),
    ("mimalloc", "max_segment_reclaim", "77"),
    ("mimalloc", "abandoned_page_purge", "1"),
    ("mimalloc", "purge_decommits", "0"),
    ("mimalloc", "arena_eager_commit", "1"),
    ("mimalloc", "arena_reserve", "4096"),
    ("mimalloc", "arena_purge_mult", "3"),
    ("mimalloc", "disallow_arena_alloc", "1"),
    ("mimalloc", "disallow_os_alloc", "1,reserve_os_memory=262144"),  # without it no call succeeds, since 3.6
    ("mimalloc", "allow_large_os_pages", "1"),
    ("mimalloc", "target_segments_per_thread", "5"),
    ("mimalloc", "abandoned_reclaim_on_free", "1"),
    ("mimalloc", "reclaim_on_free", "0"),
    ("mimalloc", "page_reclaim_on_free", "-1"),
    ("mimalloc", "page_full_retain", "5"),
    ("mimalloc", "page_max_candidates", "7"),
    ("mimalloc", "page_commit_on_demand", "1"),
    ("mimalloc", "minimal_purge_size", "128"),
    ("mimalloc", "generic_collect", "500"),
    ("mimalloc", "allow_thp", "0"),
    ("mimalloc", "arena_purge_min_size", "64"),
    ("mimalloc", "arena_purge_immediate_size", "4096"),
    ("mimalloc", "page_max_reclaim", "5"),
    ("mimalloc", "page_cross_thread_max_reclaim", "5"),
]
# Whose effect is that calls fail.
LIMITS = [("tcmalloc", "heap_limit_mb=8"), ("mimalloc", "limit_os_alloc=1")]


def figure(row: dict, path: str) -> float:
    return reduce(lambda inner, key: inner[key], path.split("."), row)


class Replays:
    """Runs all configurations of an allocator on a trace at once, when one of them is first asked for."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools, self.folder = tools, folder
        self.traces: dict[str, Path] = {}
        self.rows: dict[tuple[str, str], dict[str, dict]] = {}
        self.plain: dict[str, dict] = {}
        self.listed: dict[str, set[str]] = {}

    def need(self, allocator: str, *knobs: str) -> None:
        """Skips the test where the allocator is not there, or its version has no such knob."""
        if not (self.tools.build / f"replay-{allocator}").exists():
            pytest.skip(f"replay-{allocator} is not built")
        if allocator not in self.plain:
            self.plain[allocator] = self.run("holes", allocator, [""])[""]["allocator"]
        missing = [knob for knob in knobs if not self.has(allocator, knob)]
        if missing:
            pytest.skip(f"{allocator} {self.plain[allocator]['version']} has no knob {missing[0]}")

    def has(self, allocator: str, knob: str) -> bool:
        if allocator not in self.listed:
            [said] = json.loads(run([self.tools.replay_program, "--list", "--json", "--alloc", allocator]).stdout)
            self.listed[allocator] = {one["name"] for one in said["knobs"] if one["heeded"]}
        return knob in self.listed[allocator]

    def trace(self, name: str) -> Path:
        if name not in self.traces:
            calls, source = Calls(), self.folder / f"{name}.txt"
            TRACES[name](calls)
            source.write_text("\n".join(calls.lines) + "\n")
            self.traces[name] = self.tools.convert(source, self.folder / f"{name}.bin")
        return self.traces[name]

    def run(self, trace: str, allocator: str, configurations: list[str], **options) -> dict[str, dict]:
        """The memory pass's row of each configuration."""
        results = self.folder / "results.jsonl"
        results.unlink(missing_ok=True)
        specs = [f"c{i}={allocator}" + (f":{knobs}" if knobs else "")
                 for i, knobs in enumerate(configurations)]
        self.tools.succeed([self.tools.replay_program, "--rounds", "1", "--pass", "memory", "-o", results,
                            "--alloc", ",".join(specs), self.trace(trace)], **options)
        rows = {row["allocator"]["name"]: row for row in map(json.loads, results.read_text().splitlines())
                if not row["control"]}
        return {knobs: rows[f"c{i}"] for i, knobs in enumerate(configurations)}

    def row(self, effect: Effect, knobs: str) -> dict:
        key = effect.allocator, effect.trace
        if key not in self.rows:
            wanted = [knobs for other in EFFECTS
                      if (other.allocator, other.trace) == key and self.has(other.allocator, other.knob)
                      for knobs in (other.base, other.knobs)]
            self.rows[key] = self.run(effect.trace, effect.allocator, list(dict.fromkeys(wanted)))
        return self.rows[key][knobs]


QUICK_ALLOCATORS = ("glibc", "jemalloc")  # their effects share a replay each


@pytest.fixture(scope="module")
def replays(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Replays:
    return Replays(tools, tmp_path_factory.mktemp("knobs"))


@pytest.mark.parametrize("effect", [
    effect if effect.allocator in QUICK_ALLOCATORS else pytest.param(effect, marks=pytest.mark.thorough) for effect in EFFECTS], ids=lambda effect: f"{effect.allocator}-{effect.knobs}")
def test_effect(replays: Replays, effect: Effect) -> None:
    replays.need(effect.allocator, effect.knob)
    if effect.only_madvise and "[madvise]" not in THP.read_text():
        pytest.skip("the kernel gives huge pages to all or to none")
    base, row = replays.row(effect, effect.base), replays.row(effect, effect.knobs)
    before, after = figure(base, effect.figure), figure(row, effect.figure)
    # A tenth is more than any of these figures varies from run to run.
    assert after > 1.1 * before if effect.direction == ">" else after < 0.9 * before, (before, after)
    knobs = row["allocator"]["knobs"]
    assert knobs[effect.knob] == effect.value
    reported = base["allocator"]["knobs"].get(effect.knob)
    assert reported != effect.value
    assert effect.allocator == "glibc" or (reported is not None) == effect.read_back


@pytest.mark.parametrize(("allocator", "knob", "value"), READ_BACK)
def test_read_back(replays: Replays, allocator: str, knob: str, value: str) -> None:
    replays.need(allocator, knob)
    rows = replays.run("holes", allocator, ["", f"{knob}={value}"])
    wanted = value.partition(",")[0]  # what follows goes with it
    assert rows[f"{knob}={value}"]["allocator"]["knobs"][knob] == wanted
    assert rows[""]["allocator"]["knobs"].get(knob) != wanted


@pytest.mark.parametrize(("allocator", "knobs"), LIMITS)
def test_limit(replays: Replays, allocator: str, knobs: str) -> None:
    replays.need(allocator, knobs.partition("=")[0])
    done = run([replays.tools.replay_program, "--rounds", "1", "--pass", "memory", "--alloc",
                f"{allocator}:{knobs}", replays.trace("middle")])
    assert done.returncode == 1 and b"failed" in done.stderr


def test_environment_to_paste(replays: Replays) -> None:
    replays.need("jemalloc")
    row = replays.run("holes", "jemalloc", ["narenas=3,tcache=no"])["narenas=3,tcache=no"]
    knobs = row["allocator"]["knobs"]
    assert (knobs["narenas"], knobs["tcache"], knobs["dirty_decay_ms"]) == ("3", "0", "10000")
    assert row["allocator"]["environment"] == ["MALLOC_CONF=abort_conf:true,narenas:3,tcache:false"]


def delay_of_mimalloc(replays: Replays) -> str:
    """What mimalloc's later versions call purge_delay is decommit_delay in 2.0."""
    return "decommit_delay" if replays.has("mimalloc", "decommit_delay") else "purge_delay"


def test_variables_of_ours_do_not_count(replays: Replays) -> None:
    replays.need("mimalloc")
    delay = delay_of_mimalloc(replays)
    variable = f"MIMALLOC_{delay.upper()}"
    rows = replays.run("holes", "mimalloc", ["", f"{delay}=9"], env={variable: "5"})
    assert rows[""]["allocator"]["knobs"][delay] != "5"
    assert rows[f"{delay}=9"]["allocator"]["knobs"][delay] == "9"
    assert rows[f"{delay}=9"]["allocator"]["environment"] == [f"{variable}=9"]


def refusal(replays: Replays, spec: str, **options) -> tuple[int, list[str]]:
    done = run([replays.tools.replay_program, "--rounds", "1", "--pass", "memory", "--alloc", spec,
                replays.trace("holes")], **options)
    return done.returncode, done.stderr.decode().splitlines()


@pytest.mark.parametrize(("spec", "said"), [
    ("glibc:nope=1", r"glibc has no knob nope; it has arena_max, .*, hugetlb"),
    ("glibc:arenamax=1", r"glibc has no knob arenamax \(did you mean glibc:arena_max\?\); it has .*"),
    ("jemalloc:MALLOC_ARENA_MAX=1", r"jemalloc has no knob MALLOC_ARENA_MAX \(did you mean glibc:arena_max\?\); it has .*"),
    ("jemalloc:MALLOC_CONF=narenas:2", r"MALLOC_CONF holds several knobs: name each, as in jemalloc:narenas=VALUE"),
    ("glibc:arena_max=1,glibc:MALLOC_ARENA_MAX=1", r"glibc:arena_max=1 is named twice"),
    ("glibc:arena_max=0", r"arena_max=0: expected a whole number from 1 to \d+"),
    ("glibc:tcache_max=9000000", r"tcache_max=9000000: expected a whole number from 0 to 4194280"),
    ("glibc:arena_max=many", r"arena_max=many: expected a whole number from 1 to \d+"),
    ("glibc:arena_max", r"arena_max: expected KNOB=VALUE"),
    ("glibc:arena_max=1,arena_max=2", r"arena_max is given twice"),
    ("jemalloc:tcache=maybe", r"tcache=maybe: expected 0 or 1"),
    ("jemalloc:thp=sometimes", r"thp=sometimes: expected one of default\|always\|never"),
])
def test_wrong_spec(replays: Replays, spec: str, said: str) -> None:
    replays.need(spec.partition(":")[0])
    status, lines = refusal(replays, spec)
    assert status == 2 and len(lines) == 1 and re.fullmatch(f"heaptape replay: --alloc: {said}", lines[0]), lines


def test_version_ignores_the_knob(replays: Replays) -> None:
    replays.need("mimalloc")
    missing = "purge_delay" if delay_of_mimalloc(replays) == "decommit_delay" else "decommit_delay"
    status, lines = refusal(replays, f"mimalloc:{missing}=0")
    assert status == 1
    assert re.search(rf"version [\d.]+ ignores the knob {missing}; it has .*(decommit|purge)_delay", lines[0])


@pytest.mark.parametrize("knob", ["eager_commit", "eager_commit_delay", "abandoned_page_purge", "max_segment_reclaim",
                                  "target_segments_per_thread"])
def test_version_lists_a_knob_and_ignores_it(replays: Replays, knob: str) -> None:
    """mimalloc 3.0 names options of its segments, which it has no more."""
    replays.need("mimalloc")
    if int(replays.plain["mimalloc"]["version"].split(".")[0]) < 3:
        pytest.skip("mimalloc has segments here")
    status, lines = refusal(replays, f"mimalloc:{knob}=0")
    assert status == 1
    assert re.search(rf"version [\d.]+ ignores the knob {knob}; it has .*purge_delay", lines[0]), lines


def test_something_else_is_in_force(replays: Replays) -> None:
    """mimalloc takes variables in lower case, too, and before those in upper case."""
    replays.need("mimalloc")
    delay = delay_of_mimalloc(replays)
    status, lines = refusal(replays, f"mimalloc:{delay}=9", env={f"mimalloc_{delay}": "5"})
    assert status == 1 and f"{delay}=9 was set, but 5 is in force" in lines[0], lines


@pytest.mark.parametrize("allocator", ["glibc", "jemalloc", "tcmalloc", "mimalloc"])
def test_no_knob_is_untested(replays: Replays, allocator: str) -> None:
    replays.need(allocator)
    _, lines = refusal(replays, f"{allocator}:nope=1")
    table = set(lines[0].partition("it has ")[2].split(", "))
    knobs = replays.run("holes", allocator, [""])[""]["allocator"]["knobs"]
    reported = {knob for knob in knobs if knob.islower()}  # others are variables of the environment
    tested = {effect.knob for effect in EFFECTS if effect.allocator == allocator}
    tested |= {knob for name, knob, _ in READ_BACK if name == allocator}
    tested |= {spec.partition("=")[0] for name, spec in LIMITS if name == allocator}
    assert tested <= table
    # Of mimalloc's, most belong to other versions.
    assert (reported if allocator == "mimalloc" else table) <= tested


@pytest.mark.thorough
def test_names_of_the_environment(tools: Tools) -> None:
    """Each knob may be called what users know it by, and has one name in results."""
    for kind in ("glibc", "tcmalloc", "mimalloc", "jemalloc"):
        [listed] = json.loads(run([tools.replay_program, "--list", "--json", "--alloc", kind]).stdout)
        for knob in listed["knobs"][:3]:
            names = [knob["name"], *knob["also"]]
            value = "1" if knob["type"] == "boolean" else (knob["words"] or [str(max(knob["lowest"], 1))])[0]
            assert any(name in knob["setting"] for name in names)
            said = run([tools.replay_program, "--list", "--alloc", ",".join(f"l{i}={kind}:{name}={value},l{i}x={kind}:{name}={value}"
                                                                          for i, name in enumerate(names))])
            assert b"has no knob" not in said.stderr
    assert run([tools.replay_program, "--list", "--alloc", "glibc:MALLOC_ARENA_MAX=2"]).stdout.startswith(b"glibc:arena_max=2 ")
    meant = run([tools.replay_program, "--list", "--alloc", "MALLOC_ARENA_MAX=2"])
    assert meant.returncode == 2 and b"MALLOC_ARENA_MAX is a knob: did you mean glibc:arena_max=...?" in meant.stderr
