# SPDX-License-Identifier: Apache-2.0
"""`heaptape walk` finds, in a process that runs, the blocks that the process itself says it has."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tool_runner import Tools, clean_environment
from waiting import read_line

PAGE_BYTES = 4096

# The program, its words, and how many threads it starts: glibc has a block for each, which the program does not know of.
PROGRAMS = {
    "pin": ("heap_shapes", ["pin", "3"], 0),
    "aligned": ("heap_shapes", ["aligned", "10"], 0),
    "mapped": ("heap_shapes", ["mapped", "60"], 0),
    "ratchet": ("thread_heaps", ["ratchet", "20", "4"], 4),
    "caches": ("thread_heaps", ["caches", "5", "8"], 8),
    "gone": ("thread_heaps", ["gone", "5", "4"], 4),
    "sbrk": ("odd_breaks", ["sbrk", "5"], 0),
    "unpaged": ("odd_breaks", ["unpaged", "3"], 0),
    "refused": ("odd_breaks", ["refused", "5"], 0),
    "early": ("odd_breaks", ["early", "5"], 0),
}
TUNABLES = "glibc.malloc.tcache_count=100:glibc.malloc.tcache_max=256:glibc.malloc.arena_max=3:glibc.malloc.mmap_threshold=65536"


@contextmanager
def running(command: list[str | Path], stderr: IO[bytes] | None = None, **environment: str) -> Iterator[tuple[int, list[bytes]]]:
    """The process's number, and what it said when it was ready."""
    with subprocess.Popen(command, env=clean_environment(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process:
        try:
            yield process.pid, read_line(process.stdout).split()
        finally:
            process.send_signal(signal.SIGKILL)


def walk(tools: Tools, *words: str | Path) -> dict[str, Any]:
    done = subprocess.run([tools.build / "heaptape", "walk", *words], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def live_of(csv: Path) -> dict[int, int]:
    rows = [line.split(",") for line in csv.read_text().splitlines()[1:]]
    return {int(address, 16): int(usable) for address, usable, _, state in rows if state == "live"}


def older_than_2_43() -> bool:
    return int(platform.libc_ver()[1].split(".")[1]) < 43


def check(found: dict[str, Any], pid: int) -> None:
    """Everything is accounted for, to the page."""
    checks = found["checks"]
    assert checks["heap_bytes"] == checks["heap_bytes_said"]
    assert checks["mapped_blocks"] == checks["mapped_blocks_said"]
    # glibc 2.43 counts 16 bytes too few where a mapped block is freed.
    assert 0 <= checks["mapped_bytes_said"] - checks["mapped_bytes"] < 64 << 10 and (not older_than_2_43() or checks["mapped_bytes"] == checks["mapped_bytes_said"])
    assert (checks["lost_bytes"], checks["torn_lists"], found["accounts_bytes"]["unknown"]) == (0, 0, 0)
    resident = next(int(line.split()[1]) << 10 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("RssAnon:"))
    assert checks["anonymous_bytes"] == checks["anonymous_bytes_said"] == resident


@pytest.mark.parametrize("tunables", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_blocks(tools: Tools, tmp_path: Path, name: str, tunables: bool) -> None:
    program, words, threads = PROGRAMS[name]
    if tunables and name in ("sbrk", "unpaged", "early"):
        pytest.skip("these are of the break alone")
    listed, csv = tmp_path / "list", tmp_path / "blocks.csv"
    with running([tools.build / "tests" / "walk" / program, *words, listed], **({"GLIBC_TUNABLES": TUNABLES} if tunables else {})) as (pid, ready):
        found = walk(tools, "--pid", str(pid), "--blocks", csv)
        check(found, pid)
    requested = {int(address, 16): int(size) for address, size in (line.split(",") for line in listed.read_text().split())}
    live = live_of(csv)
    assert {address for address in requested if live.get(address, -1) < requested[address]} == set()
    beside = [address for address in live if address not in requested]
    assert len(beside) <= threads and found["blocks"] == len(live) == int(ready[1]) + len(beside)
    assert sum(live[address] for address in requested) == int(ready[3])


def test_a_core_has_the_same_blocks(tools: Tools, tmp_path: Path) -> None:
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() != "core":
        pytest.skip("cores do not go to the working folder here")

    program, words = "thread_heaps", ["caches", "2", "2"]
    command = ["sh", "-c", 'ulimit -c unlimited && exec "$@"', "sh", tools.build / "tests" / "walk" / program, *words]
    with subprocess.Popen(command, env=clean_environment({}), cwd=tmp_path, stdout=subprocess.PIPE) as process:
        read_line(process.stdout)
        found = walk(tools, "--pid", str(process.pid), "--blocks", tmp_path / "process.csv")
        process.send_signal(signal.SIGABRT)
    core = next(path for path in tmp_path.iterdir() if path.name.startswith("core"))
    of_core = walk(tools, "--core", core, "--blocks", tmp_path / "core.csv")
    assert (tmp_path / "core.csv").read_bytes() == (tmp_path / "process.csv").read_bytes()
    assert {key: of_core[key] for key in ("blocks", "usable_bytes", "arenas", "trim_bytes")} == {key: found[key] for key in ("blocks", "usable_bytes", "arenas", "trim_bytes")}
    os.truncate(core, 200_000)
    done = subprocess.run([tools.build / "heaptape", "walk", "--core", core], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3 and "expected" in done.stderr and "found the file's end" in done.stderr and done.stderr.count("\n") == 1


TRIMS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
blocks = [libc.malloc(ctypes.c_size_t(size)) for size in [9000, 50] * 2000]
for block in blocks[:3000:2] + blocks[3001::2]: libc.free(ctypes.c_void_p(block))
print('ready', flush=True)
sys.stdin.readline()
libc.malloc_trim(ctypes.c_size_t(0))
print('trimmed', flush=True)
sys.stdin.readline()
"""


def test_what_malloc_trim_gives_back(tools: Tools) -> None:
    def resident(pid: int) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES

    with subprocess.Popen([sys.executable, "-c", TRIMS], env=clean_environment({}), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        read_line(process.stdout)
        predicted, before = walk(tools, "--pid", str(process.pid))["trim_bytes"], resident(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        read_line(process.stdout)
        given = before - resident(process.pid)
        process.send_signal(signal.SIGKILL)
    assert given > 4 << 20 and abs(predicted - given) <= 16 * PAGE_BYTES


@pytest.mark.parametrize("stop", [False, True])
def test_a_busy_process(tools: Tools, stop: bool) -> None:
    """Walked while its threads allocate: what is said is true, or the walk says that it is torn; and nothing is harmed."""
    with subprocess.Popen([tools.build / "tests" / "walk" / "busy_heap", "2", "50000", "100000"], env=clean_environment({}), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = [walk(tools, "--pid", str(process.pid), *(["--stop"] if stop else [])) for _ in range(5)]
        process.send_signal(signal.SIGTERM)
        words = process.stdout.read().split()
    said = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert process.returncode == 0 and said["damaged"] == 0 and said["calls"] > 0
    for one in found:
        # While it goes on: 1 %, or what the walk says that it lost. The sizes of the program's own blocks differ by some per cent.
        beside = 8 if stop else max(0.01 * said["blocks"], 16 * one["checks"]["torn_lists"]) + one["checks"]["lost_bytes"] / 32
        assert abs(one["blocks"] - said["blocks"]) <= beside
        assert abs(one["usable_bytes"] - said["usable"]) <= 0.05 * said["usable"] + one["checks"]["lost_bytes"]


def test_what_blocks_begin_with(tools: Tools) -> None:
    program = "import sys\nfunctions = [eval('lambda: 0') for _ in range(5000)]\nprint('ready', flush=True)\nsys.stdin.readline()"
    with running([sys.executable, "-c", program], PYTHONMALLOC="malloc") as (pid, _):
        found = walk(tools, "--pid", str(pid))
    begin = {str(holder["begins_with"]): holder for holder in sorted(found["holders"], key=lambda holder: holder["blocks"])}
    if not any(name.startswith("Py") for name in begin):
        pytest.skip("this interpreter exports no symbols")
    assert begin["PyFunction_Type"]["blocks"] >= 5000 and begin["PyFunction_Type"]["begins_share"] > 0.5


def test_another_malloc_is_named(tools: Tools) -> None:
    with running([tools.build / "tests" / "walk" / "heap_shapes", "pin", "1"], LD_PRELOAD=str(tools.shim), MALLOC_WRAP_OUT="/dev/null") as (pid, _):
        assert walk(tools, "--pid", str(pid))["allocator"]["name"] == "glibc"  # the recorder passes calls on


REFUSED = {
    "no process": (["--pid", "4194304"], 1, "process 4194304: there is none"),
    "a kernel's": (["--pid", "2"], 1, "process 2:"),
    "no number": (["--pid", "x"], 2, "--pid x: expected the number of a process"),
    "none": ([], 2, "expected one of --pid and --core"),
    "no core": (["--core", "/dev/null"], 3, "/dev/null: offset 0: expected a core file"),
    "no bytes": (["--core", "EMPTY"], 3, "offset 0: expected a core file, found an empty file"),
    "a folder": (["--core", "/"], 3, "/: offset 0: expected a core file, found a folder"),
    "itself": (["--core", "EMPTY", "--blocks", "EMPTY"], 2, "the blocks would overwrite the core"),
    "no file": (["--core", "/nonexistent"], 1, "/nonexistent: cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(tools: Tools, tmp_path: Path, case: str) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    words, status, said = [str(empty) if word == "EMPTY" else word for word in REFUSED[case][0]], *REFUSED[case][1:]
    if case == "a kernel's" and not Path("/proc/2").exists():
        pytest.skip("another pid namespace: there is no process of the kernel's")
    done = subprocess.run([tools.build / "heaptape", "walk", *words], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == status and said in done.stderr and done.stdout == ""


def test_a_process_that_may_not_be_read(tools: Tools) -> None:
    """Not dumpable, and of another user: one line names what it takes."""
    if os.geteuid():
        pytest.skip("takes root, who becomes another user")

    with running([tools.build / "tests" / "walk" / "heap_shapes", "pin", "1"]) as (pid, _):
        program = Path("/tmp") / f"heaptape-walk-{os.getpid()}"
        program.write_bytes((tools.build / "heaptape").read_bytes())
        program.chmod(0o755)
        try:
            done = subprocess.run([program, "walk", "--pid", str(pid)], capture_output=True, text=True, timeout=20, check=False, user=65534, group=65534, extra_groups=[])
        finally:
            program.unlink()
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "CAP_SYS_PTRACE" in done.stderr and "user 0" in done.stderr
