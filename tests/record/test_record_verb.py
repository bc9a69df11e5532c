# SPDX-License-Identifier: Apache-2.0
"""`record` around the program: exit statuses, warnings, the folder of its logs, files of others."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from heaptape.base.recorded_trace import recorded_processes
from tool_runner import Tools, logs_in, run
from waiting import wait_until

FAILED, CANNOT_RUN, NOT_FOUND, USAGE = 125, 126, 127, 2


def record(tools: Tools, *words: str | Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    return run([tools.heaptape, "record", *words], **more)


def test_own_failures(tools: Tools, tmp_path: Path) -> None:
    logs, file, text = tmp_path / "logs", tmp_path / "file", tmp_path / "text"
    file.write_text("no folder")
    text.write_text("no program\n")
    logs.mkdir()
    cases: list[tuple[int, list[str | Path]]] = [
        (USAGE, ["--max-size", "1e3", "true"]),
        (FAILED, ["-o", file, "true"]),
        (FAILED, ["-o", tmp_path / "a" / "b", "true"]),
        (NOT_FOUND, ["-o", logs, tmp_path / "nothing"]),
        (CANNOT_RUN, ["-o", logs, text]),
        (CANNOT_RUN, ["-o", logs, tmp_path]),
        (FAILED, ["-o", logs, "--start", "paused", "sh", "-c", "exit 0"]),
    ]
    for status, words in cases:
        done = record(tools, *words)
        assert (done.returncode, words) == (status, words), done.stderr
        assert b"heaptape record: " in done.stderr
        assert words[1] != file or b": Not a directory\n" in done.stderr
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name,value", [
    ("MALLOC_WRAP_MAX_BYTES", "100M"), ("MALLOC_WRAP_MAX_BYTES", "18446744073709551616"), ("MALLOC_WRAP_SITES", "many"),
    ("MALLOC_WRAP_START", "soon"), ("MALLOC_WRAP_ANY_FOLDER", "yes"),
])
def test_settings_that_mean_nothing(tools: Tools, tmp_path: Path, name: str, value: str) -> None:
    """Of a bare LD_PRELOAD, which cannot be refused: the program is recorded without, and the trace says so."""
    program = [tools.target("calls_printed"), tmp_path / "printed", "10"]
    recording = tools.preload(program, tmp_path / "logs", env={name: value})
    converted = run([tools.heaptape, "convert", "-q", recording.logs[0], "-o", tmp_path / "t.bin"])
    assert converted.returncode == 0
    assert converted.stderr.decode().endswith(f"whose values mean nothing: {name}\n")
    assert tools.info(tmp_path / "t.bin")["context"]["ignored_settings"] == name


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["--convert"]], ids=["logs", "traces"])
def test_the_programs_status_goes_before(tools: Tools, tmp_path: Path, options: list[str]) -> None:
    """Also where there was nothing to record."""
    nobody = ["--only", "nobody-has-this-name"]
    for status in (0, 1, 3, 125):
        done = record(tools, "-q", "-o", tmp_path, *options, "--", "sh", "-c", f"exit {status}")
        assert done.returncode == status, done.stderr
        done = record(tools, "-q", "-o", tmp_path, *options, *nobody, "--", "sh", "-c", f"exit {status}")
        assert done.returncode == (status or FAILED), done.stderr
        assert b"no call that could be recorded" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("options", [[], ["--convert"]], ids=["logs", "traces"])
def test_early_end_is_reported_though_quiet(tools: Tools, tmp_path: Path, options: list[str]) -> None:
    program = ["perl", "-e", "my @a; push @a, 'x' x $_ for 1..30000; exit 5"]
    if not shutil.which("perl"):
        pytest.skip("perl is not installed")
    done = record(tools, "-q", *options, "-o", tmp_path, "--max-size", "64k", "--", *program)
    assert done.returncode == 5
    [line] = done.stderr.decode().splitlines()
    assert "warning" in line and "the recording stopped early" in line and "size limit" in line


def test_folder_is_made(tools: Tools, tmp_path: Path) -> None:
    done = record(tools, "-o", tmp_path / "new", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3 and logs_in(tmp_path / "new")
    assert f"heaptape record: made the folder {tmp_path}/new\n" in done.stderr.decode()
    again = record(tools, "-o", tmp_path / "new", "--", "sh", "-c", "exit 3")
    assert again.returncode == 3 and "made the folder" not in again.stderr.decode()


@pytest.mark.parametrize(("folder", "said"), [("", "'': No such file or directory"), ("a/b", "a/b: No such file or directory"),
                                              ("/proc/new", "/proc/new: No such file or directory"),
                                              ("/dev/null/new", "/dev/null/new: Not a directory")])
def test_folders_that_cannot_be_made(tools: Tools, tmp_path: Path, folder: str, said: str) -> None:
    done = record(tools, "-o", folder, "--", "true", cwd=tmp_path)
    assert done.returncode == FAILED and done.stderr.decode() == f"heaptape record: cannot write logs into {said}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("size", "bytes_most"), [("64k", 64 << 10), ("1M", 1 << 20), ("1MB", 1000000)])
def test_sizes_are_what_they_are_elsewhere(tools: Tools, tmp_path: Path, size: str, bytes_most: int) -> None:
    if not shutil.which("perl"):
        pytest.skip("perl is not installed")
    done = record(tools, "-q", "-o", tmp_path, "--max-size", size, "--", "perl", "-e",
                  "my @a; for my $i (1..400000) { push @a, 'x' x ($i % 200) }")
    assert done.returncode == 0 and b"size limit" in done.stderr
    [log] = logs_in(tmp_path)
    assert bytes_most * 0.7 < log.stat().st_size <= bytes_most


@pytest.mark.parametrize("size", ["64kB", "1", "", "1e9", "-1M", "1.5.2M", "9000000000000000000000"])
def test_sizes_that_are_refused(tools: Tools, tmp_path: Path, size: str) -> None:
    done = record(tools, "-o", tmp_path, "--max-size", size, "--", "true")
    assert done.returncode == USAGE and b": expected a size from 64k on" in done.stderr
    assert logs_in(tmp_path) == []


@pytest.mark.thorough
def test_its_own_cost_is_within_what_the_program_took(tools: Tools, tmp_path: Path) -> None:
    """On one processor that four others want: the elapsed time is many times the CPU time."""
    processor = min(os.sched_getaffinity(0))
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                             preexec_fn=lambda: os.sched_setaffinity(0, {processor})) for _ in range(4)]  # noqa: PLW1509
    before_s = children_cpu_s()
    try:
        done = run(["sh", "-c", f'taskset -cp {processor} $$ >/dev/null; exec "$@"', "sh", tools.heaptape, "record",
                    "-o", tmp_path, "--", tools.target("mmap_own"), "64", "64"])
        used_s = children_cpu_s() - before_s
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait(timeout=60)
    assert done.returncode == 17, done.stderr
    found = re.search(rb"recording cost at least (\S+) (u?s) of CPU \(\d+ ns a call\), and at most (\S+) (u?s) more", done.stderr)
    assert found, done.stderr
    seconds = {b"s": 1.0, b"us": 1e-6}
    assert float(found[1]) * seconds[found[2]] + float(found[3]) * seconds[found[4]] <= 1.1 * used_s  # of two digits each


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.thorough
def test_another_file_under_the_name_of_a_log(tools: Tools, tmp_path: Path) -> None:
    """While `record` reads a log, a link takes its name: the file behind the link keeps its length."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: nothing can hold record at the right moment")
    victim, logs = tmp_path / "victim", tmp_path / "logs"
    victim.write_bytes(bytes(50_000_000))
    logs.mkdir()
    # Whatever cuts the log waits for a second before it does.
    with subprocess.Popen(["strace", "-f", "-o", tmp_path / "calls", "-e", "trace=truncate,ftruncate", "-e",
                           "inject=truncate,ftruncate:delay_enter=1000000", tools.heaptape, "record", "-o", logs, "--",
                           tools.target("kill_self")], stderr=subprocess.PIPE) as recorder:
        if not _swap_when_it_is_held(recorder, tmp_path / "calls", logs, victim):
            pytest.skip("strace may not trace here")
        recorder.communicate(timeout=60)
    assert victim.stat().st_size == 50_000_000
    assert (logs / "aside").stat().st_size < 50_000_000  # the log itself was cut


