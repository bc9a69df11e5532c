# SPDX-License-Identifier: Apache-2.0
"""Peaks of RSS within calls: a realloc that copies has both blocks, and nothing that reads between calls sees it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from heaptape import read_results, read_snapshots, timeline, write_report
from tool_runner import Tools, logs_in, run
from toy_allocator import BUILD, toy_source

MB = 1_000_000
DOUBLES = ("realloc", "2", str(33 << 20))
"""The last doubling, to 64 MiB, is hardly used: without the copy the buffer never holds more than 33 MiB."""


@dataclass(frozen=True)
class Growing:
    trace: Path
    command: list[str]


def recorded(tools: Tools, folder: Path, *words: str) -> Growing:
    command = [str(tools.target("growing_buffer")), *words]
    folder.mkdir()
    tools.record(command, folder / "logs")
    (log,) = logs_in(folder / "logs")
    return Growing(tools.convert(log, folder / "t.bin"), command)


@pytest.fixture(scope="module")
def doubled(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Growing:
    return recorded(tools, tmp_path_factory.mktemp("peaks") / "doubled", *DOUBLES)


def memory_rows(tools: Tools, trace: Path, results: Path, allocators: str, *more: str) -> dict[str, dict]:
    rows = tools.replay(trace, allocators, results, "--pass", "memory", "-q", *more)
    return {row["allocator"]["name"]: row for row in rows if not row["control"]}


def listed(tools: Tools) -> dict[str, str]:
    """Built allocators and their libraries; that of the C library's is empty."""
    items = json.loads(tools.succeed([tools.replay_program, "--list", "--json"]).stdout)
    return {item["name"]: "" if item["name"] == "glibc" else item["path"] for item in items if item.get("built")}


def real_peaks(command: list[str], library: str, runs: int) -> list[int]:
    return sorted(int(run(command, env={"LD_PRELOAD": library} if library else {}).stdout) for _ in range(runs))


def test_a_realloc_that_copies_has_both_blocks(tools: Tools, doubled: Growing, tmp_path: Path) -> None:
    built = listed(tools)
    if "jemalloc" not in built:
        pytest.skip("no jemalloc")
    rows = memory_rows(tools, doubled.trace, tmp_path / "r.jsonl", "glibc,jemalloc")
    jemalloc, glibc = rows["jemalloc"], rows["glibc"]
    assert jemalloc["watched"] and glibc["watched"]
    # The old block and what was copied of it; between calls the new one, and what was written behind the copy.
    assert jemalloc["rss_peak_bytes"] > 64 << 20 and jemalloc["rss_between_calls_peak_bytes"] < 46 << 20
    assert glibc["rss_peak_bytes"] == pytest.approx(glibc["rss_between_calls_peak_bytes"], rel=0.03), "mremap copies nothing"
    for name, row in rows.items():
        if name == "null":
            continue
        (real,) = real_peaks(doubled.command, built[name], 1)
        assert row["process_rss_peak_bytes"] == pytest.approx(real, rel=0.05), name
        assert row["fragmentation"]["f4"] == pytest.approx(row["rss_peak_bytes"] / row["live_peak_bytes"])
        curve = row["timeline"]
        at = curve["rss_bytes"].index(max(curve["rss_bytes"]))
        assert curve["rss_bytes"][at] == curve["high_bytes"][at] == max(curve["high_bytes"]) == row["rss_peak_bytes"]
        assert all(rss <= high for rss, high in zip(curve["rss_bytes"], curve["high_bytes"], strict=True))
    # By the realloc: an event of the growth, when most is live.
    peak = jemalloc["timeline"]["rss_bytes"].index(jemalloc["rss_peak_bytes"])
    assert jemalloc["timeline"]["live_bytes"][peak] == 64 << 20
    drawn = timeline(read_results(tmp_path / "r.jsonl"), ["jemalloc"])
    assert drawn["rss_bytes"].max() == drawn["high_bytes"].max() == jemalloc["rss_peak_bytes"]


