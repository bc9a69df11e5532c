# SPDX-License-Identifier: Apache-2.0
"""--cpus: the number of processors that an allocator is shown, however it asks."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from heaptape import read_results, write_report
from heaptape.results.comparison import experiments
from quick_tier import quick
from tool_runner import Tools, run

ROOT = Path(__file__).resolve().parents[2]
THREADS = 40


@pytest.fixture(scope="module")
def small(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processors") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "1000", "50", "1", "1", "1000"])
    return path


@pytest.fixture(scope="module")
def threads(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty threads that all live from the trace's begin to its end."""
    path = tmp_path_factory.mktemp("threads") / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", path, "40000", "4000", str(THREADS), "1", "1000"])
    return path


def asked(tools: Tools, trace: Path, *more: str) -> tuple[set[str], list[tuple[int, int]]]:
    """What asking_malloc heard of the number of processors, in all runs, and on which it ran."""
    done = tools.succeed([tools.replay_program, "--alloc", f"asking={tools.target('asking_malloc.so')}", "--rounds", "1", "-q", *more, trace])
    heard = done.stderr.decode()
    runs = [(int(one), int(other)) for one, other in re.findall(r"runs: sched_getcpu=(\d+) getcpu=(\d+) ", heard)]
    return set(re.findall(r"asked: (.*)", heard)), runs


