# SPDX-License-Identifier: Apache-2.0
"""record --check: the program once more without the recorder, and what it took both times."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest

from tool_runner import Tools, clean_environment, logs_in

PYTHON = "/usr/bin/python3"
# 40 MB that malloc serves, and a while of CPU.
WORK = "x = [bytes(4000) for i in range(10000)]; print(sum(len(b) for b in x), flush=True)"
FIGURES = re.compile(r"^recorded (\S+ \S+) and (\S+) s, alone (\S+ \S+) and (\S+) s \(peak RSS, CPU\)$", re.MULTILINE)


def check(tools: Tools, folder: Path, *command: str | Path, options: tuple[str, ...] = ("--check",), stdin: int = subprocess.DEVNULL,
          **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.heaptape, "record", *options, "-o", folder, "--", *command], stdin=stdin, capture_output=True,
                          text=True, env=clean_environment({"PYTHONMALLOC": "malloc"}), timeout=60, check=False, **more)


def test_figures_of_both_runs(tools: Tools, tmp_path: Path) -> None:
    """They are printed, and go with the log into the trace; the program's output is there once."""
    done = check(tools, tmp_path / "l", PYTHON, "-S", "-c", WORK)
    assert (done.returncode, done.stdout) == (0, "40000000\n"), done.stderr
    printed = FIGURES.search(done.stderr)
    assert printed, done.stderr
    [log] = logs_in(tmp_path / "l")
    info = tools.info(tools.convert(log, tmp_path / "t.bin"))
    found = info["context"]["check"]
    assert set(found) == {"recorded_rss_peak_bytes", "recorded_cpu_ns", "alone_rss_peak_bytes", "alone_cpu_ns"}
    for run in ("recorded", "alone"):
        assert 40e6 < found[f"{run}_rss_peak_bytes"] < 60e6, found
    # Seen from outside, as the recorder sees it: neither the log nor what was before exec is in it.
    assert abs(found["recorded_rss_peak_bytes"] - info["recorded_rss_peak_bytes"]) < 1e6
    assert abs(found["recorded_rss_peak_bytes"] - found["alone_rss_peak_bytes"]) < 1.5e6
    assert found["recorded_cpu_ns"] >= 0.9 * info["recorded_cpu_ns"]
    said = tools.succeed([tools.heaptape, "info", tmp_path / "t.bin"]).stdout.decode()
    assert printed.group(0) in said


def test_small_program_has_no_memory_of_ours(tools: Tools, tmp_path: Path) -> None:
    done = check(tools, tmp_path / "l", "sleep", "0.05")
    [log] = logs_in(tmp_path / "l")
    found = tools.info(tools.convert(log, tmp_path / "t.bin"))["context"]["check"]
    assert max(found["recorded_rss_peak_bytes"], found["alone_rss_peak_bytes"]) < 800_000, (found, done.stderr)


def test_input_from_a_file_comes_twice(tools: Tools, tmp_path: Path) -> None:
    """From where it began: what was read before belongs to another."""
    (tmp_path / "input").write_text("first\nsecond\nthird\n")
    script = f"echo $(head -c 1000 | md5sum) >>{tmp_path / 'seen'}; {PYTHON} -S -c pass"
    with (tmp_path / "input").open("rb") as file:
        os.lseek(file.fileno(), 6, os.SEEK_SET)
        done = check(tools, tmp_path / "l", "sh", "-c", script, stdin=file.fileno())
    assert done.returncode == 0, done.stderr
    seen = (tmp_path / "seen").read_text().splitlines()
    assert len(seen) == 2 and seen[0] == seen[1]
    assert "a process that it started used more" in done.stderr


