# SPDX-License-Identifier: Apache-2.0
"""Groups of processes, looked at from outside: which pages are shared, to the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from group_file import ABSENT, EXCLUSIVE, LAST, PEAK, SHARED, GroupFile, Member, read_group
from quick_tier import quick
from tool_runner import Tools, clean_environment, run
from waiting import WITHIN_S, read_line, started, wait_until

# Of tests/targets/group_kinds.c.
PAGE, PAGES, READ_PAGES, LAST_PAGE, WORKERS, STEP = 4096, 4096, 64, 6500, 3, 100
NOBODY = 65534
WORKERS_STATUS, REPLACED_STATUS, EXEC_STATUS, ALONE_STATUS = 60, 61, 62, 63


class Service:
    """A recorded program, and what it has said of itself."""

    def __init__(self, record: subprocess.Popen[bytes], folder: Path) -> None:
        self.record = record
        self.folder = folder
        self.said: dict[str, list[int]] = {}
        assert record.stdout
        while "block" not in self.said:
            what, address, pid = read_line(record.stdout).split()
            self.said.setdefault(what.decode(), []).append(int(pid))
            self.block = int(address, 16)

    @property
    def workers(self) -> list[int]:
        return self.said.get("worker", [])

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("logs/*.group"))

    def group(self) -> GroupFile | None:
        return read_group(self.files()[0]) if self.files() else None

    def wait_for(self, processes: int) -> GroupFile:
        """Until the last snapshot has so many."""
        def found() -> GroupFile | None:
            group = self.group()
            return group if group and len(group.snapshot(LAST).members) == processes else None

        return wait_until(found, f"a snapshot of {processes} processes", process=self.record)

    def end(self) -> tuple[int, str]:
        (self.folder / "flag").unlink()
        _, said = self.record.communicate(timeout=WITHIN_S)
        return self.record.returncode, said.decode()


@contextmanager
def service(tools: Tools, folder: Path, mode: str, *words: str, target: Path | None = None, **options: Any) -> Iterator[Service]:
    (folder / "flag").touch()
    command = [tools.heaptape, "record", *words, "-o", folder / "logs", target or tools.target("group_kinds"), folder / "counts", mode,
               folder / "flag"]
    options.setdefault("env", clean_environment())
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options) as record:
        yield Service(record, folder)


def states(member: Member, block: int) -> list[int]:
    return [member.state(block + page * PAGE) for page in range(PAGES)]


def copied(number: int) -> set[int]:
    return set(range(1000 * number, 1000 * number + STEP * (number + 1)))


def check_pages(group: GroupFile, service: Service, reason: int) -> None:
    """Workers have copied what they wrote, and share the rest; nobody has written over what the master has."""
    snapshot = group.snapshot(reason)
    for number, pid in enumerate(service.workers):
        found = states(snapshot.of(pid), service.block)
        assert {page for page, state in enumerate(found) if state == EXCLUSIVE} == copied(number)
        assert found.count(SHARED) == PAGES - len(copied(number))
    assert states(snapshot.members[0], service.block) == [SHARED] * PAGES
    for member in snapshot.members:
        read_only = {member.state(service.block + (PAGES + page) * PAGE) for page in range(READ_PAGES)}
        # Before Linux 6.7 the zero page looks as if it were shared.
        assert read_only == {ABSENT} or tuple(map(int, os.uname().release.split(".")[:2])) < (6, 7)
        assert member.state(service.block + LAST_PAGE * PAGE) == SHARED
        assert not any(bytes(512) in one.states for one in member.mappings)
        # The kernel's own count, read a moment before.
        assert abs(member.count(SHARED, EXCLUSIVE) * PAGE - member.rss_anon_bytes) <= 8 * PAGE
        assert (member.swap_bytes, member.ksm_bytes, member.huge_bytes) == (0, 0, 0)
    most = PAGES + STEP * sum(range(1, WORKERS + 1))
    assert 0 <= snapshot.anonymous_bytes - most * PAGE < 4 << 20


@pytest.mark.parametrize("words", [["--group"], []], ids=["asked", "found"])
def test_to_the_page(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    with service(tools, tmp_path, "workers", *words) as one:
        group = one.wait_for(1 + WORKERS)
        assert [path.name for path in one.files()] == [f"malloc-footprint.{group.root_pid}.group"]
        assert one.files()[0].stat().st_mode & 0o777 == 0o600
        check_pages(group, one, LAST)
        status, said = one.end()
    assert status == WORKERS_STATUS
    group = one.group()
    assert group
    # The workers ended one by one: what is last is from before, though the master lived on.
    for reason in (PEAK, LAST):
        check_pages(group, one, reason)
    assert [snapshot.members[0].pid for snapshot in group.snapshots] == [group.root_pid] * 2
    assert {member.parent_pid for member in group.snapshots[0].members[1:]} == {group.root_pid}
    assert not any(member.executed for member in group.snapshots[0].members)
    check_table(said, group)


def check_table(said: str, group: GroupFile) -> None:
    peak = group.snapshot(PEAK)
    rows = re.findall(r"^ +(\d+) +([\d.]+ MB) +([\d.]+ MB) +([\d.]+ MB) +([\d.]+ [kM]B)  group_kinds$", said, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [member.pid for member in peak.members]
    found = re.search(r"^the group: ([\d.]+) MB of anonymous memory at its peak, each page counted once "
                      r"\(the sum of RssAnon says ([\d.]+) MB\)$", said, re.MULTILINE)
    assert found, said
    assert float(found[1]) == pytest.approx(peak.anonymous_bytes / 1e6, rel=0.01)
    assert float(found[2]) == pytest.approx(sum(member.rss_anon_bytes for member in peak.members) / 1e6, rel=0.01)


def test_the_run_is_that_of_the_logs(tools: Tools, tmp_path: Path) -> None:
    with service(tools, tmp_path, "workers", "--group", "-q") as one:
        one.wait_for(1 + WORKERS)
        assert one.end() == (WORKERS_STATUS, "")
    group = one.group()
    assert group
    log = tmp_path / "logs" / f"malloc-footprint.{group.root_pid}.mraw"
    assert f"run={group.run}\0".encode() in log.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which takes root")
def test_after_setuid(tools: Tools, open_folder: Path) -> None:
    """The process itself could not read its page tables any more."""
    with service(tools, open_folder, "other-user", "--group") as one:
        check_pages(one.wait_for(1 + WORKERS), one, LAST)
        status, said = one.end()
    assert status == WORKERS_STATUS
    assert "another user's" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a program that runs as root, which takes root")
def test_another_users(tools: Tools, tools_for_all: Tools, open_folder: Path) -> None:
    """What only root may look at is named, and left out."""
    target, sleep = open_folder / "group_kinds", open_folder / "sleep"
    shutil.copy2(tools.target("group_kinds"), target)
    shutil.copy2(shutil.which("sleep") or "sleep", sleep)
    sleep.chmod(0o4755)
    if os.statvfs(open_folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"the file system of {open_folder} heeds no setuid")
    os.chown(open_folder, NOBODY, NOBODY)
    path = clean_environment({"PATH": f"{open_folder}:{os.environ['PATH']}"})
    with service(tools_for_all, open_folder, "exec", "--group", target=target, env=path, user=NOBODY) as one:
        other = one.said["other"][0]
        wait_until(lambda: os.stat(f"/proc/{other}").st_uid == 0, "a program of root's")
        time.sleep(1.2)  # as long as the file is not written anew
        group = one.wait_for(2)
        # The signal of a user does not reach it.
        os.kill(other, signal.SIGTERM)
        status, said = one.end()
    assert status == EXEC_STATUS
    assert [member.pid for member in group.snapshot(LAST).members] == [group.root_pid, one.workers[0]]
    assert states(group.snapshot(LAST).members[1], one.block).count(EXCLUSIVE) == STEP
    assert f"is another user's, whom only root may look at, and is not in the group: {other} (" in said, said


@pytest.mark.parametrize("words", [["--group"], []], ids=["asked", "found"])
def test_without_children(tools: Tools, tmp_path: Path, words: list[str]) -> None:
    with service(tools, tmp_path, "alone", *words) as one:
        time.sleep(1.5)
        assert not one.files()
        status, said = one.end()
    assert status == ALONE_STATUS
    assert not one.files() and "the group" not in said


def test_replaced_workers(tools: Tools, tmp_path: Path) -> None:
    """What ends while it is looked at is left out, and what comes instead is there."""
    with service(tools, tmp_path, "replaced", "--group") as one:
        first = {member.pid for member in one.wait_for(3).snapshot(LAST).members[1:]}

        def others() -> bool:
            group = one.group()
            assert group
            last = group.snapshot(LAST)
            return len(last.members) == 3 and not first & {member.pid for member in last.members}

        wait_until(others, "a snapshot of the next workers", process=one.record)
        status, _ = one.end()
    assert status == REPLACED_STATUS
    group = one.group()
    assert group and len(group.snapshot(LAST).members) == 3


def test_another_program(tools: Tools, tmp_path: Path) -> None:
    with service(tools, tmp_path, "exec", "--group") as one:
        wait_until(lambda: Path(f"/proc/{one.said['other'][0]}/comm").read_text() == "sleep\n", "exec")
        group = one.wait_for(3)
        last = wait_until(lambda: (found := one.group()) and found.snapshot(LAST).of(one.said["other"][0]).executed and found,
                          "a snapshot after it").snapshot(LAST)
        status, said = one.end()
    assert status == EXEC_STATUS
    assert [member.executed for member in sorted(last.members, key=lambda member: member.name)] == [False, False, True]
    other = last.of(one.said["other"][0])
    assert other.name == "sleep" and not other.count(SHARED) and group.root_pid == other.parent_pid
    assert "  sleep (exec)\n" in said or len(group.snapshot(PEAK).members) < 3


def test_a_signal_that_ends_it(tools: Tools, tmp_path: Path) -> None:
    """SIGTERM to record comes to the program, and the last snapshot is of the moment before."""
    with service(tools, tmp_path, "workers", "--group") as one:
        group = one.wait_for(1 + WORKERS)
        time.sleep(0.2)
        sent_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        one.record.send_signal(signal.SIGTERM)
        _, said = one.record.communicate(timeout=WITHIN_S)
        assert one.record.returncode == WORKERS_STATUS
    group = one.group()
    assert group and "the group: " in said.decode()
    check_pages(group, one, LAST)
    print(f"last snapshot {(group.snapshot(LAST).time_ns - sent_ns) / 1e6:.1f} ms after the signal was sent")


ENDING = """
import os, signal, time
block = bytearray(32 << 20)
block[::4096] = b"x" * len(block[::4096])
def end(number, frame):
    block[::4096] = b"y" * len(block[::4096])
    time.sleep(0.4)
    os._exit(0)
