# SPDX-License-Identifier: Apache-2.0
"""A validation of memory and CPU time, and where its order of the allocators is that of the real program."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from heaptape.__main__ import main
from heaptape.results.comparison import estimate_difference, estimate_saving
from heaptape.validate import observed_run
from heaptape.validate.figures import Latencies, _ends_agree, _error_object, _extremes, parse_latencies, ranks, spearman
from heaptape.validate.observed_run import ObservedRun, Start, TimeLimit, Watched, children
from heaptape.validate.prediction import (
    Curve,
    RecordedMemory,
    curve_difference,
    predicted_cpu_ns,
    predicted_differences_ns,
    predicted_memory,
)
from heaptape.validate.startup import _data_bytes_of
from heaptape.validate.table import _ends_line
from waiting import alive, wait_until

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000
PYTHON = os.path.realpath(sys.executable)

REDIS_CSV = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","124999.99","0.221","0.064","0.207","0.295","0.767","0.879"
"GET","133333.34","0.190","0.056","0.191","0.231","0.319","0.343"
'''
REDIS_QUIET = ("\rSET: rps=0.0 (overall: -nan) avg_msec=-nan (overall: -nan)\r      \rSET: 95238.09 requests per second, p50=0.263 msec\n"
               "\rGET: 142857.14 requests per second, p50=0.183 msec\n")
REDIS_FULL = """Summary:
  throughput summary: 142857.14 requests per second
  latency summary (msec):
          avg       min       p50       p95       p99       max
        0.179     0.048     0.175     0.231     0.535     0.591
"""
WRK = """  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   804.75us  597.39us   8.17ms   94.05%
  Latency Distribution
     50%  684.00us
     75%    0.90ms
     90%    1.18ms
     99%    3.77ms
"""
AB = """Time per request:       0.793 [ms] (mean)
Time per request:       0.397 [ms] (mean, across all concurrent requests)

Percentage of the requests served within a certain time (ms)
  50%      1
  66%      1
  99%      2
 100%      2 (longest request)