def _swap_when_it_is_held(recorder: subprocess.Popen[bytes], calls: Path, logs: Path, victim: Path) -> bool:
    def is_held() -> bool:
        return recorder.poll() is not None or _cuts_of(recorder, calls)

    wait_until(is_held, "record's cut of the log")
    if recorder.poll() is not None:
        return False
    [log] = logs_in(logs)
    log.rename(logs / "aside")
    log.symlink_to(victim)
    return True


def _cuts_of(tracer: subprocess.Popen[bytes], calls: Path) -> bool:
    """Whether the program that is traced itself, not one that it started, is in such a call."""
    children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()
    lines = calls.read_text(errors="replace").splitlines() if calls.exists() else []
    return any(line.split()[0] in children[:1] and "truncate(" in line for line in lines if line.split())


# ---- `record --list`: the processes of a run, the one that matters first.

BUSY = "x = bytearray(b'x') * 20_000_000; y = [x.count(b'y') for i in range(40)]"
"""Much memory and CPU time, few calls."""


def _listed(tools: Tools, folder: Path, script: str) -> list[dict]:
    done = run([tools.heaptape, "record", "-q", "-o", folder, "--", sys.executable, "-S", "-c", script], env={"PYTHONMALLOC": "malloc"})
    assert done.returncode == 0, done.stderr
    return json.loads(run([tools.heaptape, "record", "--list", folder, "--json"]).stdout)["processes"]


