# SPDX-License-Identifier: Apache-2.0
"""replay where things go wrong: signals, crashes, hangs, too little of everything. It ends, leaves no process behind, says in a line what happened, and keeps and prints what was finished."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from naive_writer import Event, TraceSpec, build
from quick_tier import quick
import replay_traces
from tool_runner import Tools, clean_environment, run
from verbs_here import run_here
from waiting import alive, wait_until

MANY_ROUNDS = ("--rounds", "10000")


@pytest.fixture(scope="module")
def trace(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replay_traces.made(tools, tmp_path_factory.mktemp("faults"))


def faulty(tools: Tools) -> str:
    return f"bad={tools.target('faulty_malloc.so')}"


def run_faulty(tools: Tools, fault: str, allocators: str, trace: Path, *more: str | Path,
               **options: float) -> subprocess.CompletedProcess[bytes]:
    return run([tools.replay_program, "--alloc", f"{allocators}{faulty(tools)}", trace, *more],
               env={"FAULTY_MALLOC": fault}, **options)


def said(stderr: bytes | str) -> list[str]:
    """Its lines, but for warnings: what the machine is busy with is not at issue here."""
    text = stderr if isinstance(stderr, str) else stderr.decode()
    return [line for line in text.splitlines() if not line.startswith("heaptape replay: warning: ")]


def children_of(pid: int) -> list[int]:
    """Of all its threads, and theirs."""
    found: list[int] = []
    task = Path(f"/proc/{pid}/task")
    try:
        threads = os.listdir(task)
    except OSError:
        return found
    for thread in threads:
        try:
            own = [int(word) for word in (task / thread / "children").read_text().split()]
        except OSError:
            continue
        found += own + [pid for one in own for pid in children_of(one)]
    return found


def is_judge(pid: int) -> bool:
    try:
        return b"\0judge\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class Running:
    """A replay of very many rounds that has written some results. Left, it ends."""

    def __init__(self, tools: Tools, folder: Path, trace: Path, *more: str | Path,
                 lines: int = 0, fault: str = "none") -> None:
        self.results = folder / "results.jsonl"
        self.process = subprocess.Popen(
            [str(word) for word in (tools.replay_program, trace, "-o", self.results, *MANY_ROUNDS,
                                    *more)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=clean_environment({"FAULTY_MALLOC": fault}))
        try:
            wait_until(lambda: self.count() >= lines)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)

    def count(self) -> int:
        return self.results.read_bytes().count(b"\n") if self.results.exists() else 0

    def child(self) -> list[int]:
        """Those that measure, or are to: the judge is none of them."""
        return wait_until(lambda: [pid for pid in children_of(self.process.pid) if not is_judge(pid)])  # type: ignore[return-value]

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def running(tools: Tools, tmp_path: Path, trace: Path) -> Iterator[Running]:
    # Two rounds and something: two passes of null, two allocators and the control.
    with Running(tools, tmp_path, trace, "--alloc", "glibc,jemalloc", lines=20) as made:
        yield made


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_stopped(running: Running, number: signal.Signals, group: bool) -> None:
    """One line says so; finished rounds are kept, compared and printed; no process is left."""
    children = running.child()
    if group:
        os.killpg(running.process.pid, number)
    else:
        running.process.send_signal(number)
    status, out, err = running.end()
    assert status == -number  # as of a program that does not catch it
    line, = said(err)
    assert "stopped in round" in line and str(running.results) in line
    assert "glibc" in out and "vs glibc" in out
    rows = replay_traces.rows(running.results)
    assert all(row["failures"] == 0 for row in rows)
    assert not any(alive(pid) for pid in children)


def test_stopped_while_verifying(tools: Tools, tmp_path: Path, trace: Path) -> None:
    begun = tmp_path / "begun"  # by the wrapper, which the runs that only describe do without
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\necho > '{begun}'\nexec \"$@\"\n")
    wrapper.chmod(0o755)
    process = subprocess.Popen(
        [tools.replay_program, "--alloc", faulty(tools), "--verify", "-q", "--wrap", wrapper,
         trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=clean_environment({"FAULTY_MALLOC": "hang"}))
    try:
        wait_until(begun.exists)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert (out, err) == (b"", b"heaptape replay: stopped while verifying\n")


def test_stopped_while_warming_up(tools: Tools, tmp_path: Path, trace: Path) -> None:
    """No round has begun: there is nothing to compare or to keep."""
    with Running(tools, tmp_path, trace, "--alloc", faulty(tools), fault="hang") as replay:
        wait_until(lambda: replay.results.exists() and replay.child())
        replay.process.send_signal(signal.SIGINT)
        status, out, err = replay.end()
    assert status == -signal.SIGINT and out == "" and replay.count() == 0
    line, = said(err)
    assert line.startswith("heaptape replay: stopped during the warm-up, seed ")


def test_stopped_while_it_decodes(tools: Tools, tmp_path: Path) -> None:
    """Before there is anything to keep, a signal just ends it."""
    trace = replay_traces.made(tools, tmp_path, events=3_000_000)
    process = subprocess.Popen([tools.replay_program, "--alloc", "glibc", trace],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=clean_environment())
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.count(b"\n") <= 1


@pytest.mark.thorough
def test_ignored_signals_stay_ignored(tools: Tools, trace: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    process = subprocess.Popen([str(tools.replay_program), "--alloc", "glibc", "--rounds", "3",
                                str(trace), "-o", str(results)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=clean_environment(),
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # noqa: PLW1509  no thread is running
    wait_until(results.exists)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=60)[0]
    assert process.returncode == 0


def test_launcher_killed(running: Running) -> None:
    """kill -9: its children do not outlive it, and what was finished is in the results."""
    children = running.child()
    running.process.kill()
    running.end()
    wait_until(lambda: not any(alive(pid) for pid in children))
    assert all(row["failures"] == 0 for row in replay_traces.rows(running.results))


def kill_a_child(running: Running) -> bool:
    """False if it had just ended by itself."""
    before = running.count()
    try:
        os.kill(running.child()[0], signal.SIGKILL)
    except ProcessLookupError:
        return False
    wait_until(lambda: running.count() > before + 4)
    return any(row["failures"] for row in replay_traces.rows(running.results)[before:])


@pytest.mark.thorough
def test_child_killed(running: Running) -> None:
    """kill -9 of a measured child costs that run; the others go on."""
    wait_until(lambda: kill_a_child(running))
    running.process.send_signal(signal.SIGINT)
    status, _, err = running.end()
    assert status == -signal.SIGINT
    killed = [line for line in err.splitlines() if "killed by SIGKILL" in line]
    assert len(killed) == 1 and "memory" not in killed[0].split("SIGKILL")[1]
    failed = [row for row in replay_traces.rows(running.results) if row["failures"]]
    assert [row["problem"] for row in failed] == ["killed by SIGKILL"]


@pytest.mark.parametrize("fault, words", quick(["crash"], [
    ("crash", "killed by Segmentation fault (SIGSEGV)"), ("abort", "killed by Aborted (SIGABRT)")]))
def test_one_that_crashes(tools: Tools, trace: Path, tmp_path: Path, fault: str,
                          words: str) -> None:
    """It is given up, once said; the others' rounds go on, and everything says what is missing."""
    results = tmp_path / "r.jsonl"
    done = run_faulty(tools, fault, "glibc,jemalloc,", trace, "--rounds", "4", "-o", results)
    assert done.returncode == 1
    err, out = done.stderr.decode(), done.stdout.decode()
    assert err.count("no more runs of it") == 1 and err.count(words) == 3
    missing, = [line for line in out.splitlines() if line.startswith("missing: ")]
    assert missing.startswith("missing: bad failed in 3 of 3 runs, then no more were made; the last: ")
    assert words in missing
    rows = replay_traces.rows(results)
    assert sum(row["allocator"]["name"] == "jemalloc" and not row["failures"] for row in rows) == 8
    assert [row["problem"] for row in rows if row["failures"]] == [words] * 3


