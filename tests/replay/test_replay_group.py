# SPDX-License-Identifier: Apache-2.0
"""`replay` of a group's trace, held against programs that know what they wrote and what they take under each allocator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import refresh
from group_files import SECTION, read_group
from heaptape.group.estimate import estimates
from heaptape.group.runs import read_runs
from heaptape.group.trace import of_info
from naive_writer import assemble, encode_json
from quick_tier import quick
from test_replay_faults import children_of, faulty
from tool_runner import Argument, Tools, clean_environment, run
from waiting import alive, wait_until

ROOT = Path(__file__).resolve().parents[2]
ALLOCATORS = ["glibc", "jemalloc", "tcmalloc", "mimalloc"]
KINDS = ["generations", "replaced", "silent", "forking-thread", "executed", "daemon"]


@dataclass(frozen=True)
class Program:
    """tests/targets/group_known.c"""

    kind: str
    blocks: int = 40000
    workers: int = 3
    threads: int = 2
    stays_s: int = 0

    def words(self, tools: Tools, written: str | Path = "-", blocks: int | None = None) -> list[str]:
        numbers = (self.blocks if blocks is None else blocks, self.workers, self.threads, self.stays_s)
        return [str(tools.target("group_known")), self.kind, *map(str, numbers), str(written)]


@dataclass(frozen=True)
class Recorded:
    program: Program
    trace: Path
    written: Path


def record(tools: Tools, folder: Path, program: Program, *, snapshots: bool = False) -> Recorded:
    written, logs, trace = folder / "written", folder / "logs", folder / "service.bin"
    words = program.words(tools, written)
    done = tools.record(words, logs, "-q", "--group") if snapshots else tools.preload(words, logs)
    assert done.outcome.status == 0 and int(done.outcome.stdout), done.outcome.stderr
    tools.succeed([tools.heaptape, "convert", "-q", "--group", "-o", trace, logs])
    lines = [tuple(map(int, line.split())) for line in written.read_text().splitlines()]
    written.write_text("".join(f"{' '.join(map(str, line))}\n" for line in sorted(lines)))
    return Recorded(program, trace, written)


def libraries(tools: Tools) -> dict[str, str]:
    listed = json.loads(tools.succeed([tools.replay_program, "--list", "--json"]).stdout)
    return {one["name"]: one["path"] for one in listed if one["name"] in ALLOCATORS}


def real_bytes(tools: Tools, program: Program, library: str | None, blocks: int | None = None) -> int:
    done = tools.succeed(program.words(tools, blocks=blocks), env={"LD_PRELOAD": library} if library else {})
    return int(done.stdout) * 1024


def heap_bytes(tools: Tools, program: Program, library: str | None) -> int:
    """Without what the program has beside its heap, as it is nearly alone without blocks under glibc."""
    return real_bytes(tools, program, library) - real_bytes(tools, program, None, blocks=0)


def replay(tools: Tools, trace: Path, allocators: list[str], *more: str, written: Path | None = None) -> list[dict]:
    results = trace.parent / "results.jsonl"
    results.unlink(missing_ok=True)
    env = {"HEAPTAPE_WRITTEN": str(written)} if written else {}
    rounds = [] if "--rounds" in more else ["--rounds", "1"]
    tools.succeed([tools.replay_program, "-q", *rounds, *more, "-o", results, "--alloc", ",".join(allocators), trace], env=env)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert all(line["problem"] is None and line["pass"] == "group" for line in lines)
    return lines


def end_bytes(lines: list[dict], name: str) -> list[float]:
    return [line["group_end_bytes"] for line in lines if line["allocator"]["name"] == name]


# ---- figures ----


@pytest.fixture(scope="module")
def workers(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tools, tmp_path_factory.mktemp("workers"), Program("workers", 100_000))


@pytest.fixture(scope="module")
def small(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tools, tmp_path_factory.mktemp("small"), Program("generations", 2000, workers=2, threads=1))


def check_known(tools: Tools, recorded: Recorded, tolerance: float) -> None:
    """One run in forty takes 2 MB more under tcmalloc, by where its memory lies, and threads that meet in time take more under jemalloc:
    the replays and the program's own runs are a range each, and the ranges meet."""
    known = libraries(tools)
    lines = replay(tools, recorded.trace, list(known), "--rounds", "2", written=recorded.written)
    assert {line["drawn"] for line in lines} == {"given"}
    for name, library in known.items():
        real = [heap_bytes(tools, recorded.program, None if name == "glibc" else library) for _ in range(3)]
        replayed = end_bytes(lines, name)
        assert min(replayed) <= max(real) * (1 + tolerance), (name, replayed, real)
        assert max(replayed) >= min(real) * (1 - tolerance), (name, replayed, real)


