# SPDX-License-Identifier: Apache-2.0
"""--memory-max: which allocators live under a limit of memory, where the others die, and the lowest limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import replay_traces
from heaptape import read_results, write_report
from heaptape.results.remarks import limit_lines
from tool_runner import Argument, Tools, clean_environment, run
from virtual_machine import run_in_machine
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
POSTGRES = ROOT / "traces" / "postgres.bin"  # has memory of its own
BLOCKS, BLOCK_BYTES = 1000, 20000


@pytest.fixture(scope="module")
def growing(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 MB in blocks of 20 KB, then nothing more."""
    calls = "".join(f"m {i} {BLOCK_BYTES}\n" for i in range(1, BLOCKS + 1))
    return replay_traces.imported(tools, tmp_path_factory.mktemp("limit") / "t.bin", f"{BLOCKS}\n\n{calls}", "malloc_wrap")


def limited(tools: Tools, trace: Path, size: str, *more: Argument, alloc: str = "glibc") -> dict[str, dict]:
    command = [tools.replay_program, "--alloc", alloc, "--pass", "limit", "--memory-max", size, "--json", "-q", *more, trace]
    said = json.loads(tools.succeed(command).stdout)
    return {item["name"]: item["limit"] for item in said["allocators"]}


def test_out_of_memory_is_an_answer(tools: Tools, growing: Path, tmp_path: Path) -> None:
    dead = limited(tools, growing, "10M", "-o", tmp_path / "r.jsonl")["glibc"]
    assert not dead["lives"] and dead["memory_max_bytes"] == 10 << 20
    # A block a reading or so, and what the C library maps beyond them.
    assert 0.8 * (10 << 20) <= dead["died_at_event"] * BLOCK_BYTES <= 1.1 * (10 << 20)
    alive = limited(tools, growing, "40M", "-o", tmp_path / "r.jsonl")["glibc"]
    assert alive["lives"] and alive["died_at_ns"] is None and alive["died_at_event"] is None
    rows = read_results(tmp_path / "r.jsonl")
    assert list(rows["pass"]) == ["limit", "limit"] and list(rows["failures"]) == [0, 0]
    assert [limit["lives"] for limit in rows["limit"]] == [False, True]
    compared = tools.succeed([tools.heaptape, "compare", tmp_path / "r.jsonl"]).stdout.decode()
    assert "Under a limit of 10.5 MB glibc dies at " in compared and "Under a limit of 41.9 MB glibc lives" in compared
    write_report(rows, page := tmp_path / "r.html", [growing])
    assert "Under a limit of 10.5 MB glibc dies at " in page.read_text()


@pytest.mark.thorough
@pytest.mark.parametrize("alloc", ["glibc", "jemalloc"])
def test_the_lowest_limit(tools: Tools, growing: Path, alloc: str) -> None:
    found = limited(tools, growing, "search", alloc=alloc)[alloc]
    assert found["dies_bytes"] < found["least_bytes"] <= 1.01 * found["dies_bytes"]
    # jemalloc's blocks begin anywhere in a page, and lie in 5.9 pages of their own.
    assert BLOCKS * BLOCK_BYTES < found["least_bytes"] < 1.27 * BLOCKS * BLOCK_BYTES
    assert limited(tools, growing, str(int(1.03 * found["least_bytes"])), alloc=alloc)[alloc]["lives"]
    assert not limited(tools, growing, str(int(0.97 * found["dies_bytes"])), alloc=alloc)[alloc]["lives"]


@pytest.mark.thorough
def test_a_search_is_known_from_limits_that_were_asked_for(tools: Tools, growing: Path, tmp_path: Path) -> None:
    asked, found = tmp_path / "asked.jsonl", tmp_path / "found.jsonl"
    for size in ("10M", "30M", "40M"):
        assert not limited(tools, growing, size, "-o", asked)["glibc"]["searched"]
    said = limited(tools, growing, "search", "-o", found)["glibc"]
    assert said["searched"]
    sentences = [line for line in tools.succeed([tools.heaptape, "compare", asked]).stdout.decode().splitlines() if "nder a limit of " in line]
    assert len(sentences) == 3 and all("Under a limit of " in line for line in sentences)
    rows = read_results([found, asked])
    assert [limit["searched"] for limit in rows["limit"]] == [True] * (len(rows) - 3) + [False] * 3
    sentences = limit_lines(rows)
    assert len(sentences) == 4 and sentences[1:] == limit_lines(read_results(asked))
    least, dies = said["least_bytes"] / 1e6, said["dies_bytes"] / 1e6
    assert sentences[0].startswith(f"glibc lives under a limit of {least:.2f} MB and dies under one of {dies:.2f} MB (by ")