"""
PGBENCH = "number of clients: 4\nlatency average = 1.250 ms\nlatency stddev = 0.5 ms\ntps = 3199.1 (without initial connection time)\n"
PGBENCH_LOG = "".join(f"0 {i} {100 + i} 0 1700000000 {i}\n" for i in range(1, 101))


@pytest.mark.parametrize(("printed", "expected"), [
    (REDIS_CSV, Latencies(0.199e6, 0.543e6, 0.2055e6)),
    (REDIS_QUIET, Latencies(0.223e6, None)),
    (REDIS_FULL, Latencies(0.175e6, 0.535e6, 0.179e6)),
    (WRK, Latencies(684e3, 3.77e6, 804.75e3)),
    (AB, Latencies(1e6, 2e6, 0.793e6)),
    (PGBENCH, Latencies(None, None, 1.25e6)),
    (PGBENCH_LOG, Latencies(150e3, 199e3, 150.5e3)),
    ("done: p50=1.2ms p99=3.4 s", Latencies(1.2e6, 3.4e9)),
    ("p99: 250us", Latencies(None, 250e3)),
], ids=["redis csv", "redis -q", "redis", "wrk", "ab", "pgbench", "pgbench log", "named", "one named"])
def test_latencies(printed: str, expected: Latencies) -> None:
    found = parse_latencies("some words before\n" + printed)
    assert found is not None
    for name in ("p50_ns", "p99_ns", "average_ns"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name


def test_what_is_no_latency() -> None:
    for text in ("", "50% done\np50 is unknown", '"a","b"\n"1","2"\n', "50%  12ms"):
        assert parse_latencies(text) is None


def test_cpu_is_the_sum_of_what_a_row_has() -> None:
    assert predicted_cpu_ns({"alloc_time_ns": 10.0}) == 10
    assert predicted_cpu_ns({"alloc_time_ns": 10.0, "background_cpu_ns": None}) == 10
    assert predicted_cpu_ns({"alloc_time_ns": 10, "background_cpu_ns": 5, "wall_ns": 99}) == 15


def _time_rows(figures: dict[str, list[float]], **more: Any) -> pd.DataFrame:
    return pd.DataFrame([
        {"allocator": name, "pass": "time", "round": number, "seed": "1", "failures": 0, "control": False, "alloc_time_ns": value,
         "background_cpu_ns": 7.0 if name == "b" else None} | more
        for name, values in figures.items() for number, value in enumerate(values)])


def test_a_machine_that_slows_down_leaves_a_saving_as_it_is() -> None:
    baseline = np.array([100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 400.0])
    saving = estimate_saving(baseline * 0.9, baseline, 5.0)
    assert saving.middle == pytest.approx(-20 + 5) and saving.ci_high - saving.ci_low < 1e-6
    assert estimate_saving(np.array([1.0, -1.0]), np.array([3.0, 3.0])).middle == -3


def test_cpu_differences_are_taken_within_rounds() -> None:
    rows = _time_rows({"a": [100, 200, 300], "b": [90, 150, 310]})
    control = _time_rows({"a": [0, 0, 0]}, control=True)
    found = predicted_differences_ns(pd.concat([rows, control]), "a", {"a": 1000.0, "b": 1500.0})
    # With 7 ns of its own threads b takes 0.97, 0.785 and 1.057 times as long; a takes 200 ns.
    assert found["a"].middle == 0 and found["b"].middle == pytest.approx(0.97 * 200 - 200 + 500)
    assert found["b"].ci_low < 494 < found["b"].ci_high and found["b"].rounds == 3
    assert predicted_differences_ns(rows, "absent", {}) == {}


def test_memory_is_own_and_heap_at_each_moment() -> None:
    row = {"rss_mean_bytes": 30.0, "rss_peak_bytes": 50.0,
           "timeline": {"time_ns": [0, 10, 20], "rss_bytes": [0, 50, 40]}}
    own = Curve(np.array([0.0, 40.0]), np.array([0.0, 40.0]))
    found = predicted_memory(row, RecordedMemory(own, own, 40.0))
    assert (found.peak, found.own_at_peak) == (60, 10)  # at 10: 50 + 10; at 20: 40 + 20, which comes later
    # Half of the time is before the last call, where it is known; after that the last value holds.
    assert found.mean == pytest.approx((30 * 20 + 40 * 20) / 40 + 20) and found.own_mean == pytest.approx(20)
    # The curve may lack the peak; what only the recorder had comes off; and for a third of the time the program is starting.
    assert predicted_memory(row | {"rss_peak_bytes": 53.0}, RecordedMemory(own, own, 40.0), 4.0).peak == 53 + 6
    # The replay knows the sum at each of its readings.
    assert predicted_memory(row | {"process_rss_peak_bytes": 65}, RecordedMemory(own, own, 40.0), 4.0).peak == 65 - 4
    assert predicted_memory(row | {"process_rss_peak_bytes": math.nan}, RecordedMemory(own, own, 40.0)).peak == 60
    starting = predicted_memory(row, RecordedMemory(Curve(own.times_ns, own.values + 6), own, 40.0, 20.0))
    assert starting.mean == pytest.approx((found.mean + 6) * 2 / 3 + 3 / 3)
    nothing = RecordedMemory(Curve(np.zeros(0), np.zeros(0)), Curve(np.zeros(0), np.zeros(0)), 20.0)
    assert predicted_memory(row, nothing).peak == 50 and all(map(math.isnan, curve_difference(nothing, row)))


def test_distance_of_curves() -> None:
    row = {"timeline": {"time_ns": [0, 100], "rss_bytes": [10, 10]}}
    own = Curve(np.array([0.0, 100.0]), np.array([5.0, 5.0]))
    total = Curve(np.array([0.0, 50.0, 100.0]), np.array([15.0, 25.0, 15.0]))
    difference, mean = curve_difference(RecordedMemory(own, total, 100.0), row)
    assert (difference, mean) == (pytest.approx(5), pytest.approx(20))


def test_ranks() -> None:
    assert ranks([3, 1, 2], 0) == [3, 1, 2]
    assert ranks([100, 100.9, 103, 50], 0.01) == [2.5, 2.5, 4, 1]
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1) and spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1.001], [5, 6], 0.01) is None


def test_intervals_of_differences() -> None:
    few = estimate_difference(np.array([-3.0, -2.0, -1.0]))
    assert few.middle == -2 and few.ci_low == pytest.approx(-2 - 4.303 / math.sqrt(3)) and few.rounds == 3
    many = estimate_difference(np.linspace(-1, 3, 41))
    assert many.middle == pytest.approx(1) and 0 < many.ci_low < 1 < many.ci_high < 2
    assert math.isnan(estimate_difference(np.array([1.0])).ci_low) and estimate_difference(np.zeros(0)).rounds == 0


def test_a_peak_between_two_readings() -> None:
    item = Watched(1, 0)
    item.add_reading(0.0, high_kb=1000, anon_kb=400, file_kb=600)  # what it was before the first reading is not known
    item.add_reading(1.0, high_kb=5000, anon_kb=400, file_kb=700)
    item.add_reading(3.0, high_kb=5000, anon_kb=800, file_kb=900)
    assert item.sampled_peak_bytes == 800 * 1024 and item.peak_bytes == 4300 * 1024
    assert item.mean_bytes == pytest.approx((400 + 600 * 2) / 3 * 1024)
    for i in range(10):
        item.add_reading(4.0 + i, 5000, i, 0)
    times, rss = item.curve(4)
    assert len(rss) == 4 and max(rss) == 800 * 1024 and rss[-1] == 9 * 1024 and times[-1] == 13 * 10**9


def _observe(argv: list[str], name: str, **more: Any) -> ObservedRun:
    with ObservedRun(Start(argv, dict(os.environ)), name, **more) as run:
        run.watch(None, 30, "it")
    return run


def test_a_program_that_holds_50_mb(tmp_path: Path) -> None:
    script = "import time; clock = time.monotonic; begun = clock(); x = b'x' * 50_000_000; filled = clock(); time.sleep(0.2); " \
             "freed = clock(); del x; print(begun, filled, freed); time.sleep(0.2); raise SystemExit(5)"
    library = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line)
    start = Start([PYTHON, "-S", "-c", script], dict(os.environ), stdout=tmp_path / "times")
    with ObservedRun(start, Path(PYTHON).name, library=library, only_root=True) as run:
        run.watch(None, 30, "it")
    (item,) = run.watched
    before = min(item.rss_bytes[len(item.rss_bytes) // 2:])
    assert run.exit_status == 5 and run.wall_s >= 0.4 and item.has_library
    assert 49.9 * MB <= item.peak_bytes - before <= 52 * MB
    begun, filled, freed = map(float, (tmp_path / "times").read_text().split())
    held = (item.mean_bytes - before) / (50 * MB) * (item.times_s[-1] - item.times_s[0])
    assert freed - filled - 0.02 <= held <= freed - begun + 0.02
    assert run.wall_s * 1e9 > run.cpu_ns >= item.cpu_ns > 0.8 * run.cpu_ns


def test_a_peak_at_the_very_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine may read so brief a run often.
    monkeypatch.setattr(observed_run, "_FEW_READINGS", 1_000_000)
    script = "import os, mmap; m = mmap.mmap(-1, 40_000_000, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); os.read(0, 1)\n" \
             "for i in range(0, 40_000_000, 4096): m[i] = 1\nos._exit(0)"
    item = _observe([PYTHON, "-S", "-c", script], Path(PYTHON).name, only_root=True).watched[0]
    assert item.peak_bytes >= 40 * MB > 0 and item.peak_bytes < 52 * MB


def test_descendants_are_found_and_none_is_left() -> None:
    script = f"{PYTHON} -S -c 'x = b\"x\" * 20_000_000; sum(range(2_000_000))'; (setsid sleep 1000 &); kill -9 $$"
    run = _observe(["sh", "-c", script], Path(PYTHON).name)
    assert run.exit_status == 137 and len(run.watched) == 1
    assert run.watched[0].pid != run.pid and run.watched[0].peak_bytes > 20 * MB and run.watched[0].cpu_ns > 5 * MB
    assert not [pid for pid in children(os.getpid()) if "sleep" in Path(f"/proc/{pid}/comm").read_text()]
    with pytest.raises(TimeLimit, match="it did not end within"), ObservedRun(Start(["sleep", "1000"], dict(os.environ))) as slow:
        slow.watch(None, 0.05, "it")


@pytest.mark.parametrize(("status", "words", "arguments"), [
    (2, "expected -- COMMAND", []),
    (2, "expected -- COMMAND", ["--start", "server"]),
    (2, "found both", ["--start", "server", "--load", "load", "--", "true"]),
    (2, "no such program", ["--", "no-such-program"]),
    (2, "no such file", ["--stdin", "/nonexistent", "--", "true"]),
    (1, "/nonexistent/a: cannot write: No such file or directory", ["-o", "/nonexistent/a", "--", "true"]),
    (1, "cannot write: No such file or directory", ["--keep", "/nonexistent/a", "--", "true"]),
    (1, "cannot write: Is a directory", ["-o", "{folder}", "--", "true"]),
    (2, "already exists", ["--keep", "{folder}", "--", "true"]),
    (2, "no-such-allocator", ["--alloc", "glibc,no-such-allocator", "--", "true"]),
    (2, "two allocators or more", ["--alloc", "glibc", "--", "true"]),
    (2, "expected an allocator that a program can use", ["--alloc", "glibc,null", "--", "true"]),
    (2, "--baseline other: expected one of ", ["--alloc", "glibc,bump", "--baseline", "other", "--", "true"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_bad_usage(heaptape_binary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                   status: int, words: str, arguments: list[str], tmp_path: Path) -> None:
    monkeypatch.setenv("HEAPTAPE_REPLAY", str(heaptape_binary.with_name("replay")))
    assert main(["validate", *(word.replace("{folder}", str(tmp_path)) for word in arguments)]) == status
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and words in said.err, said.err


def _validate(binary: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis"), **variables}
    return subprocess.run([binary, "validate", *arguments], capture_output=True, text=True, env=environment, timeout=300,
                          check=False)


# Under jemalloc it fails when it really runs, and under another already in the replay; mimalloc does not serve it, and under bump it prints something else.
PROGRAM = """
case $LD_PRELOAD in
*malloc_wrap*) ;;
*bump*) echo other ;;
*jemalloc*) echo why >&2; exit 4 ;;
*mimalloc*) unset LD_PRELOAD ;;
esac
exec {python} -S -c 'import time; x = [bytes(i % 3000) for i in range(5000)]; time.sleep(0.3); del x; time.sleep(0.1); print(1)'
"""


@pytest.mark.thorough
def test_allocators_that_fail_and_others(heaptape_binary: Path, tmp_path: Path) -> None:
    for name in ("jemalloc", "mimalloc"):
        if not heaptape_binary.with_name(f"replay-{name}").exists():
            pytest.skip(f"{name} is not built in")
    kept, curves = tmp_path / "kept", tmp_path / "curves.jsonl"
    faulty = f"faulty={heaptape_binary.parent}/tests/targets/faulty_malloc.so"
    done = _validate(heaptape_binary, "--alloc", f"glibc,jemalloc,mimalloc,bump,{faulty}", "--rounds", "2", "--replay-rounds", "1",
                     "--json", "--keep", str(kept), "-o", str(curves), "--", "sh", "-c", PROGRAM.format(python=PYTHON),
                     FAULTY_MALLOC="abort")
    assert done.returncode == 1 and done.stdout, done.stderr
    document = json.loads(done.stdout)
    found = {item["name"]: item for item in document["allocators"]}
    for name, words in (("jemalloc", "the program ended with status 4, not with 0 as recorded: why"),
                        ("mimalloc", "was not loaded into"), ("faulty", "in the replay: killed by Aborted")):
        assert words in found[name]["problem"] and "memory" not in found[name] and f"{name}: {found[name]['problem']}" in done.stderr
    assert "differs from the recording's under bump" in document["warnings"][-1]
    assert Path(document["recorded"]["executable"]).name == Path(PYTHON).name and document["recorded"]["calls"] > 10_000
    for name in ("glibc", "bump"):
        assert len(found[name]["runs"]) == 2 and found[name]["cpu"]["real_ns"] > 0
        peak = found[name]["memory"]["peak"]
        assert abs(peak["error"]) < 0.15 and peak["error_low"] <= peak["error"] <= peak["error_high"]
    assert found["bump"]["memory"]["peak"]["real_bytes"] > found["glibc"]["memory"]["peak"]["real_bytes"]
    assert document["agreement"]["peak"]["spearman"] == pytest.approx(1)
    assert document["curve"]["allocator"] == "glibc" and 0 < document["curve"]["difference"] < 0.2
    assert sorted(path.name for path in kept.iterdir()) == ["replay.jsonl", "trace.bin"]
    lines = [json.loads(line) for line in curves.read_text().splitlines()]
    assert {line["curve"] for line in lines} == {"recorded", "predicted", "real"}
    assert all(len(line["time_ns"]) == len(line["rss_bytes"]) > 3 for line in lines)


@pytest.mark.thorough
def test_interrupted(heaptape_binary: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HEAPTAPE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "analysis"), "TMPDIR": str(tmp_path)}
    mark = tmp_path / "pid"
    process = subprocess.Popen([heaptape_binary, "validate", "-o", tmp_path / "out", "--", "sh", "-c", f"echo $$ > {mark}; sleep 1000"],
                               env=environment, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: mark.exists() and mark.read_text().strip(), "the program's start", process=process)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == "" and process.returncode == -signal.SIGINT
    assert not alive(int(mark.read_text())) and [path.name for path in tmp_path.iterdir()] == ["pid"]


@pytest.mark.slow
def test_no_such_process(heaptape_binary: Path) -> None:
    done = _validate(heaptape_binary, "--alloc", "glibc,bump", "--process", "other", "--", "sort", "--version")
    assert (done.returncode, done.stdout) == (1, "") and "no such process was recorded, only sort" in done.stderr


@pytest.mark.slow
def test_sqlite(heaptape_binary: Path, tmp_path: Path) -> None:
    if not shutil.which("sqlite3"):
        pytest.skip("sqlite3 is not installed")
    script = tmp_path / "in.sql"
    script.write_text("create table t(a integer primary key, b text);\n"
                      "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) "
                      "insert into t select i, printf('name%d', i * 7919 % 10000) from n;\n"
                      "create index i on t(b); select b, count(*) from t group by b order by 2, 1 limit 5;\n")
    done = _validate(heaptape_binary, "--rounds", "5", "--replay-rounds", "5", "--json", "--stdin", str(script), "--", "sqlite3", ":memory:")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert not document["warnings"]
    for item in document["allocators"]:
        assert abs(item["memory"]["peak"]["error"]) < 0.1 and abs(item["memory"]["mean"]["error"]) < 0.25, item["name"]
    assert document["agreement"]["peak"]["best"]["agrees"] and document["agreement"]["peak"]["worst"]["agrees"]
    text = _validate(heaptape_binary, "--rounds", "2", "--replay-rounds", "2", "--alloc", "glibc,jemalloc", "-v", "--stdin", str(script),
                     "--", "sqlite3", ":memory:")
    assert text.returncode == 0 and "round 2 of 2: jemalloc" in text.stderr and "rank correlation" in text.stdout


@pytest.mark.slow
def test_redis(heaptape_binary: Path, tmp_path: Path) -> None:
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        pytest.skip("redis is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scripts = ["--start", f"redis-server --port {port} --save '' --dir {tmp_path}", "--ready", f"redis-cli -p {port} ping",
               "--load", f"redis-benchmark -p {port} -n 5000 -r 5000 -t set,get --csv"]
    done = _validate(heaptape_binary, "--alloc", "glibc,jemalloc", "--rounds", "2", "--replay-rounds", "2", "--json", *scripts)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["server"] and Path(document["recorded"]["executable"]).name.startswith("redis")
    for item in document["allocators"]:
        assert item["latency"]["request_p50_ns"] > 0 and item["latency"]["malloc_p99_ns"] > 0
        assert all(run["cpu_ns"] > 0 and run["rss_peak_bytes"] > MB for run in item["runs"])
    scripts[-1] = "echo loud >&2; exit 9"
    done = _validate(heaptape_binary, "--alloc", "glibc,jemalloc", *scripts)
    assert done.returncode == 1 and done.stdout == "" and "--load ended with status 9: loud" in done.stderr
    assert subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, check=False, timeout=60).returncode != 0


def test_data_of_libraries_are_those_of_mapped_files() -> None:
    smaps = """7f0000000000-7f0000002000 r--p 00000000 08:01 7  /usr/lib/a library.so
