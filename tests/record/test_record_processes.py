# SPDX-License-Identifier: Apache-2.0
"""Every way to come by another process: each has a log of its own, and all calls are in one."""

from __future__ import annotations

import http.client
import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from quick_tier import quick
from safety_checks import EXITED, RECORDING, compare_mode, ending_of, must_work, need_root, recorded_tallies
from tool_runner import Tools, clean_environment, is_forked, logs_in, outcome_of, parent_pid, read_tallies, run
from waiting import wait_until

# mode: exit status, logs. A shell between program and image has a log as well, if it allocates.
MODES = {
    "system": (51, None), "popen": (52, None), "daemon": (0, 2), "double_fork": (54, 2),
    "raw_clone": (55, 3), "raw_fork": (56, 3), "fifty": (57, 51), "chdir": (58, 3),
    "clearenv": (59, 2), "bare_fork": (61, 3), "clone": (62, 3), "atfork": (63, 2), "clone_on_stack": (64, 1),
}


@pytest.mark.parametrize("mode", quick(set(MODES) - {"fifty"}, MODES))
def test_process(tools: Tools, tmp_path: Path, mode: str) -> None:
    status, processes = MODES[mode]
    if mode == "bare_fork" and run([tools.target("process_kinds"), tmp_path / "tried", mode]).returncode == 77:
        pytest.skip("this C library has no _Fork")
    compared = compare_mode(tools, tmp_path, "process_kinds", mode, status=status)
    compared.assert_whole(processes)
    if processes:
        # The first process is nobody's child; all others are forks of one that was recorded.
        assert sum(is_forked(log) for log in compared.recording.logs) == processes - 1


@pytest.mark.parametrize("mode", quick(["daemon", "chdir"], ["daemon", "chdir", "fifty"]))
def test_folder_named_relatively(tools: Tools, tmp_path: Path, mode: str) -> None:
    """Logs go where the name pointed when the program began, wherever its children go."""
    status, processes = MODES[mode]
    compared = compare_mode(tools, tmp_path, "process_kinds", mode, status=status,
                            cwd=tmp_path, env={"MALLOC_WRAP_OUT": "logs"})
    compared.assert_whole(processes)


LINGER = {
    "daemon": '"$1" "$2" linger & while ! [ -s "$2" ]; do sleep 0.02; done',
    # Its process number means nothing to `record`, or another process.
    "pid_namespace": """unshare -pf sh -c 'echo 3999990 >/proc/sys/kernel/ns_last_pid; "$1" "$2" linger
                     true' sh "$1" "$2" & while ! [ -s "$2" ]; do sleep 0.02; done""",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LINGER)
def test_record_ends_before_the_program(tools: Tools, tmp_path: Path, kind: str) -> None:
    """`record` tidies up the logs of processes that are gone. One that is not gone writes on; had
    its log been cut, it would be killed by SIGBUS."""
    if kind == "pid_namespace":
        need_root()
        must_work(["unshare", "-pf", "true"], "no process namespaces here")
    recording = tools.record(["sh", "-c", LINGER[kind], "sh", tools.target("process_kinds"),
                              tmp_path / "counts"], tmp_path / "logs")
    assert recording.outcome.stdout == b"still here\n", recording.outcome
    recorded = recorded_tallies(tools, logs_in(tmp_path / "logs"), tmp_path)
    assert recorded == read_tallies(tmp_path / "counts")


BEGIN_A_LOG = ("allocate", "inotify", "fanotify")


@pytest.mark.parametrize("what", ["allocate", "dlclose", "clone", "inotify", "fanotify", "queue"])
@pytest.mark.parametrize("where", ["here", "child"])
@pytest.mark.parametrize("options", [[], ["--sites"]], ids=["plain", "sites"])
def test_loader_is_locked(tools: Tools, tmp_path: Path, options: list[str], where: str, what: str) -> None:
    """By another thread until the exit, or for ever by one that a forked child does not have. The process calls a function
    that the recorder hooks, for the first time, and exits as alone."""
    done = run([tools.heaptape, "record", "-q", *options, "-o", tmp_path, "--", tools.target("loader_locked"), where, what],
               timeout=60)
    assert done.returncode == 43, done
    assert len(logs_in(tmp_path)) == (2 if where == "child" and what in BEGIN_A_LOG else 1)