@pytest.mark.thorough
def test_the_comparison_says_what_is_missing(tools: Tools, trace: Path, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    done = run_faulty(tools, "crash", "glibc,", trace, "--rounds", "3", "--json", "-o", results)
    good, bad = json.loads(done.stdout)["allocators"]
    assert good["failed_runs"] == 0 and good["problem"] is None and not good["given_up"]
    assert bad["failed_runs"] == 3 and "SIGSEGV" in bad["problem"] and bad["given_up"]
    environment = {"HEAPTAPE_PYTHON": sys.executable,
                   "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "analysis")}
    words = "runs of bad failed and are left out (the last: killed by Segmentation fault"
    compared = tools.succeed([tools.heaptape, "compare", results], env=environment)
    assert words in compared.stdout.decode()
    assert words in json.loads(run_here("compare", "--json", results, cwd=tmp_path).stdout)[0]["missing"][0]
    assert run_here("report", results, "-o", "report.html", cwd=tmp_path).returncode == 0
    assert words in (tmp_path / "report.html").read_text()


@pytest.mark.thorough
def test_one_that_cannot_start(tools: Tools, trace: Path) -> None:
    done = run_faulty(tools, "crash_at_once", "glibc,", trace, "--rounds", "1")
    assert done.returncode == 1
    assert said(done.stderr) == ["heaptape replay: bad: killed by Segmentation fault (SIGSEGV)"]
    assert b"glibc" in done.stdout


WROTE = "its results are invalid ("


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "words"), [
    ("fill_descriptors", WROTE + "the request)"), ("fill_answer", WROTE), ("cut_descriptors", "")])
