# SPDX-License-Identifier: Apache-2.0
"""Runs the built tools and targets the way a user's shell would, and reads what they print."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from any_parent import kill_children
from waiting import wait_until

TALLY_FIRST = 7000  # tests/targets/target_support.h
TALLY_SIZES = 1000
PARENT_PID_OFFSET = 32  # docs/reference/raw-log-format.md
MARKER_BEGIN = "malloc(54321) = "
MARKER_END = "malloc(54323) = "

# Left out of every environment: what the person who runs the tests happens to have set would
# otherwise record the tests, or change the allocators.
FOREIGN_VARIABLES = ("LD_PRELOAD", "MALLOC_WRAP_OUT", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES",
                     "PYTHONMALLOC", "MALLOC_CONF", "COLUMNS", "NO_COLOR")
# Set for a whole run, programs are recorded with call sites; what tests compare are the calls.
RECORDS_SITES = "MALLOC_WRAP_SITES" in os.environ

Argument = str | Path


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k not in FOREIGN_VARIABLES}
    # tcmalloc writes to stderr about requests that are too large; some targets make them on purpose.
    environment["TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD"] = "0"
    # Wherever the tests' own folder lies.
    environment["MALLOC_WRAP_ANY_FOLDER"] = "1"
    environment.update(extra or {})
    return environment


def run(command: Sequence[Argument], *, env: Mapping[str, str] | None = None,
        cwd: Path | None = None, timeout: float = 120,
        stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([str(word) for word in command], input=stdin, capture_output=True,
                              env=clean_environment(env), cwd=cwd, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        kill_children()  # those of the command, too
        raise


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a program."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Recording:
    outcome: Outcome
    logs: list[Path]


def outcome_of(done: subprocess.CompletedProcess[bytes]) -> Outcome:
    return Outcome(done.returncode, done.stdout, done.stderr)


class Tools:
    def __init__(self, build: Path) -> None:
        self.build = build
        self.heaptape = build / "heaptape"
        self.replay_program = build / "replay"
        self.shim = build / "libmalloc_wrap.so"
        self.targets = build / "tests" / "targets"

    def target(self, name: str) -> Path:
        """A target program; those with an allocator of their own exist only where it is installed."""
        path = self.targets / name
        if path.exists():
            return path
        if name.endswith(("_jemalloc", "_tcmalloc", "_mimalloc")):
            pytest.skip(f"{name} was not built: that allocator's library is not installed")
        pytest.fail(f"{path} was not built", pytrace=False)

    def is_sound(self, name: str) -> bool:
        """Whether this allocator passes a torture: mimalloc 3.0.1, which Debian 13 has, gives out blocks that overlap others."""
        listed = json.loads(self.succeed([self.replay_program, "--list", "--json"]).stdout)
        return ("mimalloc", "3.0.1") not in [(one["name"], one["version"]) for one in listed if one["name"] == name]

    def preload(self, command: Sequence[Argument], logs: Path, *,
                env: Mapping[str, str] | None = None, **options) -> Recording:
        """The program under the bare shim, as in LD_PRELOAD=... ./app"""
        logs.mkdir(exist_ok=True)
        wanted = {"LD_PRELOAD": str(self.shim), "MALLOC_WRAP_OUT": str(logs), **(env or {})}
        done = run(command, env=wanted, **options)
        return Recording(outcome_of(done), logs_in(logs))

    def record(self, command: Sequence[Argument], logs: Path, *words: Argument,
               env: Mapping[str, str] | None = None, **options) -> Recording:
        """The program under the record verb, which is given those words."""
        logs.mkdir(exist_ok=True)
        done = run([self.heaptape, "record", *words, "-o", logs, "--", *command], env=env, **options)
        return Recording(outcome_of(done), logs_in(logs))

    def convert(self, log: Path, trace: Path, *more: Argument) -> Path:
        self.succeed([self.heaptape, "convert", log, "-o", trace, *more])
        return trace

    def info(self, trace: Path) -> dict:
        return json.loads(self.succeed([self.heaptape, "info", trace, "--json"]).stdout)

    def dump(self, trace: Path) -> list[str]:
        done = self.succeed([self.heaptape, "dump", "--no-time", trace])
        return as_without_sites(done.stdout.decode()).splitlines()

    def replay(self, trace: Path, allocator: str, results: Path, *more: Argument) -> list[dict]:
        self.succeed([self.replay_program, "--alloc", allocator, "--rounds", "1", trace,
                      "-o", results, *more], timeout=300)
        return [json.loads(line) for line in results.read_text().splitlines()]

    def control(self, pid: int | str, word: str) -> str:
        """`heaptape ctl`, and until the program has noticed: on a busy machine the verb ends before."""
        done = self.succeed([self.heaptape, "ctl", pid, word])
        now = {"pause": b"paused", "resume": b"recording"}[word]
        wait_until(lambda: self.succeed([self.heaptape, "ctl", pid, "status"]).stdout.startswith(now), f"{word}d")
        return (done.stdout + done.stderr).decode()

    def succeed(self, command: Sequence[Argument], **options) -> subprocess.CompletedProcess[bytes]:
        done = run(command, **options)
        assert done.returncode == 0, (
            f"{' '.join(map(str, command))}\nstatus {done.returncode}\n"
            f"{done.stderr.decode(errors='replace')}")
        return done

    def convert_clean(self, log: Path, trace: Path, unseen_max: int = 0) -> dict:
        """Converts, and holds the trace to what every faithful recording must show; each call that
        nobody could see may make one free foreign, or one allocation a surprise."""
        info = self.info(self.convert(log, trace))
        assert info["anomalies"] <= unseen_max, f"{log.name}: {info['anomalies']} anomalies"
        # What a forked child inherited is in its parent's log, which lies beside its own.
        assert info["foreign_frees"] <= unseen_max, \
            f"{log.name}: {info['foreign_frees']} foreign frees"
        assert not info["truncated"]
        assert info["events"] == sum(info["ops"].values())
        return info


def logs_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("malloc-footprint.*.mraw"))


def parent_pid(log: Path) -> int:
    """The process that the log's was forked from, as its header names it; 0 if it was not."""
    with log.open("rb") as file:
        return struct.unpack_from("<I", file.read(64), PARENT_PID_OFFSET)[0]