Anonymous:             4 kB
7f0000002000-7f0000004000 rw-p 00002000 08:01 7  /usr/lib/a library.so
Anonymous:             8 kB
7f0000004000-7f0000104000 rw-p 00000000 00:00 0
Anonymous:          1024 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]
Anonymous:            16 kB
"""
    assert _data_bytes_of(smaps) == 12 * 1024
def test_an_order_of_what_does_not_differ_is_none() -> None:
    from heaptape.validate.table import _order

    assert _order({"spearman": 1.0, "resolved": 0}) == "n/a (no difference resolved)" and _order({"spearman": 1.0, "resolved": 1}) == "1.00"
    for agrees, text in ((None, "n/a (no difference resolved)"), (True, "0.80")):
        assert _order({"spearman": 0.8, "best": {"agrees": agrees}, "worst": {"agrees": None}}) == text


NAMES = ["glibc", "jemalloc", "mimalloc", "tcmalloc"]


@pytest.mark.parametrize(("expected", "actual", "agrees"), [
    (NAMES, NAMES, None), (["glibc"], NAMES, None), (NAMES, ["glibc"], False), (["glibc"], ["glibc", "jemalloc"], True),
    (["glibc"], ["jemalloc"], False),
])
def test_an_end_agrees_where_there_is_one(expected: list[str], actual: list[str], agrees: bool | None) -> None:
    assert _ends_agree(expected, actual, NAMES) is agrees


def test_equal_allocators_have_no_least() -> None:
    ends = {"predicted": NAMES, "real": NAMES, "agrees": None}
    assert _ends_line("peak RSS", ends, ends) == "peak RSS: the allocators do not differ, as predicted"
    other = ends | {"predicted": ["glibc"]}
    assert _ends_line("peak RSS", other, ends) == (
        "peak RSS: the allocators do not differ (predicted: least glibc; most glibc, jemalloc, mimalloc, tcmalloc)")
    one = {"predicted": ["glibc"], "real": ["glibc"], "agrees": True}
    assert _ends_line("peak RSS", one, one | {"agrees": False, "predicted": ["mimalloc"]}) == (
        "peak RSS: least glibc (as predicted); most glibc (predicted: mimalloc)")


def test_the_interval_of_an_error_knows_of_both_runs() -> None:
    """It holds the truth, no error, in 93 % or more of 300 experiments, less two standard errors of 1.5 %."""
    for replayed, real in ((0.01, 0.003), (0.01, 0.01), (0.003, 0.01)):
        rng, held = np.random.default_rng(13), 0
        for _ in range(300):
            found = _error_object(rng.normal(1000, 1000 * replayed, 5).tolist(), [0.0] * 5, pd.Series(rng.normal(1000, 1000 * real, 5)))
            held += found["error_low"] <= 0 <= found["error_high"]
        assert held >= 0.93 * 300 - 9


def test_one_round_has_no_least() -> None:
    rounds = pd.DataFrame({"glibc": [100.0, 101.0, 99.0], "mimalloc": [90.0, 91.0, 89.0]})
    assert _extremes(rounds, ["glibc", "mimalloc"], False) == ["mimalloc"]
    assert _extremes(rounds[:1], ["glibc", "mimalloc"], False) == ["glibc", "mimalloc"]