def test_text_and_json_say_so(tools: Tools, doubled: Growing) -> None:
    if "jemalloc" not in listed(tools):
        pytest.skip("no jemalloc")
    command = [tools.replay_program, "--alloc", "glibc,jemalloc", "--pass", "memory", "--rounds", "1", "-q"]
    done = tools.succeed([*command, doubled.trace])
    line = next(line for line in done.stdout.decode().splitlines() if line.startswith("peak RSS within a call"))
    assert "jemalloc" in line and "glibc" not in line
    said = json.loads(tools.succeed([*command, "--json", doubled.trace]).stdout)
    glibc, jemalloc = said["allocators"]
    assert jemalloc["watched"] and jemalloc["rss_between_calls_peak_bytes"] < 0.7 * jemalloc["rss_peak_bytes"]["median"]
    assert not any(warning["kind"] == "unwatched" for warning in said["warnings"])
    # The recorder too looks between calls: that is what the replay is held against.
    assert "replayed under glibc" in done.stdout.decode()


def test_a_peak_that_hangs_on_the_time_of_copying_has_a_warning(tools: Tools, doubled: Growing, tmp_path: Path) -> None:
    """What mimalloc keeps of former blocks hangs on its clock, and copying takes trace time nowhere."""
    if "mimalloc" not in listed(tools):
        pytest.skip("no mimalloc")
    results = tmp_path / "r.jsonl"
    command = [tools.replay_program, "--alloc", "glibc,mimalloc", "--pass", "memory", "--rounds", "1", "--json", "-q", "-o", results]
    said = {pace: json.loads(tools.succeed([*command, "--pace", f"memory={pace}", doubled.trace]).stdout) for pace in ("virtual", "real")}
    found = {pace: [warning["message"] for warning in one["warnings"] if warning["kind"] == "copying"] for pace, one in said.items()}
    assert found["real"] == [] and len(found["virtual"]) == 1 and found["virtual"][0].startswith("mimalloc ")
    rows = read_results(results)
    for pace, warned in (("virtual", True), ("real", False)):
        write_report(rows[rows["pace"] == pace], page := tmp_path / f"{pace}.html", [doubled.trace])
        assert ("may be shown with too high a peak" in page.read_text()) == warned


def test_only_the_memory_pass_watches(tools: Tools, doubled: Growing, tmp_path: Path) -> None:
    rows = tools.replay(doubled.trace, "glibc", tmp_path / "r.jsonl", "--pass", "time", "-q")
    assert {(row["watched"], row["rss_between_calls_peak_bytes"]) for row in rows} == {(None, None)}


_BLOCKS = """
#include <signal.h>
__attribute__((constructor)) static void take(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    sigprocmask(SIG_BLOCK, &set, NULL);
}
"""
_BLOCKS_IN_THREAD = """
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
static void *work(void *nothing) {
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    return nothing;
}
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size) {
    static pthread_t thread;
    static char begun;
    if (!begun && (begun = 1)) pthread_create(&thread, NULL, work, NULL);
    if (begun == 1 && (begun = 2)) pthread_join(thread, NULL);
    return other_realloc(block, size);
}
"""


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_an_allocator_that_blocks_the_signal_goes_unwatched(tools: Tools, doubled: Growing, tmp_path: Path, kind: str) -> None:
    """Its peak is that between calls, and the answer says so."""
    source, library = tmp_path / "toy.c", tmp_path / "toy.so"
    text = toy_source()
    if kind == "thread":
        assert "void *realloc(" in text
        text = text.replace("void *realloc(", "static void *other_realloc(")
    source.write_text(text + (_BLOCKS if kind == "process" else _BLOCKS_IN_THREAD))
    subprocess.run([*BUILD, library, source, "-pthread"], check=True, timeout=60)
    results = tmp_path / "r.jsonl"
    done = tools.succeed([tools.replay_program, "--alloc", f"glibc,toy={library}", "--pass", "memory", "--rounds", "1", "--json", "-q", "-o", results, doubled.trace])
    said = json.loads(done.stdout)
    (warning,) = [warning for warning in said["warnings"] if warning["kind"] == "unwatched"]
    assert "toy (" in warning["message"] and "glibc" not in warning["message"] and "SIGSYS" in warning["message"]
    assert {item["name"]: item["watched"] for item in said["allocators"]} == {"glibc": True, "toy": False}
    rows = {row["allocator"]["name"]: row for row in map(json.loads, results.read_text().splitlines()) if not row["control"]}
    assert rows["toy"]["watched"] is False and rows["toy"]["rss_peak_bytes"] == rows["toy"]["rss_between_calls_peak_bytes"] > 0


