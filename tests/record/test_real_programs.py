# SPDX-License-Identifier: Apache-2.0
"""Real programs recorded and replayed: small here, full sizes in the tests marked slow."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tool_runner import Argument, Tools, clean_environment, logs_in, outcome_of, run
from waiting import wait_until

ALLOCATORS = "null,glibc,jemalloc,tcmalloc,mimalloc"


def program(*names: str) -> str:
    """The path of an ELF program: a shim script on the PATH would be recorded instead of it."""
    places = ["/usr/bin", "/usr/local/bin", "/bin", *os.environ.get("PATH", "").split(":")]
    for name in names:
        for place in places:
            path = Path(place) / name
            if path.is_file() and path.open("rb").read(4) == b"\x7fELF":
                return str(path)
    pytest.skip(f"{' or '.join(names)} is not installed")


def check_recording(tools: Tools, logs: list[Path], folder: Path, events_min: int,
                    allocators: str = "glibc") -> list[dict]:
    """Every log converts without anomaly; the largest is replayed without failure."""
    assert logs
    infos = {}
    for log in logs:
        trace = folder / f"{log.stem}.bin"
        infos[trace] = tools.convert_clean(log, trace)
    largest = max(infos, key=lambda trace: infos[trace]["events"])
    assert infos[largest]["events"] >= events_min
    rows = []
    for row in tools.replay(largest, allocators, folder / "results.jsonl"):
        assert not row["failures"], row["allocator"]["name"]
        assert row["trace"]["events"] == infos[largest]["events"]
        rows.append(row)
    assert {row["allocator"]["name"] for row in rows} >= set(allocators.split(","))
    return rows


def record_program(tools: Tools, folder: Path, command: Sequence[Argument], events_min: int,
                   allocators: str = "glibc", env: dict[str, str] | None = None,
                   timeout: float = 300) -> list[dict]:
    """The same output and status as without the recorder, then what check_recording says."""
    alone = outcome_of(run(command, env=env, cwd=folder, timeout=timeout))
    assert alone.status == 0, alone.stderr
    recording = tools.preload(command, folder / "logs", env=env, cwd=folder, timeout=timeout)
    assert recording.outcome == alone
    return check_recording(tools, recording.logs, folder, events_min, allocators)


def python_json(tools: Tools, repository: Path, folder: Path, scale: str, events_min: int,
                allocators: str) -> list[dict]:
    command = [program("python3", "python3.11", "python3.12", "python3.13"),
               repository / "bench" / "programs" / "json_work.py", scale]
    return record_program(tools, folder, command, events_min, allocators,
                          env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})


@pytest.mark.thorough
def test_python_json(tools: Tools, repository: Path, tmp_path: Path) -> None:
    python_json(tools, repository, tmp_path, "0.05", 250_000, ALLOCATORS)


@pytest.mark.slow
def test_python_json_full(tools: Tools, repository: Path, tmp_path: Path) -> None:
    python_json(tools, repository, tmp_path, "1", 5_000_000, ALLOCATORS)


def sqlite_script(rows: int) -> str:
    return f"""
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value REAL);
CREATE INDEX by_name ON t(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
  INSERT INTO t SELECT i, printf('name-%d-%s', i * 7919 % {rows}, hex(i)), i * 0.5 FROM n;
SELECT count(*), sum(value), max(name) FROM t;
SELECT substr(name, 1, 7) AS p, count(*), group_concat(id % 10) FROM t GROUP BY p ORDER BY p LIMIT 5;
UPDATE t SET name = name || '-x' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
SELECT count(*), max(name) FROM t;
"""


@pytest.mark.parametrize("rows,events_min,allocators", [
    (10_000, 20_000, "glibc"),  # sqlite3 3.46 makes a fifth of the calls that 3.40 made
    pytest.param(500_000, 1_000_000, ALLOCATORS, marks=pytest.mark.slow),
])
def test_sqlite3(tools: Tools, tmp_path: Path, rows: int, events_min: int, allocators: str) -> None:
    (tmp_path / "script.sql").write_text(sqlite_script(rows))
    record_program(tools, tmp_path, [program("sqlite3"), ":memory:", ".read script.sql"],
                   events_min, allocators)


def c_source(functions: int) -> str:
    body = "\n".join(f"  for (int i = 0; i < n; i++) {{ a[i % 16] += a[(i + {k}) % 16] * b; "
                     f"if (a[i % 16] > {k * 1000}) b ^= helper(a[{k}], i); }}" for k in range(8))
    parts = ["static int helper(int x, int y) { return x * 31 + (y >> 3); }"]
    parts += [f"int function_{f}(int *a, int n) {{\n  int b = {f};\n{body}\n  return b;\n}}"
              for f in range(functions)]
    return "\n".join(parts) + "\n"


@pytest.mark.thorough
@pytest.mark.parametrize("functions,events_min,allocators", [
    (4, 200_000, "glibc"),
    pytest.param(60, 5_000_000, ALLOCATORS, marks=pytest.mark.slow),
])
def test_cc1(tools: Tools, tmp_path: Path, functions: int, events_min: int,
             allocators: str) -> None:
    """gcc's compiler proper, which is not on the PATH: gcc prints where it is."""
    cc1 = run([program("gcc"), "-print-prog-name=cc1"]).stdout.decode().strip()
    if not Path(cc1).is_file():
        pytest.skip("gcc has no cc1 here")
    (tmp_path / "source.c").write_text(c_source(functions))
    record_program(tools, tmp_path, [cc1, "-quiet", "-O2", "source.c", "-o", "out.s"], events_min,
                   allocators)


RUBY = """
records = (1..ARGV[0].to_i).map { |i| { "id" => i, "name" => "n" * (i % 40), "tags" => [i.to_s, (i * 7).to_s] } }
grouped = records.group_by { |r| r["id"] % 97 }.transform_values { |l| l.map { |r| r["name"] + r["tags"].join(",") } }
puts grouped.values.flatten.map(&:length).sum, grouped.to_s.length
"""


@pytest.mark.parametrize("records,events_min,allocators", [
    (3_000, 20_000, "glibc"),
    pytest.param(400_000, 1_000_000, ALLOCATORS, marks=pytest.mark.slow),
])
def test_ruby(tools: Tools, tmp_path: Path, records: int, events_min: int, allocators: str) -> None:
    (tmp_path / "work.rb").write_text(RUBY)
    record_program(tools, tmp_path, [program("ruby", "ruby3.1"), "--disable=gems", "work.rb",
                                     str(records)], events_min, allocators)


class Redis:
    """A redis-server under the recorder, on a socket of its own and with no file on disk."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        # Debian's redis-tools has the server too: it is the same file as redis-check-rdb, and goes
        # by the name that it is called by.
        self.benchmark = program("redis-benchmark")
        server = folder / "redis-server"
        server.symlink_to(program("redis-server", "redis-check-rdb"))
        self.socket = folder / "s"
        self.logs = folder / "logs"
        self.logs.mkdir()
        environment = clean_environment({"LD_PRELOAD": str(tools.shim),
                                         "MALLOC_WRAP_OUT": str(self.logs)})
        self.process = subprocess.Popen(
            [server, "--port", "0", "--unixsocket", "s", "--save", "", "--io-threads", "2",
             "--io-threads-do-reads", "yes"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def drive(self, requests: int) -> None:
        wait_until(self.socket.exists, "redis-server's socket", process=self.process)
        done = run([self.benchmark, "-s", "s", "-n", str(requests), "-r", "10000", "-c", "20", "-q",
                    "-t", "set,get,lpush,lpop,hset,zadd"], cwd=self.socket.parent, timeout=600)
        assert done.returncode == 0, done.stderr

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        talk, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, talk
        return talk.decode()


@pytest.mark.thorough
@pytest.mark.parametrize("requests,events_min,allocators", [
    (300, 1_000, "glibc"),
    (10_000, 20_000, "glibc"),
    pytest.param(200_000, 1_000_000, ALLOCATORS, marks=pytest.mark.slow),
])
def test_redis(tools: Tools, tmp_path_factory: pytest.TempPathFactory, requests: int,
               events_min: int, allocators: str) -> None:
    folder = tmp_path_factory.mktemp("redis")
    redis = Redis(tools, folder)
    try:
        redis.drive(requests)
        redis.stop()
    finally:
        redis.process.kill()
        redis.process.wait(timeout=60)
    check_recording(tools, logs_in(redis.logs), folder, events_min, allocators)


def test_shell_pipeline(tools: Tools, tmp_path: Path) -> None:
    """Every process of a shell script has a log of its own, and the script does what it did."""
    script = "for i in 1 2 3; do echo $i | sed s/2/two/; done | sort -r; exit 21"
    command = [program("bash"), "-c", script]
    alone = outcome_of(run(command))
    recording = tools.preload(command, tmp_path / "logs")
    assert recording.outcome == alone
    assert alone.status == 21 and alone.stdout == b"two\n3\n1\n"
    assert len(recording.logs) >= 5  # bash, three times sed, sort; and bash's subshells
    for log in recording.logs:
        tools.convert_clean(log, tmp_path / f"{log.stem}.bin")
