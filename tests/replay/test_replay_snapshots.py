# SPDX-License-Identifier: Apache-2.0
"""Snapshots: replay --snapshots and what reads them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from heaptape import TraceError, accounts_along, read_snapshots
from heaptape.explain.accounts import account
from heaptape.explain.snapshots import ACCOUNTS, PAGE_BYTES, Snapshot
from tool_runner import Tools, run

ROOT = Path(__file__).parents[2]
TRACES = sorted(path.stem for path in (ROOT / "traces").glob("*.bin"))


def take(tools: Tools, folder: Path, trace: str, alloc: str, *more: str) -> list[Path]:
    done = tools.succeed([tools.replay_program, "-q", "--alloc", alloc, "--snapshots", folder, *more, ROOT / "traces" / f"{trace}.bin"])
    return [Path(line) for line in done.stdout.decode().splitlines()]


def check_accounts(snapshot: Snapshot) -> None:
    accounts = account(snapshot)
    assert snapshot.pages["pages"].sum() * PAGE_BYTES == snapshot.rss_bytes
    assert accounts.rss_bytes == sum(accounts.bytes.values()) == snapshot.rss_bytes - snapshot.null_rss_bytes
    assert all(amount >= 0 for amount in accounts.bytes.values())


@pytest.mark.parametrize(("trace", "alloc"), [
    ("sqlite3", "glibc,jemalloc"), *(pytest.param(trace, "all", marks=pytest.mark.thorough) for trace in TRACES)])
def test_accounts_are_rss_to_the_page(tools: Tools, tmp_path: Path, trace: str, alloc: str) -> None:
    paths = take(tools, tmp_path / "s", trace, alloc)
    assert len(paths) >= 2
    for path in paths:
        found = read_snapshots(path).snapshots
        assert {"peak", "end"} <= {snapshot.why for snapshot in found}
        for snapshot in found:
            check_accounts(snapshot)


@pytest.mark.thorough
@pytest.mark.parametrize(("trace", "alloc"), [
    ("sqlite3", "glibc,jemalloc"), *((trace, "all") for trace in TRACES)])
def test_rss_is_as_without_snapshots(tools: Tools, tmp_path: Path, trace: str, alloc: str) -> None:
    """Some allocators draw by chance, so that two runs differ anyway: one of five pairs must agree."""
    open_, differ = set(), {}
    for attempt in range(5):
        for path in take(tools, tmp_path / f"s{attempt}", trace, ",".join(sorted(open_)) or alloc, "--threads", "1", "--at", "peak"):
            found = read_snapshots(path)
            [snapshot], without = found.snapshots, int(found.curve["rss_bytes"].max())
            differ[path.stem] = abs(snapshot.rss_bytes - snapshot.null_rss_bytes - without) / max(without, 400 * PAGE_BYTES)
        open_ = {name for name, share in differ.items() if share > 0.005}
        if not open_:
            return
    pytest.fail(f"{differ}")


@pytest.mark.thorough
def test_live_blocks_are_the_traces(tools: Tools, tmp_path: Path) -> None:
    [path] = take(tools, tmp_path / "s", "sqlite3", "glibc", "--threads", "1", "--at", "end,1ms")
    moments = read_snapshots(path).snapshots
    assert [snapshot.why for snapshot in moments] == ["time", "end"] and moments[0].time_ns <= 1_000_000
    info = tools.info(ROOT / "traces" / "sqlite3.bin")
    assert len(moments[1].blocks) == info["end_live_objects"]
    starts, ends = (moments[1].blocks["address"].to_numpy() + more for more in (0, moments[1].blocks["usable_bytes"].to_numpy()))
    assert np.all(ends[:-1] <= starts[1:])


@pytest.mark.thorough
def test_the_end_is_behind_all_threads(tools: Tools, tmp_path: Path) -> None:
    """All of them are within a window of each other from the first call to the last, so that any may come to the last one first."""
    trace = tmp_path / "t.bin"
    tools.succeed([tools.build / "bench" / "make_trace", trace, "100000", "3000", "8", "7", "1"])
    live = set[int]()
    for attempt, options in enumerate((["--threads", "1"], [], [], [])):
        done = tools.succeed([tools.replay_program, "-q", "--alloc", "glibc", "--snapshots", tmp_path / f"s{attempt}", "--at", "end,50us", *options, trace])
        moments = {moment.why: moment for moment in read_snapshots(done.stdout.decode().strip()).snapshots}
        live = live or set(moments["end"].blocks["slot"])
        assert set(moments["end"].blocks["slot"]) == live
        for moment in moments.values():  # of one moment, though other threads would go on
            starts, ends = (moment.blocks["address"].to_numpy() + more for more in (0, moment.blocks["usable_bytes"].to_numpy()))
            assert len(starts) and np.all(ends[:-1] <= starts[1:])


@pytest.mark.thorough
@pytest.mark.parametrize("alloc", ["glibc", "jemalloc"])  # with headers, and with pages of their own
def test_accounts_along_the_trace(tools: Tools, tmp_path: Path, alloc: str) -> None:
    """They are those of snapshots at the same samples, and do not move RSS by a page."""
    if not tools.replay_program.with_name(f"replay-{alloc}").exists():
        pytest.skip(f"{alloc} is not built in")
    [path] = take(tools, tmp_path / "s", "sqlite3", alloc, "--threads", "1", "--at", "end")
    found = read_snapshots(path)
    along = accounts_along(found).drop_duplicates("event").set_index("event")
    assert 80 <= len(along) <= 200 and along["time_ns"].is_monotonic_increasing
    assert along["cost_ns"].count() >= 80 and along["cost_ns"].dropna().between(0, 1e6).all()
    for timed in (found.timed, found.null_timed):  # which of them is slower, a busy machine may decide
        called = timed.calls > 0
        assert called.any(axis=0).sum() >= 80 and (timed.ns[called] / timed.calls[called] > 1).all()
    times = ",".join(f"{along['time_ns'].iloc[number]}ns" for number in range(10, 80, 10))
    [path] = take(tools, tmp_path / "s", "sqlite3", alloc, "--threads", "1", "--at", f"end,{times}")
    found = read_snapshots(path)
    both = [snapshot for snapshot in found.snapshots if snapshot.event in along.index]
    assert len(both) >= 6 and both[-1].why == "end"
    for snapshot in both:
        accounts = account(snapshot)
        assert along.loc[snapshot.event, list(ACCOUNTS)].to_dict() == accounts.bytes
        assert along.loc[snapshot.event, "not_resident_bytes"] == accounts.not_resident_bytes
    assert accounts.rss_bytes == found.curve["rss_bytes"].iloc[-1]


@pytest.mark.parametrize(("words", "status", "said"), [
    (["--at", "peak"], 2, b"--snapshots"), (["--snapshots", "s", "--at", "noon"], 2, b"noon"),
    (["--snapshots", "s", "--at", "end,1h"], 2, b": --at: expected times up to the end of the trace, 0.00135 s, found 1:00:00\n"), (["--snapshots", "s", "--scale", "2"], 2, b"--scale"),
    (["--snapshots", "s", "-o", "r"], 2, b"-o"), (["--snapshots", "s", "--pass", "memory"], 2, b"--pass"), (["--snapshots", "/dev/null/s"], 1, b"cannot create"),
    (["--snapshots", "/proc"], 1, b"heaptape replay: --snapshots: /proc: cannot create: No such file or directory\n"),
    (["--snapshots", "/etc/passwd"], 1, b"--snapshots: /etc/passwd: cannot create: Not a directory\n")])
def test_wrong_use(tools: Tools, tmp_path: Path, words: list[str], status: int, said: bytes) -> None:
    done = run([tools.replay_program, "-q", "--alloc", "glibc", *words, ROOT / "traces" / "sqlite3-small.bin"], cwd=tmp_path)
    assert done.returncode == status and said in done.stderr and not list(tmp_path.iterdir())


def test_an_allocator_that_fails_leaves_the_others(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.replay_program, "-q", "--alloc", f"bad={tools.replay_program.parent}/tests/targets/faulty_malloc.so,glibc", "--snapshots", tmp_path / "s",
                ROOT / "traces" / "sqlite3-small.bin"], env={**os.environ, "FAULTY_MALLOC": "crash", "FAULT_ONE_IN": "50"})
    assert done.returncode == 1 and b"bad: --snapshots: killed by" in done.stderr
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["glibc.snapshots"]


@pytest.mark.thorough
def test_any_damage_is_refused_or_harmless(tools: Tools, tmp_path: Path) -> None:
    """Bytes changed at random, in the index more than elsewhere: read as snapshots, or refused by TraceError."""
    [path] = take(tools, tmp_path / "s", "sqlite3-small", "glibc", "--at", "end")
    whole, random = path.read_bytes(), np.random.default_rng(5)
    index = len(whole) - 16 - int.from_bytes(whole[-16:-8], "little")
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for at in random.integers(*((0, len(whole)) if random.random() < 0.2 else (index, index + 500)), 3):
            damaged[at] = random.choice(list(b'0123456789-.,:"[]{}enull\0\xff'))
        path.write_bytes(damaged)
        try:
            for snapshot in read_snapshots(path).snapshots:
                account(snapshot)
        except TraceError:
            refused += 1
    assert 0 < refused < 150


def test_damaged_files_are_refused(tools: Tools, tmp_path: Path) -> None:
    [path] = take(tools, tmp_path / "s", "sqlite3-small", "glibc", "--at", "end")
    whole = path.read_bytes()
    length = int.from_bytes(whole[-16:-8], "little")
    index = json.loads(whole[-16 - length:-16])
    index["snapshots"][0]["blocks"] = 1 << 40
    text = json.dumps(index).encode()
    index["snapshots"].clear()
    index["stretches"]["holes"][0] += 1
    other = json.dumps(index).encode()
    for bad in (b"", whole[:-1], whole[: len(whole) // 2], whole[:-16] + b"\xff" * 8 + whole[-8:],
                *(whole[:-16 - length] + changed + len(changed).to_bytes(8, "little") + whole[-8:] for changed in (text, other))):
        path.write_bytes(bad)
        with pytest.raises(TraceError, match="expected"):
            read_snapshots(path)


def test_a_full_disk_leaves_nothing(tools: Tools, tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=1m none "$0" && "$@"; status=$?; ls "$0/s"; exit $status'
    done = run(["unshare", "-rm", "sh", "-c", script, tmp_path, tools.replay_program, "-q", "--alloc", "glibc", "--snapshots", tmp_path / "s",
                ROOT / "traces" / "redis.bin"])
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        pytest.skip("no file systems can be mounted here")
    assert done.returncode == 1 and b"No space left on device" in done.stderr and not done.stdout, (done.stdout, done.stderr)
