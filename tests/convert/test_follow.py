# SPDX-License-Identifier: Apache-2.0
"""convert --follow: beside the running program, killed at any moment, resumed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from heaptape import read_trace

from quick_tier import quick
from safety_checks import must_work
from tool_runner import Argument, Tools, clean_environment, logs_in, run
from waiting import wait_until

ALLOCATING = """
import json, sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    json.loads(json.dumps([{"a": [i, str(i) * 3], "b": "x" * (i % 200)} for i in range(500)]))
    time.sleep(0.01)
"""


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[bytes]
    log: Path


def is_begun(log: Path) -> bool:
    if not log.exists():
        return False
    with log.open("rb") as file:
        return file.read(8) == b"HTAPERAW"


@contextmanager
def running(tools: Tools, logs: Path, command: Sequence[Argument], **environ: str) -> Iterator[Running]:
    """A program under the shim, from the moment on when its log can be read."""
    logs.mkdir(exist_ok=True)
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs),
                                     "PYTHONMALLOC": "malloc", **environ})
    with subprocess.Popen([str(word) for word in command], env=environment, cwd=logs,
                          stdout=subprocess.DEVNULL) as process:
        log = logs / f"malloc-footprint.{process.pid}.mraw"
        try:
            wait_until(lambda: is_begun(log), "the program's log", process=process)
            yield Running(process, log)
        finally:
            process.kill()


def python_for(seconds: float) -> list[Argument]:
    return ["/usr/bin/python3", "-c", ALLOCATING, str(seconds)]


def follow_command(tools: Tools, log: Path, trace: Path, *more: Argument) -> list[str]:
    return [str(word) for word in
            (tools.heaptape, "convert", "--follow", log, "-o", trace, "--checkpoint", "1", *more)]


def start_follower(tools: Tools, log: Path, trace: Path,
                   *more: Argument) -> subprocess.Popen[bytes]:
    return subprocess.Popen(follow_command(tools, log, trace, *more), env=clean_environment(),
                            stderr=subprocess.PIPE)


def dump_digest(tools: Tools, trace: Path) -> str:
    dump = tools.succeed([tools.heaptape, "dump", "--no-time", trace]).stdout
    assert dump.count(b"\n") > 500
    return hashlib.sha256(dump).hexdigest()


def assert_same_trace(tools: Tools, followed: Path, log: Path) -> None:
    """The same as from converting the whole log afterwards."""
    whole = tools.convert(log, followed.with_name("whole.bin"))
    assert dump_digest(tools, followed) == dump_digest(tools, whole)
    left, right = tools.info(followed), tools.info(whole)
    with read_trace(followed) as one, read_trace(whole) as other:
        assert one.sites.modules == other.sites.modules
        for table in ("locations", "callers", "sites", "names"):
            assert getattr(one.sites, table).equals(getattr(other.sites, table)), table
    for key in ("events", "ops", "threads", "slots", "peak_live_bytes", "peak_live_objects",
                "end_live_objects", "repairs", "anomalies", "foreign_frees", "truncated",
                "recorded_rss_peak_bytes", "recorded_cpu_ns", "command", "recorded_allocator"):
        assert left[key] == right[key], key


def in_use_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def assert_nothing_beside(trace: Path) -> None:
    assert not trace.with_name(trace.name + ".partial").exists()
    assert not trace.with_name(trace.name + ".state").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["recursion", "threads", "plugins"])
def test_call_sites_are_the_same(tools: Tools, tmp_path: Path, kind: str) -> None:
    """Their numbers, what these mean, and the names, from a follower that was ended on the way."""
    plugins = [tools.target(f"site_plugin_{which}.so") for which in ("one", "other")]
    command = [tools.target("site_kinds"), kind, *(plugins if kind == "plugins" else [])]
    with running(tools, tmp_path / "logs", command, MALLOC_WRAP_SITES="64") as program:
        assert follow_with_kills(tools, program.log, tmp_path / "f.bin", 1, "--keep-raw") >= 0
        assert program.process.wait(timeout=60) == 0
        assert_same_trace(tools, tmp_path / "f.bin", program.log)
        with read_trace(tmp_path / "f.bin") as trace:
            assert len(trace.sites.sites) > 10 and not trace.sites.names.empty
    assert_nothing_beside(tmp_path / "f.bin")


@pytest.mark.thorough
def test_killed_followers_of_call_sites(tools: Tools, tmp_path: Path) -> None:
    with running(tools, tmp_path / "logs", python_for(2), MALLOC_WRAP_SITES="64") as program:
        assert follow_with_kills(tools, program.log, tmp_path / "f.bin", 2, "--keep-raw") > 2
        program.process.wait(timeout=60)
        assert_same_trace(tools, tmp_path / "f.bin", program.log)


@pytest.mark.parametrize("program", quick(["threads", "churn"], ["python", "threads", "churn"]))
def test_same_as_converting_afterwards(tools: Tools, tmp_path: Path, program: str) -> None:
    counts = tmp_path / "counts"
    command, status = {
        "python": (python_for(1), 0),
        "threads": ([tools.target("threads_exchange"), counts, "300000", "4"], 0),
        "churn": ([tools.target("thread_churn"), counts, "2000"], 10),
    }[program]
    with running(tools, tmp_path / "logs", command) as program_running:
        tools.succeed(follow_command(tools, program_running.log, tmp_path / "f.bin", "--keep-raw"))
        assert program_running.process.wait(timeout=60) == status
        assert_same_trace(tools, tmp_path / "f.bin", program_running.log)
    assert_nothing_beside(tmp_path / "f.bin")


def follow_with_kills(tools: Tools, log: Path, trace: Path, seed: int, *more: Argument) -> int:
    """Ends followers at random moments until one comes to the end. Returns how many there were."""
    moments = random.Random(seed)
    for ended in range(200):
        command = follow_command(tools, log, trace, "-q", *more)
        follower = subprocess.Popen(command, env=clean_environment())
        try:
            # Later ones get more time, so that one of them comes to the end.
            follower.wait(moments.uniform(0.1, 0.6) * (1 + ended / 10))
        except subprocess.TimeoutExpired:
            follower.send_signal(moments.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            assert follower.wait(60) in (-signal.SIGKILL, 128 + signal.SIGTERM, 0)
            if follower.returncode:
                continue
        assert follower.returncode == 0
        return ended
    pytest.fail("no follower came to the end")


@pytest.mark.thorough
def test_killed_followers(tools: Tools, tmp_path: Path) -> None:
    """Whatever the moment, the next one goes on, and the trace is that of a single pass."""
    with running(tools, tmp_path / "logs", python_for(2)) as program:
        assert follow_with_kills(tools, program.log, tmp_path / "f.bin", 1, "--keep-raw") > 2
        program.process.wait(timeout=60)
        assert_same_trace(tools, tmp_path / "f.bin", program.log)
    assert_nothing_beside(tmp_path / "f.bin")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_killed_followers_of_threads(tools: Tools, tmp_path: Path, seed: int) -> None:
    command = [tools.target("threads_exchange"), tmp_path / "counts", "6000000", "4", str(seed)]
    with running(tools, tmp_path / "logs", command) as program:
        follow_with_kills(tools, program.log, tmp_path / "f.bin", seed, "--keep-raw")
        program.process.wait(timeout=60)
        assert_same_trace(tools, tmp_path / "f.bin", program.log)
        shutil.rmtree(tmp_path)


def make_log(tools: Tools, path: Path, events: int, threads: int = 3) -> Path:
    tools.succeed([tools.build / "bench" / "make_raw_log", path, str(events), str(threads)])
    return path


@pytest.fixture
def disk_with_holes(tmp_path: Path) -> Path:
    probe = tmp_path / "probe"
    probe.write_bytes(b"x" * 65536)
    must_work(["fallocate", "--punch-hole", "--offset", "0", "--length", "65536", str(probe)],
              "no holes in files here")
    return tmp_path


@pytest.mark.thorough
def test_punches_holes(tools: Tools, disk_with_holes: Path) -> None:
    """Killed on the way too; what is left of the log is refused by a line that says what to do."""
    log, trace = make_log(tools, disk_with_holes / "log.mraw", 1_000_000), disk_with_holes / "f.bin"
    whole = tools.convert(log, disk_with_holes / "whole.bin")
    before = in_use_bytes(log)
    follower = start_follower(tools, log, trace, "-q")
    wait_until(lambda: in_use_bytes(log) <= before * 3 // 4 or follower.poll() is not None, "a hole", every_s=0.001)
    follower.kill()
    if follower.wait(60) == -signal.SIGKILL:
        refused = run([tools.heaptape, "convert", log, "-o", disk_with_holes / "again.bin"])
        assert refused.returncode == 3
        [line] = refused.stderr.decode().splitlines()
        assert f"heaptape convert --follow {log} -o {trace} resumes" in line
        assert run([tools.heaptape, "info", f"{trace}.partial"]).returncode == 3  # cut short
    tools.succeed(follow_command(tools, log, trace))
    assert dump_digest(tools, trace) == dump_digest(tools, whole)
    complete = trace.read_bytes()
    assert in_use_bytes(log) < before // 4
    assert_nothing_beside(trace)
    refused = run([tools.heaptape, "convert", log, "-o", disk_with_holes / "again.bin"])
    assert refused.returncode == 3 and f"its trace is {trace}" in refused.stderr.decode()
    refused = run([tools.heaptape, "lint", log])
    assert refused.returncode == 3 and f"its trace is {trace}" in refused.stderr.decode()
    refused = run(follow_command(tools, log, disk_with_holes / "again.bin"))
    assert refused.returncode == 3 and f"its trace is {trace}" in refused.stderr.decode()
    again = tools.succeed(follow_command(tools, log, trace))
    assert "already complete" in again.stderr.decode()
    assert trace.read_bytes() == complete


@pytest.mark.thorough
def test_trace_path_too_long_for_the_header(tools: Tools, disk_with_holes: Path) -> None:
    """No holes: the log could not say where the records went. Cut off, the paths of both traces would be the same."""
    log = make_log(tools, disk_with_holes / "log.mraw", 300_000)
    folder = disk_with_holes.joinpath(*["n" * 200] * 11)
    folder.mkdir(parents=True)
    whole = tools.convert(log, disk_with_holes / "whole.bin")
    before, digest = (log.read_bytes(), in_use_bytes(log)), dump_digest(tools, whole)
    for name in ("first.bin", "second.bin"):
        done = tools.succeed(follow_command(tools, log, folder / name))
        assert f"{log}: its header has no space for the trace's path: no holes are punched" in done.stderr.decode()
        assert dump_digest(tools, folder / name) == digest
        assert (log.read_bytes(), in_use_bytes(log)) == before
    # Nor does a name relative to such a folder fit.
    done = run(follow_command(tools, log, "third.bin"), cwd=folder)
    assert done.returncode == 0 and "no holes are punched" in done.stderr.decode()


def test_output_is_no_file(tools: Tools, tmp_path: Path) -> None:
    log, pipe = make_log(tools, tmp_path / "log.mraw", 1000), tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run(follow_command(tools, log, pipe))
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.mraw", "pipe"]


def test_log_behind_a_link(tools: Tools, disk_with_holes: Path) -> None:
    log = make_log(tools, disk_with_holes / "log.mraw", 300_000)
    before = in_use_bytes(log)
    link = disk_with_holes / "link.mraw"
    link.symlink_to(log)
    tools.succeed(follow_command(tools, link, disk_with_holes / "f.bin"))
    assert in_use_bytes(log) < before // 2


@pytest.mark.thorough
def test_live_log_stays_small(tools: Tools, disk_with_holes: Path) -> None:
    """A program that writes 30 MB and more never has more than a few on disk."""
    with running(tools, disk_with_holes / "logs", python_for(3)) as program:
        follower = start_follower(tools, program.log, disk_with_holes / "f.bin")
        sizes = [0]
        wait_until(lambda: sizes.append(in_use_bytes(program.log)) or follower.poll() is not None, "the end", every_s=0.02)
        most = max(sizes)
        assert follower.returncode == 0
        length = program.log.stat().st_size
    info = tools.info(disk_with_holes / "f.bin")
    assert info["anomalies"] == info["foreign_frees"] == 0
    assert most < length, f"{most} of {length} bytes"


@pytest.mark.slow
def test_chunks_of_ended_threads(tools: Tools, disk_with_holes: Path) -> None:
    """Each of 60,000 threads leaves a chunk that is never full: they become holes too."""
    command = [tools.target("thread_churn"), disk_with_holes / "counts", "60000"]
    with running(tools, disk_with_holes / "logs", command) as program:
        tools.succeed(follow_command(tools, program.log, disk_with_holes / "f.bin"))
        assert program.process.wait(timeout=60) == 10
        assert in_use_bytes(program.log) < 60_000 * 4096 * 3 // 4
    assert tools.info(disk_with_holes / "f.bin")["threads"] == 60_001


def test_program_is_killed(tools: Tools, tmp_path: Path) -> None:
    command = [tools.target("kill_writers"), tmp_path / "counts"]
    with running(tools, tmp_path / "logs", command) as program:
        follower = start_follower(tools, program.log, tmp_path / "f.bin", "--keep-raw")
        time.sleep(0.1)
        program.process.kill()
        assert follower.wait(60) == 0
        assert_same_trace(tools, tmp_path / "f.bin", program.log)


@pytest.mark.thorough
def test_program_is_stopped_for_long(tools: Tools, tmp_path: Path) -> None:
    """The clock goes on, the program does not. A record that was under way comes late, and is no
    error."""
    command = [tools.target("kill_writers"), tmp_path / "counts"]
    with running(tools, tmp_path / "logs", command) as program:
        follower = start_follower(tools, program.log, tmp_path / "f.bin", "--keep-raw")
        for number in (*2 * (signal.SIGSTOP, signal.SIGCONT), signal.SIGKILL):
            time.sleep(0.4 if number == signal.SIGCONT else 0.1)
            assert follower.poll() is None
            program.process.send_signal(number)
        assert follower.wait(60) == 0
        followed = tools.info(tmp_path / "f.bin")
        whole = tools.info(tools.convert(program.log, tmp_path / "whole.bin"))
    for key in ("events", "ops", "threads", "anomalies", "foreign_frees", "end_live_objects"):
        assert followed[key] == whole[key], key


@pytest.mark.thorough
def test_paused_and_resumed(tools: Tools, tmp_path: Path) -> None:
    """Each phase is a log of its own: its follower ends with it, not with the program."""
    def control(*words: str) -> None:
        tools.succeed([tools.heaptape, "ctl", str(program.process.pid), *words])
    with running(tools, tmp_path / "logs", python_for(30)) as program:
        time.sleep(0.2)
        control("pause")
        tools.succeed(follow_command(tools, program.log, tmp_path / "f.bin", "--keep-raw"))
        assert program.process.poll() is None
        assert_same_trace(tools, tmp_path / "f.bin", program.log)
        tools.control(program.process.pid, "resume")
        [second] = set(logs_in(tmp_path / "logs")) - {program.log}
        follower = start_follower(tools, second, tmp_path / "g.bin", "--keep-raw")
        time.sleep(0.5)
        control("stop")
        assert follower.wait(60) == 0
        assert program.process.poll() is None
        assert_same_trace(tools, tmp_path / "g.bin", second)


def interrupted_follower(tools: Tools, log: Path, trace: Path) -> bytes:
    """Follows for a second, up to a Ctrl-C. What the follower says."""
    follower = start_follower(tools, log, trace, "--keep-raw")
    time.sleep(1)
    follower.send_signal(signal.SIGINT)
    _, words = follower.communicate(timeout=60)
    assert follower.returncode == 128 + signal.SIGINT
    return words


@pytest.mark.thorough
def test_interrupted(tools: Tools, tmp_path: Path) -> None:
    """Ctrl-C leaves a readable trace and says how to go on."""
    with running(tools, tmp_path / "logs", python_for(2)) as program:
        trace = tmp_path / "f.bin"
        words = interrupted_follower(tools, program.log, trace)
        assert f"next: heaptape convert --follow {program.log} -o {trace}" in words.decode()
        events = int(re.search(r"partial: ([\d,]+) events", words.decode())[1].replace(",", ""))
        partial = run([tools.heaptape, "info", "--json", f"{trace}.partial"])
        assert partial.returncode == 3 and b'"truncated": true' in partial.stdout
        assert json.loads(partial.stdout)["records"] == events > 0
        tools.succeed(follow_command(tools, program.log, trace, "--keep-raw"))
        program.process.wait(timeout=60)
        assert_same_trace(tools, trace, program.log)


def test_unit_of_a_trace_begun_stays(tools: Tools, tmp_path: Path) -> None:
    """Another time unit is refused when a trace is resumed, not ignored."""
    with running(tools, tmp_path / "logs", python_for(20)) as program:
        trace = tmp_path / "f.bin"
        interrupted_follower(tools, program.log, trace)
        done = run([*follow_command(tools, program.log, trace, "--keep-raw"), "--time-unit", "64"])
        assert done.returncode == 3
        assert b"units of 64 ns, found one begun in units of 32" in done.stderr


def test_two_followers(tools: Tools, tmp_path: Path) -> None:
    with running(tools, tmp_path / "logs", python_for(20)) as program:
        command = follow_command(tools, program.log, tmp_path / "f.bin", "--keep-raw")
        first = subprocess.Popen(command, env=clean_environment(), stderr=subprocess.DEVNULL)
        wait_until((tmp_path / "f.bin.state").exists, "a state")
        second = run(command)
        assert second.returncode == 1 and b"another process already follows this log" in second.stderr
        first.terminate()
        assert first.wait(60) == 128 + signal.SIGTERM


@pytest.mark.thorough
def test_damaged_state(tools: Tools, tmp_path: Path) -> None:
    log, trace = make_log(tools, tmp_path / "log.mraw", 1_000_000), tmp_path / "f.bin"
    state = tmp_path / "f.bin.state"
    follower = start_follower(tools, log, trace, "-q", "--keep-raw")
    wait_until(lambda: state.exists() or follower.poll() is not None, "a state", every_s=0.001)
    follower.kill()
    follower.wait(60)
    if not state.exists():
        pytest.skip("the follower came to the end before it could be killed")
    whole = state.read_bytes()
    for damaged in (whole[:100], whole[:-1], b"", whole[:3000] + b"?" + whole[3001:]):
        state.write_bytes(damaged)
        done = run(follow_command(tools, log, trace, "--keep-raw"))
        assert done.returncode == 3 and done.stderr.count(b"\n") == 1, done.stderr
    state.write_bytes(whole)
    tools.succeed(follow_command(tools, log, trace, "--keep-raw"))
    assert_same_trace(tools, trace, log)


def test_full_disk(tools: Tools, tmp_path: Path) -> None:
    """Trace and state on a disk of 600 KiB: one line, status 1; with room again, it goes on."""
    must_work(["unshare", "-rm", "true"], "nobody may mount here")
    log = make_log(tools, tmp_path / "log.mraw", 1_000_000)
    # Not mounted with more room then: the kernel would refuse a user's mount of another user's number.
    script = ('mount -t tmpfs -o size=64m none "$1" || exit 88; cd "$1"; head -c 64936k /dev/zero >filler; '
              '"$2" convert --follow --keep-raw --checkpoint 1 "$3" -o f.bin; first=$?; '
              'rm filler && "$2" convert -q --follow --keep-raw "$3" -o f.bin '
              '&& cp f.bin "$4"; echo "$first $?"')
    place = tmp_path / "disk"
    place.mkdir()
    done = run(["unshare", "-rm", "sh", "-c", script, "sh", place, tools.heaptape, log,
                tmp_path / "f.bin"])
    if done.returncode == 88:
        pytest.skip("cannot mount a small file system here")
    assert done.stdout.decode().split() == ["1", "0"], done.stderr
    assert b"No space left" in done.stderr
    assert_same_trace(tools, tmp_path / "f.bin", log)


def test_interrupted_conversion_leaves_nothing(tools: Tools, tmp_path: Path) -> None:
    log = make_log(tools, tmp_path / "log.mraw", 3_000_000)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        command = [tools.heaptape, "convert", "-q", log, "-o", tmp_path / "t.bin"]
        converter = subprocess.Popen(command, env=clean_environment())
        wait_until(lambda ended=converter.poll: list(tmp_path.glob("t.bin.partial.*")) or ended() is not None,
                   "a partial file", every_s=0.001)
        converter.send_signal(number)
        assert converter.wait(60) == -number
        assert sorted(p.name for p in tmp_path.iterdir()) == ["log.mraw"]