def test_known_writes(tools: Tools, workers: Recorded) -> None:
    check_known(tools, workers, 0.015)


@pytest.mark.parametrize("kind", quick(["forking-thread"], KINDS))
def test_kinds(tools: Tools, tmp_path: Path, kind: str) -> None:
    """What is given is written at the end: where a process forked meanwhile, some that it wrote before would have been shared."""
    check_known(tools, record(tools, tmp_path, Program(kind)), 0.06 if kind == "generations" else 0.03)


@pytest.mark.slow
def test_thirty_workers(tools: Tools, tmp_path: Path) -> None:
    check_known(tools, record(tools, tmp_path, Program("workers", 20000, workers=30)), 0.03)


def test_from_snapshots(tools: Tools, tmp_path: Path) -> None:
    """What the program wrote is drawn from the pages that were copied."""
    program = Program("workers", 60000)
    recorded = record(tools, tmp_path, replace(program, stays_s=2), snapshots=True)
    known = libraries(tools)
    lines = replay(tools, recorded.trace, list(known))
    assert {line["drawn"] for line in lines} == {"apart", "together"}
    real = {name: real_bytes(tools, program, None if name == "glibc" else library) for name, library in known.items()}
    for name in known:
        # Here blocks are written apart from each other.
        apart, together = (next(line["group_moment_bytes"] for line in lines if (line["allocator"]["name"], line["drawn"]) == (name, drawn))
                           for drawn in ("apart", "together"))
        assert apart == pytest.approx(real[name], rel=0.1) and apart < 1.05 * together, name
    runs = read_runs(tmp_path / "results.jsonl")
    found = estimates(of_info(recorded.trace, tools.info(recorded.trace)), runs, "glibc")
    assert not found.unjudged and len(found.others) == len(known) - 1
    for one in found.others:
        assert one.low_bytes <= real[one.name] - real["glibc"] <= one.high_bytes, one


# ---- options ----


def test_a_purge_before_each_fork(tools: Tools, small: Recorded) -> None:
    (plain, purged) = (replay(tools, small.trace, ["glibc"], *more, written=small.written)[0] for more in ([], ["--purge", "fork"]))
    assert not plain["purged_at_fork"] and purged["purged_at_fork"]
    assert 0 < purged["group_end_bytes"] < 1.05 * plain["group_end_bytes"]


def refused(tools: Tools, *words: Argument, status: int) -> str:
    done = run([tools.replay_program, "--alloc", "glibc", *words], timeout=20)
    assert (done.returncode, done.stdout) == (status, b""), (words, done.stderr)
    (line,) = done.stderr.decode().splitlines()
    return line


@pytest.mark.parametrize("words", [
    "--extend=1h", "--snapshots=x", "--memory-max=1G", "--verify", "--pass=verify", "--pass=count", "--pass=time", "--pass=limit --memory-max=search",
    "--instructions", "--scale=2", "--threads=1", "--age=0.5", "--fail-if=rss_peak>1 --alloc=jemalloc", "--baseline-file=x", "--write-baseline=x", "--wrap=env", "--purge=1s",
    "--pace=real", "--budget=1m", "--repeats=2", "--pollute=1M", "--points=100", "--max-live=1G", "--window-ns=100000", "--layout=fixed"])
