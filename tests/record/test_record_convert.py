# SPDX-License-Identifier: Apache-2.0
"""record --convert: traces while the program runs, and no raw logs afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from safety_checks import must_work
from tool_runner import Tools, clean_environment, run
from waiting import read_line, wait_until

FORKING = """
import os, json, time
keep = [str(i) * 10 for i in range(4000)]
kids = []
for k in range(4):
    pid = os.fork()
    if pid == 0:
        data = [json.loads(json.dumps({"a": i})) for i in range(3000)]
        if k == 2:
            grandchild = os.fork()
            if grandchild == 0:
                keep = data = None
                os._exit(0)
            os.waitpid(grandchild, 0)
        keep = data = None
        time.sleep(0.3 * k)
        os._exit(k)
    kids.append(pid)
    keep.append(json.dumps(list(range(500))))
    time.sleep(0.05)
for pid in kids:
    os.waitpid(pid, 0)
"""


def record(tools: Tools, folder: Path, *command: object, **options):
    folder.mkdir(exist_ok=True)
    return run([tools.heaptape, "record", "--convert", "-o", folder, "--", *command],
               env={"PYTHONMALLOC": "malloc"}, **options)


def traces_in(folder: Path) -> list[Path]:
    """The traces, and nothing else: no raw log, no half trace, no state, no note of a fork."""
    found = sorted(folder.iterdir())
    assert all(path.suffix == ".bin" for path in found), [path.name for path in found]
    return found


def test_in_one_go(tools: Tools, tmp_path: Path) -> None:
    script = "print(len([str(i) for i in range(9999)]))"
    done = record(tools, tmp_path / "t", "/usr/bin/python3", "-c", script)
    assert (done.returncode, done.stdout) == (0, b"9999\n")
    [trace] = traces_in(tmp_path / "t")
    assert f"next: heaptape replay --alloc all {trace}" in done.stderr.decode()
    info = tools.info(trace)
    assert info["events"] > 20_000 and info["anomalies"] == info["foreign_frees"] == 0
    assert not info["truncated"]


def test_exit_status_and_signal(tools: Tools, tmp_path: Path) -> None:
    script = "raise SystemExit(17)"
    assert record(tools, tmp_path / "a", "/usr/bin/python3", "-c", script).returncode == 17
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert record(tools, tmp_path / "b", "/usr/bin/python3", "-c", script).returncode == 128 + 9
    for folder in ("a", "b"):
        [trace] = traces_in(tmp_path / folder)
        assert tools.info(trace)["events"] > 1000
    assert record(tools, tmp_path / "c", tmp_path / "nothing").returncode == 127
    assert traces_in(tmp_path / "c") == []


def test_signals_reach_the_program_only(tools: Tools, tmp_path: Path) -> None:
    """Ctrl-C at a terminal goes to the whole group: the traces are finished all the same."""
    (tmp_path / "t").mkdir()
    script = "import time; keep = [str(i) for i in range(9999)]; print(flush=True); time.sleep(60)"
    recorder = subprocess.Popen([tools.heaptape, "record", "--convert", "-o", tmp_path / "t", "--",
                                 "/usr/bin/python3", "-c", script], start_new_session=True,
                                env=clean_environment({"PYTHONMALLOC": "malloc"}),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert recorder.stdout is not None
    read_line(recorder.stdout)
    time.sleep(0.3)
    subprocess.run(["kill", "-INT", "--", f"-{recorder.pid}"], check=True, timeout=60)
    recorder.communicate(timeout=60)
    assert recorder.returncode == 128 + signal.SIGINT
    [trace] = traces_in(tmp_path / "t")
    assert not tools.info(trace)["truncated"]


def test_children_inherit(tools: Tools, tmp_path: Path) -> None:
    """Their parents' logs are gone by then; what the forks handed on is not. Compared with traces
    that were made afterwards, from whole logs."""
    assert record(tools, tmp_path / "t", "/usr/bin/python3", "-c", FORKING).returncode == 0
    infos = [tools.info(trace) for trace in traces_in(tmp_path / "t")]
    assert len(infos) == 6
    (tmp_path / "logs").mkdir()
    tools.succeed([tools.heaptape, "record", "-o", tmp_path / "logs", "--",
                   "/usr/bin/python3", "-c", FORKING], env={"PYTHONMALLOC": "malloc"})
    afterwards = [tools.info(tools.convert(log, tmp_path / f"{log.stem}.bin"))
                  for log in sorted((tmp_path / "logs").glob("*.mraw"))]
    for info in infos:
        assert info["anomalies"] == info["foreign_frees"] == 0
    inherited = sorted(info["inherited_objects"] for info in infos)
    # Two runs of Python differ by the lengths of their paths.
    wanted = sorted(info["inherited_objects"] for info in afterwards)
    for one, other in zip(inherited, wanted, strict=True):
        assert abs(one - other) < 100, f"{one} and {other}"
    assert inherited[0] == 0 and inherited[1] > 4000


@pytest.mark.thorough
def test_process_that_stays(tools: Tools, tmp_path: Path) -> None:
    """A daemon is not waited for: its trace can be resumed, and the line that says so is true."""
    script = ("import os, sys, time\n"
              "if os.fork() == 0:\n"
              "    keep = [str(i) for i in range(5000)]\n"
              "    time.sleep(4)\n"
              "    os._exit(0)\n"
              "time.sleep(0.5)\n")
    done = record(tools, tmp_path / "t", "/usr/bin/python3", "-c", script, timeout=60)
    assert done.returncode == 0
    [line] = [line for line in done.stderr.decode().splitlines() if "still runs" in line]
    command = line.partition(": resume by heaptape ")[2].split()
    trace = Path(command[-1])
    tools.succeed([tools.heaptape, *command])
    info = tools.info(trace)
    assert info["events"] > 5000 and info["inherited_objects"] > 1000
    assert info["anomalies"] == info["foreign_frees"] == 0


@pytest.mark.thorough
def test_paused_phases(tools: Tools, tmp_path: Path) -> None:
    """Each phase between resume and pause is a trace of its own."""
    (tmp_path / "t").mkdir()
    script = ("import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end:\n"
              "    [str(i) for i in range(2000)]\n    time.sleep(0.01)\n")
    recorder = subprocess.Popen([tools.heaptape, "record", "--convert", "-o", tmp_path / "t", "--",
                                 "/usr/bin/python3", "-c", script],
                                env=clean_environment({"PYTHONMALLOC": "malloc"}),
                                stderr=subprocess.PIPE)
    children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
    logs = wait_until(lambda: list((tmp_path / "t").glob("*.mraw")), "a log", process=recorder)
    pid = logs[0].name.split(".")[1]
    assert pid in children.read_text().split()
    time.sleep(0.3)
    for word in ("pause", "resume"):
        tools.control(pid, word)
        time.sleep(0.5)
    tools.succeed(["kill", "-TERM", pid])
    recorder.communicate(timeout=60)
    assert recorder.returncode == 128 + signal.SIGTERM
    traces = traces_in(tmp_path / "t")
    assert len(traces) == 2
    for trace in traces:
        assert tools.info(trace)["events"] > 1000


def workers_of(process: subprocess.Popen[bytes], most: list[int]) -> list[int]:
    """How many processes the converter has at work, until the program has ended."""
    def children(pid: int | str) -> list[str]:
        try:
            return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:  # gone
            return []

    def has_ended() -> bool:
        converters = [pid for pid in children(process.pid) if is_ours(pid)]
        most.extend(len(children(pid)) for pid in converters)
        return process.poll() is not None

    wait_until(has_ended, "the program's end")
    return most


def is_ours(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "heaptape"
    except OSError:
        return False


def test_many_at_once(tools: Tools, tmp_path: Path) -> None:
    """Processes that run at the same time are not followed while their logs are short. At work are as many as there are
    processors, and one for the shell, for what it handed on."""
    script = "for i in $(seq 40); do sleep 1 & done; wait"
    recorder = subprocess.Popen([tools.heaptape, "record", "-q", "--convert", "-o", tmp_path / "t", "--", "sh", "-c", script],
                                env=clean_environment())
    most = max(workers_of(recorder, [0]))
    assert recorder.returncode == 0
    assert 1 <= most <= len(os.sched_getaffinity(0)) + 1, most
    assert len(traces_in(tmp_path / "t")) >= 40


@pytest.mark.slow
def test_more_long_logs_than_followers(tools: Tools, tmp_path: Path) -> None:
    """Followers take turns: one keeps its state and goes, and the trace is whole in the end."""
    processes = min(max(2 * len(os.sched_getaffinity(0)), 8), 32) + 2
    worker = ("import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end:\n"
              "    [str(i) for i in range(60000)]\n    time.sleep(0.15)\n")
    script = f'for i in $(seq {processes}); do /usr/bin/python3 -c "$1" & done; wait'
    recorder = subprocess.Popen([tools.heaptape, "record", "-q", "--convert", "-o", tmp_path / "t", "--", "sh", "-c", script, "sh", worker],
                                env=clean_environment({"PYTHONMALLOC": "malloc"}))
    kept = [0]

    def has_ended() -> bool:
        kept.append(len(list(tmp_path.glob("t/*.state"))))
        return recorder.poll() is not None

    wait_until(has_ended, "the recording's end", within_s=300, every_s=0.2)
    assert recorder.returncode == 0 and max(kept) > 0
    infos = [tools.info(trace) for trace in traces_in(tmp_path / "t")]
    assert sum(info["events"] > 2_000_000 for info in infos) == processes
    for info in infos:
        assert info["anomalies"] == info["foreign_frees"] == 0 and not info["truncated"]


def test_later_process_of_the_same_number(tools: Tools, tmp_path: Path) -> None:
    """The first log has become a trace by then; its name is not free before the run ends."""
    later = "keep = [str(i) for i in range(9999)]"
    unrecorded = ('sleep 1; LD_PRELOAD="$1" PYTHONMALLOC=malloc '
                  f"exec /usr/bin/python3 -c '{later}'")
    script = 'exec env -u LD_PRELOAD sh -c "$1" sh "$LD_PRELOAD"'
    done = record(tools, tmp_path / "t", "sh", "-c", script, "sh", unrecorded)
    assert done.returncode == 0, done.stderr
    traces = traces_in(tmp_path / "t")
    last = max(traces, key=lambda trace: tools.info(trace)["events"])
    assert re.fullmatch(r"malloc-footprint\.\d+\.[12]\.bin", last.name), traces
    assert tools.info(last)["events"] > 20_000 and "-2" not in "".join(trace.name for trace in traces)


def test_chain_of_execs_is_numbered(tools: Tools, tmp_path: Path) -> None:
    """In the order of the images, whenever their logs become traces."""
    done = record(tools, tmp_path / "t", tools.target("exec_self"), tmp_path / "counts", "60")
    assert done.returncode == 6, done.stderr
    contexts = {trace.name: tools.info(trace)["context"] for trace in traces_in(tmp_path / "t")}
    [pid] = {str(context["pid"]) for context in contexts.values()}
    in_order = sorted(contexts, key=lambda name: contexts[name]["start_realtime_ns"])
    assert in_order == [f"malloc-footprint.{pid}{f'.{i}' if i else ''}.bin" for i in range(61)]


def test_earlier_runs_trace_stays(tools: Tools, tmp_path: Path) -> None:
    """In a container every run's program may have the same number."""
    must_work(["unshare", "-rpf", "--mount-proc", "true"], "no process numbers of one's own here")
    (tmp_path / "t").mkdir()
    command = ["unshare", "-rpf", "--mount-proc", tools.heaptape, "record", "-q", "--convert",
               "-o", tmp_path / "t", "--", "/usr/bin/python3", "-c", "pass"]
    tools.succeed(command)
    [first] = traces_in(tmp_path / "t")
    before = first.read_bytes()
    tools.succeed(command)
    assert len(traces_in(tmp_path / "t")) == 2
    assert first.read_bytes() == before