def test_a_low_limit_is_printed(tools: Tools, growing: Path) -> None:
    text = tools.succeed([tools.replay_program, "--alloc", "glibc", "--pass", "limit", "--memory-max", "4K", "-q", growing]).stdout.decode()
    assert "4.10 kB" in text and "0.00" not in text


@pytest.mark.thorough
def test_the_two_limits_of_a_search_are_told_apart(tools: Tools, tmp_path: Path) -> None:
    """Of a heap of a megabyte or two they are one page apart."""
    calls = "".join(f"m {i} 2000\n" for i in range(1, 701))
    trace = replay_traces.imported(tools, tmp_path / "t.bin", f"700\n\n{calls}", "malloc_wrap")
    command = [tools.replay_program, "--alloc", "glibc", "--pass", "limit", "--memory-max", "search", "-q", "-o", tmp_path / "r.jsonl", trace]
    lives, dies = re.findall(r"([0-9][.][0-9]{3}) MB", tools.succeed(command).stdout.decode())
    assert 0 < float(lives) - float(dies) <= 0.01 and 1 < float(lives) < 2
    assert f"glibc lives under a limit of {lives} MB and dies under one of {dies} MB" in limit_lines(read_results(tmp_path / "r.jsonl"))[0]


@pytest.mark.thorough
def test_the_programs_own_memory_counts(tools: Tools, tmp_path: Path) -> None:
    """The lowest limit is the peak of the process, as the memory pass has it."""
    found = limited(tools, POSTGRES, "search")["glibc"]
    rows = tools.replay(POSTGRES, "glibc", tmp_path / "r.jsonl", "--pass", "memory", "-q")
    (row,) = [row for row in rows if row["allocator"]["name"] == "glibc" and not row["control"]]
    assert found["least_bytes"] == pytest.approx(row["process_rss_peak_bytes"], rel=0.08)
    assert found["least_bytes"] > 1.05 * row["rss_peak_bytes"]


@pytest.mark.thorough
def test_before_other_passes(tools: Tools, growing: Path) -> None:
    command = [tools.replay_program, "--alloc", "glibc,jemalloc", "--rounds", "1", "--memory-max", "10M", "-q", growing]
    said = json.loads(tools.succeed([*command, "--json"]).stdout)
    assert [item["limit"]["lives"] for item in said["allocators"]] == [False, False]
    assert all(item["rss_peak_bytes"]["median"] > 15e6 for item in said["allocators"]), "other passes have no limit"
    text = tools.succeed(command).stdout.decode()
    assert "limit of memory, by " in text and "of the heap alone: the program's own memory is not known" in text
    assert text.count("dies at ") == 2


def test_without_a_control_group(tools_for_all: Tools, growing: Path) -> None:
    """Then readings of RSS are held against the limit, and that is said."""
    command = [tools_for_all.replay_program, "--alloc", "glibc", "--pass", "limit", "--memory-max", "10M", "--json", "/dev/stdin"]
    user = {"user": 65534} if os.getuid() == 0 else {}
    growing.chmod(0o644)  # the other user opens it anew
    with growing.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, env=clean_environment(), check=False, timeout=60, **user)
    assert done.returncode == 0, done.stderr
    (item,) = json.loads(done.stdout)["allocators"]
    assert not item["limit"]["lives"] and 0.9 * (10 << 20) <= item["limit"]["died_at_event"] * BLOCK_BYTES <= 1.1 * (10 << 20)
    if item["limit"]["by"] == "readings":
        assert b"no control group: " in done.stderr and b"held against the limit" in done.stderr
    else:
        assert user == {}, "nobody may make a group"


def test_no_group_is_left(tools: Tools, growing: Path) -> None:
    """Others' may be there: tests run side by side."""
    command = [tools.replay_program, "--alloc", "glibc", "--pass", "limit", "--memory-max", "10M", "-q", growing]
    with subprocess.Popen(command, env=clean_environment({}), stdout=subprocess.DEVNULL) as replay:
        assert replay.wait(timeout=120) == 0
    assert not list(Path("/sys/fs/cgroup").glob(f"**/heaptape-{replay.pid}-*"))