@pytest.mark.thorough
@pytest.mark.parametrize("mode,status", [("limit", 45), ("exit", 46), ("no_counter", 47)])
def test_child_of_vfork_limits_itself(tools: Tools, tmp_path: Path, mode: str, status: int) -> None:
    """What it does to itself is not done to its parent, whose memory and recording it runs on."""
    compared = compare_mode(tools, tmp_path, "vfork_limits", mode, status=status)
    compared.assert_whole(processes=1)
    [log] = compared.recording.logs
    # A child that exits has run its parent's destructors.
    assert ending_of(log).state == (RECORDING if mode == "exit" else EXITED)


def test_what_the_kernel_refuses(tools: Tools, tmp_path: Path) -> None:
    """Bad pointers, and limits that are not granted, get the kernel's own answers, and change nothing."""
    command = [tools.target("bad_pointers")]
    alone = outcome_of(run(command))
    assert alone.status == 44 and alone.stdout.count(b"EFAULT") >= 5
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone
    logs = recording.logs
    assert len(logs) == (2 if b"clone3: 7" in alone.stdout else 1)
    states = {ending_of(log).state for log in logs}
    assert states == ({RECORDING, EXITED} if len(logs) == 2 else {EXITED})


def test_process_on_its_parents_memory(tools: Tools, tmp_path: Path) -> None:
    """It runs beside its parent, on the storage of its parent's thread: each is a thread of the one log."""
    compared = compare_mode(tools, tmp_path, "shared_states", "clone_vm", status=123, same_counts=False)
    compared.assert_whole(processes=1)
    assert tools.info(tmp_path / f"{compared.recording.logs[0].stem}.bin")["threads"] == 2


# ---- Servers that fork workers: each worker's log with its parent's makes the worker's own trace.

ALLOCATORS = "null,glibc,jemalloc,tcmalloc,mimalloc"


@contextmanager
def running(server: subprocess.Popen[bytes], stop: signal.Signals) -> Iterator[None]:
    """The server, which leads a session, is asked to stop at the end; nothing of it stays."""
    try:
        yield
        server.send_signal(stop)
        assert server.wait(timeout=60) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(timeout=60)


def check_family(tools: Tools, logs: list[Path], folder: Path, workers_min: int) -> None:
    """Every log is whole. Without the parent's, each worker's frees of what it inherited would be
    foreign; with it none is, and the worker's trace is replayed under every allocator."""
    workers = []
    for log in logs:
        trace = folder / f"{log.stem}.bin"
        info = tools.convert_clean(log, trace)
        assert info["parent_pid"] == (parent_pid(log) or None)
        if is_forked(log):
            assert info["inherited_objects"] > 100
            workers.append((info["events"], log, trace, info))
    assert len(workers) >= workers_min
    _, log, trace, info = max(workers, key=lambda worker: worker[0])
    alone = tools.info(tools.convert(log, folder / "alone.bin", "--no-parent"))
    assert alone["foreign_frees"] > 0
    # Queries of blocks that it does not know are left out.
    assert alone["events"] + alone.get("foreign_queries", 0) == info["events"]
    for more in ([], ["--threads", "1"]):
        rows = tools.replay(trace, ALLOCATORS, folder / f"results{len(more)}.jsonl", *more)
        assert {row["allocator"]["name"] for row in rows} >= set(ALLOCATORS.split(","))
        for row in rows:
            assert not row["failures"], row["allocator"]["name"]
            assert row["trace"]["events"] == info["events"]


# user: only root's nginx heeds it, whose workers would else be unable to read the folder.
NGINX = """
user {user};
worker_processes 2;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  gzip on;
  gzip_types *;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(port: int) -> bool:
    """One request, answered with the page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/page.txt", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        return answer.status == 200 and len(answer.read()) > 0
    except OSError:
        return False
    finally:
        connection.close()