@pytest.mark.thorough
def test_explain_names_a_peak_within_a_call(tools: Tools, doubled: Growing, tmp_path: Path) -> None:
    """Nothing can be taken apart there: the accounts are those between two calls next to it."""
    if "jemalloc" not in listed(tools):
        pytest.skip("no jemalloc")
    command = [tools.heaptape, "explain", "-q", "--budget", "0", "--alloc", "jemalloc", "--snapshots", tmp_path]
    text = tools.succeed([*command, "--html", tmp_path / "x.html", doubled.trace]).stdout.decode()
    assert "next to its peak" in text and "lies within a call" in text
    page = (tmp_path / "x.html").read_text()
    assert "lies within a call" in page and "The line is its peak" in page
    said = json.loads(tools.succeed([*command, "--json", doubled.trace]).stdout)
    within = said["within_call"]
    assert within["rss_bytes"] > 64 << 20 and said["rss_bytes"] == sum(said["accounts_bytes"].values()) < 46 << 20
    found = read_snapshots(tmp_path / "jemalloc.snapshots")
    assert found.curve["high_bytes"].max() == within["rss_bytes"] and (found.curve["high_bytes"] >= found.curve["rss_bytes"]).all()
    at_end = tools.succeed([*command, "--at", "end", doubled.trace]).stdout.decode()
    assert "within a call" not in at_end
    plain = tools.succeed([*command[:-4], "--alloc", "glibc", doubled.trace]).stdout.decode()
    assert "at its peak" in plain and "within a call" not in plain


@pytest.mark.thorough
def test_a_limit_counts_peaks_within_calls(tools: Tools, doubled: Growing) -> None:
    if "jemalloc" not in listed(tools):
        pytest.skip("no jemalloc")
    command = [tools.replay_program, "--alloc", "jemalloc", "--pass", "limit", "--memory-max", "55M", "--json", "-q", doubled.trace]
    (item,) = json.loads(tools.succeed(command).stdout)["allocators"]
    assert not item["limit"]["lives"]


@pytest.mark.thorough
@pytest.mark.parametrize("words", [DOUBLES, ("realloc", "1.7", str(40 << 20)), ("realloc", "1.5", str(40 << 20)), ("copy", "2", str(40 << 20))])
def test_growing_buffers_as_in_reality(tools: Tools, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Within 5 % of the median of five real runs, or between the least and the greatest of them. What mimalloc keeps of former
    blocks hangs on its clock, and copying takes trace time nowhere: it is replayed at the real pace."""
    built = listed(tools)
    growing = recorded(tools, tmp_path / "growing", *words)
    for name in ("glibc", "jemalloc", "tcmalloc", "mimalloc", "scudo19", "tbbmalloc"):
        if name not in built:
            continue
        pace = ("--pace", "memory=real") if name == "mimalloc" else ()
        row = memory_rows(tools, growing.trace, tmp_path / f"{name}.jsonl", name, *pace)[name]
        real = real_peaks(growing.command, built[name], 5)
        predicted = row["process_rss_peak_bytes"]
        assert real[0] <= predicted <= real[-1] or predicted == pytest.approx(median(real), rel=0.05), name