def test_input_from_a_pipe_is_refused(tools: Tools, tmp_path: Path) -> None:
    """Before anything runs."""
    done = subprocess.run([tools.heaptape, "record", "--check", "-o", tmp_path, "--", "touch", tmp_path / "ran"], input=b"",
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and b"cannot be read twice" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("other", ["--convert", "--sites", "--accesses"])
def test_what_does_not_go_with_it(tools: Tools, tmp_path: Path, other: str) -> None:
    assert check(tools, tmp_path, "true", options=("--check", other)).returncode == 2


def test_other_status_the_second_time(tools: Tools, tmp_path: Path) -> None:
    """What the first run left may keep the second from its work: the status is the first one's."""
    script = f"x = [str(i) for i in range(9999)]; open({str(tmp_path / 'lock')!r}, 'x').close()"
    done = check(tools, tmp_path / "l", PYTHON, "-S", "-c", script, options=("-q", "--check"))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "ended with status 0; once more without the recorder it ended with status 1" in done.stderr
    [log] = logs_in(tmp_path / "l")
    assert "check" not in tools.info(tools.convert(log, tmp_path / "t.bin"))["context"]


def test_once_alone_where_it_cannot_be_repeated(tools: Tools, tmp_path: Path) -> None:
    """Not after a signal, not while a process of it runs, not if it took longer than it may."""
    mark = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')"
    killed = check(tools, tmp_path / "a", PYTHON, "-S", "-c", f"import os; {mark}; os.kill(os.getpid(), 15)")
    assert killed.returncode == 128 + 15 and "is not run once more: a signal ended it" in killed.stderr
    stays = check(tools, tmp_path / "b", PYTHON, "-S", "-c",
                  f"import os, time; {mark}\nif os.fork() == 0: os.close(1); os.close(2); x = [str(i) for i in range(9999)]; time.sleep(1); os._exit(0)\ntime.sleep(0.3)")
    assert stays.returncode == 0 and "is not run once more: a process of it still runs" in stays.stderr
    slow = check(tools, tmp_path / "c", PYTHON, "-S", "-c", f"import time; {mark}; time.sleep(0.3)", options=("--check=100ms",))
    assert slow.returncode == 0 and ", alone " not in slow.stderr
    assert (tmp_path / "runs").read_text() == "xxx"


def test_terminal_shows_both(tools: Tools, tmp_path: Path) -> None:
    """The second run is on the terminal as the first one, in case it asks."""
    ours, theirs = pty.openpty()
    recorder = subprocess.Popen([tools.heaptape, "record", "-q", "--check", "-o", tmp_path, "--", PYTHON, "-S", "-c",
                                 "import sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stdin.readline().strip(), flush=True)"],
                                stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=clean_environment())
    said = b""
    for word in (b"one\n", b"two\n"):
        os.write(ours, word)
        wanted = b"True True " + word.strip()
        end = time.monotonic() + 30
        while wanted not in said and time.monotonic() < end:
            said += os.read(ours, 1000)
    assert b"True True one" in said and b"True True two" in said
    assert recorder.wait(timeout=60) == 0
    os.close(ours)
    os.close(theirs)


@pytest.mark.thorough
def test_second_run_that_does_not_end(tools: Tools, tmp_path: Path) -> None:
    script = (f"import os, time; x = [str(i) for i in range(9999)]; p = {str(tmp_path / 'ran')!r}\n"
              "if os.path.exists(p): time.sleep(100)\nopen(p, 'x').close()")
    began = time.monotonic()
    done = check(tools, tmp_path / "l", PYTHON, "-S", "-c", script)
    assert done.returncode == 0 and 10 < time.monotonic() - began < 30
    assert "it had not ended after 1" in done.stderr


def test_a_peak_that_was_hardly_looked_at_is_not_compared(tools: Tools, tmp_path: Path) -> None:
    done = check(tools, tmp_path / "l", tools.target("hardly_touched"), "100", "100", "1")
    assert re.search(r"\nrecorded \S+ s, alone \S+ s \(CPU\); it ended too soon for its peak to be seen: peak RSS is not compared\n", done.stderr), done.stderr