@pytest.mark.parametrize("memory", ["64", "1"], ids=("held", "streamed"))
def test_one_that_writes_over_what_it_shares(tools: Tools, tmp_path: Path, fault: str, words: str,
                                             memory: str) -> None:
    """It costs its own runs and no other, and the launcher lives."""
    trace = replay_traces.made(tools, tmp_path, events=400_000)
    results = tmp_path / "r.jsonl"
    done = run_faulty(tools, fault, "glibc,", trace, "--rounds", "1", "--decoded-memory", memory,
                      "--timeout", "20s", "-o", results)
    rows = [row for row in replay_traces.rows(results) if not row["control"]]
    of_glibc = [row for row in rows if row["allocator"]["name"] == "glibc"]
    assert len(of_glibc) == 2 and all(row["problem"] is None for row in of_glibc)
    assert all(row["streamed"] == (memory == "1") for row in of_glibc)
    assert done.returncode == (1 if words else 0), done.stderr.decode()
    if words:
        reported = done.stderr.decode().splitlines()
        assert any(words in line and line.startswith("heaptape replay: bad") for line in reported), reported
    else:
        assert all(row["problem"] is None for row in rows)


@pytest.mark.thorough
def test_one_that_writes_over_the_decoded_trace(tools: Tools, tmp_path: Path) -> None:
    """What becomes of its own run is chance: a crash, a hang, a result that cannot be right."""
    trace = replay_traces.made(tools, tmp_path, events=400_000)
    results = tmp_path / "r.jsonl"
    done = run_faulty(tools, "fill_trace", "glibc,", trace, "--rounds", "1", "--decoded-memory", "1",
                      "--timeout", "10s", "-o", results)
    rows = [row for row in replay_traces.rows(results) if not row["control"]]
    assert done.returncode == 1
    assert all((row["problem"] is None) == (row["allocator"]["name"] != "bad") for row in rows)
    assert sum(row["allocator"]["name"] == "glibc" for row in rows) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("memory", ["64", "1"], ids=("held", "streamed"))
def test_one_whose_processes_outlive_it(tools: Tools, tmp_path: Path, memory: str) -> None:
    """They end with the run, and write into no other's answer; figures that lack theirs are none."""
    trace = replay_traces.made(tools, tmp_path, events=400_000)
    results = tmp_path / "r.jsonl"
    done = run_faulty(tools, "leave_writer", "glibc,", trace, "--rounds", "3", "--decoded-memory", memory,
                      "--timeout", "60s", "-o", results)
    rows = [row for row in replay_traces.rows(results) if not row["control"]]
    of_others = [row for row in rows if row["allocator"]["name"] != "bad"]
    assert len(of_others) == 12 and all(row["problem"] is None for row in of_others)
    problems = [row["problem"] for row in rows if row["allocator"]["name"] == "bad"]
    # It may have written before it could be ended, each time. test_no_process_is_left_behind has one that has not.
    assert all("did not end with it" in problem or WROTE in problem for problem in problems), problems
    assert len(problems) > 0
    assert done.returncode == 1