def is_forked(log: Path) -> bool:
    return parent_pid(log) != 0


def read_tallies(path: Path) -> dict[int, int]:
    """The counters that a target kept in a shared file: size to calls."""
    counts = struct.unpack(f"{TALLY_SIZES}Q", path.read_bytes())
    return {TALLY_FIRST + i: n for i, n in enumerate(counts) if n}


SITE = re.compile(r" site \d+ \(.*$", re.MULTILINE)


def as_without_sites(dump: str) -> str:
    """Where the run of tests records them and tests did not ask for them; else what was given."""
    return SITE.sub("", dump) if RECORDS_SITES else dump


CALL = re.compile(r"t(\d+) ([\w\[\]]+)\((.*)\)(?: = (.*)|( \(foreign\)))?$")
TALLIED = re.compile(r"t\d+ (?:malloc|calloc|aligned_alloc|posix_memalign|memalign|new[\w\[\]]*)"
                     r"\((?:\d+, )?(7\d\d\d)(?:, \d+)?\) = #")


def tallies_in(lines: Sequence[str]) -> Counter[int]:
    """Allocations of the sizes that targets set aside for counting: size to calls."""
    matches = map(TALLIED.match, lines)
    return Counter(int(match[1]) for match in matches if match)


def between_markers(lines: Sequence[str]) -> list[str]:
    """The calls that the thread with the markers made between them, without the thread."""
    begins = [i for i, line in enumerate(lines) if MARKER_BEGIN in line]
    ends = [i for i, line in enumerate(lines) if MARKER_END in line]
    assert len(begins) == 1 and len(ends) == 1, "the markers are not in the dump exactly once"
    thread = lines[begins[0]].split()[0] + " "
    calls = [line[len(thread):] for line in lines[begins[0] + 1:ends[0]] if line.startswith(thread)]
    marker_slot = lines[begins[0]].rpartition("= ")[2]
    assert calls and calls[0] == f"free({marker_slot})"
    return calls[1:]


def by_birth(calls: Sequence[str]) -> Iterator[str]:
    """Names objects by the order of their births, from 1, where the dump names them by slot."""
    births: dict[str, int] = {}
    born = 0
    for call in calls:
        left, equals, result = call.partition(" = ")
        operand = None
        if "(#" in left:
            start = left.index("(#") + 1
            end = min(left.find(c, start) for c in ",)" if left.find(c, start) > 0)
            operand = left[start:end]
            left = f"{left[:start]}#{births[operand]}{left[end:]}"
        if result.startswith("#"):
            if operand is None:
                born += 1
                births[result] = born
            else:
                assert result == operand, f"a realloc changed the slot: {call}"
            result = f"#{births[result]}"
        elif operand is not None and not call.startswith("malloc_usable_size"):
            del births[operand]  # freed or released: a later use of the slot must be a birth first
        yield f"{left}{equals}{result}"
