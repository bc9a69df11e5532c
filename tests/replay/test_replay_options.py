# SPDX-License-Identifier: Apache-2.0
"""Every option that `heaptape replay --help` lists does what it says: none is parsed and ignored."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replay_traces
from tool_runner import Argument, Tools, run

Row = dict


class Bench:
    """Replays of one trace, as short as they can be."""

    def __init__(self, tools: Tools, folder: Path) -> None:
        self.tools, self.folder = tools, folder
        self.trace = replay_traces.made(tools, folder, events=20_000, threads=3)
        self.count = 0

    def rows(self, *options: Argument, alloc: str = "glibc", rounds: int | None = 1,
             trace: Path | None = None) -> list[Row]:
        """The results of all but the null replayer, by -o."""
        self.count += 1
        results = self.folder / f"results{self.count}.jsonl"
        self.tools.succeed([self.tools.replay_program, "--alloc", alloc, *(["--rounds", str(rounds)] if rounds else []),
                            *options, "-o", results, trace or self.trace], cwd=self.folder)
        return [row for row in replay_traces.rows(results) if row["allocator"]["name"] != "null"]

    def row(self, pass_name: str, *options: Argument, **more) -> Row:
        [row] = self.rows("--pass", pass_name, *options, **more)
        return row

    def said(self, *options: Argument) -> tuple[str, str]:
        done = self.tools.succeed([self.tools.replay_program, "--alloc", "glibc", "--rounds", "1",
                                   *options, self.trace])
        return done.stdout.decode(), done.stderr.decode()

    def syscalls(self, pass_name: str, *options: Argument) -> str:
        if not shutil.which("strace"):
            pytest.skip("no strace here")
        log = self.folder / "strace.txt"
        log.unlink(missing_ok=True)
        self.rows("--pass", pass_name, "--wrap", f"strace -f -A -o '{log}'", *options)
        return log.read_text()


@pytest.fixture(scope="module")
def bench(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tools, tmp_path_factory.mktemp("options"))


def check_alloc(bench: Bench) -> None:
    rows = bench.rows(alloc="glibc,jemalloc")
    assert {row["allocator"]["name"] for row in rows} == {"glibc", "jemalloc"}


def check_baseline(bench: Bench) -> None:
    for name in ("glibc", "jemalloc"):
        out, _ = bench.said("--alloc", "jemalloc", "--baseline", name)
        assert f"vs {name}" in out


def check_decoded_memory(bench: Bench) -> None:
    trace = replay_traces.made(bench.tools, bench.folder, events=200_000)
    assert not bench.row("time", trace=trace)["streamed"]
    assert bench.row("time", "--decoded-memory", "1", trace=trace)["streamed"]
    assert not bench.row("time", "--decoded-memory", "1G", trace=trace)["streamed"]


def check_json(bench: Bench) -> None:
    out, _ = bench.said("--json")
    assert json.loads(out)["allocators"][0]["name"] == "glibc"


def check_list(bench: Bench) -> None:
    listed = bench.tools.succeed([bench.tools.replay_program, "--list"]).stdout.decode()
    assert "glibc" in [line.split()[0] for line in listed.splitlines()]


def check_max_live(bench: Bench) -> None:
    done = run([bench.tools.replay_program, "--alloc", "glibc", "--max-live", "1K", bench.trace])
    assert done.returncode == 1 and b"--max-live" in done.stderr


def check_output(bench: Bench) -> None:
    results = bench.folder / "appended.jsonl"
    for times in (1, 2):
        bench.said("-o", results)
        assert len(replay_traces.rows(results)) == 4 * times


def check_pace(bench: Bench) -> None:
    """Trace time makes jemalloc give memory back in a trace that lasts long; real time does not."""
    trace = replay_traces.paused(bench.tools, bench.folder)
    purged = bench.row("memory", "--pace", "virtual", alloc="jemalloc", trace=trace)
    kept = bench.row("memory", "--pace", "none", alloc="jemalloc", trace=trace)
    assert (purged["pace"], kept["pace"]) == ("virtual", "none")
    assert purged["rss_end_bytes"] < 0.5 * kept["rss_end_bytes"]


def check_purge(bench: Bench) -> None:
    """Without trace time jemalloc keeps free pages."""
    trace = replay_traces.paused(bench.tools, bench.folder)
    kept, purged = (bench.row("memory", "--pace", "none", *words, alloc="jemalloc", trace=trace) for words in ((), ("--purge", "1s")))
    assert (kept["purge_ns"], purged["purge_ns"]) == (0, 1_000_000_000)
    assert purged["rss_end_bytes"] < 0.5 * kept["rss_end_bytes"]


def check_pass(bench: Bench) -> None:
    assert {row["pass"] for row in bench.rows("--pass", "time")} == {"time"}
    assert {row["pass"] for row in bench.rows("--pass", "memory")} == {"memory"}
    assert {row["pass"] for row in bench.rows("--pass", "both")} == {"time", "memory"}
    assert {row["pass"] for row in bench.rows("--pass", "verify", rounds=None)} == {"verify"}


def check_pollute(bench: Bench) -> None:
    assert bench.row("time", "--pollute", "500")["pollution_bytes"] == 500 << 10
    size = f"mmap(NULL, {500 << 10}, "  # the digits alone may be part of an address
    assert size in bench.syscalls("time", "--pollute", "500")
    assert size not in bench.syscalls("time")


def check_quiet(bench: Bench) -> None:
    out, err = bench.said()
    quiet_out, quiet_err = bench.said("-q")
    assert "next: " in err and quiet_err == "" and "glibc" in out and "glibc" in quiet_out


def check_rounds(bench: Bench) -> None:
    assert [row["round"] for row in bench.rows("--pass", "memory", rounds=3)] == [0, 1, 2]


def check_seed(bench: Bench) -> None:
    short = replay_traces.made(bench.tools, bench.folder, events=1000)

    def order(seed: int) -> list[str]:
        rows = bench.rows("--pass", "memory", "--seed", str(seed), alloc="glibc,jemalloc", rounds=4, trace=short)
        assert {row["seed"] for row in rows} == {seed}
        return [row["allocator"]["name"] for row in rows]
    assert order(5) == order(5) != order(6)


def check_threads(bench: Bench) -> None:
    assert bench.row("time")["replay_threads"] == 3
    assert bench.row("time", "--threads", "trace")["replay_threads"] == 3
    assert bench.row("time", "--threads", "1")["replay_threads"] == 1


def check_timeout(bench: Bench) -> None:
    done = run([bench.tools.replay_program, "--alloc", "glibc", "--timeout", "1ns", bench.trace])
    assert done.returncode == 1 and b"(--timeout)" in done.stderr


def check_touch(bench: Bench) -> None:
    one = replay_traces.huge(bench.tools, bench.folder, size=50_000_000)
    peaks = {touch: bench.row("memory", "--touch", touch, trace=one)["rss_peak_bytes"]
             for touch in ("none", "first", "recorded", "pages", "all")}
    assert peaks["none"] < 1_000_000 and peaks["first"] < 1_000_000
    assert all(peaks[touch] > 49_000_000 for touch in ("recorded", "pages", "all"))


def check_touch_free(bench: Bench) -> None:
    one = replay_traces.huge(bench.tools, bench.folder, size=50_000_000)
    rows = {how: bench.row("memory", "--touch", "none", "--touch-free", how, trace=one)
            for how in ("none", "read", "write")}
    assert rows["none"]["minor_faults"] < 1000
    # Pages that nobody wrote are read as zeros: a fault each, and no memory.
    assert rows["read"]["minor_faults"] > rows["none"]["minor_faults"]
    assert rows["write"]["minor_faults"] > rows["none"]["minor_faults"]
    assert {how: row["touch_free"] for how, row in rows.items()} == {how: how for how in rows}


def check_verify(bench: Bench) -> None:
    assert bench.rows("--verify")[0]["pass"] == "verify"


def check_verbose(bench: Bench) -> None:
    assert "ns/call" not in bench.said()[0]
    assert "ns/call" in bench.said("-v")[0]


def check_window_ns(bench: Bench) -> None:
    """A wide window lets threads run apart: they wait for each other less often."""
    bench.trace, trace = replay_traces.independent(bench.tools, bench.folder), bench.trace
    narrow = bench.syscalls("memory", "--window-ns", "100000").count("futex(")
    wide = bench.syscalls("memory", "--window-ns", "1000000000000").count("futex(")
    bench.trace = trace
    assert narrow > 200 and wide < narrow / 4


def check_wrap(bench: Bench) -> None:
    mark = bench.folder / "wrapped"
    bench.rows("--wrap", f"sh -c 'echo >> {mark}; \"$0\" \"$@\"'")
    assert len(mark.read_text()) >= 6  # glibc's and null's: time, timed, memory


CHECKS: dict[str, Callable[[Bench], None]] = {
    name.removeprefix("check_").replace("_", "-"): check
    for name, check in list(globals().items()) if name.startswith("check_")
}


def listed_options(tools: Tools) -> list[str]:
    text = tools.succeed([tools.replay_program, "--help"]).stdout.decode()
    return re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.MULTILINE)


def test_every_option_is_tried(tools: Tools) -> None:
    """Here, or in a test file of its own."""
    tests = Path(__file__).parent.parent
    others = "".join(path.read_text() for path in (*tests.glob("replay/test_replay_*.py"), *tests.glob("simulate/test_*.py"), *tests.glob("extend/test_*.py"))
                     if path != Path(__file__))
    own = {"help", "usage", "version"}  # argp's
    listed = set(listed_options(tools))
    assert not set(CHECKS) - listed, "checks of options that are gone"
    untried = {name for name in listed - own - set(CHECKS) if f'"--{name}"' not in others}
    assert not untried


PASSES = {name: ["--pass", name] for name in ("time", "memory", "both", "verify", "count")}
PASSES |= {"limit": ["--pass", "limit", "--memory-max", "1G"], "snapshots": ["--snapshots", "folder"], "list": ["--list"]}
ROUNDS = "time memory both"
ALL = f"{ROUNDS} verify limit count snapshots"
# What each option takes for a value, and the passes to which it means something.
TAKEN = {
    "alloc": ("glibc", f"{ALL} list"), "output": ("r.jsonl", f"{ROUNDS} verify limit count"), "rounds": ("3", ROUNDS), "budget": ("9s", ROUNDS),
    "repeats": ("2", "time both"), "seed": ("1", ALL), "layout": ("fixed", f"{ROUNDS} verify snapshots"),
    "splice": ("a.acc", "count"), "at": ("end", "snapshots"), "verify": (None, ALL), "threads": ("1", ALL),
    "scale": ("2", f"{ROUNDS} verify limit count"), "cpus": ("3", ALL), "memory-max": ("1G", f"{ROUNDS} verify limit"), "extend": ("1h", ALL),
    "touch": ("none", f"{ROUNDS} limit count snapshots"), "touch-free": ("none", f"{ROUNDS} limit count snapshots"),
    "pollute": ("500", "time both snapshots"), "pace": ("none", ALL), "age": ("0.5", ROUNDS), "thp": ("never", f"{ROUNDS} verify limit snapshots"),
    "purge": ("1s", "memory both limit snapshots"), "window-ns": ("100000", f"{ROUNDS} verify limit snapshots"), "max-live": ("1G", ALL),
    "timeout": ("9s", ALL), "wrap": ("env", f"{ROUNDS} verify snapshots"), "decoded-memory": ("1", ALL), "points": ("3", "memory both"),
    "baseline": ("glibc", ROUNDS), "fail-if": ("rss_end>2", "memory both"), "baseline-file": ("b.json", "memory both count"),
    "write-baseline": ("b.json", "memory both count"), "instructions": (None, f"{ROUNDS} count"), "profile": (None, ROUNDS),
    "json": (None, f"{ROUNDS} limit count list"), "quiet": (None, f"{ALL} list"), "verbose": (None, f"{ROUNDS} verify list"),
}


def status_and_words(tools: Tools, words: list[str]) -> tuple[int, str]:
    done = run([tools.replay_program, *words])
    return done.returncode, done.stderr.decode().partition("\n")[0]


@pytest.mark.parametrize("name", TAKEN)
def test_no_option_is_ignored(tools: Tools, name: str) -> None:
    """An option that means nothing to a pass is refused in one line, before anything runs."""
    value, passes = TAKEN[name]
    for one, words in PASSES.items():
        trace = [] if one == "list" else ["missing.bin"]
        status, said = status_and_words(tools, [*words, f"--{name}" if value is None else f"--{name}={value}", *trace])
        if one in passes.split():
            assert status == (0 if one == "list" else 3), (one, said)
        else:
            assert status == 2 and said.startswith("heaptape replay: -"), (one, said)


def test_every_option_has_its_passes(tools: Tools) -> None:
    assert set(TAKEN) == set(listed_options(tools)) - {"help", "usage", "version", "pass", "snapshots", "list"}


@pytest.mark.parametrize(("words", "expected"), [
    (["--memory-max", "1G", "--pass", "limit", "--repeats", "2"], "--repeats: expected --pass time or both"),
    (["--pass", "time", "--purge", "1s"], "--purge: expected --pass memory, both or limit, or --snapshots"),
    (["--pass", "time", "--pace", "time=none,memory=real"], "--pace memory=: expected --pass memory, both, verify or limit, or --snapshots"),
    (["--pass", "memory", "--pace", "time=none"], "--pace time=: expected --pass time, both or count, or --snapshots"),
    (["--pass", "count", "--baseline", "glibc"], "--baseline: expected --splice or --fail-if with --pass count"),
    (["--pass", "count", "--splice", "a.acc", "--touch", "all"], "--splice: the program's own accesses touch memory: expected no --touch"),
    (["--list", "--rounds", "3"], "--rounds: expected no --list")])
def test_what_is_refused(tools: Tools, words: list[str], expected: str) -> None:
    status, said = status_and_words(tools, [*words, "missing.bin"])
    assert status == 2 and said.startswith(f"heaptape replay: {expected}"), said


def test_what_another_pass_takes(tools: Tools) -> None:
    """A pass beside the first is enough."""
    for words in (["--pass", "verify", "--memory-max", "1G", "--purge", "1s"], ["--pass", "limit", "--memory-max", "1G", "--verify", "-v"],
                  ["--pass", "count", "--verify", "--layout", "fixed"], ["--pass", "both", "--pace", "time=none,memory=real"]):
        assert status_and_words(tools, [*words, "missing.bin"])[0] == 3


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHECKS)
def test_option(bench: Bench, name: str) -> None:
    CHECKS[name](bench)