@pytest.fixture
def groups() -> Iterator[Path]:
    """Where this process's groups with a limit of memory are made."""
    lines = dict(line.split(":")[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    folder = Path("/sys/fs/cgroup/memory" + lines["memory"]) if "memory" in lines else Path("/sys/fs/cgroup" + lines.get("", "/"))
    try:
        (folder / "heaptape-test").mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error.strerror}")
    (folder / "heaptape-test").rmdir()
    yield folder


def test_what_a_killed_launcher_left_is_removed(tools: Tools, growing: Path, groups: Path) -> None:
    command = [tools.replay_program, "--alloc", "glibc", "--pass", "limit", "-q", growing, "--memory-max"]
    with subprocess.Popen([*command, "search"], env=clean_environment({}), stdout=subprocess.DEVNULL) as replay:
        left = wait_until(lambda: list(groups.glob(f"heaptape-{replay.pid}-*")), "a group is made")
        replay.send_signal(signal.SIGSTOP)  # it removes none
        left = list(groups.glob(f"heaptape-{replay.pid}-*")) or left
        replay.kill()
    pid, ours = replay.pid, os.getpid()
    planted = {name: groups / name for name in (f"heaptape-{pid}-900", f"heaptape-{pid}-901", f"heaptape-{ours}-900", f"heaptape-{pid}-x", f"heaptape-{pid}")}
    used = subprocess.Popen(["sleep", "60"])
    try:
        for group in planted.values():
            group.mkdir()
        (planted[f"heaptape-{pid}-901"] / "cgroup.procs").write_text(str(used.pid))
        tools.succeed([*command, "40M"])
        assert all(group.exists() for group in planted.values()), "none is a minute old"
        for group in [*left, *planted.values()]:
            with suppress(FileNotFoundError):
                os.utime(group, (time.time() - 100, time.time() - 100))
        tools.succeed([*command, "40M"])
        assert not planted.pop(f"heaptape-{pid}-900").exists() and not any(group.exists() for group in left)
        assert all(group.exists() for group in planted.values()), "used, of a process that is there, or of another name"
    finally:
        used.kill()
        used.wait(timeout=10)
        wait_until(lambda: _removed(planted.values()), "the groups are removed")


def _removed(groups: Iterable[Path]) -> bool:
    for group in groups:
        with suppress(OSError):
            group.rmdir()
    return not any(group.exists() for group in groups)


@pytest.mark.slow
def test_version_2_of_control_groups(tools: Tools, growing: Path, tmp_path: Path) -> None:
    """At the root, in a group that is not delegated, and in one that is: there beside the launcher's own."""
    replay = f"{tools.replay_program} --alloc glibc --pass limit -q --json {growing} --memory-max"
    status, said = run_in_machine(tmp_path, [tools.replay_program, tools.build / "replay-glibc", tools.build / "replay-null"], [growing], f"""
set -e
mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup
echo +memory >cgroup.subtree_control
echo at the root
{replay} 10M
mkdir -p a/b
echo $$ >a/b/cgroup.procs
echo not delegated
{replay} 10M
echo +memory >a/cgroup.subtree_control
echo delegated
{replay} 10M
{replay} 40M
{replay} search
mkdir a/heaptape-4000000-1 a/b/heaptape-4000000-2 a/b/heaptape-1-1
touch -d 2020-01-01 a/heaptape-4000000-1 a/b/heaptape-4000000-2 a/b/heaptape-1-1
{replay} 40M >/dev/null
echo left: a/heaptape* a/b/heaptape*
""")
    assert status == 0, said
    by = re.findall('"by": "(.*)"', said)
    assert by == ["control group", "readings", "control group", "control group", "control group"]
    assert "no control group: groups in /sys/fs/cgroup/a/b, and beside it, have no limits of memory" in said
    assert re.findall('"lives": (.*),', said)[:4] == ["false", "false", "false", "true"]
    assert all(0.8 * (10 << 20) <= int(event) * BLOCK_BYTES <= 1.1 * (10 << 20) for event in re.findall(r'"died_at_event": (\d+)', said)[:3])
    least, dies = (int(re.findall(rf'"{key}": (\d+)', said)[-1]) for key in ("least_bytes", "dies_bytes"))
    assert dies < least <= 1.01 * dies and BLOCKS * BLOCK_BYTES < least < 1.15 * BLOCKS * BLOCK_BYTES
    assert "left: a/heaptape* a/b/heaptape-1-1\n" in said


@pytest.mark.parametrize(("arguments", "words"), [
    (["--memory-max", "few"], "expected a size such as 512M"), (["--memory-max", "100"], "of 4K at least"), (["--memory-max", ""], "expected a size"),
    (["--pass", "limit"], "--pass limit: expected --memory-max"), (["--memory-max", "1G", "--wrap", "env"], "--wrap: expected no --memory-max"),
    (["--memory-max", "1G", "--pass", "count"], "expected neither --pass count"), (["--memory-max", "1G", "--pass", "limit", "--fail-if", "time>1"], "--fail-if: expected a pass"),
])
def test_bad_usage(tools: Tools, growing: Path, arguments: list[str], words: str) -> None:
    done = run([tools.replay_program, *arguments, growing])
    assert done.returncode == 2 and words in done.stderr.decode()