@pytest.mark.parametrize(("parent", "child", "first_is_started"), [
    (BUSY, "z = list(map(str, range(50_000)))", True), ("pass", BUSY, False)], ids=["a-helper-with-more-calls", "a-worker"])
def test_the_process_that_matters_is_first(tools: Tools, tmp_path: Path, parent: str, child: str, first_is_started: bool) -> None:
    """By CPU time and memory, not by calls; the program that was started, unless a child clearly used more."""
    first, second = _listed(tools, tmp_path / "logs", f"import os\nif os.fork():\n    {parent}\n    os.wait()\nelse:\n    {child}")
    assert first["started"] == first_is_started != second["started"]
    assert first["cpu_ns"] > (second["cpu_ns"] or 0) and first["rss_anon_peak_bytes"] and first["calls"] and Path(first["log"]).exists()
    assert first["calls"] < second["calls"] or not first_is_started


def test_a_table_for_people(tools: Tools, tmp_path: Path) -> None:
    _listed(tools, tmp_path, "import os; os.fork()")
    heading, *rows = run([tools.heaptape, "record", "--list", tmp_path]).stdout.decode().splitlines()
    assert heading.split() == ["process", "calls", "CPU", "RssAnon", "command"] and len(rows) == 2
    assert sum("*" in row.split()[0] for row in rows) == 1 and all("python" in row for row in rows)


@pytest.mark.parametrize(("status", "words", "arguments"), [
    (3, b"expected raw logs (malloc-footprint.PID.mraw), found none", ["--list", "."]), (3, b"cannot read the folder", ["--list", "none"]),
    (2, b"expected no PROGRAM with it", ["--list", ".", "--", "true"]), (2, b"expected --list with it", ["--json", "--", "true"])])