def test_options_that_mean_nothing_to_a_group(tools: Tools, small: Recorded, tmp_path: Path, words: str) -> None:
    """None is taken and ignored."""
    (tmp_path / "x").write_text("{}")
    line = refused(tools, *words.replace("=x", f"={tmp_path}/x").split(), small.trace, status=2)
    option = words.split("=")[0]
    assert option in line or "--pass" in line or "--memory-max" in line, line
    assert "group of processes" in line and str(small.trace) in line, line


def test_one_process_has_no_forks(tools: Tools) -> None:
    line = refused(tools, "--purge=fork", ROOT / "traces" / "sqlite3-small.bin", status=2)
    assert line.endswith("--purge fork is for the trace of a group of processes")


def test_json_and_results(tools: Tools, small: Recorded, tmp_path: Path) -> None:
    results = tmp_path / "r.jsonl"
    done = tools.succeed([tools.replay_program, "-q", "--json", "--rounds", "2", "--seed", "5", "-o", results, "--alloc", "glibc,jemalloc", small.trace])
    lines = json.loads(done.stdout)
    assert lines == [json.loads(line) for line in results.read_text().splitlines()] and not done.stderr
    # Without a snapshot nothing is drawn.
    assert [(line["allocator"]["name"], line["round"], line["seed"], line["drawn"]) for line in lines] == [
        (name, number, 5 + number, "none") for number in (0, 1) for name in ("glibc", "jemalloc")]
    assert all(line["group_moment_bytes"] is None and line["moments"] == [] and line["group_peak_bytes"] >= line["group_end_bytes"] for line in lines)
    times = lines[0]["timeline"]["time_ns"]
    assert times == sorted(times) and len(times) == len(lines[0]["timeline"]["group_bytes"]) == 100
    text = tools.succeed([tools.replay_program, "-q", "--rounds", "1", "--alloc", "glibc", small.trace]).stdout.decode()
    assert text.startswith("anonymous memory of 5 processes") and "no snapshot was recorded" in text


# ---- ends ----


class Running:
    """A replay of very many rounds that has begun. Left, it ends."""

    def __init__(self, tools: Tools, trace: Path, *more: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen([tools.replay_program, "-q", "--rounds", "100000", "--alloc", "glibc", *more, trace], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, start_new_session=True, env=clean_environment(env))

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)

    def family(self, processes: int) -> list[int]:
        """The root, then others."""
        def found() -> list[int]:
            all_of_them = children_of(self.process.pid)
            return all_of_them if sum(map(alive, all_of_them)) >= processes else []
        return wait_until(found, "all have been forked", process=self.process, every_s=0.001)

    def end(self) -> tuple[int, list[str]]:
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode().splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped(tools: Tools, workers: Recorded, tmp_path: Path, number: signal.Signals) -> None:
    with Running(tools, workers.trace, "-o", str(tmp_path / "r.jsonl")) as replay:
        family = replay.family(3)
        replay.process.send_signal(number)
        wait_until(lambda: not any(map(alive, family)), "all have ended", within_s=5)
        status, said = replay.end()
    assert status == -number
    if number == signal.SIGKILL:
        assert not said
    else:
        (line,) = said
        assert line.startswith("heaptape replay: stopped ")


@pytest.mark.parametrize("which", [0, -1], ids=["root", "worker"])
def test_a_process_is_killed(tools: Tools, workers: Recorded, which: int) -> None:
    with Running(tools, workers.trace) as replay:
        family = replay.family(3)
        os.kill(family[which], signal.SIGKILL)
        status, said = replay.end()
    (line,) = said
    assert status == 1 and "SIGKILL" in line, line
    assert not any(map(alive, family))


def test_a_process_is_stopped_for_a_while(tools: Tools, workers: Recorded) -> None:
    """It is missed by nobody before it goes on."""
    with Running(tools, workers.trace) as replay:
        family = replay.family(3)
        os.kill(family[-1], signal.SIGSTOP)
        time.sleep(0.7)
        assert replay.process.poll() is None
        os.kill(family[-1], signal.SIGCONT)
        time.sleep(0.5)
        assert replay.process.poll() is None