@pytest.mark.thorough
def test_no_process_is_left_behind(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Not even by one that starts them before its id is known; and none that was there before is ended."""
    mark = f"HEAPTAPE_TEST_MARK={tmp_path}"

    def marked() -> set[int]:
        found = set()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark.encode() in environment.read_bytes():
                    found.add(int(environment.parent.name))
            except OSError:
                continue
        return found

    command = [tools.replay_program, "--alloc", f"glibc,{faulty(tools)}", trace, "--rounds", "1"]
    name, _, value = mark.partition("=")
    done = run(command, env={"FAULTY_MALLOC": "leave_sleeper", name: value})
    assert said(done.stderr) == ["heaptape replay: bad: started 1 process that did not end with it: its figures do not include them"]
    assert done.returncode == 1
    assert not marked()
    # A shell that becomes replay has given it a child that is not ours to end.
    words = " ".join(f"'{word}'" for word in command)
    done = run(["/bin/sh", "-c", f"sleep 50 > /dev/null 2>&1 & exec {words} -q"], env={name: value})
    assert done.returncode == 0, done.stderr
    sleeper, = marked()
    os.kill(sleeper, signal.SIGKILL)


@pytest.mark.parametrize("fault", quick(["hang"], ["hang", "spin"]))
def test_timeout(tools: Tools, trace: Path, fault: str) -> None:
    done = run_faulty(tools, fault, "glibc,", trace, "--rounds", "1", "--timeout", "1s")
    assert done.returncode == 1
    lines = said(done.stderr)
    assert len(lines) == 2
    assert all("was killed after 1 s (--timeout)" in line for line in lines)
    assert b"glibc" in done.stdout


@pytest.mark.slow
def test_one_that_hangs(tools: Tools, trace: Path) -> None:
    """After a minute asleep it counts as hanging, without an option for that. It does so in the warm-up, and nobody waits for
    it again in the only round."""
    began_s = time.monotonic()
    done = run_faulty(tools, "hang", "", trace, "--rounds", "1", "--pass", "memory", timeout=300)
    assert done.returncode == 1
    assert said(done.stderr)[0] == \
        "heaptape replay: bad, round 1, memory pass: in the warm-up it hung without CPU time for 60 s and was killed"
    assert time.monotonic() - began_s < 110


@pytest.mark.thorough
def test_the_trace_is_cut_while_it_streams(tools: Tools, tmp_path: Path) -> None:
    """The decoder beside the child fails: nothing waits for the rest for ever."""
    trace = replay_traces.made(tools, tmp_path, events=1_000_000)
    with Running(tools, tmp_path, trace, "--alloc", "glibc", "--decoded-memory", "1",
                 lines=2) as replay:
        assert replay_traces.rows(replay.results)[0]["streamed"]
        os.truncate(trace, 3000)
        status, out, err = replay.end()
    assert status == 1
    assert str(trace) in err and "glibc" in out
    assert "the null replayer failed" in said(err)[-1]


@pytest.mark.parametrize("change", ["remove", "replace"])
def test_the_trace_goes_away(tools: Tools, tmp_path: Path, trace: Path, change: str) -> None:
    """What was opened is replayed to the end."""
    own = tmp_path / "own.bin"
    shutil.copy(trace, own)
    with Running(tools, tmp_path, own, "--alloc", "glibc", "--decoded-memory", "1",
                 lines=2) as replay:
        if change == "remove":
            own.unlink()
        else:
            (tmp_path / "other.bin").write_bytes(b"something else")
            (tmp_path / "other.bin").replace(own)
        before = replay.count()
        wait_until(lambda: replay.count() > before + 2)
        replay.process.send_signal(signal.SIGTERM)
        status, _, err = replay.end()
    assert status == -signal.SIGTERM and len(said(err)) == 1


def test_results_disk_full(tools: Tools, trace: Path) -> None:
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "2", trace, "-o",
                "/dev/full"])
    assert done.returncode == 1
    assert said(done.stderr) == [
        "heaptape replay: /dev/full: a result cannot be written: No space left on device"]
    assert b"vs glibc" in done.stdout  # the runs are not lost


@pytest.mark.thorough
def test_results_file_limit(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: a write fails, and the signal that comes with it does not end the launcher."""
    limit, results = 1 << 20, tmp_path / "r.jsonl"
    process = subprocess.run(
        [str(tools.replay_program), "--alloc", "glibc", "--rounds", "12", str(trace), "-o",
         str(results)], capture_output=True, env=clean_environment(), check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), timeout=60)
    assert process.returncode == 1 and b"vs glibc" in process.stdout
    line, = said(process.stderr)
    assert line.startswith(f"heaptape replay: {results}: a result cannot be written: ")
    # What did not fit has been taken back: whole lines, and most of the room is used.
    assert results.read_bytes().endswith(b"}\n") and len(replay_traces.rows(results)) > 8
    assert results.stat().st_size > limit // 2
    tight = subprocess.run(
        [str(tools.replay_program), "--alloc", "glibc", "--rounds", "1", str(trace)],
        capture_output=True, env=clean_environment(), check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert tight.returncode == 1
    assert tight.stderr.decode().splitlines()[0].endswith(
        "shared memory for the decoded trace: File too large")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tools: Tools, trace: Path, tmp_path: Path, closed: str) -> None:
    """Nothing that is printed goes into what was opened in their place."""
    results = tmp_path / "r.jsonl"
    done = run(["sh", "-c", f'exec "$0" "$@" {closed}', tools.replay_program, "--alloc", "glibc",
                "--rounds", "2", "-o", results, trace])
    assert done.returncode == (1 if ">&-" in closed.replace("2>&-", "") else 0)
    assert len(replay_traces.rows(results)) == 8  # two passes, two rounds, glibc and null
    if closed == ">&-":
        assert said(done.stderr) == ["heaptape replay: standard output: cannot write: Bad file descriptor"]


