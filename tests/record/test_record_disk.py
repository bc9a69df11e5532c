# SPDX-License-Identifier: Apache-2.0
"""Where logs are written: full disks, folders that cannot be written, names that are taken."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from errno import ENOSPC
from pathlib import Path

import pytest
from quick_tier import quick

from safety_checks import (HEADER_BYTES, NO_MEMORY, NO_SPACE, STOPPED, UNFIT_FOLDER, Ending, compare, ending_of, must_work, need_root,
                           recorded_tallies)
from tool_runner import (Argument, Outcome, Tools, clean_environment, logs_in, outcome_of,
                         read_tallies, run)
from waiting import read_line

SIZE_BEFORE, SIZE_CLOSED, SIZE_OVERWRITTEN = range(7800, 7803)  # targets/close_all_fds.c


class SmallDisk:
    """A file system of 3 MiB, mounted for one command at a time where nobody else sees it."""

    def __init__(self, folder: Path, mount: str, prefix: Sequence[str]) -> None:
        self.place = folder / "disk"
        self.kept = folder / "kept"
        self.place.mkdir()
        self.kept.mkdir()
        self.mount = mount
        self.prefix = list(prefix)

    def run(self, script: str, *words: Argument, env: dict[str, str] | None = None) -> Outcome:
        """A shell script on the disk, whose logs are kept; its words are $1 and so on."""
        whole = (f'disk={self.place}; kept={self.kept}; {self.mount} || exit 88; {script}; '
                 'status=$?; cp --sparse=always "$disk"/*.mraw "$kept" 2>/dev/null; exit $status')
        done = run([*self.prefix, "sh", "-c", whole, "sh", *words], env=env)
        if done.returncode == 88:
            pytest.skip(f"cannot mount a small file system here: {done.stderr.decode().strip()}")
        return outcome_of(done)


@pytest.fixture(params=["tmpfs", "ext4"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> SmallDisk:
    if request.param == "tmpfs":
        must_work(["unshare", "-rm", "true"], "nobody may mount here")
        return SmallDisk(tmp_path, 'mount -t tmpfs -o size=3m none "$disk"', ["unshare", "-rm"])
    need_root()
    must_work(["unshare", "-m", "true"], "nobody may mount here")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(3 << 20)
    must_work(["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", image], "cannot make an ext4")
    # On a loop device; it goes with the mount, which goes with the shell.
    return SmallDisk(tmp_path, f'mount -t ext4 -o loop {image} "$disk" 2>&1', ["unshare", "-m"])


PRELOADED = 'MALLOC_WRAP_OUT=$disk LD_PRELOAD=$1 "$2" "$3"'
# Thrice, for a file system may find room when it has written what it had only promised.
FILLED = 'for i in 1 2 3; do cat /dev/zero >"$disk"/fill$i 2>/dev/null; sync; done'


@pytest.mark.thorough
def test_disk_fills_up(tools: Tools, tmp_path: Path, small_disk: SmallDisk) -> None:
    """The program goes on as if nothing were; what was recorded until then is good, and the log
    says why it ends."""
    command = [tools.target("close_all_fds"), tmp_path / "counts"]
    outcome = small_disk.run(PRELOADED, tools.shim, *command)
    assert outcome == outcome_of(run(command)) and outcome.status == 13
    [log] = logs_in(small_disk.kept)
    assert ending_of(log) == Ending(STOPPED, NO_SPACE, ENOSPC)
    recorded = recorded_tallies(tools, [log], tmp_path)
    assert recorded[SIZE_BEFORE] == 100 and recorded[SIZE_CLOSED] == 200_000
    assert 0 < recorded[SIZE_OVERWRITTEN] < 200_000


@pytest.mark.thorough
def test_limit_after_the_disk_was_full(tools: Tools, tmp_path: Path, small_disk: SmallDisk) -> None:
    """The recording has ended, and reserves nothing any more: the program limits its address space as it does alone."""
    outcome = small_disk.run(f'{PRELOADED} "$4"', tools.shim, tools.target("seal_early"), tmp_path / "counts", "limits_idle")
    assert outcome == Outcome(116, b"", b"")
    [log] = logs_in(small_disk.kept)
    assert ending_of(log) == Ending(STOPPED, NO_SPACE, ENOSPC)
    assert recorded_tallies(tools, [log], tmp_path)[7960] > 100_000


def test_disk_fills_up_under_record(tools: Tools, tmp_path: Path, small_disk: SmallDisk) -> None:
    outcome = small_disk.run('"$1" record -o "$disk" -- "$2" "$3"', tools.heaptape,
                             tools.target("close_all_fds"), tmp_path / "counts")
    assert outcome.status == 13 and b"first fd" in outcome.stdout
    assert b"warning" in outcome.stderr and b"stopped early" in outcome.stderr, outcome.stderr


def test_disk_is_full_from_the_start(tools: Tools, tmp_path: Path, small_disk: SmallDisk) -> None:
    command = [tools.target("close_all_fds"), tmp_path / "counts"]
    outcome = small_disk.run(f'{FILLED}; {PRELOADED}', tools.shim,
                             *command)
    assert outcome == outcome_of(run(command)) and outcome.status == 13
    # ext4 keeps some blocks back, which a mapped file may still get: a short log, and good so far.
    for log in logs_in(small_disk.kept):
        assert ending_of(log) == Ending(STOPPED, NO_SPACE, ENOSPC)
        tools.convert_clean(log, tmp_path / "t.bin")


@pytest.mark.parametrize("folder", ["missing", "file", "/dev/null", "/proc/self", ""])
def test_no_place_for_logs(tools: Tools, tmp_path: Path, folder: str) -> None:
    """Missing, no folder, or not to be written into: no reason to disturb the program."""
    (tmp_path / "file").write_text("a file\n")
    place = str(tmp_path / folder) if folder and not folder.startswith("/") else folder
    command = [tools.target("close_all_fds"), tmp_path / "counts"]
    recorded = run(command, env={"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": place or "\n"})
    assert outcome_of(recorded) == outcome_of(run(command))
    assert (tmp_path / "file").read_text() == "a file\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts", "file"]


@pytest.mark.thorough
def test_folder_of_another_user(tools_for_all: Tools, tmp_path: Path) -> None:
    """A program of nobody's, and a folder that only root may write into."""
    need_root()
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    must_work([*drop, "true"], "setpriv does not work here")
    command = [*drop, "sh", "-c", "echo hello; exit 3"]
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    recorded = run(command, env={"LD_PRELOAD": str(tools_for_all.shim), "MALLOC_WRAP_OUT": str(logs)})
    assert outcome_of(recorded) == Outcome(3, b"hello\n", b"")
    assert all(log.stat().st_uid == 0 for log in logs_in(logs))  # setpriv's, before it dropped