@pytest.mark.thorough
def test_no_room_for_the_trace(tools: Tools, tmp_path: Path) -> None:
    """The log fills the disk before its trace has begun: the message says so, and not that there was
    no call."""
    must_work(["unshare", "-rm", "true"], "nobody may mount here")
    script = ('mount -t tmpfs -o size=3m none "$1" || exit 88; '
              '"$2" record -q --convert -o "$1" -- "$3" "$4" 4000000 3')
    place = tmp_path / "disk"
    place.mkdir()
    done = run(["unshare", "-rm", "sh", "-c", script, "sh", place, tools.heaptape,
                tools.target("threads_exchange"), tmp_path / "counts"])
    if done.returncode == 88:
        pytest.skip("cannot mount a small file system here")
    assert done.returncode == 125
    words = done.stderr.decode()
    assert "No space left" in words and "is not complete" in words, words
    assert "no call" not in words


def test_converter_is_killed(tools: Tools, tmp_path: Path) -> None:
    """The result of the logs is unknown then, and the message says so."""
    (tmp_path / "t").mkdir()
    recorder = subprocess.Popen([tools.heaptape, "record", "-q", "--convert", "-o", tmp_path / "t",
                                 "--", "sleep", "1"], env=clean_environment(),
                                stderr=subprocess.PIPE)
    children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")

    def both() -> dict[str, str]:
        names = {Path(f"/proc/{pid}/comm").read_text().strip(): pid
                 for pid in children.read_text().split()}
        return names if set(names) == {"heaptape", "sleep"} else {}

    names = wait_until(both, "the program and its converter", process=recorder)
    os.kill(int(names["heaptape"]), signal.SIGKILL)
    _, words = recorder.communicate(timeout=60)
    assert recorder.returncode == 125
    assert words.decode().count("\n") == 1 and "the conversion" in words.decode()


@pytest.mark.slow
def test_follower_that_is_behind(tools: Tools, tmp_path: Path) -> None:
    """The program has ended, its follower still punches holes: no other process has the log open."""
    done = record(tools, tmp_path / "t", tools.target("threads_exchange"), tmp_path / "counts",
                  "20000000", "4")
    assert done.returncode == 0, done.stderr
    [trace] = traces_in(tmp_path / "t")
    assert tools.info(trace)["events"] > 20_000_000