@pytest.mark.slow
def test_nginx(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> None:
    program = Path("/usr/sbin/nginx")
    if not program.is_file():
        pytest.skip("nginx is not installed")
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    (folder / "logs").mkdir()
    (folder / "page.txt").write_text("page " * 4000)
    (folder / "nginx.conf").write_text(NGINX.format(
        folder=folder, port=port, user=pwd.getpwuid(os.geteuid()).pw_name))
    server = subprocess.Popen(
        [program, "-p", folder, "-c", folder / "nginx.conf"], start_new_session=True,
        env=clean_environment({"LD_PRELOAD": str(tools.shim),
                               "MALLOC_WRAP_OUT": str(folder / "logs")}))
    with running(server, signal.SIGQUIT):
        wait_until(lambda: fetch(port), "the server's answer", process=server, every_s=0.05)
        assert all(fetch(port) for _ in range(300))
        for log in logs_in(folder / "logs"):  # while both go on
            tools.convert_clean(log, folder / "live.bin")
    check_family(tools, logs_in(folder / "logs"), folder, workers_min=2)


class Postgres:
    """A cluster in a folder of its own that listens on a socket there only."""

    def __init__(self, folder: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
        if not found:
            pytest.skip("postgresql is not installed")
        self.programs, self.folder, self.as_user = found[-1].parent, folder, []
        if os.geteuid() == 0:  # which it refuses to run as
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                pytest.skip("there is no user postgres to run the server as")
            os.chown(folder, user.pw_uid, user.pw_gid)
            self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                            "--clear-groups", "--"]

    def command(self, name: str, *arguments: str) -> list[str]:
        return [*self.as_user, str(self.programs / name), *arguments]

    def client(self, name: str, *arguments: str) -> bool:
        command = self.command(name, "-h", str(self.folder), *arguments)
        return run(command, cwd=self.folder, timeout=300).returncode == 0


@pytest.mark.slow
def test_postgres(tools: Tools, open_folder: Path) -> None:
    folder = open_folder
    postgres = Postgres(folder)
    logs = folder / "logs"
    tools.succeed(postgres.command("initdb", "-D", str(folder / "data"), "-A", "trust"),
                  cwd=folder, timeout=300)
    tools.succeed([*postgres.as_user, "mkdir", str(logs)])
    # LD_PRELOAD is set behind setpriv, which is not to be recorded.
    with (folder / "server.log").open("wb") as talk:
        server = subprocess.Popen(
            [*postgres.as_user, "env", f"LD_PRELOAD={tools.shim}", f"MALLOC_WRAP_OUT={logs}",
             str(postgres.programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder),
             "-h", "", "-c", "fsync=off"],
            cwd=folder, env=clean_environment(), stdout=talk, stderr=talk, start_new_session=True)
    with running(server, signal.SIGINT):  # its fast shutdown
        wait_until(lambda: postgres.client("pg_isready"), "the server's answer", process=server, every_s=0.05)
        assert postgres.client("createdb", "bench")
        assert postgres.client("pgbench", "-q", "-i", "bench")
        assert postgres.client("pgbench", "-c", "3", "-t", "200", "bench")
    check_family(tools, logs_in(logs), folder, workers_min=8)


RUBY = """
require "socket"
server = TCPServer.new("127.0.0.1", 0)
cache = (1..2000).map { |i| "key #{i} " * 5 }
stop = false
busy = 2.times.map { Thread.new { list = []
  until stop
    list << "x" * (list.size % 300)
    list.clear if list.size > 500
  end } }
workers = 3.times.map { |number| fork {
  2.times { client = server.accept; client.write(cache.first(3).join + "y" * 5000); client.close }
  cache.map! { |text| text + "z" * number * 100 }
  GC.start } }
lengths = 6.times.map {
  socket = TCPSocket.new("127.0.0.1", server.addr[1])
  socket.read.size.tap { socket.close } }
workers.each { |pid| Process.wait(pid) }
stop = true
busy.each(&:join)
puts lengths.uniq
"""


@pytest.mark.slow
def test_ruby_workers(tools: Tools, tmp_path: Path) -> None:
    """Forked while other threads of the parent allocate."""
    program = Path("/usr/bin/ruby")
    if not program.is_file():
        pytest.skip("ruby is not installed")
    (tmp_path / "server.rb").write_text(RUBY)
    command = [program, "--disable=gems", tmp_path / "server.rb"]
    alone = outcome_of(run(command))
    assert alone.status == 0, alone.stderr
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone
    check_family(tools, recording.logs, tmp_path, workers_min=3)