def test_link_under_the_name_of_a_log(tools: Tools, tmp_path: Path) -> None:
    """Names of logs can be guessed. A link that somebody planted under one is not followed."""
    logs, victim = tmp_path / "logs", tmp_path / "victim"
    logs.mkdir()
    victim.write_text("precious\n")
    script = ('echo $$; read go; LD_PRELOAD=$1 MALLOC_WRAP_OUT=$2; '
              'export LD_PRELOAD MALLOC_WRAP_OUT; exec "$3" "$4"')
    with subprocess.Popen(["sh", "-c", script, "sh", tools.shim, logs, tools.target("exit_quick"),
                           tmp_path / "counts"], env=clean_environment(), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        pid = int(read_line(process.stdout))
        planted = logs / f"malloc-footprint.{pid}.mraw"
        planted.symlink_to(victim)
        (logs / f"malloc-footprint.{pid}.1.mraw").symlink_to(tmp_path / "new")
        process.stdin.write(b"\n")
        process.stdin.close()
    assert process.returncode == 14
    assert victim.read_text() == "precious\n" and planted.is_symlink()
    assert not (tmp_path / "new").exists()
    [log] = [path for path in logs_in(logs) if not path.is_symlink()]
    assert log.name == f"malloc-footprint.{pid}.2.mraw"
    assert recorded_tallies(tools, [log], tmp_path) == read_tallies(tmp_path / "counts")


SIZE_FIRST, SIZE_LATER = 7900, 7901
MANY_BLOCKS = """
import os, pathlib, sys
folder, other = map(pathlib.Path, sys.argv[1:])
for _ in range(100_000): bytes(7900 - 33)
if other != folder:
    [log] = folder.glob(f"malloc-footprint.{os.getpid()}*.mraw")
    log.rename(other / log.name)
for _ in range(200_000): bytes(7901 - 33)
"""


@pytest.mark.parametrize("moves", quick([True], [False, True]))
def test_large_chunks(tools: Tools, tmp_path: Path, moves: bool) -> None:
    """Their pages are written in advance by the log's name; where that is gone, the mapping makes them."""
    logs = tmp_path / "logs"
    other = tmp_path / "other" if moves else logs
    logs.mkdir()
    other.mkdir(exist_ok=True)
    done = run([sys.executable, "-c", MANY_BLOCKS, logs, other],
               env={"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(logs), "PYTHONMALLOC": "malloc"})
    assert outcome_of(done) == Outcome(0, b"", b"")
    log = max(logs_in(other), key=lambda path: path.stat().st_blocks)
    recorded = recorded_tallies(tools, [log], tmp_path)
    assert recorded[SIZE_FIRST] == 100_000 and recorded[SIZE_LATER] == 200_000
    assert log.stat().st_blocks * 512 > 1 << 20  # several chunks of more than 128 KiB


def test_logs_are_private_whatever_the_umask(tools: Tools, tmp_path: Path) -> None:
    compared = compare(tools, tmp_path, lambda counts: [
        "sh", "-c", 'umask 0; exec "$0" "$1"', tools.target("exit_quick"), counts])
    compared.assert_whole()
    assert {log.stat().st_mode & 0o777 for log in compared.recording.logs} == {0o600}


@pytest.mark.parametrize("arguments", [["record", "-q", "-o", ".", "--", "TARGET", "counts"],
                                       ["record", "-q", "--convert", "-o", ".", "--", "TARGET", "counts"],
                                       ["convert", "LOG", "-o", "t.bin"], ["convert", "--follow", "LOG", "-o", "f.bin"]],
                         ids=["record", "record-convert", "convert", "follow"])
def test_what_shows_the_program_is_private(tools: Tools, tmp_path: Path, arguments: list[str]) -> None:
    """Whatever the umask: logs, traces, and what they are written to until they are complete."""
    folder = tmp_path / "made"
    folder.mkdir()
    named = {"TARGET": tools.target("exit_quick"), "LOG": tmp_path / "log.mraw"}
    if "LOG" in arguments:
        [log] = tools.record([tools.target("exit_quick"), tmp_path / "counts"], tmp_path / "logs").logs
        log.rename(named["LOG"])
    script = ('umask 0; "$0" "$@" & '
              'while kill -0 $! 2>/dev/null; do for f in *; do [ ! -f "$f" ] || stat -c "%a %n" "$f"; done; done; '
              'wait $!; for f in *; do stat -c "%a %n" "$f"; done')
    done = run(["sh", "-c", script, tools.heaptape, *[named.get(word, word) for word in arguments]], cwd=folder,
               timeout=60)
    seen = {tuple(line.split(maxsplit=1)) for line in done.stdout.decode().splitlines()}
    private = {name: mode for mode, name in seen if name != "counts"}
    assert private and set(private.values()) == {"600"}, seen


def test_warning_about_memory_and_little_space(tools: Tools, small_disk: SmallDisk,
                                               tmp_path: Path) -> None:
    """record says so when logs go into memory, or onto a disk with little room; -q is quiet."""
    command = [tools.heaptape, tools.target("exit_quick"), tmp_path / "counts"]
    outcome = small_disk.run('"$1" record -o "$disk" -- "$2" "$3"', *command)
    assert outcome.status == 14
    assert (b"is in memory" in outcome.stderr) == ("tmpfs" in small_disk.mount)
    assert b" free; the recording ends when it is full" in outcome.stderr
    quiet = small_disk.run('"$1" record -q -o "$disk" -- "$2" "$3"', *command)
    assert quiet == Outcome(14, b"", b"")


def test_no_warning_without_need(tools: Tools, tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    if status.f_bavail * status.f_frsize < 2 << 30:
        pytest.skip("this disk has little room indeed")
    recording = tools.record([tools.target("exit_quick"), tmp_path / "counts"], tmp_path / "logs")
    assert b" free; the recording ends" not in recording.outcome.stderr


@pytest.fixture(params=["plain", "overlay"])
def btrfs(request: pytest.FixtureRequest, tmp_path: Path) -> SmallDisk:
    """A file system where a store into a page that was written back needs new room."""
    need_root()
    must_work(["unshare", "-m", "true"], "nobody may mount here")
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    must_work(["mkfs.btrfs", "-q", image], "cannot make a btrfs")
    mount = f'mount -t btrfs -o loop {image} "$disk" 2>&1'
    if request.param == "overlay":
        mount += (' && mkdir -p "$disk"/lower "$disk"/upper "$disk"/work && mount -t overlay -o '
                  'lowerdir="$disk"/lower,upperdir="$disk"/upper,workdir="$disk"/work none "$disk" 2>&1')
    return SmallDisk(tmp_path, mount, ["unshare", "-m"])


def test_copy_on_write_is_refused(tools: Tools, tmp_path: Path, btrfs: SmallDisk) -> None:
    """`record` names the reason and another folder before the program is started."""
    counts = tmp_path / "counts"
    outcome = btrfs.run('"$1" record -o "$disk" -- "$2" "$3"', tools.heaptape, tools.target("exit_quick"), counts,
                        env={"MALLOC_WRAP_ANY_FOLDER": "0"})
    assert outcome.status == 125 and not counts.exists()
    assert b"btrfs, which copies on write" in outcome.stderr and b"-o /dev/shm" in outcome.stderr
    assert not logs_in(btrfs.kept)
    outcome = btrfs.run('"$1" record --any-folder -o "$disk" -- "$2" "$3"', tools.heaptape,
                        tools.target("exit_quick"), counts, env={"MALLOC_WRAP_ANY_FOLDER": "0"})
    assert outcome.status == 14
    [log] = logs_in(btrfs.kept)
    assert recorded_tallies(tools, [log], tmp_path) == read_tallies(counts)


def test_preload_leaves_the_reason(tools: Tools, tmp_path: Path, btrfs: SmallDisk) -> None:
    command = [tools.target("close_all_fds"), tmp_path / "counts"]
    outcome = btrfs.run(PRELOADED, tools.shim, *command, env={"MALLOC_WRAP_ANY_FOLDER": "0"})
    assert outcome == outcome_of(run(command)) and outcome.status == 13
    [log] = logs_in(btrfs.kept)
    assert log.stat().st_size == HEADER_BYTES and ending_of(log) == Ending(STOPPED, UNFIT_FOLDER, 0)
    done = run([tools.heaptape, "convert", log, "-o", tmp_path / "t.bin"])
    assert done.returncode == 3 and b"never begun" in done.stderr, done


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group whose processes may have 16 MiB, of either version."""
    need_root()
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(parent) / f"heaptape-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(16 << 20))
        except OSError:
            group.rmdir()
            continue
        yield group
        # Its processes' memory goes with the mount, a moment after them.
        for _ in range(100):
            try:
                group.rmdir()
                return
            except OSError:
                time.sleep(0.1)
        return
    pytest.skip("no control group that limits memory can be made here")


# An overlay's statfs does not say that what it writes to is memory.
IN_MEMORY = {
    "tmpfs": 'mount -t tmpfs -o size=1g none "$disk"',
    "overlay": ('mkdir "$kept/in memory" && mount -t tmpfs -o size=1g none "$kept/in memory" && cd "$kept/in memory" && '
                'mkdir lower "up\\\\,per" work && mount -t overlay -o '
                '"lowerdir=$kept/in memory/lower,upperdir=$kept/in memory/up\\\\,per,workdir=$kept/in memory/work" none "$disk" 2>&1'),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_log_in_memory_under_a_limit(tools: Tools, tmp_path: Path, small_group: Path, kind: str) -> None:
    """A log that would take what the program needs ends, and says why; the program goes on."""
    must_work(["unshare", "-m", "true"], "nobody may mount here")
    place = SmallDisk(tmp_path, IN_MEMORY[kind], ["unshare", "-m"])
    command = [tools.target("vfork_limits"), tmp_path / "counts", "exit"]
    outcome = place.run(f'echo $$ >{small_group}/cgroup.procs && MALLOC_WRAP_OUT=$disk LD_PRELOAD=$1 "$2" "$3" "$4"',
                        tools.shim, *command)
    assert outcome.status == 46, outcome
    [log] = logs_in(place.kept)
    assert ending_of(log) == Ending(STOPPED, NO_MEMORY, 0)
    assert log.stat().st_blocks * 512 < 6 << 20
    assert recorded_tallies(tools, [log], tmp_path)[7910] > 100_000
