#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs as on other machines, against what `heaptape replay` predicts of a recording made on this one.

    bench/validity/machines.py [cpus|limits] [--build B] [--only NAME,...] [--alloc A,...] [--runs N]

cpus: peak RSS of threaded programs on 1 and on 2 processors, against `replay --cpus`. The real program runs by taskset on so many
of them; where this user may (root), /sys/devices/system/cpu/online lists no others, because that is where glibc counts. A program
with threads is another one in each run: so several recordings are replayed, and as many real runs measured, in turn; means, and
in brackets the range.
limits: the lowest limit under which `replay --memory-max search` says that a program lives, and whether the real program, in a
control group with that limit, lives and dies where it says so: 6 % below, 4 % and 8 % above. The limit is the mean of several
recordings. Needs a control group to make groups in.
Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import string
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "bench" / "validity" / "machines.toml"
PROCESSORS = (1, 2)
FACTORS = (0.94, 1.04, 1.08)
POLL_S = 0.001
LIMIT_S = 300
FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Prepared:
    """A program with its inputs."""

    name: str
    command: list[str]
    folder: Path
    variables: dict[str, str]


class Failed(Exception):
    """It could not be measured."""


def prepare(name: str, program: dict[str, Any], folder: Path) -> Prepared:
    """Makes the inputs. Raises Failed."""
    variables = {"PATH": FOLDERS, "HOME": str(folder), "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "BENCH": str(ROOT / "bench"), "ROOT": str(ROOT),
                 **program.get("env", {})}
    if "setup" in program:
        done = subprocess.run(["bash", "-eu", "-c", program["setup"]], cwd=folder, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            raise Failed(f"its inputs cannot be made: {done.stderr.strip()}")
    return Prepared(name, [string.Template(word).substitute(variables) for word in program["command"]], folder, variables)


def tool(prepared: Prepared, *words: str | Path) -> str:
    """What a verb prints. Raises Failed."""
    done = subprocess.run([str(word) for word in words], cwd=prepared.folder, env=prepared.variables, capture_output=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise Failed(f"{words[0]} {words[1]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")  # of a program that is recorded, anything


def record(prepared: Prepared, build: Path, number: int = 0) -> Path:
    """The trace of the process with the most calls."""
    logs, trace = prepared.folder / f"logs-{number}", prepared.folder / f"trace-{number}.bin"
    tool(prepared, build / "heaptape", "record", "-o", logs, "--", *prepared.command)
    largest = max(logs.glob("*.mraw"), key=lambda path: path.stat().st_size)
    tool(prepared, build / "heaptape", "convert", largest, "-o", trace)
    return trace


def preloads(build: Path, names: list[str]) -> dict[str, str]:
    """By allocator its library; glibc has none."""
    listed = json.loads(subprocess.run([build / "replay", "--list", "--json", "--alloc", ",".join(names)], stdout=subprocess.PIPE, check=True).stdout)
    return {item["name"]: "" if item["kind"] == "glibc" else item["path"] for item in listed}


@contextmanager
def control_group(limit_bytes: int) -> Iterator[Path]:
    """A group with this limit, of version 1 or 2, below the one that this process is in. Raises Failed."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    old = next((path for _, controllers, path in lines if "memory" in controllers.split(",")), None)
    unified = next((path for _, controllers, path in lines if not controllers), "/")
    above = Path("/sys/fs/cgroup/memory" + old) if old is not None else Path("/sys/fs/cgroup" + unified)
    group = above / f"machines-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.max" if old is None else "memory.limit_in_bytes")).write_text(str(limit_bytes))
    except OSError as error:
        raise Failed(f"no control group: {error}") from error
    try:
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.01)


def lives(prepared: Prepared, preload: str, limit_bytes: int) -> bool:
    """Whether the real program ends by itself under the limit. Raises Failed where it ends in another way."""
    with control_group(limit_bytes) as group:
        join = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
        variables = prepared.variables | ({"LD_PRELOAD": preload} if preload else {})
        done = subprocess.run([*join, "env", *(f"{name}={value}" for name, value in variables.items()), *prepared.command], cwd=prepared.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise Failed(f"it ended with status {done.returncode} under a limit")
    return done.returncode == 0


def anonymous_bytes(pid: int) -> int:
    """0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (OSError, UnicodeDecodeError):
        return 0
    return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:")), 0)


def real_peak(prepared: Prepared, preload: str, processors: int) -> int:
    """Peak of RssAnon of a run on so many processors."""
    online = prepared.folder / "online"
    online.write_text("0\n" if processors == 1 else f"0-{processors - 1}\n")
    run = ["taskset", "-c", f"0-{processors - 1}", "env", *([f"LD_PRELOAD={preload}"] if preload else []), *prepared.command]
    if os.getuid() == 0:
        run = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/devices/system/cpu/online && exec "$@"', str(online), *run]
    most = 0
    with subprocess.Popen(run, cwd=prepared.folder, env=prepared.variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, anonymous_bytes(process.pid))
            time.sleep(POLL_S)
    if process.returncode:
        raise Failed(f"it ended with status {process.returncode}")
    return most


def predicted(prepared: Prepared, build: Path, trace: Path, names: list[str], processors: int) -> dict[str, dict[str, Any]]:
    """By allocator, of the memory pass."""
    said = json.loads(tool(prepared, build / "replay", "--alloc", ",".join(names), "--pass", "memory", "--rounds", "1", "--cpus", str(processors),
                           "--json", "-q", trace))
    return {item["name"]: item for item in said["allocators"]}


def mean_and_range(figures: list[float]) -> str:
    return f"{statistics.mean(figures) / 1e6:.2f} [{min(figures) / 1e6:.2f}, {max(figures) / 1e6:.2f}]"


def difference(mine: list[float], real: list[float]) -> str:
    """Of the means, with its 95 % interval: what the spread of the runs leaves open."""
    middle = statistics.mean(real)
    error = math.sqrt((statistics.variance(mine) + statistics.variance(real)) / len(real)) if len(real) > 1 else math.nan
    return f"{statistics.mean(mine) / middle - 1:+.1%} ± {1.96 * error / middle:.1%}"


def measure_cpus(prepared: Prepared, runs: int, options: argparse.Namespace) -> list[str]:
    """Recordings and real runs in turn, so that a slow minute of the machine affects both."""
    libraries = preloads(options.build, options.alloc)
    cases = [(processors, name) for processors in PROCESSORS for name in libraries]
    mine: dict[tuple[int, str], list[float]] = {case: [] for case in cases}
    real: dict[tuple[int, str], list[float]] = {case: [] for case in cases}
    arenas: dict[tuple[int, str], int | None] = {}
    for number in range(runs):
        trace = record(prepared, options.build, number)
        for processors, name in cases:
            real[processors, name].append(real_peak(prepared, libraries[name], processors))
        for processors in PROCESSORS:
            for name, item in predicted(prepared, options.build, trace, options.alloc, processors).items():
                mine[processors, name].append(item["process_rss_peak_bytes"]["median"])
                arenas[processors, name] = item["arenas"]
    return [f"| {prepared.name} | {processors} | {name} | {arenas[processors, name] or ''} | {mean_and_range(mine[processors, name])} | "
            f"{mean_and_range(real[processors, name])} | {difference(mine[processors, name], real[processors, name])} |"
            for processors, name in cases]


def predicted_edges(prepared: Prepared, build: Path, trace: Path, names: list[str]) -> dict[str, float]:
    """By allocator the lowest limit under which the replay lives."""
    said = json.loads(tool(prepared, build / "replay", "--alloc", ",".join(names), "--pass", "limit", "--memory-max", "search", "--json", "-q", trace))
    return {item["name"]: item["limit"]["least_bytes"] for item in said["allocators"]}


def measure_limits(prepared: Prepared, runs: int, options: argparse.Namespace) -> list[str]:
    libraries = preloads(options.build, options.alloc)
    found = [predicted_edges(prepared, options.build, record(prepared, options.build, number), options.alloc) for number in range(runs)]
    rows = []
    for name, preload in libraries.items():
        edges = [one[name] for one in found]
        edge, outcomes = statistics.mean(edges), []
        for factor in FACTORS:
            lived = lives(prepared, preload, int(edge * factor))
            outcomes.append(f"{'lives' if lived else 'dies'}{'' if lived == (factor > 1) else ' (!)'}")
        low, high = 0.7 * edge, 1.4 * edge
        while high - low > 0.005 * edge:
            middle = (low + high) / 2
            low, high = (low, middle) if lives(prepared, preload, int(middle)) else (middle, high)
        rows.append(f"| {prepared.name} | {name} | {mean_and_range(edges)} | {' | '.join(outcomes)} | {high / 1e6:.2f} | {edge / high - 1:+.1%} |")
    return rows


KINDS = {
    "cpus": (measure_cpus, "| program | processors | allocator | arenas | predicted peak RSS, MB | real, MB | difference |\n| --- | --: | --- | --: | --: | --: | --: |"),
    "limits": (measure_limits, f"| program | allocator | predicted lowest limit, MB | {' | '.join(f'{factor - 1:+.0%}' for factor in FACTORS)} | real one, MB | difference |\n"
               f"| --- | --- | --: |{' --- |' * len(FACTORS)} --: | --: |"),
}


def main() -> int:
    programs: dict[str, dict[str, Any]] = tomllib.loads(PROGRAMS.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="default: both")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", metavar="NAME,...", help=f"of {', '.join(programs)}")
    parser.add_argument("--alloc", type=lambda text: text.split(","), default=["glibc", "jemalloc", "tcmalloc", "mimalloc"], metavar="A,...")
    parser.add_argument("--runs", type=int, help="recordings, and for cpus runs of the real program (default: those of machines.toml, or 5)")
    options = parser.parse_args()
    options.build = options.build.resolve()
    only = options.only.split(",") if options.only else list(programs)
    if unknown := set(only) - set(programs):
        parser.error(f"--only {', '.join(sorted(unknown))}: expected some of {', '.join(programs)}")
    fine = True
    for kind, (measure, heading) in KINDS.items():
        if options.kind not in (None, kind):
            continue
        print(heading, flush=True)
        for name in [name for name in only if programs[name].get(kind)]:
            with tempfile.TemporaryDirectory(prefix="heaptape-machines-") as scratch:
                try:
                    print("\n".join(measure(prepare(name, programs[name], Path(scratch)), options.runs or programs[name].get("runs", 5), options)), flush=True)
                except Failed as why:
                    print(f"{name}: {why}", file=sys.stderr, flush=True)
                    fine = False
        print(flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