def test_a_run_that_takes_too_long(tools: Tools, small: Recorded) -> None:
    done = run([tools.replay_program, "-q", "--rounds", "1", "--alloc", faulty(tools), "--timeout", "1s", small.trace], env={"FAULTY_MALLOC": "hang"})
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1 and line.endswith("was killed after 1 s (--timeout)"), line


@pytest.mark.slow
def test_a_process_that_hangs(tools: Tools, small: Recorded) -> None:
    """No other one would ever go on."""
    done = run([tools.replay_program, "-q", "--rounds", "1", "--alloc", faulty(tools), small.trace], env={"FAULTY_MALLOC": "hang_forked"}, timeout=200)
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1 and line.endswith("its processes hung without CPU time for 60 s and were ended"), line


# ---- what is wrong with a trace ----


def sections_of(data: bytes) -> list[bytes]:
    at, found = 64, []
    while data[at : at + 8] != b"HTAPEEND":
        size = SECTION.size + SECTION.unpack_from(data, at)[4]
        found.append(data[at : at + size])
        at += size
    return [section for section in found if section[4] != 7]  # the index


def edited(trace: Path, path: Path, change: Callable[[dict], None]) -> Path:
    """The same with another context."""
    data, context = trace.read_bytes(), read_group(trace).context
    change(context["group"])
    sections = [encode_json(1, context, True) if section[4] == 1 else section for section in sections_of(data)]
    path.write_bytes(assemble(data[:64], sections)[0])
    return path


def test_an_edited_trace_is_as_good(tools: Tools, small: Recorded, tmp_path: Path) -> None:
    replay(tools, edited(small.trace, tmp_path / "t.bin", lambda group: None), ["glibc"])


@pytest.mark.parametrize(("where", "value", "line"), [
    ((1, "fork_event"), 10**9, "within the parent's events"), ((1, "fork_event"), 5, "to inherit the"), ((1, "fork_event"), -1, "fork_event"),
    ((1, "inherited"), 10**6, "layout"), ((1, "parent"), 1, "parent"), ((1, "parent"), 3, "parent"), ((2, "parent"), None, "layout"),
    ((1, "end_ns"), 0, "ends after it began"), ((2, "start_ns"), 2**63 - 1, "ends after it began"), ((0, "start_ns"), 7, "time 0"),
    ((0, "parent"), 0, "parent"), ((3, "layout_pages"), 1, "page of the layout"), ((1, "name"), "x" * 99, "name"), ((1, "presence"), [None], "presence")])
def test_contradictions(tools: Tools, small: Recorded, tmp_path: Path, where: tuple[int, str], value: object, line: str) -> None:
    def change(group: dict) -> None:
        group["processes"][where[0]][where[1]] = value
    assert line in refused(tools, edited(small.trace, tmp_path / "t.bin", change), status=3)


def test_odd_times(tools: Tools, small: Recorded, tmp_path: Path) -> None:
    """Whatever they are, all processes meet and end."""
    last = max(one["end_ns"] for one in read_group(small.trace).processes)
    for number, (who, start_ns, end_ns) in enumerate([(1, 0, 0), (1, last, last), (1, 0, last), (1, last * 9, last * 9), (2, 1, 1), (2, last * 3, last * 4), (0, 0, 0), (0, 0, last * 7)]):
        def change(group: dict, who: int = who, start_ns: int = start_ns, end_ns: int = end_ns) -> None:
            group["processes"][who].update(start_ns=start_ns, end_ns=end_ns)
        trace = edited(small.trace, tmp_path / f"{number}.bin", change)
        done = run([tools.replay_program, "-q", "--rounds", "1", "--alloc", "glibc", trace], timeout=20)
        assert done.returncode in (0, 3) and done.stderr.count(b"\n") == (done.returncode == 3), (who, start_ns, end_ns, done.stderr)


def test_damage(tools: Tools, small: Recorded, tmp_path: Path) -> None:
    whole, path = small.trace.read_bytes(), tmp_path / "t.bin"
    for at in range(0, len(whole), max(len(whole) // 40, 1)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        refused(tools, path, status=3)
        path.write_bytes(whole[:at])
        refused(tools, path, status=3)
    assert "group.bin" in refused(tools, refresh.write(tmp_path, "group.bin"), status=3)