def limited(tools: Tools, trace: Path, limit: int, value: int,
            *more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(tools.replay_program), "--alloc", "glibc", "--rounds", "1", str(trace), *more],
        capture_output=True, env=clean_environment(), check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)))


@pytest.mark.thorough
def test_few_descriptors_and_little_stack(tools: Tools, tmp_path: Path) -> None:
    trace = replay_traces.made(tools, tmp_path, threads=4)
    assert limited(tools, trace, resource.RLIMIT_NOFILE, 16).returncode == 0
    assert limited(tools, trace, resource.RLIMIT_STACK, 128 << 10).returncode == 0
    few = limited(tools, trace, resource.RLIMIT_NOFILE, 5)
    assert few.returncode == 1
    assert few.stderr.endswith(b": Too many open files\n") and few.stderr.count(b"\n") == 1


@pytest.mark.thorough
def test_address_space_limit(tools: Tools, tmp_path: Path) -> None:
    """The allocator gets no more than that: its calls fail, and that is what is said."""
    trace = replay_traces.huge(tools, tmp_path, size=3 << 30)
    done = limited(tools, trace, resource.RLIMIT_AS, 2 << 30, "--max-live", "none")
    assert done.returncode == 1
    lines = said(done.stderr)
    assert len(lines) == 2 and all("malloc of 3221225472 bytes failed" in line for line in lines)
    done = limited(tools, trace, resource.RLIMIT_AS, 2 << 30)
    assert done.returncode == 1 and b"--max-live" in done.stderr


@pytest.mark.parametrize("options, event, wrong", [
    (["--age", "0.5"], Event(1, slot=1 << 28, size=5), "slot"),
    (["--pollute", "trace"], Event(1, thread=(1 << 24) - 1, slot=2, size=5), "thread"),
])
def test_numbers_out_of_reach_take_no_memory(tools: Tools, tmp_path: Path, options: list[str], event: Event, wrong: str) -> None:
    """Of a few hostile bytes, which would ask for a table of a quarter of a gigabyte, or of eight."""
    trace, results = tmp_path / "t.bin", tmp_path / "r.jsonl"
    trace.write_bytes(build(TraceSpec(events=[Event(1, slot=1, size=5), event]))[0])
    done = limited(tools, trace, resource.RLIMIT_AS, 192 << 20, *options, "-o", str(results))
    assert done.returncode == 3 and not results.exists()
    assert re.fullmatch(rf"heaptape replay: .*t\.bin: offset \d+: expected {wrong} numbers without a gap, found \d+\n",
                        done.stderr.decode())


def test_sizes_whose_sum_wraps_around_are_refused(tools: Tools, tmp_path: Path) -> None:
    """Four blocks of 2^62 bytes are as good as none where their sum has 64 bits."""
    trace = tmp_path / "t.bin"
    trace.write_bytes(build(TraceSpec(events=[Event(1, slot=1, size=1 << 62)]))[0])
    done = run([tools.replay_program, "--alloc", "glibc", "--touch", "none", "--age", "0.5,1000", trace])
    assert done.returncode == 1 and b"with those of --age, need 9.22 EB" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the user, or mounts")
