# SPDX-License-Identifier: Apache-2.0
"""`convert --group`: one trace of a program and the processes that it forked, held against what a program knows of its writes
and against the traces of its processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dump_lines import Event, events_of
from heaptape import TraceError
from heaptape.trace.reader import read_trace

from group_files import CALLED, EXCLUSIVE, PAGE, SHARED, Group, read_group, snapshot_of, write_snapshots
from tool_runner import Tools, clean_environment, logs_in, run
from waiting import wait_until

WORKERS, BLOCKS, LARGE, OWN = 3, 1000, 4 << 20, 3 << 20


def recorded(tools: Tools, folder: Path, kind: str, **options) -> list[tuple[str, int, int]]:
    """Runs the service and returns what it knows."""
    known = folder / "known"
    done = tools.preload([tools.target("group_service"), kind, known], folder / "logs", **options)
    assert done.outcome.status == 0, done.outcome.stderr
    return read_known(known)


def read_known(path: Path) -> list[tuple[str, int, int]]:
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(what, int(number), int(place, 0)) for what, number, place in lines]


def converted(tools: Tools, source: Path, trace: Path, *more: str) -> tuple[Group, str]:
    done = run([tools.heaptape, "convert", "--group", source, "-o", trace, *more])
    assert done.returncode == 0, done.stderr
    return read_group(trace), done.stderr.decode()


def events(tools: Tools, folder: Path, group: Group, process: int) -> list[Event]:
    path = folder / f"member{process}.bin"
    path.write_bytes(group.members[process])
    return list(events_of(tools, path))


def live_at(calls: list[Event], event: int) -> list[int]:
    """The sizes of the live blocks before that event, in order of birth."""
    live: dict[int, int] = {}
    for call in calls[:event]:
        if call.ends or call.resizes:
            live.pop(call.slot, None)
        if call.makes or call.resizes:
            live[call.slot] = call.size_bytes
    return list(live.values())


def check_inheritance(tools: Tools, folder: Path, group: Group) -> None:
    """Block i of the one is block i of the other."""
    calls = {}
    for number, process in enumerate(group.processes):
        calls[number] = events(tools, folder, group, number)
        inherited = [call.size_bytes for call in calls[number] if call.function == "inherit"]
        if process["parent"] is None:
            assert not inherited
            continue
        assert len(inherited) == process["inherited"] == len(group.layouts.get(number, []))
        assert inherited == live_at(calls[process["parent"]], process["fork_event"]), number
        assert all(page < process["layout_pages"] and offset < PAGE for page, offset in group.layouts.get(number, []))


# ---- what a service writes ----


@dataclass
class Service:
    folder: Path
    pids: list[int]
    known: list[tuple[str, int, int]]
    snapshots: list[bytes]


@pytest.fixture(scope="module")
def service(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "logs").mkdir()
    known = folder / "known"
    environment = clean_environment({"LD_PRELOAD": str(tools.shim), "MALLOC_WRAP_OUT": str(folder / "logs")})
    with subprocess.Popen([tools.target("group_service"), "known", known], env=environment, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as root:
        assert root.stdin and root.stdout and root.stdout.readline() == b"ready\n"
        wait_until(lambda: sum(what == "waits" for what, *_ in read_known(known)) == WORKERS, "workers are ready")
        workers = {which: pid for what, which, pid in read_known(known) if what == "worker"}
        pids = [root.pid, *(workers[which] for which in range(WORKERS))]
        snapshots = [snapshot_of(pids, 0), snapshot_of(pids, 1)]
        root.stdin.close()
        assert root.wait(timeout=60) == 0
    write_snapshots(folder / "logs", pids[0], snapshots)
    yield Service(folder, pids, read_known(known), snapshots)


@pytest.fixture(scope="module")
def group(tools: Tools, service: Service) -> Group:
    return converted(tools, service.folder / "logs", service.folder / "service.bin")[0]


def places(tools: Tools, service: Service, group: Group, worker: int) -> list[tuple[int, int, int, int]]:
    """Address, size, page number and offset of each block that the service knows."""
    number = group.processes.index(next(one for one in group.processes if one["pid"] == service.pids[1 + worker]))
    inherited = [call.size_bytes for call in events(tools, service.folder, group, number) if call.function == "inherit"]
    layout = group.layouts[number]
    return [(address, size, *layout[inherited.index(size)]) for what, size, address in service.known if what in ("block", "large")]


def test_the_tree(service: Service, group: Group) -> None:
    root, *workers = group.processes
    assert [root["pid"], *sorted(one["pid"] for one in workers)] == [service.pids[0], *sorted(service.pids[1:])]
    assert root["parent"] is None and root["start_ns"] == 0 and all(one["parent"] == 0 for one in workers)
    assert all(one["name"] == "group_service" and one["fork_thread"] == 0 for one in workers)
    assert all(0 < one["start_ns"] < one["end_ns"] for one in workers)
    assert len({one["fork_event"] for one in workers}) == 1  # it makes no call between forks


def test_what_is_inherited(tools: Tools, service: Service, group: Group) -> None:
    check_inheritance(tools, service.folder, group)


def test_layouts(tools: Tools, service: Service, group: Group) -> None:
    for worker in range(WORKERS):
        blocks = sorted(places(tools, service, group, worker))
        pages: dict[int, int] = {}
        for address, size, page, offset in blocks:
            assert offset == address % PAGE
            for i in range((address + size - 1) // PAGE - address // PAGE + 1):
                assert pages.setdefault(page + i, address // PAGE + i) == address // PAGE + i
        numbers = sorted(pages)
        for one, other in zip(numbers, numbers[1:], strict=False):
            assert pages[other] > pages[one]
            assert (other == one + 1) == (pages[other] == pages[one] + 1)


def pages_in(blocks: list[tuple[int, int]]) -> set[int]:
    return {page for address, size in blocks for page in range(address // PAGE, (address + size - 1) // PAGE + 1)}


def test_page_states(tools: Tools, service: Service, group: Group) -> None:
    """What nobody wrote since the fork is shared, what a worker wrote is its own, what its calls used is marked."""
    known = {kind: [(address, size) for what, size, address in service.known if what == kind] for kind in ("block", "ended", "made")}
    written = {0: set(), 1: pages_in([(address, size) for address, size in known["block"] if (size - 600) % 10 == 0]),
               2: pages_in(known["made"])}
    called = {0: set(), 1: set(), 2: pages_in(known["ended"] + known["made"])}
    for worker in range(WORKERS):
        number = [one["pid"] for one in group.processes].index(service.pids[1 + worker])
        for moment in (0, 1):
            states = group.states[number, moment]
            assert len(states) == group.processes[number]["layout_pages"]
            found = {}
            for address, size, page, _ in places(tools, service, group, worker):
                if size < LARGE:
                    found.update({address // PAGE + i: states[page + i] for i in range((address + size - 1) // PAGE - address // PAGE + 1)})
                else:  # half of it was written
                    half = states[page : page + LARGE // PAGE]
                    assert set(half[: LARGE // 2 // PAGE]) == {SHARED} and set(half[LARGE // 2 // PAGE + 1 :]) == {0}
            assert len(found) > 200 and {state & 3 for state in found.values()} <= {SHARED, EXCLUSIVE}
            assert {page for page, state in found.items() if state & CALLED} == called[worker] & set(found)
            exclusive = {page for page, state in found.items() if state & 3 == EXCLUSIVE}
            assert written[worker] & set(found) <= exclusive
            # Beside it what malloc writes itself where a worker calls it: heads of free blocks next to those.
            assert len(exclusive - written[worker]) <= (70 if worker == 2 else 1), sorted(exclusive - written[worker])


def test_figures(group: Group) -> None:
    own_pages = OWN // PAGE * PAGE
    for i, moment in enumerate(group.context["group"]["moments"]):
        presences = [one["presence"][i] for one in group.processes]
        assert moment["reason"] == ("peak", "last")[i]
        assert moment["anonymous_bytes"] == sum(one["pss_anon_bytes"] for one in presences)
        assert moment["rss_anon_sum_bytes"] == sum(one["rss_anon_bytes"] for one in presences) > 2 * moment["anonymous_bytes"]
        # The mapping is shared by four; stacks and data of libraries are beside it.
        assert own_pages <= moment["own_bytes"] < own_pages + (2 << 20)
        assert abs(sum(one["own_bytes"] for one in presences) - moment["own_bytes"]) < 64
        assert all(one["own_bytes"] >= own_pages // 4 for one in presences)


def test_info(tools: Tools, service: Service, group: Group) -> None:
    trace = service.folder / "service.bin"
    info = tools.info(trace)
    assert [one["pid"] for one in info["processes"]] == [one["pid"] for one in group.processes]
    assert info["events"] == sum(one["events"] for one in info["processes"]) and info["file_bytes"] == trace.stat().st_size
    assert info["moments"] == group.context["group"]["moments"]
    text = tools.succeed([tools.heaptape, "info", trace]).stdout.decode()
    assert all(str(pid) in text for pid in service.pids) and text.count("snapshot at") == 2


@pytest.mark.parametrize("verb", ["dump", "stats", "lint", "slice", "share", "extend"])
def test_other_verbs_say_what_it_is(tools: Tools, service: Service, group: Group, tmp_path: Path, verb: str) -> None:
    more = {"slice": ["-o", tmp_path / "x"], "share": ["-o", tmp_path / "x"], "extend": ["-o", tmp_path / "x", "--to=1h"]}
    done = run([tools.heaptape, verb, service.folder / "service.bin", *more.get(verb, [])])
    assert done.returncode in (2, 3) and done.stderr.count(b"\n") == 1 and b"group of processes" in done.stderr, done.stderr


def test_the_python_reader_refuses_it(service: Service, group: Group) -> None:
    with pytest.raises(TraceError, match="group of processes"):
        read_trace(service.folder / "service.bin")


def test_the_file_of_snapshots_names_it(tools: Tools, service: Service, group: Group, tmp_path: Path) -> None:
    again, _ = converted(tools, service.folder / "logs" / f"malloc-footprint.{service.pids[0]}.group", tmp_path / "t.bin")
    assert again.context == group.context and again.states == group.states and again.members == group.members


def test_without_snapshots(tools: Tools, service: Service, group: Group, tmp_path: Path) -> None:
    for log in logs_in(service.folder / "logs"):
        (tmp_path / log.name).symlink_to(log)
    again, said = converted(tools, tmp_path, tmp_path / "t.bin")
    assert "warning" in said and "no snapshots" in said
    assert again.layouts == group.layouts and again.members == group.members and not again.states
    assert again.context["group"]["moments"] == [] and b"no snapshots" in run([tools.heaptape, "info", tmp_path / "t.bin"]).stdout


def test_as_recorded(tools: Tools, tmp_path: Path) -> None:
    """The whole way: the recorder's own look at the pages."""
    known, logs = tmp_path / "known", tmp_path / "logs"
    command = [tools.heaptape, "record", "--group", "-o", logs, "--", tools.target("group_service"), "known", known]
    with subprocess.Popen(command, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as recorder:
        assert recorder.stdin
        wait_until(lambda: sum(what == "waits" for what, *_ in read_known(known)) == WORKERS, "workers are ready")
        written = known.stat().st_mtime_ns
        wait_until(lambda: any(one.stat().st_mtime_ns > written for one in logs.glob("*.group")), "it has looked")
        recorder.stdin.close()
        assert recorder.wait(timeout=60) == 0
    group, _ = converted(tools, logs, tmp_path / "t.bin")
    check_inheritance(tools, tmp_path, group)
    assert len(group.processes) == 1 + WORKERS and group.context["group"]["moments"]
    assert any(state & 3 == SHARED for one in group.states.values() for state in one)


# ---- who is whose child ----


def test_generations(tools: Tools, tmp_path: Path) -> None:
    recorded(tools, tmp_path, "generations")
    group, _ = converted(tools, tmp_path / "logs", tmp_path / "t.bin")
    check_inheritance(tools, tmp_path, group)
    root = [number for number, one in enumerate(group.processes) if one["parent"] == 0]
    below = [one for one in group.processes if one["parent"] not in (None, 0)]
    assert len(root) == 1 + 3 + 1 + 1 and len(below) == 1
    # By exec, and by posix_spawn: programs of their own, which inherited nothing.
    assert sum(one["parent"] is None for one in group.processes) == 1 + 2
    assert len(group.processes) == len(logs_in(tmp_path / "logs"))


def test_threads_that_allocate_while_another_forks(tools: Tools, tmp_path: Path) -> None:
    recorded(tools, tmp_path, "threads")
    group, _ = converted(tools, tmp_path / "logs", tmp_path / "t.bin")
    assert len(group.processes) == 51
    check_inheritance(tools, tmp_path, group)
    assert [one["fork_thread"] for one in group.processes[1:]] == [0] * 50


# ---- what cannot be used ----


def logs_of(tools: Tools, folder: Path) -> list[Path]:
    recorded(tools, folder, "generations")
    return logs_in(folder / "logs")


def test_a_parents_log_is_missing(tools: Tools, tmp_path: Path) -> None:
    logs_of(tools, tmp_path)
    group, _ = converted(tools, tmp_path / "logs", tmp_path / "t.bin")
    middle = group.processes[next(one["parent"] for one in group.processes if one["parent"] not in (None, 0))]
    (tmp_path / "logs" / f"malloc-footprint.{middle['pid']}.mraw").unlink()
    without, said = converted(tools, tmp_path / "logs", tmp_path / "u.bin")
    assert len(without.processes) == len(group.processes) - 1
    assert said.count("inherited nothing") == 1 and str(middle["pid"]) in said
    check_inheritance(tools, tmp_path, without)


def test_a_damaged_log(tools: Tools, tmp_path: Path) -> None:
    logs_of(tools, tmp_path)
    group, _ = converted(tools, tmp_path / "logs", tmp_path / "t.bin")
    root = tmp_path / "logs" / f"malloc-footprint.{group.processes[0]['pid']}.mraw"
    with root.open("r+b") as file:
        file.seek(16384 + 512)
        file.write(b"\xff" * 64)
    damaged, said = converted(tools, tmp_path / "logs", tmp_path / "u.bin")
    assert "damaged" in said
    check_inheritance(tools, tmp_path, damaged)
    assert all(one["parent"] != 0 for one in damaged.processes)
    os.truncate(root, 100)
    done = run([tools.heaptape, "convert", "--group", tmp_path / "logs", "-o", tmp_path / "v.bin"])
    assert not (tmp_path / "v.bin").exists() or done.returncode == 0


@pytest.mark.parametrize(("words", "line"), [
    (["--parent", "x"], "--group: expected none of"), (["--follow"], "--group"), (["second"], "one folder")])
def test_words_that_do_not_go_together(tools: Tools, tmp_path: Path, words: list[str], line: str) -> None:
    done = run([tools.heaptape, "convert", "--group", tmp_path, "-o", tmp_path / "t.bin", *words])
    assert done.returncode == 2 and line.encode() in done.stderr


def test_folders_without_a_group(tools: Tools, service: Service, tmp_path: Path) -> None:
    def refused(source: Path, line: str) -> None:
        done = run([tools.heaptape, "convert", "--group", source, "-o", tmp_path / "t.bin"])
        assert done.returncode == 3 and line in done.stderr.decode() and not (tmp_path / "t.bin").exists(), done.stderr

    refused(tmp_path, "found none")
    refused(tmp_path / "missing", "cannot open")
    for log in logs_in(service.folder / "logs")[1:]:
        (tmp_path / log.name).symlink_to(log)
    write_snapshots(tmp_path, service.pids[0], service.snapshots)
    refused(tmp_path, "which began first")
    (tmp_path / "malloc-footprint.1.group").write_bytes(b"")
    refused(tmp_path, "name one of them")
    refused(tmp_path / "malloc-footprint.1.group", "offset 0")


def test_damaged_traces(tools: Tools, service: Service, group: Group, tmp_path: Path) -> None:
    whole, path = (service.folder / "service.bin").read_bytes(), tmp_path / "t.bin"
    for at in range(0, len(whole), max(len(whole) // 60, 1)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        done = run([tools.heaptape, "info", "--json", path])
        assert done.returncode in (0, 3) and (done.returncode == 0) == (not done.stderr)
        path.write_bytes(whole[:at])
        done = run([tools.heaptape, "info", path])
        assert done.returncode == 3 and done.stderr.count(b"\n") == 1, done.stderr