@pytest.mark.parametrize("count", quick([1, 65], [1, 3, 64, 65, 1024]))
def test_every_way_of_asking_is_answered(tools: Tools, small: Path, count: int) -> None:
    """In every pass, on one thread, which is pinned to one processor of those that there are."""
    heard, runs = asked(tools, small, "--cpus", str(count), "--verify", "--threads", "1")
    online = "0" if count == 1 else f"0-{count - 1}"
    assert heard == {f"onln={count} conf={count} nprocs={count} nprocs_conf={count} affinity={count} bytes={(count + 63) // 64 * 8} "
                     f"refused=1 online={online} cpuinfo={count} stat={count}"}
    assert len(runs) > 2 and all(one == other < count for one, other in runs)


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 36, 64, 1024])
def test_files_are_answered_by_whatever_path(tools: Tools, small: Path, count: int) -> None:
    """By folders, dots and links, of the process and of the thread. Not every machine has nodes."""
    done = tools.succeed([tools.replay_program, "--alloc", f"asking={tools.target('asking_malloc.so')}", "--rounds", "1", "-q", "--cpus", str(count), small])
    heard = done.stderr.decode()
    values = dict(re.findall(r"file: (\w+)=(.*)", heard))
    every = "0" if count == 1 else f"0-{count - 1}"
    words = f"{(1 << count % 32) - 1:x}" if count % 32 else "f" * 8
    bits = ",".join([words] + ["f" * 8] * ((count - 1) // 32))
    for path in ("relative", "absolute", "openat2", "dots", "root", "self_list", "thread", "process", "below_proc"):
        assert values[path] == every, path
    assert values["offline"] == "" and values["self"] == bits
    if Path("/sys/devices/system/node/node0/cpulist").exists():
        assert (values["cpulist"], values["cpumap"], values["has_cpu"]) == (every, bits, "0")
    assert set(re.findall(r"file: pid=(\d+)", heard)) == set(re.findall(r" pid=(\d+)", heard.replace("file: pid", "")))


@pytest.mark.parametrize("count", [1, 2, 65, 1024])
def test_a_thread_may_choose_any_processor_that_is_shown(tools: Tools, small: Path, count: int) -> None:
    """Whether this machine has it or not; the kernel, the C library and /proc then say the same."""
    done = tools.succeed([tools.replay_program, "--alloc", f"pinning={tools.target('pinning_malloc.so')}", "--rounds", "1", "-q", "--cpus", str(count), small])
    heard = done.stderr.decode()
    assert set(re.findall(r"pinned: (.*)", heard)) == {
        f"0 of=1 last=1 list={count - 1} none={errno.EINVAL} beyond={errno.EINVAL} nobody={errno.ESRCH} null={errno.EFAULT} other={count}"}
    assert set(re.findall(r"runs: (.*)", heard)) == {f"getcpu={count - 1} sched_getcpu={count - 1} of={count}"}


@pytest.mark.thorough
def test_threads_of_jemalloc_choose_processors(tools: Tools, threads: Path, tmp_path: Path) -> None:
    """Its background threads do, with an arena for each processor."""
    rows = tools.replay(threads, "jemalloc:percpu_arena=percpu,background_thread=1", tmp_path / "r.jsonl", "--pass", "memory", "-q", "--cpus", "16")
    (row,) = [row for row in rows if row["allocator"]["name"].startswith("jemalloc") and not row["control"]]
    assert 8 <= row["arenas"] <= 17 and row["failures"] == 0


def test_without_the_option_nothing_changes(tools: Tools, small: Path) -> None:
    heard, _ = asked(tools, small)
    assert {re.sub(r"affinity=\d+ ", "", line) for line in heard} == {
        f"onln={os.cpu_count()} conf={os.cpu_count()} nprocs={os.cpu_count()} nprocs_conf={os.cpu_count()} "
        + re.search(r"bytes=.*", next(iter(heard)))[0]}
    assert f" stat={os.cpu_count()}" in next(iter(heard))


@pytest.mark.thorough
def test_arenas_are_those_of_such_a_machine(tools: Tools, threads: Path, tmp_path: Path) -> None:
    """By the allocators' own statistics. glibc counts processors once it has eight arenas, and goes one beyond."""
    expected = {1: (8, 9, 1), 2: (16, 17, 8), 64: (THREADS, THREADS + 1, 256), 1024: (THREADS, THREADS + 1, 4094)}
    for count, (least, most, of_jemalloc) in expected.items():
        rows = tools.replay(threads, "glibc,jemalloc,tcmalloc,mimalloc", tmp_path / f"{count}.jsonl", "--pass", "memory", "-q", "--cpus", str(count))
        rows = {row["allocator"]["name"]: row for row in rows if not row["control"]}
        assert {row["processors"] for row in rows.values()} == {count}
        assert least <= rows["glibc"]["arenas"] <= most and rows["glibc"]["arenas_max"] is None
        assert rows["jemalloc"]["arenas_max"] == of_jemalloc
        assert 1 <= rows["jemalloc"]["arenas"] <= min(of_jemalloc, THREADS + 1) + 1
        assert rows["jemalloc"]["processors_asked"] and rows["glibc"]["processors_asked"]
        assert not rows["mimalloc"]["processors_asked"] and rows["mimalloc"]["arenas"] is None
        assert not rows["null"]["processors_asked"], "the harness asks by itself"


@pytest.mark.thorough
def test_arenas_by_processor(tools: Tools, threads: Path, tmp_path: Path) -> None:
    """The processor that a thread runs on is below the number, and threads are spread over them."""
    rows = tools.replay(threads, "jemalloc:percpu_arena=percpu", tmp_path / "r.jsonl", "--pass", "memory", "-q", "--cpus", "16")
    (row,) = [row for row in rows if row["allocator"]["name"].startswith("jemalloc") and not row["control"]]
    # On a busy machine a thread may have ended before the last ones start.
    assert 8 <= row["arenas"] <= 17 and row["arenas_max"] == 16


@pytest.mark.thorough
def test_all_passes_work_with_it(tools: Tools, small: Path, tmp_path: Path) -> None:
    """System calls are counted too, though a process can have only one listener."""
    rows = tools.replay(small, "glibc", tmp_path / "r.jsonl", "-q", "--cpus", "8", "--verify")
    counted = [row["syscalls"] for row in rows if row["syscalls"]]
    assert counted and all(row["failures"] == 0 for row in rows)
    plain = tools.replay(small, "glibc", tmp_path / "p.jsonl", "-q")
    assert counted[-1] == [row["syscalls"] for row in plain if row["syscalls"]][-1]
    folder = tmp_path / "snapshots"
    tools.succeed([tools.replay_program, "--alloc", "glibc", "--snapshots", folder, "-q", "--cpus", "8", small])
    assert list(folder.glob("*.snapshots"))


def test_text_and_bad_numbers(tools: Tools, small: Path, tmp_path: Path) -> None:
    done = tools.succeed([tools.replay_program, "--alloc", "glibc,mimalloc", "--rounds", "1", "--cpus", "5", "--pass", "memory", "-q", small])
    assert b"processors shown: 5" in done.stdout and b"8 arenas for each processor" in done.stdout
    for bad in ("0", "1025", "-1", "two", "", "1.5"):
        failed = run([tools.replay_program, "--cpus", bad, small])
        assert failed.returncode == 2 and b"--cpus " in failed.stderr and b"from 1 to 1024" in failed.stderr
    failed = run([tools.replay_program, "--cpus", "2", "--wrap", "env", small])
    assert failed.returncode == 2 and b"--wrap: expected no --cpus" in failed.stderr


def test_numbers_are_experiments_of_their_own(tools: Tools, small: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    for more in ([], ["--cpus", "2"], ["--cpus", "64"]):
        tools.replay(small, "glibc", results, "--pass", "memory", "-q", *more)
    found = experiments(read_results(results))
    assert [experiment.settings.get("processors") for experiment in found] == [None, "2", "64"]
    compared = tools.succeed([tools.heaptape, "compare", results]).stdout.decode()
    table = compared.partition("Peak RSS by processors: ")[2]
    assert re.search(r"allocator +as it is +2 processors +64 processors\nglibc +[^,]+ [kM]B, 1 arena", table)
    assert "| allocator | as it is | 2 processors | 64 processors |" in tools.succeed([tools.heaptape, "compare", results, "--markdown"]).stdout.decode()
    write_report(read_results(results), page := tmp_path / "r.html", [small])
    assert "How much memory on other machines?" in page.read_text()


@pytest.mark.thorough
def test_the_recorded_program_is_another_machines(tools: Tools, tmp_path: Path) -> None:
    """Its own time and memory are not compared, but what it held beside its heap counts."""
    trace = ROOT / "traces" / "postgres.bin"
    results = tmp_path / "r.jsonl"
    said = {}
    for more in ((), ("--cpus", "3")):
        done = tools.succeed([tools.replay_program, "--alloc", "glibc", "--rounds", "3", "-q", "-o", results, *more, trace])
        said[more] = done.stdout.decode()
    assert "recorded program: " in said[()] and "; replayed under glibc: " in said[()] and "malloc's share: " in said[()]
    assert not re.search("recorded program|replayed under|malloc's share", said["--cpus", "3"])
    rows = [row for row in read_results(results).to_dict("records") if row["processors"] == 3 and row["pass"] == "memory" and row["allocator"] == "glibc"]
    assert rows and all(row["process_rss_peak_bytes"] > row["rss_peak_bytes"] for row in rows)
    as_it_is, other = experiments(read_results(results))
    assert as_it_is.is_as_recorded and not other.is_as_recorded
    compared = tools.succeed([tools.heaptape, "compare", results, "--trace", trace]).stdout.decode()
    assert compared.count("of CPU time; glibc takes") == 1
    assert "Malloc's share of this program is unknown (it was replayed as on another machine)." in compared
    pages = [write_report(read_results(results)[lambda rows, shown=shown: rows["processors"] == shown], tmp_path / "r.html", [trace]).read_text()
             for shown in (0, 3)]
    assert ["recorded heap" in page for page in pages] == [True, False]
    assert all("What does the program allocate?" in page for page in pages), "that no machine changes"