def test_no_more_processes(tools: Tools, tools_for_all: Tools, open_folder: Path) -> None:
    trace = replay_traces.made(tools, open_folder, threads=4)
    trace.chmod(0o644)
    done = subprocess.run(
        [str(tools_for_all.replay_program), "--alloc", "glibc", "--rounds", "1", str(trace)],
        capture_output=True, env=clean_environment(), check=False, timeout=60, user=65534,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)))
    assert done.returncode == 1
    assert b"Resource temporarily unavailable" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_no_proc(tools: Tools, trace: Path) -> None:
    done = run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"',
                tools.replay_program, "--alloc", "glibc", "--rounds", "1", trace])
    if b"unshare" in done.stderr or b"mount:" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 1
    assert done.stderr == b"heaptape replay: replay needs /proc, which is not mounted\n"


def memory_group() -> Path | None:
    """A control group of our own whose memory can be limited, version 1 or 2."""
    for root in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
        group = root / f"heaptape-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if any((group / name).exists() for name in ("memory.limit_in_bytes", "memory.max")):
            return group
        group.rmdir()
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a control group")
def test_out_of_memory(tools: Tools, tmp_path: Path) -> None:
    """In a control group that allows too little the kernel kills the child, not the launcher, and
    the line says why."""
    trace = replay_traces.imported(
        tools, tmp_path / "fat.bin",
        "2000\n\n" + "".join(f"m {i + 1} 60000\n" for i in range(2000)), "malloc_wrap")
    group = memory_group()
    if group is None:
        pytest.skip("no control group for memory can be made here")
    version1 = (group / "memory.limit_in_bytes").exists()
    try:
        (group / ("memory.limit_in_bytes" if version1 else "memory.max")).write_text(str(60 << 20))
        for name, value in (("memory.swap.max", "0"), ("memory.swappiness", "0")):
            if (group / name).exists():
                (group / name).write_text(value)  # where there is swap, none is killed
        done = run(["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"',
                    tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--max-live", "none",
                    trace])
        refused = run(["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"',
                       tools.replay_program, "--alloc", "glibc", "--rounds", "1", trace])
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
    assert done.returncode == 1
    lines = said(done.stderr)
    assert len(lines) == 2, lines
    assert all(line.endswith("killed by SIGKILL: out of memory, by its control group's limit") for line in lines)
    assert refused.returncode == 1 and b"--max-live" in refused.stderr
    assert refused.stderr.count(b"\n") == 1


@pytest.mark.parametrize("touch", ["recorded", "first", "pages", "all"])
def test_an_absurd_trace_is_refused(tools: Tools, tmp_path: Path, touch: str) -> None:
    trace, results = replay_traces.huge(tools, tmp_path), tmp_path / "r.jsonl"
    done = run([tools.replay_program, "--alloc", "all", "--touch", touch, trace, "-o", results])
    assert done.returncode == 1 and done.stdout == b""
    line, = done.stderr.decode().splitlines()
    assert "1.10 TB" in line and "--max-live" in line and str(trace) in line
    assert not results.exists() or results.read_bytes() == b""


@pytest.mark.thorough
def test_an_absurd_trace_untouched(tools: Tools, tmp_path: Path) -> None:
    """It takes no memory; an allocator that cannot reserve so much says so."""
    trace = replay_traces.huge(tools, tmp_path)
    done = run([tools.replay_program, "--alloc", "all", "--touch", "none", "--rounds", "1", trace])
    assert done.returncode in (0, 1)
    for line in said(done.stderr):
        assert "malloc of 1099511627776 bytes failed" in line or line.startswith("next: ")
    # With verification blocks are filled whatever is touched.
    done = run([tools.replay_program, "--alloc", "glibc", "--touch", "none", "--verify", trace])
    assert done.returncode == 1 and b"1.10 TB" in done.stderr


@pytest.mark.thorough
def test_max_live(tools: Tools, tmp_path: Path) -> None:
    trace = replay_traces.huge(tools, tmp_path, size=10_000_000)
    def attempt(limit: str) -> subprocess.CompletedProcess[bytes]:
        return run([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--max-live", limit,
                    trace])
    for enough in ("11M", "0.1G", "10001000", "1TiB", "none"):
        assert attempt(enough).returncode == 0, enough
    for little in ("9M", "1000K", "9MiB", "10000000"):
        done = attempt(little)
        assert done.returncode == 1, little
        assert b"10.0 MB of memory" in done.stderr and done.stderr.count(b"\n") == 1
    for wrong in ("", "x", "-1", "0", "3Q", "0x100", "1 2", "inf", "1e400"):
        assert attempt(wrong).returncode == 2, wrong