def test_what_cannot_be_listed(tools: Tools, tmp_path: Path, status: int, words: bytes, arguments: list[str]) -> None:
    done = run([tools.heaptape, "record", *arguments], cwd=tmp_path)
    assert done.returncode == status and words in done.stderr


def test_what_is_damaged_is_said(tools: Tools, tmp_path: Path) -> None:
    """Beside logs that can be read, and files that are none. The folder's name is no UTF-8."""
    folder = tmp_path / "n\udcff"
    first, second = _listed(tools, folder, "import os; os.fork()")
    [lost] = [log for log in folder.glob("*.mraw") if log.name == f"malloc-footprint.{second['pid']}.mraw"]
    lost.write_bytes(lost.read_bytes()[:9000])
    (folder / "malloc-footprint.7.acc").touch()
    done = run([tools.heaptape, "record", "--list", folder])
    [line] = done.stderr.decode().splitlines()
    assert done.returncode == 0 and lost.name in line and line.endswith("found the end of the file")
    [kept] = recorded_processes(str(tools.heaptape), folder)
    assert kept.pid == first["pid"] and kept.log.exists() and first["log"] is None


# ---- Why a recording ended, as its header says: printed by convert and kept in the trace.

CHUNKS_END, STATE = 112, 128  # offsets in the header, docs/reference/raw-log-format.md
HEADER_BYTES = 16384
STOPPED, EXITED, PAUSED = 2, 3, 4


def with_state(repository: Path, folder: Path, state: int, reason: int, errno: int = 0,
               calls: bool = True) -> Path:
    """A log with another end, or with nothing but its header."""
    log = bytearray((repository / "tests" / "golden" / "sqlite3.mraw").read_bytes())
    struct.pack_into("<III", log, STATE, state, reason, errno)
    if not calls:
        struct.pack_into("<Q", log, CHUNKS_END, HEADER_BYTES)
        del log[HEADER_BYTES:]
    path = folder / "log.mraw"
    path.write_bytes(log)
    return path


@pytest.mark.parametrize("reason,errno,words", [
    (1, 28, "no space: No space left on device"),
    (2, 0, "size limit"),
    (3, 0, "the program forbade system calls (seccomp)"),
    (7, 2, "the program made more calls after its exit than the log had room for, and it could not grow: No such file or directory"),
    (77, 0, "unknown reason 77"),
])
def test_ended_early(tools: Tools, repository: Path, tmp_path: Path, reason: int, errno: int,
                     words: str) -> None:
    log = with_state(repository, tmp_path, STOPPED, reason, errno)
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    warnings = [line for line in done.stderr.decode().splitlines() if "warning" in line]
    assert len(warnings) == 1 and f"stopped early ({words}" in warnings[0]
    assert tools.info(tmp_path / "t.bin")["context"]["stopped"].startswith(words)
    assert words in tools.succeed([tools.heaptape, "info", tmp_path / "t.bin"]).stdout.decode()


def test_ended_by_ctl_is_no_warning(tools: Tools, repository: Path, tmp_path: Path) -> None:
    log = with_state(repository, tmp_path, STOPPED, 4)
    done = tools.succeed([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert b"warning" not in done.stderr
    assert tools.info(tmp_path / "t.bin")["context"]["stopped"] == "ended by heaptape ctl"


@pytest.mark.parametrize("state,reason,words", [
    (PAUSED, 0, "paused throughout"),
    (STOPPED, 4, "heaptape ctl ended the recording before the first one"),
    (EXITED, 0, "expected at least one call, found none"),
])
def test_without_a_call(tools: Tools, repository: Path, tmp_path: Path, state: int, reason: int,
                        words: str) -> None:
    log = with_state(repository, tmp_path, state, reason, calls=False)
    done = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert done.returncode == 3
    said = done.stderr.decode().splitlines()
    assert len(said) == 1 and "expected at least one call" in said[0] and words in said[0]
    assert not (tmp_path / "t.bin").exists()