children = []
for worker in range(2):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, end)
        time.sleep(3600)
    children.append(child)
def pass_on(number, frame):
    for child in children: os.kill(child, signal.SIGTERM)
signal.signal(signal.SIGTERM, pass_on)
print("ready", 0, os.getpid(), flush=True)
for child in children: os.waitpid(child, 0)
"""


@pytest.mark.parametrize("by_record", quick([True], [True, False]), ids=["record", "program"])
def test_a_graceful_end_is_no_peak(tools: Tools, tmp_path: Path, by_record: bool) -> None:
    """Workers that are asked to end write all that they share with each other."""
    command = [tools.heaptape, "record", "-q", "--group", "-o", tmp_path / "logs", "--", "/usr/bin/python3", "-S", "-c", ENDING]
    with started(command, stdout=subprocess.PIPE, env=clean_environment()) as record:
        assert record.stdout
        master = int(read_line(record.stdout).split()[2])

        def complete() -> bool:
            files = sorted(tmp_path.glob("logs/*.group"))
            return bool(files) and len(read_group(files[0]).snapshot(LAST).members) == 3

        wait_until(complete, "a snapshot of three processes", process=record)
        time.sleep(2)
        os.kill(record.pid if by_record else master, signal.SIGTERM)
        record.wait(WITHIN_S)
    group = read_group(next(tmp_path.glob("logs/*.group")))
    assert len(group.snapshot(LAST).members) == 3
    for reason in (PEAK, LAST):
        assert sum(member.pss_anon_bytes for member in group.snapshot(reason).members) < 64 << 20, reason


def test_record_is_killed(tools: Tools, tmp_path: Path) -> None:
    with service(tools, tmp_path, "workers", "--group") as one:
        one.wait_for(1 + WORKERS)
        one.record.send_signal(signal.SIGKILL)
        one.record.wait(WITHIN_S)
        group = one.group()
        assert group
        check_pages(group, one, LAST)
        (tmp_path / "flag").unlink()


def test_status_of_a_running_one(tools: Tools, tmp_path: Path) -> None:
    with service(tools, tmp_path, "workers") as one:
        root = int(Path(f"/proc/{one.workers[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])
        text = tools.succeed([tools.heaptape, "ctl", str(root), "status"]).stdout.decode()
        shown = json.loads(tools.succeed([tools.heaptape, "ctl", str(root), "status", "--json"]).stdout)
        alone = json.loads(tools.succeed([tools.heaptape, "ctl", str(one.workers[1]), "status", "--json"]).stdout)
        one.end()
    assert f"  {one.workers[2]}  " in text and "the group: " in text
    assert (shown["pid"], shown["state"], alone["group"]) == (root, "recording", None)
    assert [member["pid"] for member in shown["group"]["processes"]] == [root, *one.workers]
    for number, member in enumerate(shown["group"]["processes"][1:]):
        assert member["own_bytes"] >= STEP * (number + 1) * PAGE
        assert member["shared_bytes"] + member["own_bytes"] == pytest.approx(member["rss_anon_bytes"], abs=8 * PAGE)
    assert shown["group"]["anonymous_bytes"] == sum(member["pss_anon_bytes"] for member in shown["group"]["processes"])


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(word) for word in fields[11:13]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_what_it_costs(tools: Tools, tmp_path: Path) -> None:
    """A hundredth of a processor is meant; the bound allows for a clock of 10 ms, and for a busy machine."""
    with service(tools, tmp_path, "workers", "--group") as one:
        one.wait_for(1 + WORKERS)
        before_s, began_s = processor_s(one.record.pid), time.monotonic()
        time.sleep(3)
        share = (processor_s(one.record.pid) - before_s) / (time.monotonic() - began_s)
        one.end()
    print(f"record took {100 * share:.2f} % of a processor")
    assert share < 0.05


def test_bad_words(tools: Tools, tmp_path: Path) -> None:
    done = run([tools.heaptape, "record", "--group", "--accesses", "-o", tmp_path, "true"])
    assert done.returncode == 2 and b"--group" in done.stderr
    done = run([tools.heaptape, "ctl", "1", "stop", "--json"])
    assert done.returncode == 2 and b"--json: expected status" in done.stderr