WRAPPERS = {"env": "env", "nice": "nice -n 5", "valgrind": "valgrind -q --tool=none",
            "strace": "strace -f -o strace.txt", "words": "env WORD='a  b'"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name == "valgrind" else ()) for name in WRAPPERS])
def test_wrap(tools: Tools, trace: Path, tmp_path: Path, name: str) -> None:
    command = WRAPPERS[name]
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not here")
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--wrap", command, trace,
                "-o", tmp_path / "r.jsonl"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"include those of {command}" in done.stderr.decode()
    rows = replay_traces.rows(tmp_path / "r.jsonl")
    assert len(rows) == 4 and all(row["wrap"] == command and not row["failures"] for row in rows)
    if name == "strace":
        assert "replay-glibc" in (tmp_path / "strace.txt").read_text()


def test_wrap_gets_what_it_wraps(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """Each child, and none of those that only describe an allocator."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\n'
                       'echo "$HEAPTAPE_RUN $HEAPTAPE_ALLOCATOR $HEAPTAPE_PASS" >> "$1"\n'
                       'echo not a result\nshift\n"$@"\nexit $?\n')
    wrapper.chmod(0o755)
    done = tools.succeed([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--verify", "--threads", "1",
                          "--json", "--wrap", f"'{wrapper}' '{tmp_path}/told'", trace])
    assert json.loads(done.stdout)["failed_runs"] == 0  # what it prints is no result
    reported = (tmp_path / "told").read_text().splitlines()
    numbers, names = zip(*(line.split(" ", 1) for line in reported), strict=True)
    assert [int(number) for number in numbers] == list(range(1, len(reported) + 1))
    assert names[:2] == ("glibc verify", "glibc verify")  # the trace's calls, and the torture
    assert set(names[2:]) == {f"{name} {kind}" for name in ("glibc", "null")
                              for kind in ("time", "timed", "memory")}


@pytest.mark.thorough
def test_the_null_replayer_costs_a_round(tools: Tools, trace: Path, tmp_path: Path) -> None:
    """One failed run is reported once, and the rounds after it are compared."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\n'
                       'if [ "$HEAPTAPE_ALLOCATOR $HEAPTAPE_PASS" = "null time" ]; then\n'
                       '    echo >> "$1"; [ $(wc -l < "$1") != 1 ] || exit 9\nfi\n'
                       'shift\nexec "$@"\n')
    wrapper.chmod(0o755)
    results = tmp_path / "r.jsonl"
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "3", "--pass", "time", "-q",
                "--wrap", f"'{wrapper}' '{tmp_path}/count'", trace, "-o", results])
    assert done.returncode == 1
    line, = said(done.stderr)  # the warm-up goes unwrapped
    assert "null, round 1, time pass: ended with status 9" in line
    rounds = [row["round"] for row in replay_traces.rows(results)
              if row["allocator"]["name"] == "glibc" and not row["failures"]]
    assert rounds == [1, 2] and b"glibc" in done.stdout


@pytest.mark.parametrize("command, status", [("no-such-command", 127), ("false", 1), ("true", 0)])
def test_wrap_that_does_not_run_it(tools: Tools, trace: Path, command: str, status: int) -> None:
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--wrap", command,
                trace])
    assert done.returncode == 1
    assert f"ended with status {status} before the replay was done, under {command}" \
        in done.stderr.decode()


def test_wrap_does_not_hide_who_serves(tools: Tools, trace: Path) -> None:
    """A wrapper that puts another malloc in place gets no figures."""
    library = tools.target("faulty_malloc.so")
    done = run([tools.replay_program, "--alloc", "glibc", "--rounds", "1", "--wrap",
                f"env LD_PRELOAD={library}", trace])
    assert done.returncode == 1
    assert b"malloc is from" in done.stderr and b"faulty_malloc.so" in done.stderr


def test_wrapped_children_do_not_outlive_the_launcher(tools: Tools, trace: Path,
                                                      tmp_path: Path) -> None:
    """Neither the wrapper, nor the child that it started."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nFAULTY_MALLOC=hang "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    with Running(tools, tmp_path, trace, "--alloc", faulty(tools), "--wrap", wrapper) as replay:
        children = wait_until(lambda: len(found := children_of(replay.process.pid)) > 1 and found)
    wait_until(lambda: not any(alive(pid) for pid in children))  # type: ignore[attr-defined]


def test_a_child_that_a_wrapper_starts_too_late_ends(tools: Tools, trace: Path,
                                                     tmp_path: Path) -> None:
    """After the launcher's end no process is left to wait for."""
    wrapper, ended = tmp_path / "wrapper", tmp_path / "ended"
    wrapper.write_text(f'#!/bin/sh\n(sleep 0.3; "$@"; echo $? >{ended}.new; mv {ended}.new {ended}) &\n'
                       f": >{tmp_path}/started\nwait\n")
    wrapper.chmod(0o755)
    with Running(tools, tmp_path, trace, "--alloc", "glibc", "--wrap", wrapper):
        wait_until((tmp_path / "started").exists)
    wait_until(ended.exists)
    assert ended.read_text() == "1\n"


@pytest.mark.thorough
def test_heartbeat_on_a_terminal(tools: Tools, trace: Path) -> None:
    """The line of progress shows which child has run for how long."""
    done = run(["script", "-qec", f"{tools.replay_program} --alloc {faulty(tools)} --rounds 1 "
                f"--pass memory --timeout 3.9s {trace}", "/dev/null"],
               env={"FAULTY_MALLOC": "hang"})
    text = done.stdout.decode()
    if "script" in done.stderr.decode():
        pytest.skip("no script(1) here")
    assert re.search("warming up: bad for [23] s", text)


REFUSES = "bad refuses 60 of 80 calls of aligned_alloc (such as alignment 64, size 65)"


@pytest.mark.parametrize("held", quick(["1G"], ["1G", "1"]), ids=["held", "streamed"])
def test_calls_that_only_the_program_s_allocator_served(tools: Tools, tmp_path: Path, held: str) -> None:
    """All aligned calls are replayed as posix_memalign: so a refusal shows in no call that is replayed."""
    trace, results = odd_sizes(tmp_path), tmp_path / "r.jsonl"
    words = ("--rounds", "3", "--decoded-memory", held, "-o", results)
    done = run_faulty(tools, "refuses", "glibc,", trace, *words)
    assert done.returncode == 1 and done.stdout.decode().splitlines()[0].startswith(REFUSES)
    assert [line for line in said(done.stderr) if "bad" in line] == [f"heaptape replay: {REFUSES}: it is not replayed"]
    rows = [row for row in replay_traces.rows(results) if row["allocator"]["name"] == "bad"]
    assert rows and all(row["failures"] == row["refused_calls"] == 60 for row in rows)
    assert all(row["problem"] == REFUSES.removeprefix("bad ") and row["wall_ns"] is row["rss_peak_bytes"] is None for row in rows)
    # The same of one that serves them, or of a program that did not ask so, is replayed.
    assert run_faulty(tools, "none", "glibc,", trace, *words).returncode == 0
    assert run_faulty(tools, "refuses", "glibc,", replay_traces.aligned(tools, tmp_path), "--rounds", "1").returncode == 0


def test_a_baseline_that_refuses_calls(tools: Tools, tmp_path: Path) -> None:
    """As another version of the recorded allocator may: what all refuse tells them not apart."""
    done = run([tools.replay_program, "--alloc", f"{faulty(tools)},again={tools.target('faulty_malloc.so')}", "--baseline", "bad", "--rounds", "1",
                odd_sizes(tmp_path)], env={"FAULTY_MALLOC": "refuses"})
    assert done.returncode == 0 and f"warning: {REFUSES}: they are replayed as posix_memalign" in done.stderr.decode()


def odd_sizes(folder: Path) -> Path:
    """80 calls of aligned_alloc, 60 of them of sizes that are no multiple of the alignment; and one that failed."""
    aligned_alloc, free, failed = 7, 5, 2
    events = [Event(aligned_alloc, failed, size=65, extra=64)]
    for number in range(80):
        events += [Event(aligned_alloc, slot=1, size=64 + number % 4, extra=64, time=10 * number), Event(free, slot=1, time=10 * number + 5)]
    path = folder / "odd.bin"
    path.write_bytes(build(TraceSpec(events, threads=[(1, 0, 0, 0, 0, 0, "")]))[0])
    return path
